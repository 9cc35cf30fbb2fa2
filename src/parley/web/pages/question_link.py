"""The page of a link that answers one question: it shows what is asked, and acts only when its form is sent."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from parley.actions.leave import Closed, give_answer
from parley.bus.rows import BusError
from parley.engine.values.permissions import needed
from parley.views.job_view import TERMINAL, Asked, moment
from parley.views.questions.answer_choices import AnswerChoice, choices
from parley.views.questions.needs import Need
from parley.views.questions.question_outcome import answered, fate
from parley.views.repository_context import JobContext, RepositoryContext
from parley.web.safety.people_book import Pass
from parley.web.safety.question_links import QuestionLink, read_link
from parley.web.templating import one_line
from parley.web.visit import BadForm, NotHere, Visit

LONGEST = 100_000  # characters of an answer


def show(visit: Visit) -> Response:
    """What is asked, and the ways to answer. Nothing happens by looking: programs follow links, too."""
    at, link, holder = _linked(visit)
    need = _open_question(at, link)
    if need is None or need.asked is None:
        return visit.show("question_closed.html", words=_became(at, link))
    return visit.show("question_link.html", **_asked(at, need, need.asked, holder))


def answer(visit: Visit) -> Response:
    """Answer the question, once, in the name of the person whom it was sent to."""
    at, link, holder = _linked(visit)
    need = _open_question(at, link)
    if need is None or need.asked is None:
        return visit.show("question_closed.html", 409, words=_became(at, link))
    asked, text = need.asked, visit.form.get("text", "").strip()
    chosen = visit.form.get("choice", "")
    choice = _ways(asked, holder).get(chosen)
    if choice is None:
        raise BadForm("choose one of the answers")
    if len(text) > LONGEST:
        raise BadForm(f"the words have {len(text)} characters, {LONGEST} at most")
    ends = choice.gives_up(asked)
    if ends and visit.form.get("sure") != chosen:  # who was asked about one way may have chosen another since
        written = {"sure": ends, "text": text, "choice": chosen}
        return visit.show("question_link.html", **_asked(at, need, asked, holder) | written)
    try:
        if choice.ruling is None and choice.option is None and not text:
            raise BadForm("an answer in words needs words")
        give_answer(at.context.store, asked, choice.ruling, text, link.person, choice.option)
    except Closed as closed:
        words = answered(at.id, asked.id, closed.earlier).words(moment) if closed.earlier else str(closed)
        return visit.show("question_closed.html", 409, words=words)
    visit.site.watcher.nudge()
    return visit.show("question_closed.html", words=f"Your answer is given: {choice.label}. You can close this page.")


def _linked(visit: Visit) -> tuple[JobContext, QuestionLink, Pass]:
    """The job that a link is about, what it is good for, and what its person may do now."""
    link, context, holder = _read(visit)
    try:
        context.store.load(link.job)
    except BusError as error:
        raise NotHere("the job that this link is about is gone") from error
    return JobContext(context.in_name_of(link.person), link.job), link, holder


def _read(visit: Visit) -> tuple[QuestionLink, RepositoryContext, Pass]:
    """What a link is good for, where, and by which pass: a person who was removed answers nothing any more."""
    link = read_link(visit.site.key, visit.path["token"])
    context = visit.site.contexts.get(link.repository) if link is not None else None
    if link is None or context is None or not context.exists():
        raise NotHere("this link opens nothing: it is too old, or was made elsewhere; `parley inbox` shows what waits")
    holder = visit.site.holder(link.person, link.repository, link.job)
    if holder is None:
        raise NotHere(f"this link opens nothing: {one_line(link.person)} may not open this page any more")
    return link, context, holder


def _ways(asked: Asked, holder: Pass) -> dict[str, AnswerChoice]:
    """The ways to answer that a person's pass allows."""
    return {key: way for key, way in choices(asked).items() if holder.may >= needed(way.as_input(asked), asked.put_as)}


def _open_question(at: JobContext, link: QuestionLink) -> Need | None:
    """The question, if it is open as it was put when the link was made, about the same content."""
    if at.row.state in TERMINAL:
        return None
    wanted = (link.question, link.framing, link.digest)
    found = [need for need in at.needs() if need.asked is not None]
    return next(
        (one for one in found if one.asked and (one.asked.id, one.asked.framing, one.asked.digest) == wanted), None
    )


def _became(at: JobContext, link: QuestionLink) -> str:
    """Why the link answers nothing any more."""
    if any(need.asked is not None and need.asked.id == link.question for need in at.needs()):
        return "The question was put anew since, about another content. A new notice has its link."
    found = fate(at.context.store, at.id, link.question)
    return f"{found.words(moment)}. This link answers nothing else." if found else "The question is closed."


def _asked(at: JobContext, need: Need, asked: Asked, holder: Pass) -> dict[str, Any]:
    return {
        "need": need,
        "asked": asked,
        "shown": at.context.exhibit(need),
        "choices": _ways(asked, holder),
        "request": at.row.request,
        "person": holder.person,
        "sure": "",
        "text": "",
        "choice": "",
    }


def _visitor(visit: Visit) -> str:
    """By what the visitor of a link is told from others: the link. NotHere if it opens nothing."""
    _read(visit)
    return f"link {visit.path['token']}"


def _public(page: Any) -> Any:
    """Mark a page that needs no cookie: its address is all that its visitor has, and is looked at before the form."""
    page.public = _visitor
    return page


PAGES = (("/answer/{token}", ("GET",), _public(show)), ("/answer/{token}", ("POST",), _public(answer)))
