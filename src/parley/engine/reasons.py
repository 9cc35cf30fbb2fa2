"""Why an answer was given: what the proxy expected, what it was reminded of, how it was weighed. Read from the bus."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from parley.core.terms import HUMAN, PROXY
from parley.engine.texts import own_words
from parley.ports import MessageRow, Store


@dataclass(slots=True)
class Reason:
    """One question, and all that was said on the way to its answer."""

    job: str
    question: str
    time: float
    state: str
    kind: str
    artifact: str
    asked: str
    predicted: dict[str, Any] | None = None  # before any file was read
    would: dict[str, Any] | None = None  # after
    found: str = ""
    recalled: list[str] = field(default_factory=list)
    weighed: dict[str, Any] | None = None
    human: dict[str, Any] | None = None  # who, ruling, text: the last that the human said
    reads: dict[str, Any] | None = None  # the verdict that the proxy read in words without one
    answer: dict[str, Any] | None = None  # author, ruling, text, and the proxy's remarks

    def document(self) -> dict[str, Any]:
        """The same as `--json` gives it."""
        names = (
            "job", "question", "time", "state", "kind", "artifact", "asked", "predicted", "would", "found", "recalled",
            "weighed", "human", "reads", "answer",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def reasons(store: Store, job: str) -> list[Reason]:
    """Every question of a job that went to its proxy, in order."""
    found: dict[str, Reason] = {}
    for row in store.messages(job):
        about: dict[str, Any] = json.loads(row.meta) if row.meta else {}
        if row.agent == PROXY and "kind" in about:
            question = str(about["question"])
            found[question] = Reason(
                job, question, row.time, about["state"], about["kind"], about["artifact"], own_words(row.body)
            )
        elif (reason := found.get(_question(row, about))) is not None:
            _add(reason, row, about)
    return list(found.values())


def _question(row: MessageRow, about: dict[str, Any]) -> str:
    if row.sender == HUMAN and row.agent == PROXY:
        return row.thread.partition(":")[2]
    return str(about.get("answer") or about.get("question") or "")


def _add(reason: Reason, row: MessageRow, about: dict[str, Any]) -> None:
    reason.predicted = about.get("predicted") or reason.predicted
    reason.would = about.get("would") or reason.would
    reason.found = about.get("found") or reason.found
    reason.reads = about.get("reads") or reason.reads
    reason.recalled = about.get("recalled") or reason.recalled
    reason.weighed = about.get("weighed") or reason.weighed
    said = {name: about.get(name) for name in ("ruling", "text")}
    if row.sender == HUMAN:
        reason.human = {"by": about.get("by"), **said}
    elif "answer" in about:
        reason.answer = {"author": about.get("author"), **said, "remarks": about.get("remarks", "")}
