"""What people ask of a job while it runs. A command leaves an input on the bus; the owner takes it here."""

from __future__ import annotations

from parley.base.json_codec import Unreadable
from parley.base.options import refusal
from parley.bus.rows import BusError, InputRow
from parley.bus.store import Store
from parley.engine import giving_up, protocol_messages
from parley.engine.outbox import WriteAnchor
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message, pass_back, terminate
from parley.engine.turn.stages import AnsweredQuestion
from parley.engine.values import human_inputs, message_meta
from parley.engine.values.hold_causes import PAUSE, budgets
from parley.engine.values.human_inputs import (
    WORDLESS,
    AnswerTaken,
    Denied,
    Done,
    Handled,
    HostLostInput,
    Input,
    InterveneInput,
    Late,
    NameInput,
    NotMergedInput,
    Paused,
    PauseInput,
    ResumeInput,
    Unsigned,
    WithdrawInput,
    Withdrawn,
    lacks_words,
    message_key,
)
from parley.engine.values.job_settings import StandIns
from parley.engine.values.message_meta import Intervened, Replied, TakenAway, ToProxy
from parley.engine.values.people import DOES, SLOT, NamedPeople, People, people_of, read_people, with_naming
from parley.engine.values.permissions import QuestionKind, objection
from parley.engine.world import World
from parley.protocol.errors import Disabled, Refused
from parley.protocol.escalation import goes_straight
from parley.protocol.gates import given_up
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Hold,
    Interrupt,
    Kind,
    MessageKind,
    Origin,
    Run,
    Surface,
    escalation_thread,
    job_thread,
    thread_kind,
)
from parley.protocol.rule import Answer, Ending


def answer_key(asked: AskHuman) -> str:
    """What makes an answer unique: this question, as it was put this time."""
    return f"answer:{asked.id}:{asked.framing}"


class NotTheirs(Exception):
    """A person has asked for what is not theirs to ask."""


class NoChoice(Exception):
    """What was chosen is not what the question lets choose."""


class NotTaken(Exception):
    """An intervention is meant for an instance that takes none."""


class Wordless(Exception):
    """A verdict that is of no use without words came without any."""


def take(job: OwnedJob, world: World, row: InputRow) -> None:
    """Carry out an input, or note why it came too late. Either way it is taken.

    One that is not signed with the bus's key was written past Parley, by another program: it has no effect, no matter
    what it says and whom it names.
    """
    if world.store.authentic(row) is not True:
        job.take(row, Unsigned())
        return
    try:
        given = human_inputs.read(row)
        _refuse_unless_allowed(job, world, row.by, given)
        became = _carry_out(job, world, row, given)
    except (NotTheirs, NoChoice, NotTaken, Wordless) as refused:
        became = Denied(str(refused))
    except (Disabled, Refused) as late:
        became = Late(str(late))
    except Unreadable as odd:
        became = Late(f"it can't be read: {odd}")
    job.take(row, became)


def _carry_out(job: OwnedJob, world: World, row: InputRow, given: Input) -> Handled:
    """Do what a person asks, by the kind of the input."""
    match given:
        case human_inputs.AnswerInput():
            return _answer(job, world, row, given)
        case InterveneInput():
            return _intervene(job, world, row, given)
        case WithdrawInput():
            return _withdraw(job, world, row, given)
        case PauseInput():
            return _pause(job, world)
        case ResumeInput():
            return _resume(job, world, row, given)
        case NameInput():
            return _name(job, given)
        case HostLostInput():
            return Done(given.words)
        case NotMergedInput():
            return Denied(given.reason)
        case _:
            raise Unreadable(f"no owner takes a {type(given).__name__}")


def is_given_up(store: Store, job: str) -> bool:
    """Whether an input that gives the whole job up, of a person who may, waits for the job's owner."""
    try:
        asked = [row for row in store.inputs(job) if row.kind == WithdrawInput.kind and store.authentic(row) is True]
        return bool(asked) and any(_gives_up(people_of(store.load(job)), row) for row in asked)
    except (BusError, Unreadable):  # the next write says what is wrong with the bus
        return False


def _gives_up(people: People, row: InputRow) -> bool:
    given = human_inputs.read_or_none(row)
    whole = isinstance(given, WithdrawInput) and given.thread in ("", job_thread(row.job))
    return whole and given is not None and not objection(people, row.by, given)


def _refuse_unless_allowed(job: OwnedJob, world: World, by: str, given: Input) -> None:
    """Refuse what this person may not ask of the job."""
    asked = None
    if isinstance(given, human_inputs.AnswerInput):
        asked = job.soup.get(AskHuman, escalation_thread(given.question))
    question = _kind_of(job, world, asked) if asked is not None else None
    if why := objection(people_in(job), by, given, question):
        raise NotTheirs(why)


def people_in(job: OwnedJob) -> People:
    """Who may do what in a job, with what its owner has not committed yet."""
    named, stand_ins = job.settings_of(NamedPeople), job.settings_of(StandIns)
    return read_people(job.row.decider, named, stand_ins, job.kept.get(SLOT, ""))


def _kind_of(job: OwnedJob, world: World, asked: AskHuman) -> QuestionKind:
    menu = message_meta.read_as(ToProxy, message(job, world, asked.question.message)).menu
    return QuestionKind(asked.question.kind, bool(menu.options))


def _answer(job: OwnedJob, world: World, row: InputRow, given: human_inputs.AnswerInput) -> Handled:
    """Give the human's answer to the question's asker, by way of the proxy where it has no verdict."""
    question, ruling = given.question, given.ruling
    thread = escalation_thread(question)
    asked = job.soup.get(AskHuman, thread)
    if asked is None:
        raise Disabled(f"{job.id} has no open question {question:.40}")
    if asked.framing != given.framing:
        raise Disabled("the question was put anew since")
    if lacks_words(ruling, given.text):
        raise Wordless(WORDLESS)
    put, framing = message(job, world, asked.question.message), message(job, world, asked.framing)
    menu, choice = message_meta.read_as(ToProxy, put).menu, given.choice or None
    if why := refusal(menu, choice) or ("give a verdict or a choice, not both" if choice and ruling else ""):
        raise NoChoice(why)
    now = world.clock.now()
    name = job.write(
        (HUMAN, thread),
        (PROXY, thread),
        protocol_messages.human(ruling, given.text, given.choice),
        kind=MessageKind.REPLY,
        key=message_key(row.number),
        time=now,
        meta=Replied(by=row.by, put=asked.framing, ruling=ruling, text=given.text, choice=given.choice),
    )
    job.fire("human-reply", question, choice=Answer(name, HUMAN, ruling), who=HUMAN, time=now)
    for hook in job.guests.human_answered:
        hook(job, AnsweredQuestion(question=put, framing=framing, reply=job.mail.rows[name]))
    straight = goes_straight(job.soup.charter, asked.question, asked.policy)
    chosen = choice is not None or (menu.options and asked.question.kind is not Kind.ASSERT)  # words are advice there
    if ruling is not None or chosen or (straight and asked.question.kind is not Kind.ASSERT):
        pass_back(job, world, question, key=f"{message_key(row.number)}/answer")
    word = given_up(job.soup)
    if word is not None and asked.thread not in (job.record.thread, job.thread):
        giving_up.carry_out(job, world, word)  # its lead has not asked, and has no marker to honour
    return AnswerTaken()


def _intervene(job: OwnedJob, world: World, row: InputRow, given: InterveneInput) -> Handled:
    thread = given.thread or job.thread
    surface = job.soup.get(Surface, thread)
    if surface is None:
        raise Disabled(f"there is no {thread} any more")
    if MessageKind.INTERVENTION not in surface.messages:
        raise NotTaken(protocol_messages.takes_none(surface.agent, thread))
    now = world.clock.now()
    name = job.write(
        (HUMAN, job.thread),
        (surface.agent, thread),
        protocol_messages.intervene(given.text, authoritative=given.authoritative),
        kind=MessageKind.INTERVENTION,
        key=message_key(row.number),
        time=now,
        meta=Intervened(by=row.by, text=given.text, now=given.now, authoritative=given.authoritative),
        alone=True,
    )
    interrupt = Interrupt(thread, name, given.now, given.authoritative)
    job.fire("intervene", thread, choice=interrupt, who=HUMAN, time=now)
    whom = f"left for {surface.agent} on {thread}" if thread != job.thread else f"left for the lead of {_state(job)}"
    return Done(f"{whom}; {_when(job, thread, now=interrupt.now)}")


def _state(job: OwnedJob) -> str:
    return str(job.record.state)


def _when(job: OwnedJob, thread: str, *, now: bool) -> str:
    """When an intervention will be delivered, as things stand while it is put: it is not delivered by that."""
    reached = job.record.thread if thread == job.thread else thread
    if job.soup.get(Run, reached) is not None:
        return "it cuts the turn under way short" if now else "it is delivered when the turn under way ends"
    if job.standing.held or job.soup.get(Hold, reached) is not None:
        return "its recipient is held now: it is delivered when that goes on"
    return "it wakes it"


def _withdraw(job: OwnedJob, world: World, row: InputRow, given: WithdrawInput) -> Handled:
    thread, reason, now = given.thread or job.thread, given.reason, world.clock.now()
    if thread_kind(thread) == "state":
        raise NotTheirs(f"{thread} is where a state is led: withdraw the whole job, or redirect the lead")
    job.ask(WriteAnchor())  # another process waits to read that all of this was carried out
    if thread_kind(thread) == "job":
        giving_up.withdraw_job(job, world, reason)
        return Withdrawn()
    there = job.soup.get(Surface, thread)
    if there is None:
        raise Disabled(f"there is no {thread} any more")
    parent = job.soup.parent(thread)
    above = job.soup.get(Surface, parent) if parent else None
    notice = ""
    if above is not None:
        notice = job.write(
            (ORCHESTRATOR, job.thread),
            (above.agent, above.thread),
            protocol_messages.taken_away(there.agent, thread, reason),
            kind=MessageKind.NOTICE,
            key=message_key(row.number),
            time=now,
            meta=TakenAway(thread),
        )
    job.fire("withdraw", thread, choice=Ending(Origin.WITHDRAWAL, notice), who=HUMAN, time=now)
    terminate(job, world, thread, reason)
    return Withdrawn()


def _pause(job: OwnedJob, world: World) -> Handled:
    job.fire("hold", job.thread, choice=PAUSE.text, who=HUMAN, time=world.clock.now())
    return Paused()


def _name(job: OwnedJob, given: NameInput) -> Handled:
    """Keep what a person may do from now on."""
    job.keep(SLOT, with_naming(job.kept.get(SLOT, ""), given.person, given.may))
    return Done(f"{given.person} {DOES[given.may]} from now on")


def _resume(job: OwnedJob, world: World, row: InputRow, given: ResumeInput) -> Handled:
    """End a pause, raise budgets that are spent, or both."""
    done = [said for hook in job.guests.human_resumed if (said := hook(job, row, given))]
    pause = Hold(job.thread, PAUSE.text)
    if pause in job.soup:
        job.release(pause, HUMAN, world.clock.now())
    elif not done:
        spent = budgets(job.soup, job.thread)
        raise Disabled("a budget is spent, and it was not raised" if spent else "the job is not paused")
    return Done("; ".join(done) or "resumed")
