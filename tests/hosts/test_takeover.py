"""A job that one host began and another finishes: by the real command line, on two clones of one project."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from parley.cli.common import Workplace
from parley.cli.looking.repository_contexts import context_of
from tests.cli.home import LEADS, Home, wait_for
from tests.hosts.two_homes import WORK, TwoHomes, git, two_homes
from tests.postgres_server import Server
from tests.serve.engine_harness import serving


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, server: Server) -> TwoHomes:
    return two_homes(tmp_path_factory.mktemp("hosts"), server)


@contextmanager
def begun(home: Home, seconds: int, request: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A job that is at work in EXECUTE, and its owner."""
    playbook = home.write("../work.yaml", WORK.replace("SECONDS", str(seconds)))
    before = set((home.folder / ".parley/jobs").glob("*"))
    with home.started("run", request, "--playbook", playbook) as process:

        def at_work() -> list[Path]:
            assert process.poll() is None, process.communicate()
            found = (home.folder / ".parley/jobs").glob("*/trees/*/begun.txt")
            return [path for path in found if path.parents[2] not in before]

        (path,) = wait_for(at_work, 60)
        yield process, path.parents[2].name


def told(home: Home, *words: str) -> Any:
    """What a command prints as JSON, without the host's own paths."""
    done = home.run(*words, "--json")
    assert done.code == 0, done
    return json.loads(re.sub(rf"{home.folder.parent}/(?:here|there)\b", "PLACE", done.out))


def listed(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The jobs as a page lists them."""
    with monkeypatch.context() as patched:
        for name, value in home.environment.items():
            patched.setenv(name, value)
        with closing(context_of(Workplace(home.folder, home.folder / ".parley"))) as context:
            return context.jobs()


def test_a_job_that_was_killed_in_execute_goes_on_on_another_host(
    hosts: TwoHomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(hosts.here, 1, "one") as (process, job):
        process.kill()
        process.wait()
    done = hosts.there.run("resume", job)
    assert done.code == 0, done
    assert "another process works on" in done.out
    for home in (hosts.here, hosts.there):
        audit = home.run("audit", job)
        assert audit.code == 0, audit
        assert "nothing was cut off" in audit.out
    log = told(hosts.there, "log", job, "--all")
    assert "lost" in str(log)
    for words in (("log", job, "--work"), ("show", job), ("ls",)):
        assert told(hosts.here, *words) == told(hosts.there, *words)
    assert listed(hosts.here, monkeypatch) == listed(hosts.there, monkeypatch)
    for home in (hosts.here, hosts.there):
        merged = home.run("merge", job)
        assert merged.code == 0, merged
        names = {path.name for path in home.folder.glob("*.txt")}
        assert names == {"a.txt", "first.txt", "begun.txt", "ended.txt"}
    here, there = (git(home.folder, "rev-parse", "HEAD^{tree}") for home in (hosts.here, hosts.there))
    assert here == there


def test_a_suspended_coordinator_finds_its_job_taken_over_and_changes_nothing(hosts: TwoHomes) -> None:
    with begun(hosts.here, 3, "two") as (process, job), serving(hosts.there):
        process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: hosts.there.run("show", job, "--json").document["state"] == "DONE", 90)
            before = hosts.state(), told(hosts.there, "log", job, "--all")
        finally:
            process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert [line for line in said.splitlines() if "in force" not in line] == said.splitlines()[-1:]
    assert "another owner has taken" in said
    assert (hosts.state(), told(hosts.there, "log", job, "--all")) == before
    for home in (hosts.here, hosts.there):
        assert home.run("audit", job).code == 0


def test_a_question_is_answered_on_another_host_and_remembered_on_both(hosts: TwoHomes) -> None:
    job = hosts.here.start(LEADS)
    question = next(each for each in told(hosts.there, "inbox")["questions"] if each["job"] == job)
    assert "    | intent\n" in hosts.there.run("inbox", question["id"]).out
    assert hosts.there.run("answer", question["id"], "as we said", "--approve").code == 0
    assert hosts.there.run("resume", job).code == 4
    remembered = told(hosts.here, "memory", "list")
    assert remembered == told(hosts.there, "memory", "list")
    assert "as we said" in str(remembered)
    assert hosts.here.run("withdraw", job).code == 0
    assert told(hosts.there, "show", job)["state"] == "WITHDRAWN"


def test_a_job_waits_for_a_remote_that_is_down_and_says_so_once(hosts: TwoHomes) -> None:
    with begun(hosts.here, 2, "three") as (process, job):
        away = hosts.remote.rename(hosts.remote.with_name("away"))
        assert process.stderr is not None
        line = next(line for line in process.stderr if "waiting for the git remote" in line)
        away.rename(hosts.remote)
        assert line.startswith(f"parley: waiting for the git remote: {hosts.remote} could not be ")
        out, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, ""), (out, said)
    assert hosts.there.run("audit", job).code == 0


def test_a_bus_that_is_older_than_the_remote_is_not_gone_on_with_by_any_home(hosts: TwoHomes, server: Server) -> None:
    job = hosts.here.start(LEADS)
    with restored_later(hosts, server):
        question = next(each for each in told(hosts.here, "inbox")["questions"] if each["job"] == job)
        assert hosts.here.run("answer", question["id"], "yes", "--approve").code == 0
        assert hosts.here.run("resume", job).code == 4
    for home in (hosts.here, hosts.there):
        refused = home.run("resume", job)
        assert refused.code == 1, refused
        assert "its record does not hold (transactions " in refused.err.splitlines()[-1]
        assert f"give it up with `parley withdraw {job}`" in refused.err.splitlines()[-1]
    assert hosts.there.run("withdraw", job, "--yes").code == 0
    assert told(hosts.here, "show", job)["state"] == "WITHDRAWN"
    other = hosts.here.start(LEADS)  # the bus itself is as good as before
    assert hosts.there.run("resume", other).code == 4


@contextmanager
def restored_later(hosts: TwoHomes, server: Server) -> Iterator[None]:
    """Take a dump of the bus, and bring it back after what happens meanwhile."""
    tools = (server._bin / "initdb").resolve().parent
    dump, bus = hosts.remote.with_name("office.dump"), told(hosts.here, "hosts")["bus"]
    words = (f"--schema=parley_{bus}*", "--format=custom", f"--file={dump}", server.url)
    subprocess.run([tools / "pg_dump", *words], check=True)
    yield
    with psycopg.connect(server.url, autocommit=True) as connection:
        asked = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)"
        for (schema,) in connection.execute(asked, (f"parley_{bus}",)).fetchall():
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    subprocess.run([tools / "pg_restore", f"--dbname={server.url}", dump], check=True)
