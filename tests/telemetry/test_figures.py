"""The figures and the health of `parley serve`: who reads them, what they say, and what they never say."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from parley.engine.values.people import May
from parley.views.repository_context import repository_key
from parley.web.pages.metrics import FAMILIES
from parley.web.safety.people_book import PeopleBook, book_in
from tests.cli.home import LEADS, Home, wait_for
from tests.telemetry.prometheus_text import Family, parse
from tests.web.page_harness import Server, prepare_repository, serve
from tests.web.raw_http import Client

WORDS = "Pomegranate"


@dataclass
class Served:
    """A server of a repository with one job that waits for the human."""

    home: Home
    server: Server
    job: str
    book: PeopleBook

    @property
    def stranger(self) -> Client:
        return Client(self.server.address)

    @property
    def key(self) -> str:
        return repository_key(self.home.folder / ".parley")

    def figures(self, token: str = "") -> dict[str, Family]:
        found = self.stranger.get("/metrics", Authorization=f"Bearer {token or self.server.token}")
        assert found.status == 200, found
        assert found.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
        return parse(found.text)

    def value(self, name: str, **labels: str) -> float:
        return self.figures()[name].samples[tuple({"repository": self.key, **labels}.items())]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("figures")
    home = prepare_repository(folder / "project")
    home.environment["XDG_STATE_HOME"] = str(folder / "state")
    playbook = LEADS.replace("do: [", "do: [{usage: {input_tokens: 5, output_tokens: 2, cost: 0.5}}, ", 1)
    job = home.start(playbook.replace("right?", WORDS))
    with serve(home) as server:
        yield Served(home, server, job, book_in(folder / "state/parley"))


# ---- who reads them --------------------------------------------------------------------------------


def test_no_figure_is_told_without_a_token(served: Served) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {served.server.token}"},
        {"Authorization": served.server.token},
        {"Cookie": f"token={served.server.token}"},
    ):
        found = served.stranger.send("GET", "/metrics", None, headers)
        assert (found.status, found.header("www-authenticate")) == (401, "Bearer"), headers
        assert "parley_" not in found.text
    assert served.stranger.get(f"/metrics?token={served.server.token}").status == 401


def test_a_scrapers_token_reads_the_figures_and_opens_nothing_else(served: Served) -> None:
    done = served.home.run("people", "add", "prometheus", "--may", "metrics")
    assert done.code == 0, done
    token = done.out.splitlines()[1]
    assert f"{served.server.address}/metrics" in done.out

    assert served.figures(token)
    for path in (f"/?token={token}", f"/r/{served.key}/{served.job}?token={token}"):
        found = served.stranger.get(path)
        assert (found.status, found.header("set-cookie")) == (401, "")
    for path in ("/", "/people", "/events", f"/r/{served.key}/{served.job}"):
        assert served.stranger.get(path, Authorization=f"Bearer {token}").status == 401
    listed = served.home.run("people", "--json").document["people"]
    assert [(one["person"], one["may"]) for one in listed] == [("prometheus", "metrics")]
    assert "reads the figures" in served.home.run("people").out
    assert "reads the figures" in served.stranger.open(f"/?token={served.server.token}").get("/people").text
    served.home.run("people", "remove", "prometheus")
    assert served.stranger.get("/metrics", Authorization=f"Bearer {token}").status == 401


def test_a_person_reads_them_and_a_link_for_one_job_or_repository_does_not(served: Served) -> None:
    _, person = served.book.add("ann", May.SEE)
    _, link = served.book.add("", May.SEE, repository=served.key, job=served.job)
    _, partly = served.book.add("ben", May.DECIDE, repository=served.key)

    assert served.figures(person)
    assert served.stranger.open(f"/?token={person}").get("/metrics").status == 200
    for token in (link, partly):
        assert served.stranger.get("/metrics", Authorization=f"Bearer {token}").status == 401
    assert served.stranger.open(f"/r/{served.key}/{served.job}?token={link}").get("/metrics").status == 401


def test_a_cookie_made_for_a_scrapers_pass_opens_nothing(served: Served) -> None:
    """No such cookie is given out; should one be made, the pass still opens nothing."""
    made, _ = served.book.add("grafana", May.SEE, metrics=True)

    assert served.book.get(made.id) is None
    assert not made.opens(served.key, served.job)
    assert not made.opens(served.key)


# ---- what they say ---------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_bus(served: Served) -> None:
    found = served.figures()

    assert found.keys() == FAMILIES.keys()
    assert {name: one.kind for name, one in found.items()} == {name: one.kind for name, one in FAMILIES.items()}
    assert (served.value("parley_jobs", state="INTENT"), served.value("parley_jobs", state="DONE")) == (1, 0)
    assert (served.value("parley_needs", kind="gate"), served.value("parley_needs", kind="budget")) == (1, 0)
    assert (served.value("parley_waits", cause="human"), served.value("parley_waits", cause="provider")) == (1, 0)
    assert served.value("parley_turns_total") >= 1
    assert (served.value("parley_tokens_total"), served.value("parley_cost_usd_total")) == (7, 0.5)
    assert (served.value("parley_bus_up"), served.value("parley_agents_working")) == (1, 0)
    bus = served.home.folder / ".parley/bus.db"
    assert served.value("parley_bus_bytes") >= bus.stat().st_size
    assert found["process_resident_memory_bytes"].samples[()] > 1 << 20
    assert found["process_cpu_seconds_total"].samples[()] > 0


def test_the_figures_name_no_job_no_agent_no_person_and_no_word(served: Served) -> None:
    served.book.add("ann", May.SEE)
    text = served.stranger.get("/metrics", Authorization=f"Bearer {served.server.token}").text

    for hidden in (served.job, WORDS, "a request", "intent-lead", "ann", str(served.home.folder), "project"):
        assert hidden not in text, hidden


def test_an_open_stream_is_counted_until_it_ends(served: Served) -> None:
    def streams() -> float:
        return served.figures()["parley_event_streams"].samples[()]

    user = served.stranger.open(f"/?token={served.server.token}")
    wait_for(lambda: streams() == 0)
    with user.stream():
        wait_for(lambda: streams() == 1)
    wait_for(lambda: streams() == 0)


# ---- health ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token_and_obeys_the_host_check(served: Served, path: str) -> None:
    wait_for(lambda: served.stranger.get("/readyz").status == 200)
    found = served.stranger.get(path)

    assert (found.text, found.header("cache-control"), found.header("set-cookie")) == ("ok\n", "no-store", "")
    head = served.stranger.send("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert served.stranger.get(path, Host="evil.test").status == 403
    assert served.stranger.get(path, Origin="http://evil.test").status == 403
    assert served.stranger.post(path).status in (401, 404, 405)


def test_a_server_whose_engine_died_is_not_ready_until_it_runs_again(served: Served) -> None:
    wait_for(lambda: served.stranger.get("/readyz").status == 200)
    os.kill(engine_of(served), signal.SIGKILL)
    found = wait_for(lambda: (told := served.stranger.get("/readyz")).status == 503 and told)

    assert found.text == "not ready: a repository's engine does not run\n"
    assert served.stranger.get("/healthz").status == 200
    assert served.value("parley_engine_up") in (0, 1)
    wait_for(lambda: served.stranger.get("/readyz").status == 200)
    assert served.value("parley_engine_up") == 1


def engine_of(served: Served) -> int:
    """The process that runs the jobs."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"serve-engine" in words and parent == served.server.process.pid:
            return int(entry.name)
    raise AssertionError("the engine does not run")


def test_a_server_whose_bus_is_gone_is_not_ready(served: Served) -> None:
    state = served.home.folder / ".parley"
    aside = state.with_name(".parley-aside")
    state.rename(aside)
    try:
        wait_for(lambda: "bus can't be read" in served.stranger.get("/readyz").text)
        assert served.figures()["parley_bus_up"].samples[(("repository", served.key),)] == 0
    finally:
        aside.rename(state)
    wait_for(lambda: served.stranger.get("/readyz").status == 200)
    assert served.value("parley_bus_up") == 1
