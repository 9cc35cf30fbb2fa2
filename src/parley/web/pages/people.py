"""Who may open the page, for the user who runs it; and links that only show one job, for who decides in it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from parley.base.person_names import BadName, person_name
from parley.engine.values.people import DOES, May
from parley.web.safety.people_book import Pass
from parley.web.safety.sessions import ACCOUNT
from parley.web.visit import BadForm, NotHere, Visit, VisitRefused

DAY_SECONDS = 86_400
LASTS = {"1": "for a day", "7": "for 7 days", "30": "for 30 days", "365": "for a year", "": "until I take it back"}
SHARED = {"1": "for a day", "7": "for 7 days", "30": "for 30 days"}  # a link without a name always ends
RIGHTS = {
    May.SEE: "See: look at everything",
    May.ANSWER: "Answer: plain questions, advice, pause and go on",
    May.DECIDE: "Decide: verdicts, budgets, withdrawals, starting jobs",
}


# ---- people ----------------------------------------------------------------------------------------


def people(visit: Visit) -> Response:
    """Everyone who has a pass."""
    _require_account(visit)
    return visit.show("people.html", **_listed(visit))


def add(visit: Visit) -> Response:
    """Make a pass; its link is shown once."""
    _require_account(visit)
    try:
        name, may, days = person_name(visit.form.get("name", "")), _may(visit), _days(visit, LASTS)
    except (BadName, BadForm) as wrong:
        return visit.show("people.html", 400, **_listed(visit) | {"wrong": str(wrong)})
    if name.casefold() == visit.site.account.casefold():
        words = f"{name} is you; this browser has your link already"
        return visit.show("people.html", 400, **_listed(visit) | {"wrong": words})
    made, token = visit.site.people.add(name, may, seconds=days * DAY_SECONDS)
    link = f"{visit.site.origin}/?token={token}"
    return visit.show("people.html", **_listed(visit) | {"made": made, "link": link, "form": {}})


def remove(visit: Visit) -> Response:
    """Take a pass back: who holds it is out at once."""
    _require_account(visit)
    wanted = visit.form.get("pass", "")
    visit.site.people.remove(lambda one: one.id == wanted)
    return visit.go("/people")


def _listed(visit: Visit) -> dict[str, Any]:
    passes = visit.site.people.passes()
    return {
        "people": sorted((one for one in passes if one.person), key=lambda one: one.person.casefold()),
        "links": [(one, _shared_job(visit, one)) for one in passes if not one.person],
        "rights": RIGHTS,
        "does": DOES,
        "lasts": LASTS,
        "form": visit.form,
        "made": None,
        "link": "",
        "wrong": "",
    }


def _shared_job(visit: Visit, one: Pass) -> str:
    """Where the job of a link is; empty if that repository is not served now."""
    return f"/r/{one.repository}/{one.job}" if one.job and one.repository in visit.site.contexts else ""


def _require_account(visit: Visit) -> None:
    if visit.holder.id != ACCOUNT:
        raise VisitRefused(f"only {visit.site.account}, who runs this server, lets people in and out")


# ---- links that show one job -----------------------------------------------------------------------


def share(visit: Visit) -> Response:
    """The links of a job, and a form for another."""
    return visit.show("share.html", **_shared(visit))


def make_link(visit: Visit) -> Response:
    """Make a link that only shows this job; it is shown once."""
    values = _shared(visit)
    key, job = visit.path["repository"], visit.path["job"]
    try:
        days = _days(visit, SHARED)
    except BadForm as wrong:
        return visit.show("share.html", 400, **values | {"wrong": str(wrong)})
    made, token = visit.site.people.add("", May.SEE, seconds=days * DAY_SECONDS, repository=key, job=job)
    link = f"{visit.site.origin}/r/{key}/{job}?token={token}"
    return visit.show("share.html", **_shared(visit) | {"made": made, "link": link})


def take_back(visit: Visit) -> Response:
    """Take a link of this job back."""
    _shared(visit)
    key, job, wanted = visit.path["repository"], visit.path["job"], visit.form.get("pass", "")
    gone = visit.site.people.remove(lambda one: one.id == wanted and _is_of(one, key, job))
    if not gone:
        raise NotHere("that link was taken back before, or has expired")
    return visit.go(f"/r/{key}/{job}/share")


def _shared(visit: Visit) -> dict[str, Any]:
    at = visit.job()
    visit.require(May.DECIDE, at)
    key = visit.path["repository"]
    return {
        "base": f"/r/{key}/{at.id}",
        "row": at.row,
        "links": [one for one in visit.site.people.passes() if _is_of(one, key, at.id)],
        "lasts": SHARED,
        "made": None,
        "link": "",
        "wrong": "",
    }


def _is_of(one: Pass, repository: str, job: str) -> bool:
    """Whether a pass is a link without a name that shows this job."""
    return not one.person and (one.repository, one.job) == (repository, job)


# ---- the fields ------------------------------------------------------------------------------------


def _may(visit: Visit) -> May:
    word = visit.form.get("may", "")
    if word not in list(May):
        raise BadForm("say what they may do: see, answer or decide")
    return May(word)


def _days(visit: Visit, choices: dict[str, str]) -> int:
    word = visit.form.get("days", "")
    if word not in choices:
        raise BadForm("choose for how long")
    return int(word or 0)


PAGES = (
    ("/people", ("GET",), people),
    ("/people", ("POST",), add),
    ("/people/remove", ("POST",), remove),
    ("/r/{repository}/{job}/share", ("GET",), share),
    ("/r/{repository}/{job}/share", ("POST",), make_link),
    ("/r/{repository}/{job}/share/remove", ("POST",), take_back),
)
