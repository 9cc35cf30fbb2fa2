"""A whole job in which one worker is the real Codex CLI and another a shell script; the leads are scripted."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from parley.adapters.boundary import Boundary
from parley.adapters.command import codex
from parley.adapters.command.agents import read
from parley.adapters.command.runner import CommandRunner
from parley.adapters.files import JobFiles
from parley.adapters.memory import MemoryBus, MemoryStore
from parley.adapters.playing import Playing
from parley.adapters.system import RandomIds, SystemClock
from parley.adapters.turns import LocalTurns
from parley.adapters.worktrees import Worktrees
from parley.engine.audit import audit
from parley.engine.engine import Engine
from parley.engine.riders import own_words
from parley.engine.roster import charter_of
from parley.engine.world import World
from parley.ports import JobRow
from tests.apis.responses import ResponsesAPI, Script, Turn
from tests.apis.script import Say, Use
from tests.command.test_codex import FOLDER, KEY
from tests.engine.stage import EXECUTE, INTENT, PLAN, YES, asserts, close, on, send, tell, write

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

    said = [(row.sender, own_words(row.body, json.loads(row.meta or "{}"))) for row in store.messages("j1")]
    assert store.load("j1").row.state == "DONE", said
    reports = [(sender, words.rpartition("\n")[2]) for sender, words in said]
    assert [words for sender, words in reports if sender == "coder"] == ["double.py is written", "I am Codex."]
    assert [words for sender, words in reports if sender == "counter"] == ["I counted 3 words; see counts.txt."]
    assert any("refused: " in request.body.decode() for request in api.of("coder"))
    assert audit(store, "j1", json.loads((files.home("j1") / "state.json").read_text())["head"]).ok
    assert {change.path: change.added for change in trees.changes("j1")} == {"counts.txt": 1, "double.py": 2}
    left = [json.loads(step.extra) for step in store.steps("j1") if "input_tokens" in step.extra]
    assert sum(one["usage"]["input_tokens"] for one in left) == 1000 * len(api.of("coder"))


def _play(folder: Path, tables: dict[str, object]) -> tuple[MemoryStore, JobFiles, Worktrees]:
    """Run the job to its end."""
    boundary = Boundary()
    runner = CommandRunner(boundary, read(tables, folder))
    turns = LocalTurns({"scripted": Playing(boundary), **dict.fromkeys(runner.agents, runner)})
    store, files = MemoryStore(MemoryBus(), "one"), JobFiles(folder / "home")
    trees = Worktrees(folder / "home", hand_over=boundary.hand_over)
    engine = Engine(World(store, turns, trees, files, SystemClock(), RandomIds()))
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
    row = JobRow("j1", "double it", "ada", now, now, "INTENT", 1, 0, 0, 0, "scripted", json.dumps(settings))
    try:
        engine.start(row, charter_of("j1", settings))
        deadline = time.monotonic() + SECONDS
        while engine.jobs["j1"].record.live and time.monotonic() < deadline:
            engine.crank(0.1)
    finally:
        turns.close()
        boundary.close()
    return store, files, trees
