"""What one instance changed: of every workspace that is or was there, file by file, and nothing else."""

import threading
from pathlib import Path

import pytest

from parley.ports.workspaces import WorkspaceError
from parley.workspaces import JobWorkspaces
from parley.workspaces.delivery import instance_diff
from tests.views.conftest import Seen, repository


def workspaces(seen: Seen) -> JobWorkspaces:
    return JobWorkspaces(seen.home.folder / ".parley", seen.home.folder)


def coders(seen: Seen) -> list[str]:
    return [one.id for one in seen.index().threads() if one.agent == "coder"]


def test_a_closed_instance_still_has_what_it_changed(seen: Seen) -> None:
    space, (one, two) = workspaces(seen), coders(seen)

    for thread, text in ((one, b"+one"), (two, b"+two")):
        (change,) = space.instance_changes(seen.job, thread)
        assert (change.path, change.added, change.removed) == ("till.py", 1, 1)
        assert text in space.instance_diff(seen.job, thread, "till.py").splitlines()
        assert space.instance_diff(seen.job, thread) == space.instance_diff(seen.job, thread, "till.py")


def test_a_lost_turn_has_what_it_had_come_to(seen: Seen) -> None:
    space, (one, two) = workspaces(seen), coders(seen)

    last, lost = space.instance_versions(seen.job, one)
    (turn,) = [turn.turn for turn in seen.index().turns_of(one) if turn.how == "lost"]
    assert (last.name, last.retired) == ("", True)
    assert lost.turn == turn
    (change,) = space.instance_changes(seen.job, one, lost.name)
    assert change.path == "half.txt"
    assert b"+half" in space.instance_diff(seen.job, one, "half.txt", lost.name)
    assert [version.name for version in space.instance_versions(seen.job, two)] == [""]


def test_the_leads_work_is_the_jobs_own_workspace(seen: Seen) -> None:
    space = workspaces(seen)
    lead = next(one for one in seen.index().threads() if one.agent == "project-lead")

    paths = {change.path for change in space.instance_changes(seen.job, lead.workspace)}

    assert paths == {"INTENT.md", "PLAN.md", "WORK_SUMMARY.md", "till.py"}


def test_the_jobs_diff_comes_file_by_file(seen: Seen) -> None:
    space = workspaces(seen)

    parts = [space.file_diff(seen.job, change.path) for change in space.changes(seen.job)]

    assert b"".join(parts) == space.diff(seen.job)
    assert parts


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../till.py",
        "/etc/passwd",
        "till.py/",
        "*",
        ":(glob)**",
        "till.p?",
        "README",
        "\0",
        "\ud800",
        "a" * 9999,
    ],
)
def test_only_a_path_that_was_changed_is_shown(seen: Seen, path: str) -> None:
    space = workspaces(seen)

    with pytest.raises(WorkspaceError, match="is not among what was changed"):
        space.file_diff(seen.job, path)
    if path:
        with pytest.raises(WorkspaceError, match="is not among what was changed"):
            space.instance_diff(seen.job, coders(seen)[0], path)


@pytest.mark.parametrize("name", ["dispatch:gone", "dispatch:../../x", "nothing", "dispatch:", "dispatch:\n"])
def test_an_instance_that_is_none_has_changed_nothing(seen: Seen, name: str) -> None:
    space = workspaces(seen)

    assert space.instance_versions(seen.job, name) == []
    assert space.instance_changes(seen.job, name) == []
    assert space.instance_changes(seen.job, coders(seen)[0], "refs/heads/x") == []
    with pytest.raises(WorkspaceError, match="keeps no files"):
        space.instance_diff(seen.job, name)


def test_several_threads_read_diffs_at_once(seen: Seen) -> None:
    space, found = workspaces(seen), list[bytes]()

    readers = [threading.Thread(target=lambda: found.append(space.file_diff(seen.job, "till.py"))) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()

    assert len(found) == 4
    assert len(set(found)) == 1


BIG = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{send: {to: writer, text: "write much"}}]
  writer:
    - match: 'much'
      do:
        - {shell: "seq 400000 > numbers.txt; printf 'a\\0b' > raw.bin; printf x > \"$(printf 'odd\\377\\033[2Jname')\""}
        - {ask: {text: "enough?"}}
"""


def test_a_large_file_is_cut_with_a_word_and_odd_names_and_bytes_do_no_harm(tmp_path: Path) -> None:
    home = repository(tmp_path / "big")
    job = home.start(BIG)
    space = JobWorkspaces(home.folder / ".parley", home.folder)
    (thread,) = [entry["thread"] for entry in home.here("inbox", "--json").document["questions"]]

    changes = {change.path: change for change in space.instance_changes(job, thread)}
    numbers = space.instance_diff(job, thread, "numbers.txt")
    assert changes["numbers.txt"].added == 400_000
    assert len(numbers) <= instance_diff.FILE_BYTES + 100
    assert numbers.splitlines()[-1].startswith(b"\\ the rest is left out: this diff has ")
    assert changes["raw.bin"].added is None
    assert b"Binary files" in space.instance_diff(job, thread, "raw.bin")
    (odd,) = [path for path in changes if path.startswith("odd")]
    assert b"\x1b" not in space.instance_diff(job, thread, odd)
