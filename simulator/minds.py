"""What a run's human is remembered by: a record of earlier decisions, a proxy that goes by it, a memory that may fail.

It is drawn by a chance of its own, so that a seed's run is otherwise what it was without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from parley.base.json_codec import decode
from parley.bus.rows import InputRow, MessageRow
from parley.bus.slots import number_of
from parley.bus.store import Store
from parley.engine.values import message_meta
from parley.engine.values.human_inputs import AnswerInput, answered
from parley.engine.values.job_settings import PLAYBOOK
from parley.engine.values.message_meta import Answered, Put
from parley.ports.decisions import Decided, Guess, MemoryTrouble, Recalled
from parley.protocol.molecules import Kind
from simulator.scenario import Rule
from simulator.world import BEGINNING, Fuse

SHARE = 0.3  # of the runs that have a memory
HUMAN = "me"
DAY = 86_400.0
STATES = ("INTENT", "PLAN", "EXECUTE")


class SimDecisions:
    """What is remembered of the human, in a memory that may fail: it outlives every process."""

    def __init__(self, rng: Random, failing: float = 0.0) -> None:
        self.kept: dict[tuple[str, str, str], Decided] = {}
        self.failures = 0
        self.fuse = Fuse(None, rng)
        self._rng = rng
        self._failing = failing

    def remember(self, decided: Sequence[Decided]) -> None:
        """All or nothing; what is there stays."""
        self._may_fail()

        def act() -> None:
            for one in decided:
                key = one.job, one.question, one.framing
                self.kept.setdefault(key, replace(one, id="/".join(key)))

        self.fuse.burn("remember", act)

    def recall(self, human: str, state: str, kind: str, text: str, limit: int) -> list[Recalled]:
        """Those that share most words with the text."""
        found = self.past(human, state, kind, text)
        return sorted(found, key=lambda one: (-one.likeness, -one.decided.time))[:limit]

    def past(self, human: str, state: str, kind: str, text: str) -> list[Recalled]:
        """All, oldest first."""
        self._may_fail()
        wanted = set(text.split())
        heard = [one for one in self.kept.values() if one.human == human and one.verdict is not None]
        shared = ((one, len(wanted & set(f"{one.asked} {one.excerpt}".split()))) for one in heard)
        return [Recalled(one, count / max(1, len(wanted))) for one, count in shared]

    def _may_fail(self) -> None:
        if self._failing and self._rng.random() < self._failing:
            self.failures += 1
            raise MemoryTrouble("the memory is damaged; put a copy back")


@dataclass(frozen=True)
class Mind:
    """One run's memory, and what goes with it; none in most runs."""

    decisions: SimDecisions
    settings: dict[str, Any] | None
    proxy: list[Rule] | None
    policies: list[str] | None  # in place of the scenario's own
    steady: bool  # whether the memory never fails


def mind(seed: int) -> Mind:
    """A mind by chance."""
    rng = Random(f"mind {seed}")
    if rng.random() >= SHARE:
        return Mind(SimDecisions(rng), None, None, None, steady=True)
    failing = rng.choice((0.0, 0.0, 0.1, 1.0))
    decisions = SimDecisions(Random(f"memory {seed}"), failing)
    decisions.kept = {(one.job, one.question, one.framing): one for one in _record(rng)}
    settings = {
        "on": rng.random() < 0.9,
        "rehearse": True,
        "checked": rng.choice((0.0, 0.0, 0.1, 1.0)),
        "repository": "sim",
    }
    policies = rng.choice((None, ["when_unsure"] * 3))
    return Mind(decisions, settings, _proxy(rng), policies, steady=not failing)


def _record(rng: Random) -> list[Decided]:
    """Decisions of other jobs: in some minds enough of them, and as predicted, for answers to stand."""
    approved = rng.choice((0.5, 1.0, 1.0))
    found = []
    for number in range(rng.choice((0, 3, 120, 120))):
        predicted = rng.choice(("approve", "revise"))
        said = predicted if rng.random() < approved else "revise"
        found.append(
            Decided(
                time=BEGINNING - DAY,
                human=HUMAN,
                repository="sim",
                job=f"past{number}",
                question="q",
                framing="m1",
                state=rng.choice(STATES),
                kind=rng.choice(("assert", "question")),
                asked=f"is it right? {number}",
                after=Guess(predicted, 0.8),
                verdict=said,
                agreed=said == predicted,
            )
        )
    return found


def _proxy(rng: Random) -> list[Rule]:
    predicts = {"predict": {"verdict": rng.choice(("approve", "revise")), "confidence": 0.6}}
    verdict = rng.choice(("approve", "approve", "revise"))
    answers = {"answer": {"verdict": verdict, "text": "I know", "confidence": 0.9, "reason": "so it was before"}}
    asks = {"ask_human": {"text": "please look", "found": "this", "would": "approve", "confidence": 0.7}}
    first = rng.choice(([predicts, answers], [answers], [predicts, asks], [predicts, answers, asks], [predicts]))
    reads = {"text": rng.choice(("", "they mean it"))}
    if read := rng.choice(("", "approve", "revise", "withdraw")):
        reads["verdict"] = read
    words = {"match": r"^\[HUMAN\]", "repeat": True, "do": [{"answer": reads}]}
    dies = [{"match": "QUESTION", "do": [predicts, {"crash": 9}]}] if rng.random() < 0.2 else []
    return [*dies, {"match": r"\[QUESTION\]", "repeat": True, "do": first}, words]


# ---- what must be true of it ---------------------------------------------------------------------


def fault(made: Mind, job: str, store: Store) -> str:
    """What is wrong with what was remembered of a job; empty: nothing. It must say what the bus says, once."""
    kept = {key[1:]: one for key, one in made.decisions.kept.items() if key[0] == job}
    if made.settings is None or not made.settings["on"]:
        return f"{len(kept)} decisions were remembered though the memory was not in use" if kept else ""
    rows = {row.number: row for row in store.messages(job)}
    said = dict(_said(rows, store.inputs(job, waiting=False)))
    own = dict(_answered(rows.values()))
    if strange := kept.keys() - said.keys() - own.keys():
        return f"something was remembered that the human did not say: {min(strange)}"
    if made.steady and (lost := (said.keys() | own.keys()) - kept.keys()):
        return f"something was said and not remembered: {min(lost)}"
    for key, one in kept.items():
        if one.verdict != {**own, **said}[key]:
            return f"{key} was remembered as {one.verdict!r}, and the bus says otherwise"
    return ""


def _said(rows: dict[int, MessageRow], inputs: Iterable[InputRow]) -> Iterable[tuple[tuple[str, str], str | None]]:
    for row in answered(inputs):
        if row.by not in (HUMAN, PLAYBOOK):
            continue
        given = decode(row.body, AnswerInput)
        put = message_meta.read_as(Put, rows[number_of(given.framing)])
        if put.kind is not Kind.FAILURE:
            yield (given.question, given.framing), given.ruling or ""


def _answered(rows: Iterable[MessageRow]) -> Iterable[tuple[tuple[str, str], str | None]]:
    for row in rows:
        meta = message_meta.read(row)
        if isinstance(meta, Answered) and meta.view.would is not None:
            yield (meta.question, ""), None
