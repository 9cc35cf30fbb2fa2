"""All that needs the human, over all jobs, in one list: each with what can be done about it.

Pure reads of the bus, like the other projections. A need's id stays the same as long as the need does, and another
need of the same kind has another id: so a notifier can tell people of each need once.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parley.base.options import HEADING, command
from parley.bus.rows import JobRow, StepRow
from parley.bus.store import Store
from parley.engine.protocol_messages import excerpt
from parley.engine.values import step_extra
from parley.engine.values.hold_causes import Budget, Stall, budgets, cause_of, needs_human, stalls
from parley.engine.values.human_inputs import asks
from parley.engine.values.people import May, People
from parley.features.budgets.arithmetic import raising
from parley.ports.machine import Files
from parley.protocol.codec import decode_choice
from parley.protocol.molecules import PROXY, Hold, Mailbox, Run, Surface, job_thread
from parley.views.history.interventions import Intervention, named
from parley.views.history.unheard import undelivered
from parley.views.job_view import DAMAGE, TERMINAL, Asked, Present, moment

QUESTION, GATE, FAILURE, BUDGET, STALL = "question", "gate", "failure", "budget", "stall"
UNATTENDED, STOPPED, UNDELIVERED, UNREADABLE = "unattended", "stopped", "undelivered", "unreadable"
AFTERWARDS_SECONDS = 86400.0  # how long the inbox has what a job's end left undelivered
HEADLINE = 160  # characters
_KINDS = {"question": QUESTION, "assert": GATE, "failure": FAILURE}
_TAIL = 64  # steps that are looked at first for when something began


@dataclass(frozen=True, slots=True)
class Exit:
    """Something that can be done about a need: in words, and as a command that does it."""

    words: str
    command: str

    def document(self) -> dict[str, str]:
        """The exit as `--json` gives it."""
        return {"words": self.words, "command": self.command}


@dataclass(frozen=True, slots=True)
class GateView:
    """A gate's file as it was asserted, and its changes since the user last saw it."""

    content: str = ""
    since: str = ""  # when they last saw it, in words; empty if never
    changed: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs the human."""

    id: str
    job: str
    kind: str  # question, gate, failure, budget, stall, unattended, stopped, undelivered, unreadable
    since: float
    state: str
    thread: str
    who: str  # who asks, or whom it is about
    headline: str  # one line
    body: str  # all of it
    artifact: str
    exits: tuple[Exit, ...]
    asked: Asked | None = None  # the question, where it is one
    decider: str = ""  # whose word counts: who started the job
    others: tuple[str, ...] = ()  # and whose else: the persons whom they named for it

    def document(self) -> dict[str, Any]:
        """The need as `--json` gives it."""
        return {
            "id": self.id,
            "job": self.job,
            "kind": self.kind,
            "since": self.since,
            "state": self.state,
            "thread": self.thread,
            "who": self.who,
            "decider": self.decider,
            "others": list(self.others),
            "headline": self.headline,
            "body": self.body,
            "artifact": self.artifact or None,
            "exits": [way.document() for way in self.exits],
            "stat": self.asked.stat.document() if self.asked and self.asked.stat else None,
        }


def needs(store: Store, files: Files, rows: Iterable[JobRow] | None = None) -> list[Need]:
    """What needs the human in all jobs, or in some, oldest first. Of what has ended, only what it left undelivered.

    A job that can't be read needs the human too, and hides no other.
    """
    found: list[Need] = []
    for row in store.jobs() if rows is None else rows:
        try:
            found += list(_ended(store, row)) if row.state in TERMINAL else of_present(Present(store, row.job))
        except DAMAGE as error:
            found.append(_unreadable(row, error))
    return _in_order(found)


def of_present(present: Present) -> list[Need]:
    """What needs the human in one job, for those who have read it already."""
    ended = present.row.state in TERMINAL
    return _in_order(_ended(present.store, present.row) if ended else _of(present, attended=present.owned))


def _in_order(found: Iterable[Need]) -> list[Need]:
    """The oldest first."""
    return sorted(found, key=lambda need: (need.since, need.job, need.id))


def _unreadable(row: JobRow, error: Exception) -> Need:
    ways = (Exit("see which row another program has changed", f"parley audit {row.job}"),)
    return _about(row, UNREADABLE, "", row.updated, f"its record can't be read: {error}", ways)


def _of(present: Present, *, attended: bool) -> Iterator[Need]:
    """What one job needs that has not ended."""
    questions = present.questions()
    yield from (of_question(asked, present.people) for asked in questions)
    held = present.soup.all(Hold, job_thread(present.job))
    yield from (_budget(present, hold, cause) for hold, cause in budgets(present.soup, job_thread(present.job)))
    if attended:  # a job without an owner is not stalled
        yield from (_stall(present, hold) for hold in stalls(present.soup) if needs_human(hold))
    if not attended and not held and not present.begins and (not questions or _unfinished(present)):
        yield _unattended(present)
    if present.stopped:
        yield _stopped(present)
    yield from (_undelivered(present.row, one) for one in undelivered(present.store, present.job))


def _ended(store: Store, row: JobRow) -> Iterator[Need]:
    """What the end of a job has left undelivered: for a day, since there is nothing that would settle it."""
    if time.time() - row.updated < AFTERWARDS_SECONDS:
        yield from (_undelivered(row, one) for one in undelivered(store, row.job))


# ---- questions -----------------------------------------------------------------------------------


def of_question(asked: Asked, people: People) -> Need:
    """What a question needs; `people`: who may do what in its job."""
    kind, words = _KINDS.get(asked.kind, QUESTION), words_of(asked)
    decider, *others = people.who_may(asked.put_as.needed())
    return Need(
        id=asked.id,
        job=asked.job,
        kind=kind,
        since=asked.time,
        state=asked.state,
        thread=asked.thread,
        who=asked.asker,
        headline=excerpt(f"{asked.artifact}: {words}" if kind == GATE else words, HEADLINE),
        body=asked.body,
        artifact=asked.artifact,
        exits=exits_of(asked),
        asked=asked,
        decider=decider,
        others=tuple(others),
    )


def words_of(asked: Asked) -> str:
    """The words of a question's asker, or else its whole text; first that another verdict counts, where one does."""
    words = asked.text.partition(HEADING)[0].strip() or asked.text or asked.body
    if not asked.superseded:
        return words
    return f"(put forward anew since, as {asked.superseded}: that verdict counts) {words}"


def exits_of(asked: Asked) -> tuple[Exit, ...]:
    """What can be said to a question. Each command works as it stands but for TEXT, which is the human's own."""
    start = f"parley answer {asked.id}"
    chosen = tuple(Exit(option.effect, command(asked.id, option.name)) for option in asked.menu.options)
    give_up = Exit(f"give up {asked.stake}", f'{start} "TEXT" --withdraw')
    if asked.kind == QUESTION:
        words = f"answer: {asked.menu.words}" if asked.menu.words else "answer"
        return (*chosen, Exit(words, f'{start} "TEXT"'), give_up)
    back = (Exit(f"go back to {state}", f'{start} "TEXT" --backtrack {state}') for state in asked.backtracks)
    if asked.kind == FAILURE:
        return (*chosen, Exit("try again, with your advice", f'{start} "TEXT" --revise'), *back, give_up)
    yes, no = Exit("approve", f"{start} --approve"), Exit("not yet, and why", f'{start} "TEXT" --revise')
    return (yes, no, *chosen, *back, give_up)


# ---- what holds a job up without a question ------------------------------------------------------


def _budget(present: Present, hold: Hold, cause: Budget) -> Need:
    began = _last(present, lambda step: step.rule == "hold" and decode_choice(step.choice) == hold.cause)
    line = next((line for line in present.spent() if line.cause == cause), None)
    spent = line.words() if line else f"{cause.what} {cause.scope}"
    words = f"its budget is spent ({spent}): it is paused until you raise that or give it up"
    raised = Exit("raise it, and go on", raising(present.job, line)) if line else None
    return _about_job(
        present,
        BUDGET,
        f"{began.number if began else 0}",
        began.time if began else present.row.updated,
        words,
        (
            raised or Exit("go on", f"parley resume {present.job}"),
            Exit("see what it has used", f"parley show {present.job}"),
            Exit("give it up", f"parley withdraw {present.job}"),
        ),
    )


def _stall(present: Present, hold: Hold) -> Need:
    began = _last(present, lambda step: step.rule == "hold" and decode_choice(step.choice) == hold.cause)
    surface, cause = present.soup.get(Surface, hold.thread), cause_of(hold)
    who, since = surface.agent if surface else "", cause.since if isinstance(cause, Stall) else 0.0
    left = step_extra.read(began.extra) if began else step_extra.NOTHING
    told = f'parley intervene {present.job} "TEXT" --thread {hold.thread} --now'
    tell = () if who == PROXY else (Exit("tell it something, at once", told),)  # only who asks talks to the proxy
    last = f"; the last it did: {left.text}" if left.text else ""
    found = _about_job(
        present,
        STALL,
        f"{began.number if began else 0}",
        began.time if began else present.row.updated,
        f"{who or hold.thread} has shown no sign of life since {moment(since)}{last}",
        (
            Exit("see what it did last", f"parley log {present.job} --thread {hold.thread}"),
            *tell,
            Exit("give the job up", f"parley withdraw {present.job}"),
        ),
    )
    return replace(found, thread=hold.thread, who=who)


def _unattended(present: Present) -> Need:
    last = present.loaded.transaction
    kept = (
        "; what you have said is kept for the process that goes on" if asks(present.store.inputs(present.job)) else ""
    )
    return _about_job(
        present,
        UNATTENDED,
        f"{present.loaded.epoch}",
        last.time if last else present.row.created,
        f"no process works on it: {'the one that did has ended' if present.loaded.epoch else 'none has begun'}{kept}",
        (
            Exit("go on", f"parley resume {present.job}"),
            Exit("give it up", f"parley withdraw {present.job}"),
        ),
    )


def _stopped(present: Present) -> Need:
    last = present.loaded.transaction
    return _about_job(
        present,
        STOPPED,
        f"{present.stopped}",
        last.time if last else present.row.created,
        f"process {present.stopped}, which works on it, is stopped: nothing goes on",
        ways_on(present),
    )


def _undelivered(row: JobRow, one: Intervention) -> Need:
    """Words of the human's that reached no agent: to be known, and said again if they still hold."""
    again = f"parley intervene {row.job} {_quoted(one.text)}"
    if row.state in TERMINAL:
        exits = (Exit("ask for it in another job", f"parley run {_quoted(one.text)}"),)
    else:
        exits = (Exit("say it again, to the lead", f"{again}{' --authoritative' if one.authoritative else ''}"),)
    words = f"{named(one)} was {one.words(moment)}"
    look = Exit("see what happened", f"parley log {row.job}")
    need = _about(row, UNDELIVERED, f"{one.number}", one.since, words, (*exits, look))
    return replace(need, thread=one.thread, who=one.agent, decider=one.by)


def _quoted(text: str) -> str:
    """Words as a shell takes them; a place for them where they are too long to be shown in a command."""
    plain = text.isprintable() and len(text) <= HEADLINE and not text.startswith("-")
    return shlex.quote(text) if plain else '"TEXT"'


def ways_on(present: Present) -> tuple[Exit, ...]:
    """What can be done about a job whose owner was stopped."""
    return (
        Exit("let that process go on", f"kill -CONT {present.stopped}"),
        Exit("end it, and go on", f"kill -9 {present.stopped}; parley resume {present.job}"),
        Exit("give it up", f"kill -9 {present.stopped}; parley withdraw {present.job}"),
    )


def _about_job(present: Present, kind: str, which: str, since: float, words: str, exits: tuple[Exit, ...]) -> Need:
    others = present.people.who_may(May.DECIDE)[1:]
    return replace(_about(present.row, kind, which, since, words, exits), others=tuple(others))


def _about(row: JobRow, kind: str, which: str, since: float, words: str, exits: tuple[Exit, ...]) -> Need:
    return Need(
        id=f"{row.job}.{kind}{which}",
        job=row.job,
        kind=kind,
        since=since,
        state=row.state,
        thread=job_thread(row.job),
        who="",
        headline=excerpt(words, HEADLINE),
        body=words,
        artifact="",
        exits=exits,
        asked=None,
        decider=row.decider,
    )


def _unfinished(present: Present) -> bool:
    """Whether there is something that a process would do now, besides waiting for the human."""
    soup = present.soup
    mail = any(mailbox.queue for mailbox in soup.of(Mailbox))
    return mail or bool(soup.of(Run)) or asks(present.store.inputs(present.job))


def _last(present: Present, fits: Callable[[StepRow], bool]) -> StepRow | None:
    """The last step that fits. It is looked for from the end on: what holds a job up is among its last steps."""
    last = present.loaded.transaction.steps if present.loaded.transaction else 0
    width, upper = _TAIL, last
    while upper > 0:
        lower = max(0, upper - width)
        found: Sequence[StepRow] = [
            step for step in present.store.steps(present.job, lower) if step.number <= upper and fits(step)
        ]
        if found:
            return found[-1]
        width, upper = 4 * width, lower
    return None
