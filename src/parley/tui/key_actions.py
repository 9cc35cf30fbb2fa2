"""The keys that act on a job, on every screen: read, compare, tell, pause, withdraw, raise a budget, use its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from parley.engine.values.hold_causes import cause_of
from parley.engine.values.human_inputs import ResumeInput
from parley.engine.values.people import May
from parley.engine.values.permissions import objection
from parley.features.budgets.arithmetic import more_of, standing
from parley.protocol.molecules import thread_kind
from parley.tui.pages import PageScreen, diff_page
from parley.tui.prompt import OPTIONAL, Prompt, confirm
from parley.tui.watch import Watch
from parley.tui.work_screen import WorkScreen
from parley.views.job_view import TERMINAL
from parley.views.questions.needs import BUDGET, GATE, STALL, UNATTENDED, UNDELIVERED, GateView, Need
from parley.views.repository_context import JobContext

_WAYS = ("at the turn's end", "at once", "with authority, at the turn's end", "with authority, at once")
_WAYS_OUT = {
    UNATTENDED: ("z goes on", "x gives it up"),
    BUDGET: ("b raises it, and goes on", "x gives the job up"),
    STALL: ("c shows what it did last", "s tells it something (Tab: at once)", "x gives the job up"),
    UNDELIVERED: ("s says it again", "c shows what happened"),
}

KeyAction = Callable[
    [Watch, JobContext, str, str], None
]  # the watch, the job, and the chosen thread with its agent's name, if any


def read(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Open what was said and done."""
    watch.open(WorkScreen(at, thread, name))


def compare(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Open the job's diff."""
    text = at.context.diff(at.id)
    gate = next((need for need in at.needs() if need.kind == GATE), None)
    shown = at.context.exhibit(gate) if gate else GateView()
    if text or shown.since:
        watch.open(PageScreen(diff_page(at.id, text or "nothing yet", gate.asked if gate else None, shown)))
    else:
        watch.say(f"{at.id} has changed nothing yet")


def tell(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Ask for an intervention."""
    row = at.row
    if row.state in TERMINAL:
        watch.say(f"{at.id} has ended ({row.state}); no agent would read it")
        return
    ways = _WAYS if at.present().people.may(at.context.by) is May.DECIDE else _WAYS[:2]

    def send(text: str, way: int) -> str:
        return watch.actions.tell(at, thread, text, now=bool(way % 2), authoritative=way > 1)

    watch.ask(Prompt(f"tell {name or 'the team'}", send, ways))


def hold(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Pause, or go on."""
    present = at.present()
    if present.row.state in TERMINAL:
        watch.say(f"{at.id} has ended ({present.row.state})")
    elif present.unpaid:
        watch.say("its budget is spent: b raises it")
    elif present.paused or not at.owned:
        watch.say(watch.actions.go_on(at, paused=present.paused))
    else:
        watch.say(watch.actions.pause(at))


def spend(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Raise a budget that is spent."""
    present = at.present()
    causes = {cause_of(hold) for hold in present.unpaid}
    lines = [line for line in standing(at.context.store, present.loaded, time.time()) if line.cause in causes]
    if not lines:
        watch.say(f"no budget of {at.id} is spent")
    elif why := objection(present.people, at.context.by, ResumeInput(raised={lines[0].option: ""})):
        watch.say(f"{at.id}: {why}")
    else:
        watch.ask(
            Prompt(
                "raise the budget",
                lambda text, way: watch.actions.raise_budget(at, text),
                typed=more_of(lines[0]),
                cancelled="nothing was raised",
                enter="raises it",
            )
        )


def settle(watch: Watch, at: JobContext, need: Need | None) -> None:
    """The key `a` where there is no question: raise a spent budget, or say what helps."""
    if need is None:
        watch.say(f"{at.id} asks nothing")
    elif need.kind == BUDGET:
        spend(watch, at, "", "")
    elif need.asked is not None:
        watch.say(f"only {need.decider}, who started {at.id}, can answer")
    else:
        watch.say(f"{at.id} asks nothing; {'; '.join(ways_out(need))}")


def ways_out(need: Need) -> list[str]:
    """What can be done about a need that is no question: by keys, or by commands where no key does it."""
    if need.state in TERMINAL:
        return ["C asks for it in a job that goes on from this one", "c shows what happened"]
    return list(_WAYS_OUT.get(need.kind, ())) or [f"{way.words}: {way.command}" for way in need.exits]


def withdraw(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Give the job up, or the chosen thread."""
    state = at.row.state
    if state in TERMINAL:
        watch.say(f"{at.id} has ended ({state})")
        return
    if thread_kind(thread) == "state":  # it is led by its lead, without whom the job can't go on
        thread, what = "", f"the whole job {at.id} with {name}"
    else:
        what = f"{name} and all that works for it" if thread else at.id

    def reason(text: str, way: int) -> Prompt:
        return confirm(at.id, f"withdraw {what} for good", lambda: watch.actions.withdraw(at, thread, name, text))

    watch.ask(Prompt(f"withdraw {what}; why", reason, cancelled="nothing was withdrawn", enter=OPTIONAL))


# ---- what becomes of a result --------------------------------------------------------------------


def merge(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Bring the result into the user's checkout."""
    if _is_done(watch, at):
        what = f"merge the result of {at.id} into {at.context.title}"
        watch.ask(confirm(at.id, what, lambda: watch.actions.merge(at), "nothing was merged"))


def pull_request(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Push the result, and open a pull request."""
    if _is_done(watch, at):
        what = f"push the branch of {at.id} and open a pull request"
        watch.ask(confirm(at.id, what, lambda: watch.actions.pull_request(at), "nothing was pushed"))


def follow_up(watch: Watch, at: JobContext, thread: str, name: str) -> None:
    """Start a job that goes on from the result."""
    if at.row.state not in TERMINAL:
        watch.say(f"{at.id} is still at work: s tells its team something")
        return
    label = f"go on from the result of {at.id}: what next"

    def send(text: str, way: int) -> str:
        return watch.actions.follow_up(at, text)

    watch.ask(Prompt(label, send, cancelled="nothing was started", enter="starts it"))


def _is_done(watch: Watch, at: JobContext) -> bool:
    state = at.row.state
    if state != "DONE":
        watch.say(f"{at.id} has no result yet: it is in {state}" if state not in TERMINAL else f"{at.id} ended {state}")
    return state == "DONE"


def ended_keys(state: str, *, merged: bool = False) -> list[str]:
    """The keys for a job that has ended."""
    return [*(["m merge", "P pull request"] if state == "DONE" and not merged else []), "C continue"]


KEY_ACTIONS: Mapping[str, KeyAction] = {
    "c": read,
    "d": compare,
    "s": tell,
    "z": hold,
    "x": withdraw,
    "b": spend,
    "m": merge,
    "P": pull_request,
    "C": follow_up,
}
