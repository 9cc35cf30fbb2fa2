"""Claude Code on hosts: the real program, with a scripted Messages API that only the hosts can use."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.apis.messages import MessagesAPI, Script, Turn
from tests.apis.script import Use
from tests.cli.home import wait_for
from tests.hosts.many_hosts import ManyHosts, TemporalServer
from tests.postgres_server import Server

KEY = "sk-ant-api03-a-key-of-the-hosts-0123456789"
SCRIPT = Script({
    "intent-lead": [
        Turn("INTENT", [
            Use("Write", {"file_path": "notes.txt", "content": "one\n"}),
            Use("Send", {"to": "project-lead", "text": "refused at once"}),
            Use("AskQuestion", {"text": "what now?"}),
        ]),
        Turn("answer", [
            Use("Bash", {"command": "cat notes.txt >> seen.txt; echo again >> notes.txt"}),
            Use("AskQuestion", {"text": "and now?"}),
        ], repeat=True),
    ],
})  # fmt: skip


@pytest.fixture(scope="module")
def api() -> Iterator[MessagesAPI]:
    with MessagesAPI(SCRIPT, key=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def no_login() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def scene(
    tmp_path_factory: pytest.TempPathFactory, server: Server, api: MessagesAPI, no_login: pytest.MonkeyPatch
) -> Iterator[ManyHosts]:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "CLAUDE"))]:
        no_login.delenv(name)
    temporal = TemporalServer(tmp_path_factory.mktemp("temporal"))
    temporal.start()
    try:
        with closing(ManyHosts(tmp_path_factory.mktemp("agents"), server, temporal)) as found:
            assert found.hosts() == []
            for name in ("one", "two"):
                found.start_worker(name, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY)
            for name in ("one", "two"):
                found.wait_for_host(name)
            yield found
    finally:
        temporal.kill()


def _go_on(scene: ManyHosts, job: str, words: str) -> dict[str, Any]:
    """Answer what is asked, and let the job go on until it asks again."""
    (need,) = scene.home.run("inbox", "--json").document["needs"]
    assert scene.home.run("answer", need["id"], words).code == 0
    done = scene.home.run("resume", job, "--json", seconds=240.0)
    assert done.code == 4, done
    return dict(done.document)


def test_a_conversation_with_claude_code_goes_on_where_its_host_is_killed_and_needs_no_login_of_the_coordinator(
    scene: ManyHosts, api: MessagesAPI
) -> None:
    assert not any(name.startswith(("ANTHROPIC", "CLAUDE")) for name in scene.home.env())
    done = scene.home.run("run", "keep notes", "--json", seconds=240.0)
    assert done.code == 4, done
    assert "Claude Code on other hosts" in done.err
    job = done.document["id"]
    host = list(scene.ran_on(job).values())[-1]
    scene.workers[host].kill()
    wait_for(lambda: scene.host(host)["state"] == "lost")
    _go_on(scene, job, "answer 1")

    assert list(scene.ran_on(job).values())[-1] != host
    said = api.prompts()
    assert [word in text for word, text in zip(("keep notes", "answer 1"), said, strict=True)] == [True, True]
    work = scene.home.folder / ".parley" / "jobs" / job / "work"
    assert (work / "notes.txt").read_text() == "one\nagain\n"
    assert (work / "seen.txt").read_text() == "one\n"
    refused = [line["why"] for line in scene.streamed(job) if line["event"] == "refused"]
    assert len(refused) == 1
    assert "project-lead is not in your team" in refused[0]
    assert scene.home.run("audit", job).code == 0

    found = subprocess.run(["grep", "-rlF", KEY, scene.base, scene.temporal.database], capture_output=True, check=False)
    assert found.stdout == b"", "the key is in the hosts' environment alone"
    with psycopg.connect(scene.server.url) as connection:
        for table in ("orders", "events", "replies"):
            rows = connection.execute(f"SELECT * FROM {scene.schema}.board_{table}").fetchall()  # noqa: S608 - our own
            assert KEY not in str(rows)
