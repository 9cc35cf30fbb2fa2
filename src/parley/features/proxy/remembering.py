"""What is remembered of a human: each decision, as the bus tells it. Kept after its commit, and again harmlessly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import Struct

from parley.bus.rows import MessageRow
from parley.bus.slots import number_of
from parley.engine.outbox import Effect
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.stages import AnsweredQuestion
from parley.engine.values import message_meta
from parley.engine.values.human_inputs import message_key
from parley.engine.values.job_settings import PLAYBOOK, YES, StandIns
from parley.engine.values.message_meta import Answered, Guessed, Posed, ProxyView, Put, Replied
from parley.engine.world import World
from parley.ports.decisions import Decided, Guess, How, MemoryTrouble
from parley.ports.turns import SCRIPTED
from parley.protocol.molecules import PROXY
from parley.settings.schema import ProxySettings

EXCERPT = 2000  # characters of an artifact that are remembered


class MemorySettings(Struct, frozen=True):
    """What a job does with the human's earlier decisions, and how much they mind."""

    on: bool = False
    rehearse: bool = False  # whether a playbook's proxy and human count like real ones
    false_approval: float = ProxySettings().false_approval
    checked: float = ProxySettings().checked
    fresh_days: float = ProxySettings().fresh_days
    repository: str = ""

    def used(self, *, played: bool) -> bool:
        """Whether decisions are remembered and recalled; `played`: a playbook speaks for the proxy or the human."""
        return self.on and (self.rehearse or not played)


class MemoryPart(Struct, frozen=True):
    """What a job's settings say of the memory."""

    memory: MemorySettings | None = None


def settings_of(job: OwnedJob) -> MemorySettings | None:
    """What the job's settings say of the memory, if anything."""
    return job.settings_of(MemoryPart).memory


def is_rehearsed(job: OwnedJob) -> bool:
    """Whether a playbook speaks for the proxy or the human, and it was not asked for that this counts."""
    given = settings_of(job)
    return _is_played(job) and not (given is not None and given.rehearse)


def in_use(job: OwnedJob) -> bool:
    """Whether this job's decisions are remembered, and earlier ones recalled."""
    given = settings_of(job)
    return given is not None and given.used(played=_is_played(job))


def _is_played(job: OwnedJob) -> bool:
    return job.settings_of(StandIns).human is not None or job.roles.runner(job.role(PROXY)) == SCRIPTED


# ---- a decision, from the bus --------------------------------------------------------------------


def guess_of(said: Guessed) -> Guess:
    """A guess as it is remembered: one without a confidence counts as none."""
    return Guess(said.verdict, said.confidence or 0.0, said.reason, said.text)


def answered(job: OwnedJob, asked: MessageRow, answer: MessageRow) -> Decided | None:
    """What the proxy answered by itself: no word of the human's yet, but one that can be corrected."""
    view = message_meta.read_as(Answered, answer).view
    if view.would is None or not in_use(job):
        return None
    found = _about(job, asked, view)
    return found and replace(
        found, time=answer.time, human=job.row.decider, after=guess_of(view.would), how=How.ANSWERED
    )


def replied(job: OwnedJob, answer: AnsweredQuestion) -> Decided | None:
    """What the human said to a question that was put to them."""
    put, said = message_meta.read_as(Put, answer.framing), message_meta.read_as(Replied, answer.reply)
    human = said.by
    if human == PLAYBOOK:
        human = job.row.decider  # in a rehearsal that is to count
    if human == YES or not in_use(job):
        return None  # no person has looked
    found = _about(job, answer.question, put.view)
    if found is None:
        return None
    verdict, after = said.ruling or "", guess_of(put.view.would) if put.view.would is not None else None
    return replace(
        found,
        time=answer.reply.time,
        human=human,
        framing=said.put,
        after=after,
        verdict=verdict,
        said=said.text,
        how=put.how,
        agreed=after is not None and after.met_by(verdict, said.text),
    )


def _about(job: OwnedJob, asked: MessageRow, view: ProxyView) -> Decided | None:
    posed = message_meta.read(asked)
    if not isinstance(posed, Posed):
        return None  # a failure dialog, which no proxy frames
    return Decided(
        time=0.0,
        human="",
        repository=given.repository if (given := settings_of(job)) is not None else "",
        job=job.id,
        question=posed.question,
        framing="",
        state=posed.state,
        kind=posed.kind,
        asked=posed.text,
        artifact=posed.artifact,
        digest=posed.digest,
        excerpt=posed.excerpt,
        before=guess_of(view.predicted) if view.predicted is not None else None,
    )


# ---- after the commit ----------------------------------------------------------------------------


class Remember(Effect, frozen=True):
    """Keep a decision in the memory. One that was kept before, by job, question and framing, stays as it is."""

    decided: Decided


def remember(world: World, decided: Decided) -> str:
    """Keep a decision, without the secrets in it; why that can't be done for now."""
    if world.decisions is None:
        return ""
    try:
        world.decisions.remember([_discreet(decided, world)])
    except MemoryTrouble as trouble:
        return str(trouble)
    return ""


def _discreet(one: Decided, world: World) -> Decided:
    redact = world.secrets.redact

    def guess(said: Guess | None) -> Guess | None:
        return said and replace(said, reason=redact(said.reason), text=redact(said.text))

    return replace(
        one,
        asked=redact(one.asked),
        artifact=redact(one.artifact),
        excerpt=redact(one.excerpt),
        said=redact(one.said),
        before=guess(one.before),
        after=guess(one.after),
    )


def last_decided(job: OwnedJob, world: World) -> Iterator[Decided]:
    """What the last commit decided: a crash may have come before it was remembered."""
    if in_use(job):
        for row in _last(job, world):
            made = _made_of(job, world, row)
            if made is not None:
                yield made


def _made_of(job: OwnedJob, world: World, row: MessageRow) -> Decided | None:
    match message_meta.read(row):
        case Replied(put=name) if _is_authentic(job, world, row):
            framing = _message(job, world, name)
            asked = _message(job, world, message_meta.read_as(Put, framing).asked)
            return replied(job, AnsweredQuestion(question=asked, framing=framing, reply=row))
        case Answered(author=author, asked=name) if author == PROXY:
            return answered(job, _message(job, world, name), row)
        case _:
            return None


def _is_authentic(job: OwnedJob, world: World, row: MessageRow) -> bool:
    """Whether the human's word is known for theirs: on an adopted bus, another program may have written it."""
    given = world.store.inputs(job.id, waiting=False)
    return any(row.key == message_key(each.number) and world.store.authentic(each) is True for each in given)


def _message(job: OwnedJob, world: World, name: str) -> MessageRow:
    return world.store.message(job.id, number_of(name))


def _last(job: OwnedJob, world: World) -> Iterator[MessageRow]:
    """The messages of the last transaction. How many there are is not kept: look back further and further."""
    back = 16
    while True:
        start = max(0, job.counters.message - back)
        rows = list(world.store.messages(job.id, start))
        if not start or (rows and rows[0].transaction < job.counters.transaction):
            yield from (row for row in rows if row.transaction == job.counters.transaction)
            return
        back *= 4
