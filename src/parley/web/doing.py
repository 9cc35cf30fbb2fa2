"""What every page does when a visitor acts: the action in their name, and its result as one note."""

from __future__ import annotations

import json
import threading
import time
from typing import NamedTuple

from starlette.responses import Response

from parley.actions.leave import find_input, leave
from parley.actions.user_actions import NotDone, UserActions
from parley.base.text import cut
from parley.engine.values.human_inputs import NameInput, is_in_vain, note_words
from parley.engine.values.people import May, People
from parley.views.job_view import TERMINAL, Present
from parley.views.repository_context import JobContext
from parley.web.live.events import RECORD
from parley.web.templating import one_line
from parley.web.visit import BadForm, Visit, VisitRefused

SETTLE_SECONDS = 8.0  # that a page waits for the result of an action before it says that it is under way
NAMING_SECONDS = 15.0  # that a job's owner gets to take a naming
POLL_SECONDS = 0.03
LINGER_SECONDS = 600.0  # that a command is followed after its page was answered
LONGEST_TEXT = 100_000  # characters of what a person says
LONGEST_NOTE = 1_000
GOING_ON = "“Go on” resumes it"


class ActionNote(NamedTuple):
    """What became of an action, in one line."""

    words: str
    bad: bool = False


def user_actions() -> UserActions:
    """The actions of one request."""
    return UserActions(GOING_ON)


def settle(visit: Visit, actions: UserActions, first: str, seconds: float = SETTLE_SECONDS) -> ActionNote:
    """Wait for the result of what was begun, for a while: the last note. What takes longer goes on by itself."""
    visit.site.watcher.nudge()
    last, deadline = first, time.monotonic() + seconds
    while actions.pending and time.monotonic() < deadline:
        last = next(reversed(actions.news()), last)
        if actions.pending:
            time.sleep(POLL_SECONDS)
    if actions.pending:
        threading.Thread(target=_linger, args=(actions,), name="action", daemon=True).start()
    visit.site.watcher.nudge()
    if (job := visit.path.get("job")) and not actions.pending:
        # a merge changes the checkout, and nothing on the bus
        visit.site.hub.publish([(visit.path["repository"], job, RECORD)])
    return ActionNote(last, isinstance(last, NotDone))


def _linger(actions: UserActions) -> None:
    """Follow what goes on, so that its processes end."""
    deadline = time.monotonic() + LINGER_SECONDS
    while actions.pending and time.monotonic() < deadline:
        actions.news()
        time.sleep(1.0)


def told(visit: Visit, note: ActionNote, back: str) -> Response:
    """Tell a note: where a part was asked for, beside it or in place of it; else on the page that comes next."""
    if not visit.part:
        if note.bad:
            raise BadForm(note.words)
        return visit.go(back)
    if note.bad:
        return visit.show("part_trouble.html", words=note.words)
    return noted(Response(b"", media_type="text/html"), note)


def noted(response: Response, note: ActionNote) -> Response:
    """A response with a note that the page shows."""
    words = cut(one_line(note.words), LONGEST_NOTE)
    response.headers["hx-trigger"] = json.dumps({"note": {"words": words, "bad": note.bad}})
    return response


def text_of(visit: Visit, field: str = "text") -> str:
    """What a person has written, within the limit that every face has."""
    text = visit.form.get(field, "").strip()
    if len(text) > LONGEST_TEXT:
        raise BadForm(f"the words have {len(text)} characters, {LONGEST_TEXT} at most")
    return text


def people_here(visit: Visit, present: Present) -> People:
    """Who may do what in a job, with the visitor as they would be named first."""
    people = present.people
    if not _is_named_by_pass(visit, present):
        return people
    named = {**people.named, visit.person: visit.holder.may}
    return People(decider=people.decider, named=named, stand_ins=people.stand_ins)


def _is_named_by_pass(visit: Visit, present: Present) -> bool:
    """Whether a pass of the server's user is all that says what the visitor may do in a job of that user's."""
    people, person = present.people, visit.person
    known = person in ("", visit.site.account) or person in people.named
    return not known and visit.holder.may is not May.SEE and people.decider == visit.site.account


def named_first(visit: Visit, at: JobContext) -> None:
    """Have the server's user name the visitor in a job of theirs, where a pass says so and the job does not yet.

    The job's own record has to say what each person may do: so this goes before what the visitor asks for.
    """
    person, account = visit.person, visit.site.account
    present = at.present()
    if not _is_named_by_pass(visit, present) or present.row.state in TERMINAL:
        return
    key = f"{NameInput.kind}:{account}:{person}:{time.time_ns()}"
    leave(at.context.store, at.id, key, NameInput(person=person, may=visit.holder.may), by=account)
    visit.site.watcher.nudge()
    deadline = time.monotonic() + NAMING_SECONDS
    while time.monotonic() < deadline:
        row = find_input(at.context.store, at.id, key)
        if row is not None and row.taken:
            if is_in_vain(row):
                raise VisitRefused(f"{at.id}: {note_words(row)}")
            return
        time.sleep(POLL_SECONDS)
    raise VisitRefused(f"{at.id}: no process has taken your naming yet; try again when one works on it")
