"""What each visitor may see and do, over every address that the page has: a new one is tried by itself."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from parley.cli.common import account_name
from parley.engine.values.people import May
from parley.web.pages import PAGES
from parley.web.pages.steer import STEERING
from tests.cli.home import LEADS, Home, wait_for
from tests.web.page_harness import Server, question_of, serve, start_job
from tests.web.raw_http import Client, holder, key_of, own_home, owner, people_of_user, stranger

SECRET = "Xylophone-of-another-job"
SEE, ANSWER, DECIDE, ACCOUNT, LINK = "see", "answer", "decide", "the account", "the link itself"
# What each address demands of who looks at it. A new one has to be put here: until then its test fails.
TO_LOOK = {
    "/": SEE, "/part/jobs": SEE, "/part/costs": SEE, "/hosts": SEE, "/part/hosts": SEE, "/people": ACCOUNT,
    "/start": DECIDE, "/start/agents": DECIDE,
    "/answer/{token}": LINK, "/r/{repository}/{job}": SEE, "/r/{repository}/part/place": SEE,
    **{f"/r/{{repository}}/{{job}}/{name}": SEE for name in (
        "part/tree", "part/latest", "part/story", "part/delivery", "part/head", "conversation", "part/talk/earlier",
        "part/talk/new", "part/message/{number}", "part/turn/{turn}", "part/threads", "record", "part/steps",
        "part/audit", "record/export", "workflow", "part/workflow", "timeline", "part/timeline", "artifacts",
        "part/versions", "part/version", "part/actions", "q/{question}", "q/{question}/state", "q/{question}/next",
        "changes", "changes/files", "changes/file", "part/merges")},
    **{f"/r/{{repository}}/{{job}}/do/{name}": ANSWER for name in ("tell", "pause", "go-on")},
    **{f"/r/{{repository}}/{{job}}/do/{name}/plan": ANSWER for name in ("tell", "pause", "go-on")},
    **{f"/r/{{repository}}/{{job}}/do/{name}{plan}": DECIDE for name in (
        "raise", "withdraw", "name", "merge", "pull-request") for plan in ("", "/plan")},
    "/r/{repository}/{job}/share": DECIDE, "/r/{repository}/{job}/follow-up": DECIDE,
}  # fmt: skip
# What a person with a pass to answer may do in a job whose question is a gate.
FOR_ANSWERERS = {f"/r/{{repository}}/{{job}}/{name}" for name in ("do/tell", "do/pause", "do/go-on", "record/audit")}
REFUSED = {400, 401, 403, 404, 405, 409}


@dataclass
class Stage:
    """A server with two jobs that wait at a gate, and everyone who may visit it."""

    home: Home
    server: Server
    job: str
    other: str
    question: str
    framing: str
    visitors: dict[str, Client]

    def path(self, address: str, job: str) -> str:
        values = {"repository": key_of(self.home), "job": job, "question": self.question, "token": "x"}
        return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: values.get(found[1], "x"), address)

    def record(self) -> object:
        """All that could be changed: what was asked of jobs, the jobs, the people, the checkout."""
        with closing(sqlite3.connect(self.home.folder / ".parley" / "bus.db")) as bus:
            tables = [bus.execute(f"select count(*) from {name}").fetchone() for name in ("inputs", "jobs", "steps")]  # noqa: S608
        files = sorted(str(path) for path in self.home.folder.glob("*"))
        return tables, people_of_user(self.home).passes(), files


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Nothing runs the jobs: what a visitor leaves stays to be seen."""
    patched = pytest.MonkeyPatch()
    home = own_home(tmp_path_factory.mktemp("rights"))
    for name, value in home.environment.items():
        patched.setenv(name, value)
    patched.delenv("PARLEY_HOME", raising=False)
    job, other = start_job(home, LEADS, "a request"), start_job(home, LEADS, SECRET)
    key = key_of(home)
    with serve(home, "--only-look") as server:
        visitors = {
            "a stranger": stranger(server),
            "who only sees": holder(home, server, "seer", May.SEE),
            "a link for one job": holder(home, server, "", May.SEE, repository=key, job=job),
            "a link that was made to decide": holder(home, server, "", May.DECIDE),
            "who answers": holder(home, server, "answerer", May.ANSWER),
            "who decides in one job": holder(home, server, "scoped", May.DECIDE, repository=key, job=job),
            "another repository's": holder(home, server, "afar", May.DECIDE, repository="0" * 8),
        }
        question = question_of(home, job)
        page = owner(server).get(f"/r/{key}/{job}/q/{question}").text
        framing = re.search(r'name="framing"[^>]*value="([^"]*)"', page)
        assert framing, page
        yield Stage(home, server, job, other, question, framing[1], visitors)
    patched.undo()


def posts() -> list[str]:
    """Every address that takes a form; of one for several dialogs, each."""
    found = []
    for address, methods, page in PAGES:
        if "POST" in methods and not getattr(page, "public", False):
            found += [address.replace("{what}", what) for what in STEERING] if "{what}" in address else [address]
    return found


def gets() -> list[str]:
    """Every address that shows something."""
    found = []
    for address, methods, _ in PAGES:
        if "GET" in methods:
            found += [address.replace("{what}", what) for what in STEERING] if "{what}" in address else [address]
    return found


def forged(stage: Stage) -> dict[str, str]:
    """A form that fits every page, and says that it comes from somebody else."""
    user = account_name()
    return {
        "choice": "a", "sure": "yes", "text": "words", "name": "mallory", "may": "decide", "days": "7",
        "person": "mallory", "request": "start this", "repository": key_of(stage.home), "pass": "x",
        "budget": "turns=99", "framing": stage.framing, "when": "now", "authoritative": "yes", "by": user,
    }  # fmt: skip


@pytest.mark.parametrize("address", posts())
@pytest.mark.parametrize(
    "who",
    ["a stranger", "who only sees", "a link for one job", "a link that was made to decide", "another repository's"],
)
def test_who_may_only_look_changes_nothing(stage: Stage, who: str, address: str) -> None:
    before = stage.record()
    for job in (stage.job, stage.other):
        for headers in ({}, {"HX_Request": "true"}):
            sent = stage.visitors[who].post(stage.path(address, job), forged(stage), **headers)
            assert sent.status in REFUSED, sent.text
            assert "Traceback" not in sent.text

    assert stage.record() == before


@pytest.mark.parametrize("address", sorted(set(posts()) - FOR_ANSWERERS))
def test_who_may_answer_decides_nothing(stage: Stage, address: str) -> None:
    before = stage.record()
    sent = stage.visitors["who answers"].post(stage.path(address, stage.job), forged(stage), HX_Request="true")

    assert sent.status in REFUSED, sent.text
    assert stage.record() == before


@pytest.mark.parametrize("address", posts())
def test_who_decides_in_one_job_does_nothing_elsewhere(stage: Stage, address: str) -> None:
    before = stage.record()
    sent = stage.visitors["who decides in one job"].post(
        stage.path(address, stage.other), forged(stage), HX_Request="true"
    )

    assert sent.status in REFUSED, sent.text
    assert stage.record() == before


@pytest.mark.parametrize("who,may", [("who only sees", SEE), ("who answers", ANSWER)])
def test_every_address_demands_what_is_declared_of_it(stage: Stage, who: str, may: str) -> None:
    assert set(gets()) == set(TO_LOOK)
    order = [SEE, ANSWER, DECIDE, ACCOUNT]
    for address, needed in TO_LOOK.items():
        if needed == LINK:
            continue
        status = stage.visitors[who].get(stage.path(address, stage.job)).status
        assert (status == 403) == (order.index(may) < order.index(needed)), (address, status)


def test_every_address_that_is_no_page_is_known(stage: Stage) -> None:
    """What stands beside the pages shows nothing of a job to a stranger; the static files show nothing at all."""
    visitor = stage.visitors["a stranger"]
    for path, status in {
        "/events": 401,
        "/events/since?mark=": 401,
        "/parts?part=/&tag=": 401,
        "/metrics": 401,
        "/healthz": 200,
        "/readyz": 200,
        "/icon/3": 200,
    }.items():
        found = visitor.get(path)
        assert (found.status, SECRET in found.text, stage.job in found.text) == (status, False, False), path
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/", "/static/vendor"):
        assert visitor.get(path).status in (401, 404), path


def test_looking_changes_nothing(stage: Stage) -> None:
    user, before = owner(stage.server), stage.record()
    for address in gets():
        for method in ("GET", "HEAD"):
            found = user.send(method, stage.path(address, stage.job) + "?sure=yes&choice=a&text=x&may=decide")
            assert found.status < 500, (address, found.text)

    assert stage.record() == before
    assert "Traceback" not in stage.server.printed


@pytest.mark.parametrize("who", ["a link for one job", "who decides in one job", "another repository's", "a stranger"])
def test_nothing_of_another_job_is_shown(stage: Stage, who: str) -> None:
    client = stage.visitors[who]
    for address in gets():
        for job in {stage.job, stage.other} if "{job}" in address else {stage.job}:
            found = client.get(stage.path(address, job))
            assert SECRET not in found.text, address
            if job == stage.other:
                assert found.status in (401, 403, 404), address
                assert stage.other not in found.text, address


@pytest.mark.parametrize("who", ["a link for one job", "who decides in one job", "another repository's", "a stranger"])
def test_nothing_of_another_job_comes_with_several_parts_at_once(stage: Stage, who: str) -> None:
    for address in gets():
        asked = quote(stage.path(address, stage.other if "{job}" in address else stage.job), safe="")
        found = stage.visitors[who].get(f"/parts?part={asked}&tag=")
        assert SECRET not in found.text, address
        assert stage.other not in found.text, address


def test_only_the_parts_that_have_changed_come_and_odd_ones_are_left_out(stage: Stage) -> None:
    user, head = owner(stage.server), stage.path("/r/{repository}/{job}/part/head", stage.job)
    [(address, tag, text)] = json.loads(user.get(f"/parts?part={quote(head)}&tag=").text)

    assert (address, text) == (head, user.get(head).text)
    assert json.loads(user.get(f"/parts?part={quote(head)}&tag={quote(tag)}").text) == []
    export = stage.path("/r/{repository}/{job}/record/export", stage.job)  # no part, and a process
    for odd in (export, "//[", "/%00", "%2500", "/nowhere", "", "/events", "https://elsewhere.test/", "/parts"):
        assert json.loads(user.get(f"/parts?part={quote(odd)}&tag=").text) == [], odd
    assert user.get("/parts?part=/").status == 400
    assert user.get("/parts?" + "&".join(["part=/&tag="] * 100)).status == 400
    assert "Traceback" not in stage.server.printed


def test_who_may_see_all_sees_both_jobs(stage: Stage) -> None:
    for who in ("who only sees", "who answers"):
        assert SECRET in stage.visitors[who].get("/").text
        assert stage.visitors[who].get(stage.path("/r/{repository}/{job}", stage.other)).status == 200
    assert stage.visitors["a link for one job"].get(stage.path("/r/{repository}/{job}", stage.job)).status == 200


def test_a_link_for_one_job_hears_of_that_job_alone(stage: Stage) -> None:
    guest, user = stage.visitors["a link for one job"], owner(stage.server)
    mark = user.get("/events/since?mark=").text.partition('"mark":"')[2].partition('"')[0]
    with guest.stream() as narrow, user.stream() as wide:
        narrow.hear(b"event: hello")
        wide.hear(b"event: hello")
        for job in (stage.other, stage.job):
            assert stage.home.run("intervene", job, "look at this").code in (0, 4)
            wide.hear(job.encode())
        narrow.hear(stage.job.encode())

    assert stage.other.encode() not in narrow.heard
    missed = guest.get(f"/events/since?mark={mark}").text
    assert stage.job in missed
    assert stage.other not in missed
    assert stage.other in user.get(f"/events/since?mark={mark}").text


def test_a_guests_pages_offer_nothing_to_do(stage: Stage) -> None:
    guest = stage.visitors["a link for one job"]
    for address in gets():
        found = guest.get(stage.path(address, stage.job))
        if found.status == 200 and not address.startswith("/answer"):
            assert not re.search(r'(?i)method="post"|hx-post|/do/|/start"|/people"|/share"', found.text), address


def test_a_link_for_one_job_is_told_of_no_folder_of_the_users(stage: Stage) -> None:
    guest, user = stage.visitors["a link for one job"], owner(stage.server)
    bus, aside = stage.home.folder / ".parley" / "bus.db", stage.home.folder / ".parley" / "aside.db"
    bus.rename(aside)
    try:
        wait_for(lambda: str(stage.home.folder) in user.get("/").text)  # who sees all is told where
        shown = {address: guest.get(stage.path(address, stage.job)).text for address in gets()}
    finally:
        aside.rename(bus)
        wait_for(lambda: str(stage.home.folder) not in user.get("/").text)

    assert {address for address, text in shown.items() if str(stage.home.folder) in text} == set()
    assert any("can&#39;t be reached" in text for text in shown.values())
    assert "Traceback" not in stage.server.printed


def test_a_pass_that_is_made_less_counts_at_once(stage: Stage) -> None:
    shown = holder(stage.home, stage.server, "lessened", May.DECIDE)
    assert shown.get("/start").status == 200
    people_of_user(stage.home).add("lessened", May.SEE)

    assert shown.post("/start", forged(stage)).status == 401
