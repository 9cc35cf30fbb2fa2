"""The turns' own commits witness where the bus stood: a cut tail is found although state.json was cut to fit."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path

from tests.cli.fork_server import run_parley
from tests.kills.jobs import JOBS


def parley(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_parley(words, folder)


def cut(home: Path, job: str, transactions: int) -> None:
    """Cut the last transactions off the bus, and make state.json look as it would have looked then."""
    bus = sqlite3.connect(home / "bus.db")
    triggers = bus.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        bus.execute(f"DROP TRIGGER {name}")
    (last,) = bus.execute("SELECT max(number) FROM commits").fetchone()
    keep = last - transactions
    bus.execute("DELETE FROM steps WHERE txn > ?", (keep,))
    bus.execute("DELETE FROM messages WHERE txn > ?", (keep,))
    bus.execute("DELETE FROM commits WHERE number > ?", (keep,))
    steps, messages, head = bus.execute(
        "SELECT steps, messages, head FROM commits WHERE number = ?", (keep,)
    ).fetchone()
    for _, sql in triggers:
        bus.execute(sql)
    bus.commit()
    bus.close()
    path = home / "jobs" / job / "state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    state["head"] = {"transaction": keep, "step": steps, "message": messages, "hash": head}
    path.write_text(json.dumps(state), encoding="utf-8")


def test_a_tail_that_was_cut_with_its_anchor_is_found_by_the_turns_commits(tmp_path: Path) -> None:
    (tmp_path / "book.yaml").write_text(json.dumps(JOBS["plain"]), encoding="utf-8")
    assert parley(tmp_path, "run", "make it", "--playbook", "book.yaml").returncode == 0
    home = tmp_path / ".parley"
    (job,) = [path.name for path in (home / "jobs").iterdir()]
    assert parley(tmp_path, "audit", job).returncode == 0
    cut(home, job, 4)
    found = parley(tmp_path, "audit", job)
    assert found.returncode == 1
    assert "snapshots.git was written after transaction" in found.stdout
