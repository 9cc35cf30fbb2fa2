"""A question with all that helps to answer it, and the answer: by a verdict, a choice, words and comments on lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from starlette.responses import Response

from parley.base.options import HEADING
from parley.base.text import cut, safe_lines
from parley.base.wording import joined
from parley.engine.protocol_messages import review
from parley.engine.turn.gate import WORK
from parley.engine.values.people import May
from parley.engine.values.permissions import needed, objection
from parley.views.job_diffs import DiffOf
from parley.views.job_view import DAMAGE, TERMINAL, Asked, Present, moment
from parley.views.questions.answer_choices import AnswerChoice, choices
from parley.views.questions.gate_view import GatePage, RecalledDecision
from parley.views.questions.needs import Need, needs
from parley.views.questions.question_outcome import fate
from parley.views.repository_context import JobContext
from parley.web.doing import LONGEST_TEXT, ActionNote, named_first, people_here, settle, told, user_actions
from parley.web.file_rows import file_page
from parley.web.safety.people_book import Pass
from parley.web.visit import BadForm, NotHere, Visit, VisitRefused

MOST_LINES = 5_000  # of an artifact that can be commented on
LONGEST_LINE = 4_000  # characters of a line that are shown
MOST_NEXT = 5  # other questions that are named
MOST_JOBS = 50  # that are looked at for them


def show(visit: Visit) -> Response:
    """The question; or, where it is closed, what became of it."""
    at = visit.job()
    need = _open(at, visit.path["question"])
    page = at.context.gate(need) if need is not None else None
    if need is None or page is None:
        return _closed(visit, at)
    return visit.show("answer.html", **_shown(visit, at, need, page))


def _open(at: JobContext, question: str) -> Need | None:
    """The question, if it is open."""
    return next((need for need in at.needs() if need.asked is not None and need.asked.id == question), None)


def _shown(visit: Visit, at: JobContext, need: Need, page: GatePage) -> dict[str, Any]:
    base, asked = visit.site.address(at.context, at.id), page.asked
    content = page.exhibit.content
    present = at.present()
    ways = [(key, one, one.gives_up(asked)) for key, one in page.choices.items() if _may(visit, present, asked, one)]
    ways.sort(key=lambda way: bool(way[2]))  # what ends something comes last
    work = asked.artifact == WORK
    return {
        "at": at,
        "base": base,
        "row": present.row,
        "live": _live(visit, at),
        "address": f"{base}/q/{asked.id}",
        "need": need,
        "page": page,
        "recalled": recalled_for(visit.holder, page.proxy.recalled),
        "asked": asked,
        "words": asked.text.partition(HEADING)[0].strip(),  # the ways to answer stand beside it
        "effects": {option.name: option.then for option in asked.menu.options},
        "review": review(asked.state, asked.artifact),
        "ways": ways,
        "who": joined([f"{page.may_answer[0]}, who started the job,", *page.may_answer[1:]]),
        "draft": f"{visit.path['repository']}:{at.id}:{asked.id}",
        "lines": _lines(content) if content else [],
        "all_lines": len(content.splitlines()) if content else 0,
        "changed": _as_diff(asked.artifact, page.exhibit.changed or "") if page.exhibit.seen else "",
        "files": file_page(visit.changes(at, DiffOf(at.id)), DiffOf(at.id), base)
        if work and not asked.superseded
        else None,
        **_state(at, asked.id, need, asked.framing),
    }


def recalled_for(holder: Pass, recalled: tuple[RecalledDecision, ...]) -> tuple[RecalledDecision, ...]:
    """The decisions that the proxy was reminded of: made in other jobs, which a link for one job does not open."""
    return () if holder.job else recalled


def _may(visit: Visit, present: Present, asked: Asked, way: AnswerChoice) -> bool:
    """Whether the visitor may answer so: by their pass, and in this job."""
    given = way.as_input(asked)
    by_pass = bool(visit.person) and visit.holder.may >= needed(given, asked.put_as)
    return by_pass and not objection(people_here(visit, present), visit.person, given, asked.put_as)


def _lines(content: str) -> list[str]:
    """The lines that can be commented on, each as text in which nothing is hidden."""
    return [cut(line, LONGEST_LINE) for line in safe_lines(content).splitlines()[:MOST_LINES]]


def _as_diff(artifact: str, changed: str) -> str:
    """A diff with the head that a reader of diffs needs; of one artifact git's own is left out."""
    text = safe_lines(changed)
    head = f"diff --git a/{artifact} b/{artifact}\n--- a/{artifact}\n+++ b/{artifact}\n"
    return f"{head}{text}" if text.startswith("@@") else text


# ---- what becomes of it --------------------------------------------------------------------------------


def state(visit: Visit) -> Response:
    """Whether the question still waits as it was put when the page was made."""

    def make() -> Response:
        at, question = visit.job(), visit.path["question"]
        need, base = _open(at, question), visit.site.address(at.context, at.id)
        shown: dict[str, Any] = {"base": base, "address": f"{base}/q/{question}", "live": _live(visit, at)}
        found = _state(at, question, need, visit.query.get("framing", ""))
        return visit.show("part_question_state.html", **shown, **found)

    return visit.kept(make)


def _state(at: JobContext, question: str, need: Need | None, framing: str) -> dict[str, Any]:
    asked = need.asked if need is not None else None
    found = fate(at.context.store, at.id, question) if asked is None else None
    return {
        "framing": framing,
        "is_open": asked is not None and asked.framing == framing,
        "superseded": asked.superseded if asked is not None else "",
        "became": found.words(moment) if found is not None else "",
    }


def _closed(visit: Visit, at: JobContext) -> Response:
    """What became of a question, and what needs the visitor next."""
    question = visit.path["question"]
    found = fate(at.context.store, at.id, question)
    if found is None:
        raise NotHere(f"{at.id} has no question {cut(question, 40)!r}; its page lists what is open")
    base, mine = visit.site.address(at.context, at.id), f", by {at.context.by}"
    by_me = found.answered and found.how.endswith(mine)
    return visit.show(
        "answer_closed.html",
        at=at,
        base=base,
        row=at.row,
        live=_live(visit, at),
        address=f"{base}/q/{found.question}",
        words=f"You said {found.how.removesuffix(mine)} at {moment(found.time)}" if by_me else found.words(moment),
        draft=f"{visit.path['repository']}:{at.id}:{found.question}",
        mine=by_me,
        **_next(visit, at),
    )


def after(visit: Visit) -> Response:
    """What needs the visitor next, as it is now."""

    def make() -> Response:
        at = visit.job()
        base = visit.site.address(at.context, at.id)
        address = f"{base}/q/{visit.path['question']}"
        shown = _next(visit, at)
        return visit.show(
            "part_next.html", at=at, base=base, row=at.row, live=_live(visit, at), address=address, **shown
        )

    return visit.kept(make)


def _live(visit: Visit, at: JobContext) -> str:
    """What the parts of a job's pages listen for."""
    return f"job:{visit.path['repository']}:{at.id}"


def _next(visit: Visit, at: JobContext) -> dict[str, Any]:
    """The open questions of the same job, and the first of others."""
    here = [(need, _address(visit, at, need)) for need in at.needs() if need.asked is not None]
    others = []
    for other, need in _elsewhere(visit, at):
        others.append((need, _address(visit, other, need), other.row.request))
        if len(others) == MOST_NEXT:
            break
    return {"here": here, "others": others, "ended": at.row.state in TERMINAL}


def _address(visit: Visit, at: JobContext, need: Need) -> str:
    return visit.site.address(at.context, at.id, "q", need.asked.id if need.asked is not None else "")


def _elsewhere(visit: Visit, at: JobContext) -> Iterator[tuple[JobContext, Need]]:
    """Questions of other jobs that the visitor may answer."""
    looked = 0
    for key, context in visit.site.contexts.items():
        for seen in reversed(context.jobs() if context.exists() else []):
            if seen.job == at.id or not seen.waiting or not visit.holder.opens(key, seen.job) or looked == MOST_JOBS:
                continue
            looked += 1
            other = JobContext(context, seen.job)
            try:
                found: Iterable[Need] = needs(context.store, context.files, [other.row])
            except DAMAGE:
                continue
            yield from ((other, one) for one in found if one.asked is not None and visit.person in _who(one))


def _who(need: Need) -> tuple[str, ...]:
    return (need.decider, *need.others)


# ---- the answer ----------------------------------------------------------------------------------------


def answer(visit: Visit) -> Response:
    """Give the answer, once. Where that is not possible, the page keeps what was written."""
    at, question = visit.job(), visit.path["question"]
    visit.require(May.ANSWER, at)
    here = visit.site.address(at.context, at.id, "q", question)
    need = _open(at, question)
    if need is None or need.asked is None:
        found = fate(at.context.store, at.id, question)
        words = f"too late: {found.words(moment)}" if found else "there is no such question"
        return told(visit, ActionNote(words, bad=True), here)
    asked = need.asked
    if asked.framing != visit.form.get("framing", ""):
        return told(
            visit, ActionNote("the question was put anew meanwhile: look at it again, then answer", bad=True), here
        )
    way = choices(asked).get(visit.form.get("choice", ""))
    if way is None:
        raise BadForm("choose one of the answers")
    if not _may(visit, at.present(), asked, way):
        visit.require(needed(way.as_input(asked), asked.put_as), at)
        raise VisitRefused(f"{visit.person} may not answer so in {at.id}: who started it can name you (parley allow)")
    ends = way.gives_up(asked)
    if ends and visit.form.get("sure") != "yes":
        return told(visit, ActionNote(f"this would {ends}: confirm it first", bad=True), here)
    text = _words(visit)
    named_first(visit, at)
    actions = user_actions()
    note = settle(visit, actions, actions.answer(at, asked, way.ruling, way.option, text))
    if note.bad:
        return told(visit, note, here)
    if not visit.part:
        return visit.go(here)
    response = told(visit, note, here)
    response.headers["hx-redirect"] = here
    return response


def _words(visit: Visit) -> str:
    """What the person wrote, with the comments on lines below, a paragraph each."""
    parts = [visit.form.get("text", "").strip(), visit.form.get("comments", "").strip()]
    text = "\n\n".join(part for part in parts if part)
    if len(text) > LONGEST_TEXT:
        raise BadForm(f"the words and comments have {len(text)} characters, {LONGEST_TEXT} at most")
    return text


PAGES = (
    ("/r/{repository}/{job}/q/{question}", ("GET",), show),
    ("/r/{repository}/{job}/q/{question}", ("POST",), answer),
    ("/r/{repository}/{job}/q/{question}/state", ("GET",), state),
    ("/r/{repository}/{job}/q/{question}/next", ("GET",), after),
)
