"""What people ask of a job while it runs. Whoever asks leaves an input on the bus; the owner takes it here."""

from __future__ import annotations

import json
from typing import Any

from parley.core.errors import Disabled, Refused
from parley.core.escalation import goes_straight
from parley.core.gates import given_up
from parley.core.rule import Answer, Ending
from parley.core.terms import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Hold,
    Interrupt,
    Kind,
    MessageKind,
    Origin,
    Ruling,
    Run,
    Surface,
    escalation_thread,
    job_thread,
    thread_kind,
)
from parley.engine import giving_up, spending, stand_in, texts
from parley.engine.holds import PAUSE
from parley.engine.live import LiveJob
from parley.engine.records import ANSWERED, LATE, REFUSED, UNSIGNED, WORDLESS, lacks_words
from parley.engine.reduce import message, pass_back, terminate
from parley.engine.remembering import replied
from parley.engine.world import World
from parley.options import menu_of, refusal
from parley.ports import MERGE, BusError, InputRow, Store


class NotTheirs(Exception):
    """Somebody has decided what is not theirs to decide."""


class NoChoice(Exception):
    """What was chosen is not what the question lets choose."""


class NotTaken(Exception):
    """An intervention is meant for an instance that takes none."""


class NotMerged(Exception):
    """A result was not merged, and the input says why: it asks for nothing."""


class Wordless(Exception):
    """A verdict that is of no use without words came without any."""


def take(live: LiveJob, world: World, row: InputRow) -> None:
    """Carry out an input, or note why it came too late. Either way it is taken.

    One that is not signed with the bus's key was written past Parley, by whoever can write to the file: it has no
    effect, whatever it says and whoever it names.
    """
    if world.store.authentic(row) is not True:
        live.take(row, UNSIGNED)
        return
    handlers = {
        "answer": _answer,
        "intervene": _intervene,
        "withdraw": _withdraw,
        "pause": _pause,
        "resume": _resume,
        MERGE: _merge,
    }
    try:
        note = handlers[row.kind](live, world, row, json.loads(row.body))
    except (NotTheirs, NoChoice, NotTaken, NotMerged, Wordless) as refused:
        note = f"{REFUSED}{refused}"
    except (Disabled, Refused) as late:
        note = f"{LATE}{late}"
    except (AttributeError, LookupError, TypeError, ValueError) as odd:  # anyone may leave one
        note = f"{LATE}it can't be read: {odd!r}"
    live.take(row, note)


def is_given_up(store: Store, job: str) -> bool:
    """Whether an input that gives the whole job up waits for the job's owner."""
    key = f"withdraw:{job_thread(job)}"
    try:
        return any(row.key == key and store.authentic(row) is True for row in store.inputs(job))
    except BusError:  # whoever writes next says what is wrong with the bus
        return False


def _answer(live: LiveJob, world: World, row: InputRow, body: dict[str, Any]) -> str:
    question = body["question"]
    thread = escalation_thread(question)
    _refuse_unless_decider(live, row.by)
    asked = live.soup.get(AskHuman, thread)
    if asked is None:
        raise Disabled(f"{live.job} has no open question {question!s:.40}")
    if asked.framing != body["framing"]:
        raise Disabled("the question was put anew since")
    if lacks_words(body["ruling"], body["text"]):
        raise Wordless(WORDLESS)
    ruling = Ruling(body["ruling"]) if body["ruling"] else None
    put, framing = message(live, world, asked.question.message), message(live, world, asked.framing)
    menu, choice = menu_of(json.loads(put.meta or "{}")), body.get("choice") or None
    if why := refusal(menu, choice) or ("give a verdict or a choice, not both" if choice and ruling else ""):
        raise NoChoice(why)
    now = world.clock.now()
    said = {"by": row.by, "ruling": body["ruling"], "text": body["text"], "framing": asked.framing}
    name = live.write(
        (HUMAN, thread),
        (PROXY, thread),
        texts.human(ruling, body["text"], choice or ""),
        kind=MessageKind.REPLY,
        key=f"input:{row.number}",
        time=now,
        meta={**said, **({"choice": choice} if choice else {})},
    )
    live.fire("human-reply", question, choice=Answer(name, HUMAN, ruling), who=HUMAN, time=now)
    made = replied(live, put, framing, live.bodies[name], asked.framing)
    if made is not None:
        live.decided.append(made)
    straight = goes_straight(live.soup.charter, asked.question, asked.policy)
    chosen = choice is not None or (menu.options and asked.question.kind is not Kind.ASSERT)  # words are advice there
    if ruling is not None or chosen or (straight and asked.question.kind is not Kind.ASSERT):
        pass_back(live, world, question, key=f"input:{row.number}/answer")
    live.answers.append(row)
    word = given_up(live.soup)
    if word is not None and asked.thread not in (live.record.thread, live.thread):
        giving_up.carry_out(live, world, word)  # its lead has not asked, and has no marker to honour
    return ANSWERED


def _refuse_unless_decider(live: LiveJob, by: str) -> None:
    """Only who started the job answers for it, or whoever they have let stand in when they did."""
    let = (name for name, setting in stand_in.LET_BY if live.settings.get(setting))
    if by not in (live.row.decider, *let):
        raise NotTheirs(f"{live.row.decider} started the job, and only they can answer; not {by}")


def _intervene(live: LiveJob, world: World, row: InputRow, body: dict[str, Any]) -> str:
    thread = body.get("thread") or live.thread
    surface = live.soup.get(Surface, thread)
    if surface is None:
        raise Disabled(f"there is no {thread} any more")
    if MessageKind.INTERVENTION not in surface.messages:
        raise NotTaken(texts.takes_none(surface.agent, thread))
    authoritative = bool(body.get("authoritative"))
    decider = live.row.decider or HUMAN
    if authoritative and row.by != decider:
        raise NotTheirs(f"only {decider}, who started the job, decides")
    now = world.clock.now()
    name = live.write(
        (HUMAN, live.thread),
        (surface.agent, thread),
        texts.intervene(body["text"], authoritative=authoritative),
        kind=MessageKind.INTERVENTION,
        key=f"input:{row.number}",
        time=now,
        meta={"intervene": {"now": bool(body.get("now")), "authoritative": authoritative, "by": row.by}},
        alone=True,
    )
    interrupt = Interrupt(thread, name, bool(body.get("now")), authoritative)
    live.fire("intervene", thread, choice=interrupt, who=HUMAN, time=now)
    whom = f"left for {surface.agent} on {thread}" if thread != live.thread else f"left for the lead of {_state(live)}"
    return f"{whom}; {_when(live, thread, now=interrupt.now)}"


def _state(live: LiveJob) -> str:
    return str(live.record.state)


def _when(live: LiveJob, thread: str, *, now: bool) -> str:
    """When an intervention will be delivered, as things stand while it is put: it is not delivered by that."""
    reached = live.record.thread if thread == live.thread else thread
    if live.soup.get(Run, reached) is not None:
        return "it cuts the turn under way short" if now else "it is delivered when the turn under way ends"
    if live.held or live.soup.get(Hold, reached) is not None:
        return "it is delivered when that goes on, which is held now"
    return "it wakes it"


def _withdraw(live: LiveJob, world: World, row: InputRow, body: dict[str, Any]) -> str:
    thread, reason, now = body.get("thread") or live.thread, body.get("reason", ""), world.clock.now()
    if thread_kind(thread) == "state":
        raise NotTheirs(f"{thread} is where a state is led: withdraw the whole job, or redirect the lead")
    live.told = True
    if thread_kind(thread) == "job":
        giving_up.withdraw_job(live, world, reason)
        return "withdrawn"
    there = live.soup.get(Surface, thread)
    if there is None:
        raise Disabled(f"there is no {thread} any more")
    parent = live.soup.parent(thread)
    above = live.soup.get(Surface, parent) if parent else None
    notice = ""
    if above is not None:
        notice = live.write(
            (ORCHESTRATOR, live.thread),
            (above.agent, above.thread),
            texts.taken_away(there.agent, thread, reason),
            kind=MessageKind.NOTICE,
            key=f"input:{row.number}",
            time=now,
            meta={"dead": thread},
        )
    live.fire("withdraw", thread, choice=Ending(Origin.WITHDRAWAL, notice), who=HUMAN, time=now)
    terminate(live, world, thread, reason)
    return "withdrawn"


def _merge(live: LiveJob, world: World, row: InputRow, body: dict[str, Any]) -> str:
    raise NotMerged(str(body["reason"]))


def _pause(live: LiveJob, world: World, row: InputRow, body: dict[str, Any]) -> str:
    live.fire("hold", live.thread, choice=PAUSE, who=HUMAN, time=world.clock.now())
    return "paused"


def _resume(live: LiveJob, world: World, row: InputRow, body: dict[str, Any]) -> str:
    """End a pause, raise budgets that are spent, or both."""
    raised, decider = body.get("budget"), live.row.decider or HUMAN
    if raised and row.by != decider:
        raise NotTheirs(f"only {decider}, who started the job, raises its budgets")
    note = spending.lift(live, world, dict(raised), str(body.get("day", ""))) if raised else "resumed"
    if Hold(live.thread, PAUSE) in live.soup:
        live.fire("release", live.thread, choice=PAUSE, who=HUMAN, time=world.clock.now())
        live.rouse()
    elif not raised:
        raise Disabled("a budget is spent, and it was not raised" if live.unpaid else "the job is not paused")
    return note
