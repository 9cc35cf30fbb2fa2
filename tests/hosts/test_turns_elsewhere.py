"""Jobs whose turns run on other hosts: by the real command line, on real PostgreSQL, placed by the real Temporal."""

import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from parley import __version__
from parley.hosts.board import PROTOCOL, Board
from parley.hosts.board_link import BoardLink
from tests.cli.home import APPROVES, turn_processes, wait_for
from tests.hosts.many_hosts import LOST_SECONDS, ROLE, ManyHosts, TemporalServer
from tests.postgres_server import Server
from tests.workspaces.user_repository import git

KEY = "sk-ant-a-key-that-stays-on-its-host"
PROMPT, CONTENT, SAID = "the words of the request", "what the coder wrote", "the words of an answer"
# Two agents below the lead: one on any host, one on those with a label. Calls of all kinds, files both ways, a merge.
TEAM = rf"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {{write: {{path: INTENT.md, text: "intent"}}}}
        - {{send: {{to: project-lead, text: "refused at once"}}}}
        - {{assert: {{artifact: INTENT.md, text: "right?"}}}}
    - {{match: '\[ANSWER approve\]', do: [{{outcome: {{outcome: APPROVED_INTENT, reason: "clear"}}}}]}}
  project-lead:
    - match: '\[PLAN\]'
      do: [{{write: {{path: PLAN.md, text: "plan"}}}}, {{assert: {{artifact: PLAN.md, text: "sound?"}}}}]
    - {{match: '\[ANSWER approve\]', state: PLAN, do: [{{outcome: {{outcome: APPROVED_PLAN, reason: ok}}}}]}}
    - match: '\[EXECUTE\]'
      do:
        - {{write: {{path: sent.txt, text: "sent along"}}}}
        - {{send: {{to: coder, as: c, text: "code it"}}}}
        - {{send: {{to: tester, as: t, text: "test it"}}}}
    - {{match: 'done', do: []}}
    - match: 'done'
      do:
        - {{close: {{thread: c}}}}
        - {{close: {{thread: t}}}}
        - {{write: {{path: WORK_SUMMARY.md, text: "work"}}}}
        - {{assert: {{artifact: WORK_SUMMARY.md, text: "done?"}}}}
    - {{match: '\[ANSWER approve\]', state: EXECUTE, do: [{{outcome: {{outcome: APPROVED_WORK, reason: "good"}}}}]}}
  coder:
    - {{match: 'code', do: [{{write: {{path: code.txt, text: "{CONTENT}"}}}}, {{say: "done, {SAID}"}}]}}
  tester:
    - {{match: 'test', do: [{{write: {{path: tests.txt, text: "tests"}}}}, {{say: "done too"}}]}}
"""
# An agent at work for a while, and a question when it has reported: for all that can happen to its host meanwhile.
AT_WORK = r"""
agents:
  intent-lead:
    - {match: '\[INTENT\]', do: [{send: {to: researcher, as: r, text: "look"}}]}
    - {match: 'seen', do: [{ask: {text: "what now?"}}]}
  researcher:
    - {match: 'look', repeat: true, do: [{write: {path: begun.txt, text: "1"}}, {sleep: 4}, {say: "seen"}]}
"""
# At work until something else ends it.
FOR_LONG = AT_WORK.replace("sleep: 4", "sleep: 600")


@pytest.fixture(scope="module")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    server = TemporalServer(tmp_path_factory.mktemp("temporal"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, server: Server, temporal: TemporalServer) -> Iterator[ManyHosts]:
    with closing(ManyHosts(tmp_path_factory.mktemp("hosts"), server, temporal)) as found:
        assert found.hosts() == []
        found.start_worker("one", "--slots", "1")
        found.start_worker("two", "--slots", "1")
        found.start_worker("big", "--label", "big", ANTHROPIC_API_KEY=KEY)
        for name in ("one", "two", "big"):
            found.wait_for_host(name)
        yield found


@pytest.fixture(scope="module")
def finished(scene: ManyHosts) -> str:
    """A job that ran from its request to its end."""
    done = scene.run_job(TEAM + APPROVES, PROMPT)
    assert done.code == 0, done
    return str(done.document["id"])


# ---- a job from its request to its end -------------------------------------------------------------


def test_a_whole_job_runs_on_other_hosts_and_its_record_says_where(scene: ManyHosts, finished: str) -> None:
    shown = scene.home.run("show", finished, "--json").document
    assert shown["state"] == "DONE"
    files = {change["path"] for change in shown["delivery"]["changes"]}
    assert files == {"code.txt", "tests.txt", "sent.txt"}
    audit = scene.home.run("audit", finished)
    assert audit.code == 0, audit
    assert "were behind a boundary that held" in audit.out

    ran = scene.ran_on(finished)
    assert len(ran) == shown["cost"]["turns"], "every turn"
    assert set(ran.values()) <= {"one", "two", "big"}
    assert "big" in scene.ran_on(finished, agent="tester").values()
    assert set(scene.ran_on(finished, agent="tester").values()) == {"big"}, "its label is on no other host"
    refused = [line for line in scene.streamed(finished) if line["event"] == "refused"]
    assert "project-lead" in refused[0]["why"], "a call is refused at once, as on one machine"


def test_the_hosts_are_listed_with_what_they_offer(scene: ManyHosts, finished: str) -> None:
    hosts = {host["name"]: host for host in scene.hosts()}

    assert {(host["name"], host["slots"], host["state"]) for host in hosts.values()} == {
        ("one", 1, "alive"), ("two", 1, "alive"), ("big", 4, "alive"),
    }  # fmt: skip
    assert hosts["big"]["labels"] == ["big"]
    assert "escapes held" in hosts["one"]["boundary"]
    assert "big                  alive     0 of 4 slots  big" in scene.home.run("hosts").out


def test_nothing_but_ids_passes_through_temporal(scene: ManyHosts, finished: str) -> None:
    with closing(sqlite3.connect(f"file:{scene.temporal.database}?mode=ro", uri=True)) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        held = b"\n".join(
            _bytes(value)
            for table in tables
            for row in database.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - names of the database's own
            for value in row
        )

    assert finished.encode() in held, "it was looked where its turns are"
    token = re.compile(rb"t\d+\.\d+\.[0-9a-f]{16}")
    for secret in (
        PROMPT,
        CONTENT,
        SAID,
        KEY,
        "code it",
        "INTENT.md",
        str(scene.base),
        str(scene.remote),
        "/src/parley",
    ):
        assert secret.encode() not in held, secret
    assert token.search(held) is None


def test_no_key_of_a_host_and_no_word_of_an_ended_turn_stays_on_the_board(scene: ManyHosts, finished: str) -> None:
    with psycopg.connect(scene.server.url) as connection:
        schema = scene.schema
        held = "\n".join(
            str(row)
            for table in ("hosts", "orders", "events", "replies", "meta")
            for row in connection.execute(f"SELECT * FROM {schema}.board_{table}")  # noqa: S608 - names of our own
        )

    assert finished in held
    for secret in (KEY, PROMPT, CONTENT, SAID):
        assert secret not in held


def test_gc_deletes_what_the_remote_has_of_a_job(scene: ManyHosts) -> None:
    done = scene.run_job("agents:\n  intent-lead:\n    - {match: 'INTENT', do: [{ask: {text: 'what now?'}}]}\n")
    job = done.document["id"]
    assert scene.home.run("withdraw", job, "--yes").code == 0
    assert f"/{job}/" in git(scene.remote, "for-each-ref")

    done = scene.home.run("gc", job, "--unmerged")

    assert done.code == 0, done
    assert f"/{job}/" not in git(scene.remote, "for-each-ref")


# ---- what happens to hosts while they are at work --------------------------------------------------


def check_effects(scene: ManyHosts, job: str, *, lost: int) -> None:
    """The agent's report arrived once, so many turns were lost, no process is left, and the record is sound."""
    reports = [row[9].splitlines()[-1] for row in scene.rows(job, "messages") if row[9].startswith("[REPORT]")]
    assert reports == ["seen"]
    assert scene.rules(job).count("recover") == lost
    audit = scene.home.run("audit", job)
    assert audit.code == 0, audit
    wait_for(lambda: not turn_processes(job))


def test_a_worker_that_is_killed_loses_its_turn_and_another_host_takes_it_over(scene: ManyHosts) -> None:
    with scene.running_job(AT_WORK) as running:
        turn, host = running.at_work()
        scene.workers[host].kill()
        wait_for(lambda: not turn_processes(running.job, turn))
        running.wait_for_question()

    check_effects(scene, running.job, lost=1)
    assert scene.host(host)["state"] == "lost"
    scene.start_worker(host, "--slots", "1")
    scene.wait_for_host(host)


def test_a_frozen_host_is_taken_over_and_what_it_says_when_it_thaws_matches_nothing(scene: ManyHosts) -> None:
    with scene.running_job(AT_WORK) as running:
        turn, host = running.at_work()
        scene.workers[host].signal(signal.SIGSTOP)
        try:
            running.wait_for_question()
        finally:
            scene.workers[host].signal(signal.SIGCONT)
        wait_for(lambda: not turn_processes(running.job, turn))
        wait_for(lambda: scene.host(host)["state"] == "alive")

    check_effects(scene, running.job, lost=1)


def test_temporal_may_be_killed_and_lose_all_that_it_knows(scene: ManyHosts) -> None:
    with scene.running_job(AT_WORK) as running:
        running.at_work()
        scene.temporal.kill()
        scene.temporal.forget()
        scene.temporal.start()
        running.wait_for_question()

    check_effects(scene, running.job, lost=0)


def test_postgresql_may_be_killed_while_turns_run(scene: ManyHosts) -> None:
    with scene.running_job(AT_WORK) as running:
        running.at_work()
        scene.server.kill()
        scene.server.start()
        running.wait_for_question()

    check_effects(scene, running.job, lost=0)


def test_a_worker_that_ends_hands_its_turn_back_and_it_goes_on_elsewhere(scene: ManyHosts) -> None:
    with scene.running_job(FOR_LONG) as running:
        turn, host = running.at_work()
        worker = scene.workers[host]
        worker.signal(signal.SIGTERM)
        wait_for(lambda: scene.host(host)["state"] == "draining")
        assert turn_processes(running.job, turn), "it may end by itself"
        worker.signal(signal.SIGTERM)  # the second one: now
        assert worker.process.wait(20) == 0, worker.said()
        assert not turn_processes(running.job, turn)
        assert scene.host(host)["state"] == "ended"
        assert running.at_work()[1] != host
        assert scene.home.run("withdraw", running.job, "--yes").code == 0
        assert not turn_processes(running.job), "none is left when the command returns"

    assert scene.home.run("audit", running.job).code == 0
    (recover,) = [row for row in scene.rows(running.job, "steps") if row[2] == "recover"]
    assert "engine" in recover[6], "it counts against no agent"
    scene.start_worker(host, "--slots", "1")
    scene.wait_for_host(host)


def test_an_interrupted_agent_finds_what_its_cut_turn_had_written(scene: ManyHosts) -> None:
    heard = "    - {match: 'INTERVENE', do: [{shell: 'cat begun.txt > heard.txt'}, {say: 'seen'}]}\n"
    with scene.running_job(FOR_LONG + heard) as running:
        turn, _ = running.at_work()
        done = scene.home.run("intervene", running.job, "go on", "--thread", running.thread(turn), "--now")
        assert done.code == 0, done
        running.wait_for_question()

    check_effects(scene, running.job, lost=0)
    (report,) = [row[9] for row in scene.rows(running.job, "messages") if row[9].startswith("[REPORT]")]
    assert "changed: begun.txt, heard.txt" in report
    assert f"/{running.job}/turns/" not in git(scene.remote, "for-each-ref"), "of turns that are over nothing stays"


def test_a_withdrawal_waits_for_a_frozen_host_until_it_is_lost_and_says_so(scene: ManyHosts) -> None:
    with scene.running_job(FOR_LONG) as running:
        turn, host = running.at_work()
        scene.workers[host].signal(signal.SIGSTOP)
        try:
            done = scene.home.run("withdraw", running.job, "--yes", "--json")
            said = running.end()
        finally:
            scene.workers[host].signal(signal.SIGCONT)
        wait_for(lambda: not turn_processes(running.job))

    assert done.code == 0, done
    (lost,) = done.document["lost_hosts"]
    assert (lost["host"], lost["turn"], lost["agent"]) == (host, turn, "researcher")
    line = f"host {host} was lost (no sign of life for {LOST_SECONDS:g} s) when turn {turn} of researcher"
    assert line in done.document["note"]
    assert line in said, "the process that owns the job says so as well"
    shown = scene.home.run("show", running.job)
    assert line in shown.out
    assert scene.home.run("show", running.job, "--json").document["lost_hosts"] == [lost]
    assert line in scene.home.run("log", running.job).out
    audit = scene.home.run("audit", running.job)
    assert audit.code == 0, audit
    assert line in audit.out, "it is in the record"
    assert scene.ran_on(running.job, agent="researcher")[turn] == host


# ---- workers that are not taken --------------------------------------------------------------------


def test_a_worker_of_another_version_is_refused_in_one_line(scene: ManyHosts) -> None:
    bus = "0" * 32
    with psycopg.connect(scene.server.url, autocommit=True, options=f"-csearch_path=parley_{bus}_board") as connection:
        link = BoardLink(lambda: connection)
        Board(link, f"parley_{bus}_board").install(LOST_SECONDS, [ROLE])
        connection.execute("UPDATE board_meta SET version = '9.9.9'")
        worker = scene.start_worker("other", bus=bus)

        assert worker.process.wait(30) == 1
    assert worker.said().splitlines()[-1] == (
        f"parley: this worker is Parley {__version__}, the coordinator is 9.9.9 (board {PROTOCOL}, here {PROTOCOL}): "
        "install the same version on both"
    )


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
