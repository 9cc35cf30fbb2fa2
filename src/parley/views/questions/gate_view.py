"""All that a person needs to answer a question: what is put forward, what changed, what the proxy thinks, what follows.

What is not on the bus is passed in: the versions of artifacts, and the decisions that the user's memory holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from parley.bus.slots import number_of
from parley.bus.store import Store
from parley.engine.values import message_meta
from parley.engine.values.change_stat import Stat
from parley.engine.values.message_meta import Guessed, Posed, Put, Replied, Weighed
from parley.features.proxy.reasons import Reason, reasons_in
from parley.ports.decisions import Decided, How
from parley.protocol.molecules import escalation_thread
from parley.views.history.job_index import JobIndex
from parley.views.job_view import WORK, Asked
from parley.views.questions.answer_choices import AnswerChoice, choices
from parley.views.questions.last_reviewed import Seen, last_seen
from parley.views.questions.needs import GATE, Need

HOW: Mapping[str, str] = {
    How.POLICY: "you are always asked here",
    How.UNSURE: "the proxy was not sure enough, or its record did not allow it",
    How.CHECKED: "it was sure, and you are asked to check it",
}


class ArtifactTexts(Protocol):
    """The versions of artifacts that a job keeps."""

    def shown(self, job: str, question: str, artifact: str, digest: str) -> str | None:
        """An artifact's text as a question asserts it; None if that is not kept."""

    def since(self, job: str, artifact: str, before: str, after: str, *, stat: bool = False) -> str | None:
        """The diff between two versions of an artifact; of the work, of the whole tree."""


@dataclass(frozen=True, slots=True)
class GateExhibit:
    """What a gate is about: the asserted artifact, and its changes since the human last saw it."""

    content: str | None = None
    seen: Seen | None = None
    changed: str | None = None  # since it was last seen; for the work in full, since the job's start if never

    def document(self, *, whole: bool) -> dict[str, Any]:
        """The exhibit as `--json` gives it."""
        said: dict[str, Any] = {"seen": self.seen.document() if self.seen else None}
        return {**said, "content": self.content, "changed": self.changed} if whole else said


def exhibit(
    store: Store, texts: ArtifactTexts, need: Need, redact: Callable[[str], str], *, whole: bool
) -> GateExhibit:
    """Look up what a gate is about."""
    asked = need.asked
    if asked is None or need.kind != GATE:
        return GateExhibit()
    seen = last_seen(store, asked)
    content = texts.shown(asked.job, asked.id, asked.artifact, asked.digest)
    work = asked.artifact == WORK
    changed = None
    if seen is not None or (work and (whole or asked.stat is None)):  # else its stat tells what a list shows
        before = seen.digest if seen else ""
        changed = texts.since(asked.job, asked.artifact, before, asked.digest, stat=work and not whole)
    return GateExhibit(
        content=redact(content) if content is not None else None,
        seen=seen,
        changed=redact(changed) if changed is not None else None,
    )


# ---- what the proxy thinks -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyGuess:
    """What the proxy would say, or expected."""

    verdict: str
    confidence: float | None
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledDecision:
    """An earlier decision of this human's that the proxy was reminded of."""

    id: str
    known: bool  # whether it is still remembered
    time: float = 0.0
    state: str = ""
    about: str = ""
    asked: str = ""
    verdict: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySays:
    """What the proxy made of a question before the human is asked."""

    why_asked: str = ""  # why the human is asked, in words
    framing: str = ""  # the proxy's own words to the human
    found: str = ""
    predicted: ProxyGuess | None = None  # before it had read anything
    would: ProxyGuess | None = None
    reads: ProxyGuess | None = None  # in the human's words so far
    weighed: Weighed | None = None
    recalled: tuple[RecalledDecision, ...] = ()

    @property
    def has_view(self) -> bool:
        """Whether it told anything of its own."""
        return bool(self.found or self.predicted or self.would or self.reads or self.recalled)


# ---- the whole ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePage:
    """A question that waits for a person, with all that helps to answer it."""

    asked: Asked
    kind: str  # question, gate, failure
    may_answer: tuple[str, ...]  # who started the job, and whom they named
    choices: Mapping[str, AnswerChoice]  # by key
    exhibit: GateExhibit
    proxy: ProxySays
    said: tuple[tuple[str, str], ...] = ()  # what people have said to it before: who, and the words
    outline: tuple[str, ...] = ()  # what comes with what is put forward, a line each: a workflow's design, say
    remarks: tuple[str, ...] = ()  # what features tell besides
    warning: str = ""  # what tools run or obey of it, and odd names
    left_out: tuple[str, ...] = ()  # unfinished work that is not in it, a line each
    stat: Stat | None = None


def gate_page(
    store: Store,
    need: Need,
    texts: ArtifactTexts,
    redact: Callable[[str], str],
    *,
    remembered: Callable[[str], Decided | None] = lambda name: None,
    index: JobIndex | None = None,
) -> GatePage | None:
    """All that a need's page shows; None where it is no question. With an index the proxy's earlier words are there."""
    asked = need.asked
    if asked is None:
        return None
    put = message_meta.read_as(Put, store.message(asked.job, number_of(asked.framing)))
    reason = _reason(store, asked, put, index)
    return GatePage(
        asked=asked,
        kind=need.kind,
        may_answer=(need.decider, *need.others),
        choices=choices(asked),
        exhibit=exhibit(store, texts, need, redact, whole=True),
        proxy=_proxy(put, reason, remembered),
        said=_said(store, asked, index, put),
        outline=put.outline,
        remarks=put.remarks,
        warning=put.warning,
        left_out=tuple(one.words() for one in asked.unfinished),
        stat=asked.stat,
    )


def _reason(store: Store, asked: Asked, put: Put, index: JobIndex | None) -> Reason:
    """What was said on the way to the question, from the messages on its thread, or from the last alone."""
    numbers = index.letters(escalation_thread(asked.id)) if index is not None else ()
    found = reasons_in(asked.job, (store.message(asked.job, number) for number in numbers))
    if found:
        return found[0]
    posed = Posed(text=put.text, question=put.question, state=put.state, kind=put.kind, artifact=put.artifact)
    return Reason(job=asked.job, time=asked.time, asked=put.text, posed=posed, view=put.view)


def _said(store: Store, asked: Asked, index: JobIndex | None, put: Put) -> tuple[tuple[str, str], ...]:
    numbers = index.letters(escalation_thread(asked.id)) if index is not None else ()
    found = (message_meta.read(store.message(asked.job, number)) for number in numbers)
    told = tuple((one.by, one.text) for one in found if isinstance(one, Replied))
    return told or ((("", put.words),) if put.words else ())


def _proxy(put: Put, reason: Reason, remembered: Callable[[str], Decided | None]) -> ProxySays:
    view = reason.view
    return ProxySays(
        why_asked=HOW.get(put.how, ""),
        framing=put.framing,
        found=view.found,
        predicted=_guess(view.predicted),
        would=_guess(view.would),
        reads=_guess(view.reads),
        weighed=view.weighed,
        recalled=tuple(recalled_decision(name, remembered(name)) for name in view.recalled),
    )


def _guess(guessed: Guessed | None) -> ProxyGuess | None:
    if guessed is None:
        return None
    return ProxyGuess(verdict=guessed.verdict, confidence=guessed.confidence, reason=guessed.reason, text=guessed.text)


def recalled_decision(name: str, one: Decided | None) -> RecalledDecision:
    """A decision that the proxy was reminded of; None: it was forgotten since."""
    if one is None:
        return RecalledDecision(id=name, known=False)
    return RecalledDecision(
        id=name,
        known=True,
        time=one.time,
        state=one.state,
        about=one.artifact or one.kind,
        asked=one.asked,
        verdict=one.verdict or "",
        said=one.said,
    )
