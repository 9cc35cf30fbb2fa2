"""What tools on the machine would run or obey is named wherever a result is approved, looked at or taken home."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.home import PARLEY, PATIENCE_SECONDS, Home
from tests.cli.terminal import terminal
from tests.inbox.test_work_gate import job_of
from tests.workspaces.user_repository import git, write

PLANTS = r"""
human:
  - {match: "INTENT.md|PLAN.md", repeat: true, verdict: approve, text: "yes"}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: INTENT.md, text: "i"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: approved}}]}
  project-lead:
    - match: '\[PLAN\]'
      do: [{write: {path: PLAN.md, text: "p"}}, {assert: {artifact: PLAN.md, text: "sound?"}}]
    - {match: '\[ANSWER approve\]', state: PLAN, do: [{outcome: {outcome: APPROVED_PLAN, reason: approved}}]}
    - match: '\[EXECUTE\]'
      do:
        - shell: |
            mkdir -p .vscode tools/hooks .github/workflows
            echo x > .envrc; echo x > .vscode/tasks.json; echo x > parley.toml; echo x > plain.txt
            echo x > .github/workflows/ci.yml; echo x > .mcp.json; echo '{}' > package.json
            printf '#!/bin/sh\necho ran >> "$HOME/ran"\n' > tools/hooks/post-merge; chmod +x tools/hooks/post-merge
            cp tools/hooks/post-merge tools/hooks/pre-merge-commit
            cp tools/hooks/post-merge tools/hooks/reference-transaction
            echo x > A.txt; echo x > con.c; echo x > tools/hooks/lib.inc
        - {write: {path: "odd\x1b[2J/.envrc", text: "1\n"}}
        - {write: {path: WORK_SUMMARY.md, text: "done"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "good?"}}
    - {match: '\[ANSWER approve\]', state: EXECUTE, do: [{outcome: {outcome: APPROVED_WORK, reason: approved}}]}
"""
PLANTED = (
    ".envrc",
    ".vscode/tasks.json",
    ".github/workflows/ci.yml",
    ".mcp.json",
    "parley.toml",
    "package.json",
    "tools/hooks/post-merge",
    "tools/hooks/lib.inc",  # by no name that is known: git's settings on this machine tell
)


def repository(folder: Path) -> Home:
    """A repository whose hooks lie in the tree."""
    home = Home(folder)
    home.folder.mkdir()
    home.environment["HOME"] = str(folder.with_name("user"))
    folder.with_name("user").mkdir()
    git(home.folder, "init", "-q")
    for key, value in (("user.name", "ada"), ("user.email", "ada@example.org"), ("core.hooksPath", "tools/hooks")):
        git(home.folder, "config", key, value)
    write(home.folder, {"a.txt": "a"})
    git(home.folder, "add", "-A")
    git(home.folder, "commit", "-qm", "first")
    return home


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, str]:
    """One whose job waits at the work gate, and what the command that ran it has printed."""
    home = repository(tmp_path_factory.mktemp("obeyed") / "work")
    done = home.run("run", "x", "--playbook", home.write("../book.yaml", PLANTS))
    assert done.code == 4, done.err
    return home, done.out


@pytest.fixture
def merging(tmp_path: Path) -> Home:
    """One whose job is done."""
    home = repository(tmp_path / "work")
    book = PLANTS.replace("INTENT.md|PLAN.md", ".")
    done = home.run("run", "x", "--playbook", home.write("../book.yaml", book))
    assert done.code == 0, done
    assert listed(done.out)
    return home


def listed(text: str) -> bool:
    """Whether a text names all that was planted, after a heading, and nothing that a terminal would obey."""
    rest = text.partition("on this machine")[2]
    return all(name in rest for name in PLANTED) and "\x1b" not in text


ODD = "names that trouble other systems: A.txt (a Mac and Windows take it for a.txt), con.c (a device on Windows)"


def test_the_gate_names_it_in_every_face(gate: tuple[Home, str]) -> None:
    home, run = gate
    job = job_of(home)

    for said in (run, home.run("inbox").out, home.run("show", job).out, home.run("inbox", job).out):
        assert listed(said), said
        assert ODD in " ".join(said.split()), said
        assert "plain.txt" not in said.partition("on this machine")[2].partition("parley")[0].partition("changed in")[0]
    diff = home.run("diff", job)
    assert listed(diff.err)
    assert ODD in diff.err
    inbox = home.run("inbox", "--json").document
    for stat in (home.run("show", job, "--json").document["questions"][0]["stat"], inbox["needs"][0]["stat"]):
        by = {one["path"]: one["by"] for one in stat["obeyed"]}
        assert set(PLANTED) <= set(by)
        assert "plain.txt" not in by
        assert "core.hooksPath" in by["tools/hooks/post-merge"]
        assert stat["obeyed_files"] == len(by)
        assert stat["unportable"].startswith(ODD)
    document = home.run("diff", job, "--json").document
    assert set(PLANTED) <= {one["path"] for one in document["obeyed"]}
    assert {"A.txt", "con.c"} < {one["path"] for one in document["unportable"]}


def test_the_proxy_reads_of_it_with_the_question(gate: tuple[Home, str]) -> None:
    home, _ = gate
    events = home.run("log", job_of(home), "--json").document["events"]
    questions = [one["text"] for one in events if one["message"] == "question" and one["to"] == "proxy"]

    assert "run or obeyed by tools on this machine: " in questions[-1].splitlines()[0]
    assert ODD in questions[-1].splitlines()[0]


def test_the_watch_names_it(gate: tuple[Home, str]) -> None:
    home, _ = gate
    with terminal([str(PARLEY), "watch"], home.folder, home.env()) as screen:
        screen.wait_for("approve WORK_SUMMARY.md?")
        screen.type("\r")
        screen.wait_for("run or obeyed by tools")
        screen.type("d")
        screen.wait_for(".vscode/tasks.json")
        screen.type("qqq")
        assert screen.end() == 0


def test_a_merge_names_it_first_and_runs_no_hook_of_the_result(merging: Home) -> None:
    job = job_of(merging)

    dry = merging.run("merge", job, "--dry-run")
    assert dry.code == 0, dry
    assert listed(dry.out)
    assert "would be merged" in dry.out
    assert not (merging.folder / ".envrc").exists()
    document = merging.run("merge", job, "--dry-run", "--json").document
    assert (document["dry_run"], document["before"]) == (True, False)
    assert any(ODD in line for line in document["remarks"])
    assert set(PLANTED) <= {one["path"] for one in document["obeyed"]}

    done = merging.run("merge", job)

    assert done.code == 0, done
    assert listed(done.out.partition("is merged")[0])
    assert f"parley: {ODD}" in done.err
    assert not (merging.folder.with_name("user") / "ran").exists()
    assert (merging.folder / "tools/hooks/post-merge").exists()


def ended_half_way(home: Home, job: str) -> None:
    """End a merge by signals while a filter of the user's is at work: neither a lock nor the filter is left."""
    pipe, filter_ = home.folder.with_name("pipe"), home.folder.with_name("filter")
    filter_.write_text(f"#!/bin/sh\necho $$ > {pipe}\nexec sleep 600\n", encoding="utf-8")
    filter_.chmod(0o755)
    os.mkfifo(pipe)
    write(home.folder, {".git/info/attributes": "plain.txt filter=f\n"})
    git(home.folder, "config", "filter.f.smudge", str(filter_))
    for number in (signal.SIGTERM, signal.SIGHUP):
        with home.started("merge", job) as process:
            slow = pipe.read_text(encoding="utf-8").strip()  # waits until the filter is at work
            process.send_signal(number)
            assert process.wait(PATIENCE_SECONDS) == 128 + number
        told = Path(f"/proc/{slow}/cmdline")
        assert not told.exists() or told.read_bytes() == b""  # dead, if nobody has asked how it ended yet
        assert [path.name for path in (home.folder / ".git").glob("*parley*")] == []
        assert not (home.folder / ".git/index.lock").exists()
    git(home.folder, "config", "--unset", "filter.f.smudge")


def test_hooks_of_the_users_are_named_that_did_not_run_also_after_a_merge_was_ended(merging: Home) -> None:
    git(merging.folder, "config", "--unset", "core.hooksPath")
    hook = merging.folder / ".git/hooks/post-merge"
    write(merging.folder, {".git/hooks/post-merge": '#!/bin/sh\necho ran >> "$HOME/ran"\n'})
    hook.chmod(0o755)
    ended_half_way(merging, job_of(merging))

    done = merging.run("merge", job_of(merging))

    assert done.code == 0, done
    assert "post-merge" in done.err
    assert "git hook run" in done.err
    assert not (merging.folder.with_name("user") / "ran").exists()
