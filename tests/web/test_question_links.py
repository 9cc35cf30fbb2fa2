"""Links in notices that answer one question: once, as it was put, in one person's name, and by looking never."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from parley.cli.common import account_name
from parley.engine.values.people import May
from parley.ports.notices import PutQuestion
from parley.web.safety import question_links
from parley.web.safety.question_links import make_link, read_link
from tests.cli.home import LEADS, Home, wait_for
from tests.inbox.receiver import Receiver, http
from tests.web.page_harness import Server, question_of, serve, start_job
from tests.web.raw_http import Client, key_of, own_home, owner, people_of_user, state_folder, stranger

LINK = re.compile(r"http://127\.0\.0\.1:\d+(/answer/[\w-]+)")


@dataclass
class Sent:
    """A job whose question was told by a notice, with a link."""

    home: Home
    server: Server
    client: Client
    job: str
    path: str

    @property
    def key(self) -> bytes:
        return (state_folder(self.home) / "page-key").read_bytes()

    def other(self, **changed: str) -> str:
        """A link that this server has signed, for something else."""
        found = read_link(self.key, self.path.rpartition("/")[2])
        assert found is not None
        put = {"question": found.question, "framing": found.framing, "digest": found.digest, "person": found.person}
        return f"/answer/{make_link(self.key, found.repository, found.job, PutQuestion(**put | changed))}"

    def inputs(self) -> list[tuple[str, str]]:
        """What people have asked of all jobs: what, and who."""
        with closing(sqlite3.connect(self.home.folder / ".parley" / "bus.db")) as bus:
            return list(bus.execute("select kind, by from inputs"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A repository whose user wants notices."""
    made = own_home(tmp_path_factory.mktemp("links"))
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PARLEY_HOME", raising=False)
        for name, value in made.environment.items():
            patched.setenv(name, value)
        yield made


@pytest.fixture(scope="module")
def service(home: Home) -> Iterator[Receiver]:
    """Where the notices go."""
    with http() as receiver:
        settings = Path(home.environment["XDG_CONFIG_HOME"]) / "parley" / "parley.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[notify]\nto = "json://127.0.0.1:{receiver.port}/x"\n', encoding="utf-8")
        yield receiver


@pytest.fixture(scope="module")
def untold(home: Home, service: Receiver) -> str:
    """What a notice says of a question while no page is served."""
    start_job(home, LEADS, "before the page")
    wait_for(lambda: service.taken)
    return str(service.taken.pop()["message"])


@pytest.fixture(scope="module")
def server(home: Home, untold: str) -> Iterator[Server]:
    """One server for all tests here; it runs no job, so that what is left on the bus stays to be seen."""
    with serve(home, "--only-look") as made:
        yield made


def new_job(home: Home, server: Server, service: Receiver, *words: str) -> Sent:
    job = start_job(home, LEADS, "a request", *words)
    letter = wait_for(lambda: next((one for one in service.taken if job in one["message"]), None))
    found = LINK.search(letter["message"])
    assert found, letter
    assert found[0].startswith(server.address)
    return Sent(home, server, stranger(server), job, found[1])


@pytest.fixture
def sent(home: Home, server: Server, service: Receiver) -> Sent:
    """A new job, and the link that its notice has."""
    return new_job(home, server, service)


@pytest.fixture(scope="module")
def waiting(home: Home, server: Server, service: Receiver) -> Sent:
    """The same for the tests that give no answer."""
    return new_job(home, server, service)


def test_a_notice_has_a_link_only_while_a_page_is_served(untold: str, waiting: Sent) -> None:
    assert "/answer/" not in untold
    assert "http" not in untold
    log = waiting.home.job_file(waiting.job, "notices.jsonl")
    assert not log.exists() or "/answer/" not in log.read_text(encoding="utf-8")


def test_looking_at_a_link_answers_nothing_and_lets_nobody_in(waiting: Sent) -> None:
    before = waiting.inputs()
    shown = waiting.client.get(f"{waiting.path}?choice=a&sure=yes&text=x&token={waiting.server.token}")
    looks = [shown, waiting.client.send("HEAD", waiting.path), waiting.client.get(waiting.path, Sec_Purpose="prefetch")]

    assert [one.status for one in looks] == [200] * 3
    assert not any(one.header("set-cookie") for one in looks)
    assert "intent-lead" in shown.text
    assert waiting.server.token not in shown.text
    assert waiting.client.get("/").status == 401
    assert waiting.inputs() == before


def test_a_form_that_another_site_sends_answers_nothing(waiting: Sent) -> None:
    before = waiting.inputs()
    for headers in ({"Origin": "http://evil.test"}, {"Origin": "null"}, {"Origin": None}):
        assert waiting.client.post(waiting.path, {"choice": "a"}, **headers).status == 403

    assert waiting.inputs() == before


def test_a_link_answers_once_in_the_name_of_the_person_it_was_sent_to(sent: Sent) -> None:
    before = sent.inputs()
    given = sent.client.post(sent.path, {"choice": "a", "text": "fine", "by": "mallory", "person": "mallory"})

    assert given.status == 200
    assert "Your answer is given: approve" in given.text
    assert not given.header("set-cookie")
    assert sent.inputs() == [*before, ("answer", account_name())]
    again = sent.client.post(sent.path, {"choice": "r", "text": "no, change it"})
    assert (again.status, sent.inputs()[len(before) :]) == (409, [("answer", account_name())])
    assert account_name() in again.text
    assert sent.client.get(sent.path).status == 200

    assert sent.home.run("resume", sent.job).code == 4
    told = sent.home.run("log", sent.job, "--json").document
    said = [one for one in told["events"] if "fine" in str(one.get("text"))]
    assert account_name() in [one.get("by") for one in said], said
    follower = sent.client.post(sent.path, {"choice": "a"})
    assert follower.status == 409
    assert question_of(sent.home, sent.job)


def test_of_two_answers_at_once_one_counts(sent: Sent) -> None:
    before, statuses = len(sent.inputs()), list[int]()

    def give(choice: str) -> None:
        statuses.append(sent.client.post(sent.path, {"choice": choice, "text": "words"}).status)

    threads = [threading.Thread(target=give, args=(choice,)) for choice in "arar"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200, 409, 409, 409]
    assert len(sent.inputs()) == before + 1


def test_giving_up_asks_first(sent: Sent) -> None:
    before = sent.inputs()
    asked = sent.client.post(sent.path, {"choice": "w", "text": "no use"})

    assert asked.status == 200
    assert "for good" in asked.text
    assert 'name="sure" value="w"' in asked.text
    for unsure in ("yes", "a", ""):  # who was asked about one way, and then chooses another, is asked again
        assert "for good" in sent.client.post(sent.path, {"choice": "w", "text": "no use", "sure": unsure}).text
    assert sent.inputs() == before
    assert sent.client.post(sent.path, {"choice": "w", "text": "no use", "sure": "w"}).status == 200
    assert len(sent.inputs()) == len(before) + 1


@pytest.mark.parametrize("changed", ["framing", "digest", "question"])
def test_a_link_does_not_fit_a_question_that_was_put_anew(waiting: Sent, changed: str) -> None:
    before, path = waiting.inputs(), waiting.other(**{changed: "another"})

    assert 'name="choice"' not in waiting.client.get(path).text
    assert waiting.client.post(path, {"choice": "a"}).status == 409
    assert waiting.inputs() == before


def test_a_link_for_a_person_who_may_not_decide_in_the_job_decides_nothing(waiting: Sent) -> None:
    before = waiting.inputs()
    people_of_user(waiting.home).add("mallory", May.DECIDE)

    assert waiting.client.post(waiting.other(person="mallory"), {"choice": "a"}).status == 409
    assert waiting.inputs() == before


def test_a_link_answers_no_more_than_its_persons_pass_allows_now(home: Home, server: Server, service: Receiver) -> None:
    book = people_of_user(home)
    book.add("ann", May.DECIDE)
    sent = new_job(home, server, service, "--by", "ann")
    before = sent.inputs()
    assert sent.client.get(sent.path).text.count('name="choice"') >= 3

    book.add("ann", May.SEE)
    assert 'name="choice"' not in sent.client.get(sent.path).text
    assert sent.client.post(sent.path, {"choice": "a"}).status == 400

    book.remove(lambda one: one.person == "ann")
    for answer in (sent.client.get(sent.path), sent.client.post(sent.path, {"choice": "a"})):
        assert (answer.status, "ann may not open this page any more" in answer.text) == (404, True)
        assert "intent-lead" not in answer.text
    assert sent.inputs() == before

    book.add("ann", May.DECIDE)
    assert sent.client.post(sent.path, {"choice": "a"}).status == 200
    assert sent.inputs() == [*before, ("answer", "ann")]


def test_a_notice_about_the_job_of_a_person_who_was_removed_has_no_link(
    home: Home, server: Server, service: Receiver
) -> None:
    job = start_job(home, LEADS, "a request", "--by", "carl")
    letter = wait_for(lambda: next((one for one in service.taken if job in one["message"]), None))

    assert "/answer/" not in letter["message"]


def test_no_one_answers_by_a_link_while_the_peoples_file_can_not_be_trusted(waiting: Sent) -> None:
    people_of_user(waiting.home).add("dora", May.DECIDE)
    path = waiting.other(person="dora")
    book = state_folder(waiting.home) / "people.json"
    book.chmod(0o666)
    try:
        found = [waiting.client.get(path), waiting.client.post(path, {"choice": "a"})]
    finally:
        book.chmod(0o600)

    assert [(one.status, "people.json" in one.text) for one in found] == [(500, False)] * 2
    assert "Traceback" not in waiting.server.printed


def test_a_link_that_was_changed_expired_or_made_elsewhere_opens_nothing(
    waiting: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, token = waiting.inputs(), waiting.path.rpartition("/")[2]
    found = read_link(waiting.key, token)
    assert found is not None
    put = PutQuestion(found.question, found.framing, found.digest, found.person)
    elsewhere = make_link(b"k" * 32, found.repository, found.job, put)
    other_job = make_link(waiting.key, found.repository, "nothing", put)
    other_repository = make_link(waiting.key, "0" * 8, found.job, put)
    monkeypatch.setattr(question_links, "LASTS_SECONDS", -1)
    expired = make_link(waiting.key, found.repository, found.job, put)
    flipped = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in (0, 20, 50, len(token) - 8)]
    for wrong in (*flipped, token[:-4], token + "AAAA", "", "x", elsewhere, other_job, other_repository, expired):
        assert waiting.client.get(f"/answer/{wrong}").status in (401, 404), wrong
        assert waiting.client.post(f"/answer/{wrong}", {"choice": "a"}).status in (401, 404), wrong

    assert waiting.inputs() == before
    assert "Traceback" not in waiting.server.printed


def test_a_cookie_is_no_link_and_a_link_no_cookie(waiting: Sent) -> None:
    user, token = owner(waiting.server), waiting.path.rpartition("/")[2]

    assert stranger(waiting.server).get(f"/answer/{user.cookie.partition('=')[2]}").status == 404
    assert Client(waiting.server.address, f"parley-{user.port}={token}").get("/").status == 401
    assert stranger(waiting.server).get(f"/?token={token}").status == 401
    assert stranger(waiting.server).get(f"/r/{key_of(waiting.home)}/{waiting.job}").status == 401


def test_a_person_answers_by_the_link_in_a_browser(sent: Sent, phone: BrowserContext) -> None:
    page = phone.new_page()
    page.goto(f"{sent.server.address}{sent.path}")
    page.get_by_label("Your words").fill("go ahead")
    page.get_by_label("approve").check()
    page.get_by_role("button", name="Send the answer").click()

    expect(page.get_by_text("Your answer is given")).to_be_visible()
    assert phone.cookies() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
