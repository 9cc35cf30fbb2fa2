"""Starting a job: a form that says what `parley run` is told, and the same for a follow-up of a finished job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from parley.base.json_codec import Unreadable, decode
from parley.base.person_names import BadName, person_name
from parley.base.text import cut
from parley.engine.values.people import May
from parley.ports.turns import SCRIPTED
from parley.protocol.states import LIVE
from parley.settings.schema import JOB_BUDGETS, POLICIES
from parley.views.job_view import TERMINAL
from parley.views.repository_context import CommandEnd, JobContext, RepositoryContext
from parley.web.pages.costs import contexts_of
from parley.web.request_files import with_files
from parley.web.visit import BadForm, NotHere, Visit, VisitRefused

LONGEST_FIELD = 400  # characters of a field that is one line
STATES = tuple(state.value.lower() for state in LIVE)
ASKED = {"always": "always ask", "when_unsure": "ask when unsure", "never": "never ask"}
BUDGETS = {
    "turns": ("Turns", "40"),
    "money": ("Dollars", "5"),
    "tokens": ("Tokens", "2M"),
    "minutes": ("Minutes", "90"),
    "parallel": ("Agents at once", "4"),
}
NO_WORKFLOW, DESIGNED, FROM_FILE = "", "design", "file"


class _Started(Struct):
    """What `parley run --detach --json` says of the new job."""

    id: str


@dataclass(frozen=True, slots=True)
class StartForm:
    """Where a job is to be started, and which job it follows, if any."""

    key: str
    context: RepositoryContext
    former: JobContext | None = None

    @property
    def address(self) -> str:
        """Where the form is."""
        return f"/r/{self.key}/{self.former.id}/follow-up" if self.former else "/start"


# ---- the pages -------------------------------------------------------------------------------------


def form(visit: Visit) -> Response:
    """The empty form."""
    return _shown(visit, _place(visit, visit.query.get("in", "")))


def start(visit: Visit) -> Response:
    """Start the job, and go to its page; or say at the form what is wrong."""
    return _started(visit, _place(visit, visit.form.get("repository", "")))


def follow_up_form(visit: Visit) -> Response:
    """The empty form for a follow-up."""
    return _shown(visit, _following(visit))


def follow_up(visit: Visit) -> Response:
    """Start the follow-up, and go to its page."""
    return _started(visit, _following(visit))


def agents_part(visit: Visit) -> Response:
    """The choice of agents, for another repository."""
    place = _place(visit, visit.query.get("repository", ""))
    return visit.show("part_agents.html", **_agents(place.context), form={})


# ---- where -----------------------------------------------------------------------------------------


def _place(visit: Visit, wanted: str) -> StartForm:
    """The repository that was chosen; without a choice, the first."""
    _require_start(visit)
    contexts = contexts_of(visit)
    if not contexts:
        raise NotHere("this server shows no repository in which you could start a job")
    if wanted and wanted not in contexts:
        raise NotHere("there is no such repository here; choose one of those in the form")
    key = wanted or next(iter(contexts))
    return StartForm(key, contexts[key])


def _following(visit: Visit) -> StartForm:
    at = visit.job()
    _require_start(visit)
    if at.row.state not in TERMINAL:
        raise VisitRefused(f"{at.id} is not finished ({at.row.state}); tell it more on its page instead")
    return StartForm(visit.path["repository"], visit.repository(), at)


def _require_start(visit: Visit) -> None:
    visit.require(May.DECIDE)
    if visit.holder.job:
        raise VisitRefused("your link opens one job; who runs this server can give you one with which you start others")


# ---- the form --------------------------------------------------------------------------------------


def _shown(visit: Visit, place: StartForm, wrong: str = "") -> Response:
    guest = visit.person != visit.site.account
    return visit.show(
        "start.html",
        400 if wrong else 200,
        place=place,
        former=place.former.row if place.former else None,
        repositories={key: context.title for key, context in contexts_of(visit).items()},
        states=STATES,
        policies={name: ASKED[name] for name in reversed(POLICIES)},
        budgets={name: BUDGETS[name] for name in JOB_BUDGETS},
        form={"decider": visit.site.account if guest else "", **visit.form},
        wrong=wrong,
        **_agents(place.context),
    )


def _agents(context: RepositoryContext) -> dict[str, Any]:
    agents = context.agents()
    usable = [name for name, problem in agents if not problem]
    real = [name for name in usable if name != SCRIPTED]
    return {"agents": agents, "usual_agent": next(iter(real or usable), ""), "scripted": SCRIPTED}


def _started(visit: Visit, place: StartForm) -> Response:
    try:
        words, request = list(_words(visit, place)), _request(visit, place)
        ended = place.context.run_to_end([*words, *(["--file=-"] if request else [])], request)
        job = _new_job(ended)
    except BadForm as wrong:
        if visit.part:
            raise
        return _shown(visit, place, str(wrong))
    visit.site.watcher.nudge()
    visit.site.start_notes.keep(visit.holder.id, place.key, job, ended)
    address = f"/r/{place.key}/{job}"
    return Response(status_code=204, headers={"HX-Redirect": address}) if visit.part else visit.go(address)


def _new_job(ended: CommandEnd) -> str:
    if ended.code:
        raise BadForm(ended.error)
    try:
        return decode(ended.out, _Started).id
    except Unreadable as error:
        raise BadForm("the job was started, but its id can't be read; the first page lists it") from error


# ---- what the command is told ----------------------------------------------------------------------


def _request(visit: Visit, place: StartForm) -> str:
    """The request with its files; empty where a workflow's own goal is the request."""
    said = visit.form.get("request", "")
    if not said.strip():
        if visit.form.get("workflow") == FROM_FILE and not place.former and not visit.uploads.get("files"):
            return ""
        raise BadForm("the request is empty; say in a few words what is to be done")
    return with_files(said, visit.uploads.get("files", []))


def _words(visit: Visit, place: StartForm) -> Iterator[str]:
    """The words of the command. A value is never a word of its own, so that none is taken for an option."""
    yield from ("continue", place.former.id) if place.former else ("run",)
    yield from ("--detach", "--json", f"--by={visit.person}")
    for name in ("agent", "model"):
        if value := _line(visit, name):
            yield f"--{name}={value}"
    if visit.form.get("agent") == SCRIPTED and (path := _line(visit, "playbook")):
        yield f"--playbook={_path(visit, place, path)}"
    for state in STATES:
        if policy := _line(visit, f"policy-{state}"):
            yield f"--policy={state}={policy}"
    for name in JOB_BUDGETS:
        if amount := _line(visit, f"budget-{name}"):
            yield f"--budget={name}={_amount(name, amount)}"
    if not place.former:
        yield from _workflow(visit, place)
    for option in ("decider", "answerer"):
        yield from (f"--{option}={name}" for name in _names(visit, option))


def _workflow(visit: Visit, place: StartForm) -> Iterator[str]:
    chosen = visit.form.get("workflow", NO_WORKFLOW)
    if chosen == DESIGNED:
        yield "--workflow="
    elif chosen == FROM_FILE:
        path = _line(visit, "workflow-file")
        if not path:
            raise BadForm("name the file or folder that the workflow begins from")
        yield f"--workflow={_path(visit, place, path)}"


def _line(visit: Visit, name: str) -> str:
    """A field of one line."""
    value = visit.form.get(name, "").strip()
    if len(value) > LONGEST_FIELD or not value.isprintable():
        raise BadForm(f"{name}: write one line of {LONGEST_FIELD} characters at most")
    return value


def _amount(name: str, amount: str) -> str:
    if "," in amount:  # it would be another budget
        raise BadForm(f"{BUDGETS[name][0].lower()}: write a number such as {BUDGETS[name][1]}")
    return amount


def _names(visit: Visit, option: str) -> Iterator[str]:
    for word in _line(visit, option).split(","):
        if not word.strip():
            continue
        try:
            name = person_name(word)
        except BadName as error:
            raise BadForm(str(error)) from error
        if name != visit.person:
            yield name


def _path(visit: Visit, place: StartForm, word: str) -> str:
    """A path of the repository's files. Only the user whose account it is may name another: git's, or Parley's own."""
    root = Path(place.context.root)
    try:
        path = root / word
        found, own = path.resolve(), (root.resolve() / ".git", Path(place.context.home).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise BadForm(f"{cut(word, 60)}: this can't be a file's name") from error
    inside = found.is_relative_to(root.resolve()) and not any(found.is_relative_to(folder) for folder in own)
    if not inside and visit.person != visit.site.account:
        raise BadForm(f"{cut(word, 60)}: name a file in the repository; others are not yours to read")
    return str(path)


PAGES = (
    ("/start", ("GET",), form),
    ("/start", ("POST",), start),
    ("/start/agents", ("GET",), agents_part),
    ("/r/{repository}/{job}/follow-up", ("GET",), follow_up_form),
    ("/r/{repository}/{job}/follow-up", ("POST",), follow_up),
)
