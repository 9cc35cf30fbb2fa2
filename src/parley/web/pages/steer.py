"""The dialogs by which a person steers a job: each says first what it does and what will stop, then does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from parley.actions.user_actions import PREFIX
from parley.base.person_names import BadName, person_name
from parley.base.text import BadText, cut, read_json
from parley.bus.rows import InputRow
from parley.engine.protocol_messages import excerpt
from parley.engine.values.human_inputs import Input, ResumeInput, WithdrawInput, is_in_vain, read_or_none
from parley.engine.values.people import DOES, May
from parley.features.budgets.arithmetic import BudgetLine, more_of
from parley.protocol.molecules import job_thread, thread_kind
from parley.views.job_view import TERMINAL, Present, Thread, moment
from parley.views.repository_context import JobContext
from parley.web.doing import ActionNote, named_first, settle, text_of, told, user_actions
from parley.web.offers import LABELS, offers, raisable
from parley.web.visit import BadForm, NotHere, Visit, slow

PLAN_SECONDS = 60.0  # that a dry run may take
SLOW_SECONDS = 20.0  # that a merge, a push or the end of all processes may take before the page says it goes on
SHOWN = 50  # files or agents that a dialog names
LONGEST_REASON = 20_000  # characters: it is a word of a command, for which the system has a limit
LONGEST_BUDGET = 400
LONGEST_PLAN = 16 << 20  # characters of what a dry run says


def bar(visit: Visit) -> Response:
    """The buttons for what can be done now."""

    def make() -> Response:
        at = visit.job()
        base = visit.site.address(at.context, at.id)
        return visit.show("part_action_buttons.html", base=base, offered=offers(visit, at, visit.present(at)))

    return visit.kept(make)


# ---- what a dialog says ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Steering:
    """One dialog: what it needs, what it shows, and what it does."""

    needed: May
    shows: Callable[[Visit, JobContext, Present], dict[str, Any]]
    does: Callable[[Visit, JobContext, Present], ActionNote]
    ended: bool = False  # whether it is for jobs that have ended
    once: bool = False  # whether a second person who asks for it at the same moment is too late


@dataclass(frozen=True, slots=True)
class Stops:
    """What a withdrawal stops."""

    whole: bool  # the job
    thread: str
    name: str
    at_work: tuple[Thread, ...]
    instances: int
    questions: int


def what_stops(present: Present, given: str) -> Stops:
    """What ends with a thread, or with the whole job. The lead of a state takes its job along."""
    threads = present.threads()
    found = next((one for one in threads if one.id == given), None)
    if given and found is None:
        raise NotHere("there is no such instance any more; it has ended meanwhile")
    whole = found is None or thread_kind(given) in ("state", "job")
    inside = {job_thread(present.job)} if whole else {given}
    for one in threads:  # each after its parent
        if one.parent in inside:
            inside.add(one.id)
    mine = [one for one in threads if one.id in inside]
    asked = sum(one.thread in inside for one in present.questions())
    name = found.agent if found is not None and not whole else ""
    return Stops(
        whole=whole,
        thread="" if whole else given,
        name=name,
        at_work=tuple(one for one in mine if one.turn),
        instances=len(mine) - int(whole),
        questions=asked,
    )


def _tell_shows(visit: Visit, at: JobContext, present: Present) -> dict[str, Any]:
    given = visit.query.get("thread", "")
    threads = [one for one in present.threads() if thread_kind(one.id) in ("state", "dispatch")]
    if given and given not in [one.id for one in threads]:
        raise NotHere("there is no such instance any more; it has ended meanwhile")
    shown = threads[: SHOWN * 4]
    shown += [one for one in threads[SHOWN * 4 :] if one.id == given]
    return {"threads": shown, "chosen": given, "decides": visit.may(at, present) >= May.DECIDE}


def _tell(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    text, thread = text_of(visit), visit.form.get("thread", "")
    if thread and thread not in [one.id for one in present.threads()]:
        return ActionNote("that instance has ended meanwhile; choose another, or the lead", bad=True)
    authoritative = visit.form.get("authoritative") == "yes"
    if authoritative:
        visit.require(May.DECIDE, at)
    actions, now = user_actions(), visit.form.get("when") == "now"
    return settle(visit, actions, actions.tell(at, thread, text, now=now, authoritative=authoritative))


def _pause(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    actions = user_actions()
    return settle(visit, actions, actions.pause(at))


def _pause_shows(visit: Visit, at: JobContext, present: Present) -> dict[str, Any]:
    return {"at_work": [one for one in present.threads() if one.turn]}


def _go_on(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    actions = user_actions()
    return settle(visit, actions, actions.go_on(at, paused=present.paused), SLOW_SECONDS)


def _raise_shows(visit: Visit, at: JobContext, present: Present) -> dict[str, Any]:
    return {"lines": [(line, more_of(line), _seen(line)) for line in raisable(present)]}


def _seen(line: BudgetLine) -> str:
    """A budget as the dialog has shown it: what another person has raised meanwhile is not raised on top of that."""
    return f"{line.option}={line.limit!r}"


def _raise(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    given = [word.strip() for word in visit.many.get("budget", [])]
    words = ",".join(word for word in given if word)
    shown = {one.partition("=")[0]: one for one in visit.many.get("seen", [])}
    now = {line.option: _seen(line) for line in raisable(present)}
    wanted = [word.partition("=")[0] for word in words.split(",") if word]
    if other := next((option for option in wanted if option not in shown), ""):
        return ActionNote(f"{cut(other, 40)} is none of the budgets that are shown here", bad=True)
    if any(now.get(option) != shown[option] for option in wanted):
        # one step more on top of what another person has just granted is no one's decision
        return ActionNote(f"too late: the budget is another one now{_raised(at)}; look at it again", bad=True)
    if len(words) > LONGEST_BUDGET:
        return ActionNote("write a number for each budget that you raise", bad=True)
    actions = user_actions()
    return settle(visit, actions, actions.raise_budget(at, words), SLOW_SECONDS)


def _withdraw_shows(visit: Visit, at: JobContext, present: Present) -> dict[str, Any]:
    stops = what_stops(present, visit.query.get("thread", ""))
    below = [one for one in present.threads() if thread_kind(one.id) == "dispatch"]
    return {"stops": stops, "shown": stops.at_work[:SHOWN], "below": below[:SHOWN]}


def _withdraw(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    thread, reason = visit.form.get("thread", ""), text_of(visit)
    try:
        stops = what_stops(present, thread)
    except NotHere:
        return ActionNote(f"too late: that instance has ended meanwhile{_withdrawn(at, thread)}", bad=True)
    if len(reason) > LONGEST_REASON:
        return ActionNote(f"the reason has {len(reason):,} characters, {LONGEST_REASON:,} at most", bad=True)
    actions = user_actions()
    begun = actions.withdraw(at, stops.thread, stops.name, reason)
    return settle(visit, actions, begun, SLOW_SECONDS)


def _withdrawn(at: JobContext, thread: str) -> str:
    """Who has withdrawn a thread, or the job, and why; empty: no person has."""
    for row, given in _asked(at):
        if isinstance(given, WithdrawInput) and given.thread in (thread, "", job_thread(at.id)):
            why = f": “{excerpt(given.reason, 200)}”" if given.reason else ""
            return f", withdrawn by {row.by} at {moment(row.time)}{why}"
    return ""


def _raised(at: JobContext) -> str:
    """Who has raised a budget last, and how; empty: no person has."""
    for row, given in _asked(at):
        if isinstance(given, ResumeInput) and given.raised:
            how = ", ".join(f"{option}={word}" for option, word in given.raised.items())
            return f": {row.by} has raised it ({excerpt(how, 100)}) at {moment(row.time)}"
    return ""


def _asked(at: JobContext) -> Iterator[tuple[InputRow, Input]]:
    """What people asked of a job that counts, the newest first."""
    for row in reversed(list(at.context.store.inputs(at.id, waiting=False))):
        given = read_or_none(row)
        if given is not None and row.taken and not is_in_vain(row):
            yield row, given


def _name_shows(visit: Visit, at: JobContext, present: Present) -> dict[str, Any]:
    named = [(name, may) for name, may in present.people.named.items() if name != present.people.decider]
    return {"people": present.people, "named": named, "does": DOES, "ways": list(May)}


def _name(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    try:
        person, may = person_name(visit.form.get("person", "")), May(visit.form.get("may", ""))
    except BadName as bad:
        return ActionNote(str(bad), bad=True)
    except ValueError as error:
        raise BadForm("choose what the person may do") from error
    actions = user_actions()
    return settle(visit, actions, actions.name(at, person, may))


def _merge(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    if at.context.merged(at.id):
        return ActionNote(f"too late: {at.id} is merged already", bad=True)
    actions = user_actions()
    return settle(visit, actions, actions.merge(at), SLOW_SECONDS)


def _pull_request(visit: Visit, at: JobContext, present: Present) -> ActionNote:
    actions = user_actions()
    return settle(visit, actions, actions.pull_request(at), SLOW_SECONDS)


def _nothing(visit: Visit, at: JobContext, present: Present) -> dict[str, Any]:
    return {}


STEERING: Mapping[str, Steering] = {
    "tell": Steering(May.ANSWER, _tell_shows, _tell),
    "pause": Steering(May.ANSWER, _pause_shows, _pause),
    "go-on": Steering(May.ANSWER, _nothing, _go_on),
    "raise": Steering(May.DECIDE, _raise_shows, _raise, once=True),
    "withdraw": Steering(May.DECIDE, _withdraw_shows, _withdraw, once=True),
    "name": Steering(May.DECIDE, _name_shows, _name),
    "merge": Steering(May.DECIDE, _nothing, _merge, ended=True, once=True),
    "pull-request": Steering(May.DECIDE, _nothing, _pull_request, ended=True, once=True),
}


# ---- the pages -----------------------------------------------------------------------------------------


def ask(visit: Visit) -> Response:
    """A dialog: part of an open page, or a page of its own."""
    at, steering, present = _wanted(visit)
    name = visit.path["what"]
    shown: dict[str, Any] = {
        **steering.shows(visit, at, present),
        "at": at,
        "present": present,
        "base": visit.site.address(at.context, at.id),
        "address": visit.site.address(at.context, at.id, "do", name),
        "title": LABELS[name],
        "body": f"steer/{name.replace('-', '_')}.html",
    }
    return visit.show(shown["body"] if visit.part else "steer_page.html", **shown)


def do(visit: Visit) -> Response:
    """Do what a dialog has asked for."""
    at, steering, present = _wanted(visit)
    if visit.form.get("authoritative"):
        visit.require(May.DECIDE, at)
    named_first(visit, at)
    if steering.once:
        with visit.site.steering.alone((visit.path["repository"], at.id)):
            at, steering, present = _wanted(visit)  # as it is after what another person has done
            note = steering.does(visit, at, present)
    else:
        note = steering.does(visit, at, present)
    return told(visit, note, visit.site.address(at.context, at.id))


def _wanted(visit: Visit) -> tuple[JobContext, Steering, Present]:
    """The job and the dialog that an address names, for a visitor who may use it now."""
    at, steering = visit.job(), STEERING.get(visit.path["what"])
    if steering is None:
        raise NotHere("there is no such page")
    visit.require(steering.needed, at)
    present = at.present()
    state = present.row.state
    if steering.ended and state != "DONE":
        raise BadForm(f"{at.id} has no result to use: it is in {state}")
    if not steering.ended and state in TERMINAL:
        by = _withdrawn(at, "") if state == "WITHDRAWN" else ""
        raise BadForm(f"{at.id} has ended ({state}{by}): there is nothing left to steer; a follow-up goes on from it")
    return at, steering, present


def plan(visit: Visit) -> Response:
    """What a merge or a pull request would do, by a dry run of the command."""
    at, _, _ = _wanted(visit)
    name = visit.path["what"]
    words = {"merge": "merge", "pull-request": "pr"}.get(name)
    if words is None:
        raise NotHere("there is no such page")
    found, trouble = _dry_run(visit, at, words)
    shown: dict[str, Any] = {
        "found": found,
        "trouble": trouble,
        "most": SHOWN,
        "address": visit.site.address(at.context, at.id, "do", name),
    }
    return visit.show(f"steer/{name.replace('-', '_')}_plan.html", at=at, **shown)


def _dry_run(visit: Visit, at: JobContext, command: str) -> tuple[dict[str, Any], str]:
    """What a command says that it would do, and why it can't."""
    ended = visit.site.commands.run(at.context, [command, "--dry-run", "--json", at.id], PLAN_SECONDS)
    if ended is None:
        return {}, "git takes too long to say what would be done; try it in a terminal"
    last = next((line for line in reversed(ended.err.splitlines()) if line.strip()), "it ended without output")
    try:
        found = read_json(ended.out, LONGEST_PLAN) if ended.code == 0 else None
    except BadText:
        found = None
    return (found, "") if isinstance(found, dict) else ({}, last.removeprefix(PREFIX))


PAGES = (
    ("/r/{repository}/{job}/part/actions", ("GET",), bar),
    ("/r/{repository}/{job}/do/{what}", ("GET",), ask),
    ("/r/{repository}/{job}/do/{what}", ("POST",), do),
    ("/r/{repository}/{job}/do/{what}/plan", ("GET",), slow(plan)),
)
