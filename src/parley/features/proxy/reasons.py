"""Why an answer was given: what the proxy expected, what it was reminded of, how it was weighed. Read from the bus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from parley.bus.rows import MessageRow
from parley.bus.store import Store
from parley.engine.values import message_meta
from parley.engine.values.message_meta import NO_VIEW, Answered, Posed, ProxyView, Put, Replied
from parley.protocol.molecules import thread_name


@dataclass(slots=True)
class Reason:
    """One question, and all that was said on the way to its answer."""

    job: str
    time: float
    asked: str
    posed: Posed
    view: ProxyView = NO_VIEW  # the last of each that the proxy told
    human: Replied | None = None  # the last that the human said
    answer: Answered | None = None

    def add(self, view: ProxyView) -> None:
        """The proxy has told more."""
        before = self.view
        self.view = ProxyView(
            predicted=view.predicted or before.predicted,
            recalled=view.recalled or before.recalled,
            found=view.found or before.found,
            would=view.would or before.would,
            reads=view.reads or before.reads,
            weighed=view.weighed or before.weighed,
        )

    def document(self) -> dict[str, Any]:
        """The same as `--json` gives it."""
        view, human, answer = self.view, self.human, self.answer
        predicted = view.predicted
        return {
            "job": self.job,
            "question": self.posed.question,
            "time": self.time,
            "state": self.posed.state,
            "kind": self.posed.kind,
            "artifact": self.posed.artifact,
            "asked": self.asked,
            "predicted": {"verdict": predicted.verdict, "confidence": predicted.confidence} if predicted else None,
            "would": view.would.document() if view.would else None,
            "found": view.found,
            "recalled": list(view.recalled),
            "weighed": view.weighed.document() if view.weighed else None,
            "human": {"by": human.by, "ruling": human.ruling, "text": human.text} if human else None,
            "reads": view.reads.document() if view.reads else None,
            "answer": {
                "author": answer.author,
                "ruling": answer.ruling,
                "text": answer.text,
                "remarks": answer.remarks,
            }
            if answer
            else None,
        }


def reasons(store: Store, job: str) -> list[Reason]:
    """Every question of a job that went to its proxy, in order."""
    return reasons_in(job, store.messages(job))


def reasons_in(job: str, rows: Iterable[MessageRow]) -> list[Reason]:
    """The same from some of its messages: those on a question's thread tell of that one."""
    found: dict[str, Reason] = {}
    for row in rows:
        match message_meta.read(row):
            case Posed() as posed:
                found[posed.question] = Reason(job, row.time, posed.text, posed)
            case Put(question=question, view=view) if question in found:
                found[question].add(view)
            case Replied() as said if (question := thread_name(row.thread)) in found:
                found[question].human = said
            case Answered(question=question) as answer if question in found:
                found[question].add(answer.view)
                found[question].answer = answer
            case _:
                pass
    return list(found.values())
