"""What a key does about a job, wherever it is pressed: read, compare, tell, pause, withdraw."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from parley.core.terms import thread_kind
from parley.engine.attention import BUDGET, GATE, Need, needs
from parley.engine.budgets import remedies, standing
from parley.engine.projections import TERMINAL, Present
from parley.faces.terminal.pages import Conversation, Reading, diff_page
from parley.faces.terminal.prompt import Prompt, confirm
from parley.faces.terminal.sight import Exhibit
from parley.faces.terminal.watch import Watch

_WAYS = ("at the turn's end", "at once", "with authority, at the turn's end", "with authority, at once")

Errand = Callable[[Watch, str, str, str], None]  # the job, and the thread with its agent if one is chosen


def read(watch: Watch, job: str, thread: str, name: str) -> None:
    """The conversation."""
    watch.open(Conversation(watch.sight.store, job, thread, name))


def compare(watch: Watch, job: str, thread: str, name: str) -> None:
    """What the job has changed."""
    sight = watch.sight
    text = sight.diff(job)
    found = needs(sight.store, sight.files, [sight.store.load(job).row])
    gate = next((need for need in found if need.kind == GATE), None)
    shown = sight.exhibit(gate) if gate else Exhibit()
    if text or shown.since:
        watch.open(Reading(diff_page(job, text or "nothing yet", gate.asked if gate else None, shown)))
    else:
        watch.say(f"{job} has changed nothing yet")


def tell(watch: Watch, job: str, thread: str, name: str) -> None:
    """An intervention."""
    row = watch.sight.store.load(job).row
    if row.state in TERMINAL:
        watch.say(f"{job} has ended ({row.state}); nobody would hear it")
        return
    ways = _WAYS if row.decider == watch.sight.by else _WAYS[:2]

    def send(text: str, way: int) -> str:
        return watch.deeds.tell(job, thread, text, now=bool(way % 2), authoritative=way > 1)

    watch.ask(Prompt(f"tell {name or 'the team'}", send, ways))


def hold(watch: Watch, job: str, thread: str, name: str) -> None:
    """Pause, or go on."""
    present = Present(watch.sight.store, job)
    if present.row.state in TERMINAL:
        watch.say(f"{job} has ended ({present.row.state})")
    elif present.unpaid:
        watch.say("its budget is spent: b raises it")
    elif present.paused or not watch.sight.store.owner_lives(job):
        watch.say(watch.deeds.go_on(job, paused=present.paused))
    else:
        watch.say(watch.deeds.pause(job))


def spend(watch: Watch, job: str, thread: str, name: str) -> None:
    """Raise a budget that is spent."""
    present = Present(watch.sight.store, job)
    causes = {hold.cause for hold in present.unpaid}
    lines = [line for line in standing(watch.sight.store, present.loaded, time.time()) if line.cause in causes]
    if not lines:
        watch.say(f"no budget of {job} is spent")
    elif present.row.decider != watch.sight.by:
        watch.say(f"only {present.row.decider}, who started {job}, raises its budgets")
    else:
        more = remedies(job, lines[0])[0].rpartition(" ")[2]
        watch.ask(Prompt("raise the budget", lambda text, way: watch.deeds.raise_budget(job, text), typed=more))


def settle(watch: Watch, job: str, need: Need | None) -> None:
    """What `a` does where nothing can be answered: raise the budget that is spent, or say what helps."""
    if need is None:
        watch.say(f"{job} asks nothing")
    elif need.kind == BUDGET:
        spend(watch, job, "", "")
    elif need.asked is not None:
        watch.say(f"only {need.decider}, who started {job}, can answer")
    else:
        watch.say(f"{job} asks nothing; {need.exits[0].words}: {need.exits[0].command}")


def withdraw(watch: Watch, job: str, thread: str, name: str) -> None:
    """Give the job up, or what is chosen of it."""
    state = watch.sight.store.load(job).row.state
    if state in TERMINAL:
        watch.say(f"{job} has ended ({state})")
        return
    if thread_kind(thread) == "state":  # it goes by its lead, and no part of a job goes on without one
        thread, what = "", f"{job} as a whole, which {name} leads,"
    else:
        what = f"{name} and all that works for it" if thread else job

    def reason(text: str, way: int) -> Prompt:
        return confirm(job, f"withdraw {what} for good", lambda: watch.deeds.withdraw(job, thread, text))

    watch.ask(Prompt(f"withdraw {what}; why", reason))


ERRANDS: Mapping[str, Errand] = {
    "c": read,
    "d": compare,
    "s": tell,
    "z": hold,
    "x": withdraw,
    "b": spend,
}
