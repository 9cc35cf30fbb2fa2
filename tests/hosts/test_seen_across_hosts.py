"""What people see and steer of jobs whose turns run on other hosts: the same promises as on one machine."""

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from parley.engine.values.people import May
from tests.cli.home import turn_processes, wait_for
from tests.hosts.many_hosts import ManyHosts, RunningJob, TemporalServer
from tests.postgres_server import Server
from tests.web.page_harness import serve
from tests.web.raw_http import holder, key_of, owner

HOSTS = ("one", "two", "three")
# At work until something else ends it; another agent is free to be woken.
FOR_LONG = r"""
agents:
  intent-lead:
    - {match: '\[INTENT\]', do: [{send: {to: researcher, as: r, text: "look"}}]}
    - {match: 'STALLED', repeat: true, do: [{say: "it may take its time"}]}
    - {match: 'seen', do: [{ask: {text: "what now?"}}]}
  researcher:
    - {match: 'INTERVENE', do: [{write: {path: heard.txt, text: "1"}}, {say: "seen"}]}
    - {match: 'look', repeat: true, do: [{write: {path: begun.txt, text: "1"}}, {sleep: 600}, {say: "seen"}]}
"""
SHORTLY = FOR_LONG.replace("sleep: 600", "sleep: 6")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[ManyHosts]:
    temporal = TemporalServer(tmp_path_factory.mktemp("temporal"))
    temporal.start()
    try:
        with closing(ManyHosts(tmp_path_factory.mktemp("hosts"), server, temporal)) as found:
            assert found.hosts() == []
            for name in HOSTS:
                found.start_worker(name, "--slots", "1")
            for name in HOSTS:
                found.wait_for_host(name)
            yield found
    finally:
        temporal.kill()


def place_of(scene: ManyHosts, job: str, agent: str = "researcher") -> dict[str, Any]:
    """An agent's thread, as `parley tree` has it."""
    threads = scene.home.run("tree", job, "--json").document["threads"]
    return next((thread for thread in threads if thread["agent"] == agent), {})


def settle(scene: ManyHosts, text: str) -> None:
    """The settings of the repository."""
    (scene.home.folder / "parley.toml").write_text(text, encoding="utf-8")


# ---- seen ------------------------------------------------------------------------------------------


def test_a_turn_at_work_is_seen_with_its_host_also_when_its_coordinator_is_dead(scene: ManyHosts) -> None:
    with scene.running_job(FOR_LONG) as running:
        turn, host = running.at_work()
        thread = running.thread(turn)
        assert place_of(scene, running.job)["host"] == host
        assert f"write begun.txt, on {host}" in wait_for(lambda: _at_work(scene, running.job))
        work = wait_for(lambda: scene.home.run("log", running.job, "--work", "--thread", thread, "--json").document)
        assert [event["host"] for event in work["work"] if event["tool"] == "write"][-1:] == [host]
        log = scene.home.run("log", running.job, "--json").document["events"]
        sent = next(event for event in log if event["from"] == "intent-lead")
        assert sent["host"] == scene.ran_on(running.job, agent="intent-lead").popitem()[1]
        assert next(event for event in log if event["from"] == "human")["host"] is None

        running.process.kill()
        running.process.wait()
        assert place_of(scene, running.job)["host"] == host, "no process owns the job, and the turn goes on"
        assert turn_processes(running.job, turn)
        # its lease ends by itself; then any process may give the job up, and end the turn on its host
        wait_for(lambda: not scene.home.run("show", running.job, "--json").document["owned"])
        done = scene.home.run("withdraw", running.job, "--yes", "--json")

        assert done.code == 0, done
        assert done.document["lost_hosts"] == []
        assert not turn_processes(running.job), "none is left when the command returns"

    assert scene.host(host)["state"] == "alive"
    assert scene.ran_on(running.job)[turn] == host, "it is recorded where the turn ran that was lost"
    assert scene.home.run("audit", running.job).code == 0
    assert place_of(scene, running.job)["host"] == host


def _at_work(scene: ManyHosts, job: str) -> str:
    out = scene.home.run("show", job).out
    return out if "write begun.txt" in out else ""


# ---- steered ---------------------------------------------------------------------------------------


def test_an_interruption_goes_on_elsewhere_when_the_host_is_lost_and_the_record_says_so(scene: ManyHosts) -> None:
    with scene.running_job(FOR_LONG) as running:
        turn, host = running.at_work()
        scene.workers[host].signal(signal.SIGSTOP)
        try:
            words = ("go on", "--thread", running.thread(turn), "--now")
            assert scene.home.run("intervene", running.job, *words).code == 0
            running.wait_for_question()
        finally:
            scene.workers[host].signal(signal.SIGCONT)
        wait_for(lambda: not turn_processes(running.job))
        wait_for(lambda: scene.host(host)["state"] == "alive")

    (lost,) = scene.home.run("show", running.job, "--json").document["lost_hosts"]
    assert (lost["host"], lost["turn"]) == (host, turn)
    events = scene.home.run("log", running.job, "--json").document["events"]
    (cut,) = [event for event in events if event["kind"] == "interrupt"]
    assert cut["host"] == host
    assert [event["host"] for event in events if event["kind"] == "host-lost"] == [host]
    assert "recover" not in scene.rules(running.job)
    inputs = scene.rows(running.job, "inputs")
    assert all(row[7] for row in inputs), "each was taken, so that the chain covers it"
    assert scene.home.run("audit", running.job).code == 0


def test_a_pause_lets_no_turn_begin_on_any_host_and_the_turn_under_way_ends(scene: ManyHosts) -> None:
    with scene.running_job(SHORTLY) as running:
        running.at_work()
        assert scene.home.run("pause", running.job).code == 0
        wait_for(lambda: place_of(scene, running.job)["doing"] == "waits for mail")
        assert place_of(scene, running.job, "intent-lead")["mail"] == 1
        before = turns_begun(scene, running.job)
        _rest(running)
        assert turns_begun(scene, running.job) == before, "no host was given another turn"
        done = scene.home.run("resume", running.job, "--json")
        assert json.loads(done.out)["questions"], done

    assert scene.home.run("audit", running.job).code == 0


def turns_begun(scene: ManyHosts, job: str) -> int:
    return len(scene.rows(job, "turns"))


def _rest(running: RunningJob) -> None:
    """Wait until its owner has let go of the paused job."""
    running.process.wait(60)


def test_silence_of_an_agent_is_a_stall_and_silence_of_its_host_is_none(scene: ManyHosts) -> None:
    settle(scene, "[limits]\nstall_seconds = 6\n")
    try:
        with scene.running_job(FOR_LONG) as running:
            turn, host = running.at_work()
            wait_for(lambda: place_of(scene, running.job)["state"] == "stalled")
            assert place_of(scene, running.job)["host"] == host
            scene.workers[host].signal(signal.SIGSTOP)  # its agent is silent as before, and now its host is, too
            try:
                wait_for(lambda: "recover" in scene.rules(running.job))
                again, other = wait_for(lambda: _another(running, turn))
            finally:
                scene.workers[host].signal(signal.SIGCONT)
            assert other != host
            steps = scene.rows(running.job, "steps")
            fault = next(json.loads(row[-1])["fault"] for row in steps if row[2] == "recover")
            assert fault == f"its host {host} was lost: no sign of life"
            assert scene.home.run("withdraw", running.job, "--yes").code == 0
            assert not turn_processes(running.job, again)
    finally:
        settle(scene, "")
    wait_for(lambda: scene.host(host)["state"] == "alive")
    assert scene.home.run("audit", running.job).code == 0


def _another(running: RunningJob, turn: str) -> tuple[str, str] | None:
    found = running.at_work()
    return found if found[0] != turn else None


# ---- on the page -----------------------------------------------------------------------------------


def test_the_page_lists_the_hosts_and_names_those_of_turns_for_who_may_see_all(scene: ManyHosts) -> None:
    done = scene.run_job("agents:\n  intent-lead:\n    - {match: 'INTENT', do: [{ask: {text: 'what now?'}}]}\n")
    job = done.document["id"]
    host = scene.ran_on(job, agent="intent-lead").popitem()[1]
    with pytest.MonkeyPatch.context() as patched, serve(scene.home, "--only-look") as server:
        for name, value in scene.home.environment.items():
            patched.setenv(name, value)
        user, key = owner(server), key_of(scene.home)
        guest = holder(scene.home, server, "", May.SEE, repository=key, job=job)
        listed = user.get("/hosts").text
        conversation = user.get(f"/r/{key}/{job}/conversation").text
        tree = user.get(f"/r/{key}/{job}/part/tree?show=open").text
        refused = guest.get("/hosts")

        assert 'href="/hosts"' in user.get("/").text
        assert 'href="/hosts"' not in guest.get(f"/r/{key}/{job}").text
        assert "Traceback" not in server.printed
    assert all(f"<td>{name}</td>" in listed for name in HOSTS)
    assert "escapes held" in listed
    assert refused.status == 404
    assert f"on {host}" in conversation
    assert f"on {host}" in tree
