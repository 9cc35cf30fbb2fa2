"""A commit that has returned is on the disk: shown by the system calls of a real process."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.stores.child import Process

CALLS = "openat,pwrite64,write,fdatasync,fsync,rename"
# As in: 4242 pwrite64(4</tmp/bus.db-wal>, "\0\0"..., 24, 32) = 24
CALL = re.compile(r"^(?:\d+ +)?(?P<call>\w+)\((?P<arguments>.*)$")


def traced(home: Path, trace: Path, durability: str) -> list[tuple[str, str]]:
    """Run a child that commits three times, saying so after each; its calls, in order."""
    if shutil.which("strace") is None:
        pytest.fail("strace is missing, without which durability can't be shown: make system")
    strace = ("strace", "-f", "-y", "-s", "64", "-e", f"trace={CALLS}", "-o", str(trace))
    process = Process(home, f"durability={durability}", under=strace)
    process.ask("create", "j1")
    process.ask("own", "j1")
    for number in (1, 2, 3):
        assert process.ask("commit", "j1", 1, number, number) == "done"
    assert process.process.stdin is not None
    process.process.stdin.close()
    process.process.wait()
    process.end()
    found = (CALL.match(line) for line in trace.read_text(errors="replace").splitlines())
    return [(match["call"], match["arguments"]) for match in found if match]


def between_commits(calls: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Part the calls at what the child says: what it did before it said each thing."""
    parts: list[list[tuple[str, str]]] = [[]]
    for call, arguments in calls:
        if call == "write" and arguments.startswith("1<"):
            parts.append([])
        else:
            parts[-1].append((call, arguments))
    return parts[:-1]


def is_log(arguments: str) -> bool:
    return re.match(r"\d+<[^>]*/bus\.db-wal>", arguments) is not None


def places(part: list[tuple[str, str]], names: tuple[str, ...]) -> list[int]:
    """Where in a part the log is written, or synced."""
    return [place for place, (call, arguments) in enumerate(part) if call in names and is_log(arguments)]


def test_a_commit_returns_when_its_log_is_on_the_disk(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    made, created, owned, *commits = between_commits(traced(home, tmp_path / "trace", "full"))

    assert len(commits) == 3
    for part in (created, owned, *commits):
        written, synced = places(part, ("pwrite64", "write")), places(part, ("fdatasync", "fsync"))
        assert written
        assert synced
        assert synced[-1] > written[-1]
    syncs = [arguments for call, arguments in made if call in ("fdatasync", "fsync")]
    real = os.path.realpath(home)
    for synced_file in (f"<{real}/bus.db>", f"<{real}/bus.db-wal>", f"<{real}>"):
        assert any(synced_file in arguments for arguments in syncs)
    last_write = max(n for n, (call, _) in enumerate(made) if call == "pwrite64")
    folder_syncs = [n for n, (call, text) in enumerate(made) if call == "fsync" and f"<{real}>" in text]
    assert folder_syncs[-1] > last_write


def test_a_relaxed_commit_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    _, created, owned, *commits = between_commits(traced(home, tmp_path / "trace", "normal"))

    assert len(commits) == 3
    for part in (created, owned, *commits):
        assert places(part, ("pwrite64", "write"))
        assert [call for call, _ in part if call in ("fdatasync", "fsync")] == []
