"""A whole job in which one worker is the real Codex CLI and another a shell script; the leads are scripted."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from parley.assembly import make_engine
from parley.audit.audit import audit
from parley.base.documents.node import TOML, node_of
from parley.base.json_codec import encode
from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import JobRow, MessageRow
from parley.engine.turn import merge_riders
from parley.engine.values import message_meta
from parley.engine.values.job_roles import charter_of
from parley.engine.world import World
from parley.machine.clock import RandomIds, SystemClock
from parley.machine.job_files import JobFiles
from parley.runners.command import codex
from parley.runners.command.command_runner import CommandRunner
from parley.runners.command.configured_agents import read
from parley.runners.local_turns import LocalTurns
from parley.runners.scripted.scripted_runner import ScriptedRunner
from parley.sandbox import Boundary
from parley.workspaces import JobWorkspaces
from tests.apis.responses import ResponsesAPI, Script, Turn
from tests.apis.script import Say, Use
from tests.command.test_codex import FOLDER, KEY
from tests.engine.job_harness import EXECUTE, INTENT, PLAN, YES, asserts, close, on, send, tell, write

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0
WRITE = """printf 'def double(x):\\n    return 2 * x\\n' > double.py"""

WORK = [
    on(r"^\[EXECUTE\]", send("coder", "write double.py", "c"), send("counter", "three little words", "n")),
    on(r"double.py is written", tell("c", "thank you; who are you?")),
    on(r"I am Codex", close("c"), state="EXECUTE"),
    on(r"I counted 3 words", close("n")),
    on(r"^\[MERGE clean\]", write("WORK_SUMMARY.md", "doubled"), asserts("WORK_SUMMARY.md")),
    *EXECUTE[1:],
]


def test_a_job_with_codex_and_a_script_among_its_workers_reaches_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if codex.find(str(FOLDER)) is None and os.environ.get("CI") != "true":
        pytest.skip("the Codex CLI is not here; `make .codex/installed` fetches it")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    shutil.copy(ROOT / "examples" / "notes.sh", tmp_path / "notes.sh")
    script = Script(
        {
            "coder": [
                Turn(
                    "write double.py",
                    [
                        Use("exec_command", {"cmd": WRITE}),
                        Use("Send", {"thread": "dispatcher", "text": "double.py is written"}),
                        Use("Send", {"to": "project-lead", "text": "I would dispatch my own lead"}),
                    ],
                ),
                Turn("who are you", [Say("I am Codex.")]),
            ]
        }
    )
    with ResponsesAPI(script, key=KEY) as api:
        route = {
            "upstream": api.url,
            "headers": {"Authorization": "Bearer $OPENAI_API_KEY"},
            "paths": ["/v1/responses"],
        }
        tables = {"codex": {"folder": str(FOLDER), "route": route}, "notes": {"command": ["./notes.sh"]}}
        store, files, trees = _play(tmp_path, tables)

    said = [(row.sender, _own_words(row)) for row in store.messages("j1")]
    assert store.load("j1").row.state == "DONE", said
    reports = [(sender, words.rpartition("\n")[2]) for sender, words in said]
    assert [words for sender, words in reports if sender == "coder"] == ["double.py is written", "I am Codex."]
    assert [words for sender, words in reports if sender == "counter"] == ["I counted 3 words; see counts.txt."]
    assert any("refused: " in request.body.decode() for request in api.of("coder"))
    assert audit(store, "j1", json.loads((files.home("j1") / "state.json").read_text())["head"]).ok
    assert {change.path: change.added for change in trees.changes("j1")} == {"counts.txt": 1, "double.py": 2}
    left = [json.loads(step.extra) for step in store.steps("j1") if "input_tokens" in step.extra]
    assert sum(one["usage"]["input_tokens"] for one in left) == 1000 * len(api.of("coder"))


def _own_words(row: MessageRow) -> str:
    meta = message_meta.read(row)
    return merge_riders.own_words(row.body, meta.riders if meta else ())


def _play(folder: Path, tables: dict[str, object]) -> tuple[MemoryStore, JobFiles, JobWorkspaces]:
    """Run the job to its end."""
    boundary = Boundary()
    runner = CommandRunner(boundary, read(node_of(tables, "parley.toml", TOML), folder))
    turns = LocalTurns({"scripted": ScriptedRunner(boundary), **dict.fromkeys(runner.agents, runner)})
    store, files = MemoryStore(MemoryBus(), "one"), JobFiles(folder / "home")
    trees = JobWorkspaces(folder / "home", hand_over=boundary.hand_over)
    engine = make_engine(
        World(store=store, turns=turns, workspace=trees, files=files, clock=SystemClock(), ids=RandomIds())
    )
    roles = [
        {"name": "intent-lead", "team": []},
        {"name": "project-lead", "team": ["coder", "counter"]},
        {"name": "coder", "team": ["counter"], "runner": "codex", "prompt": "You write code."},
        {"name": "counter", "team": [], "runner": "notes"},
    ]
    settings = {
        "roles": roles,
        "policies": ["always"] * 3,
        "fan_out": 3,
        "crash_budget": 3,
        "retry_budget": 3,
        "time_limit_seconds": SECONDS,
        "agents": {"intent-lead": INTENT, "project-lead": [*PLAN, *WORK]},
        "proxy": None,
        "human": YES,
    }
    now = time.time()
    row = JobRow(
        job="j1",
        request="double it",
        decider="ada",
        created=now,
        updated=now,
        agent="scripted",
        settings=encode(settings),
    )
    try:
        engine.start(row, charter_of(row))
        deadline = time.monotonic() + SECONDS
        while engine.jobs["j1"].record.live and time.monotonic() < deadline:
            engine.crank(0.1)
    finally:
        turns.close()
        boundary.close()
    return store, files, trees
