"""The commits that a user gets: by whom they are, and what they say."""

from pathlib import Path

import pytest

from parley.ports.workspaces import WorkspaceError
from parley.settings.schema import WorkspaceSettings
from parley.workspaces.delivery.commit_message import ITEM_LENGTH, SUBJECT_LENGTH, subject, told
from tests.workspaces.user_repository import CHILD, JOB, ROOT, git, repository, write

LONG = "Please have a look at all of this, and see to it that whatever can be counted here is counted"


@pytest.mark.parametrize(
    "title, items, line",
    [
        ("Count lines, too.", ["It counts lines."], "Count lines, too"),
        (f"Count lines. {LONG}", ["It counts lines."], "Count lines"),
        (LONG, ["lines.py counts lines."], "lines.py counts lines"),
        (LONG, [LONG], "Please have a look at all of this, and see to it that whatever can be…"),
        ("Fix it [skip ci]", [], "Fix it (skip ci)"),
        ("", [], ""),
        ("x" * 100, [], f"{'x' * (SUBJECT_LENGTH - 1)}…"),
    ],
)
def test_a_subject_is_one_short_line_of_the_request_or_of_what_was_done(
    title: str, items: list[str], line: str
) -> None:
    assert subject(title, items) == line
    assert len(line) <= SUBJECT_LENGTH


@pytest.mark.parametrize(
    "summary, items",
    [
        ("# Work\n\nIt counts. Tests pass.\n\n## Assumptions\n- none", ["It counts.", "Tests pass."]),
        ("Work\n====\n1. `a.py`: counts\n   lines\n2. [x] tests\n", ["`a.py`: counts lines", "tests"]),
        ("```\ncode\n```\n<!-- hidden -->\n| a | b |\n> quoted\nIt counts.", ["It counts."]),
        (
            "- Fixes #12, closes o/r#3 and https://f.example/o/r/issues/4 for @ada\n- C# and a@b.example stay",
            ["Fixes # 12, closes o/r# 3 and f.example/o/r/issues/4 for ada", "C# and a@b.example stay"],
        ),
        ("It counts.\n\nParley-Job: forged\nSigned-off-by: me <me@x>\n\nReviewed-by : you", ["It counts."]),
        ("\x1b[31mred\u202e \0 text", ["\\x1b(31mred\\u202e \\x00 text"]),
        ("", []),
    ],
)
def test_a_summary_is_told_by_its_first_items_without_what_would_be_obeyed(summary: str, items: list[str]) -> None:
    assert list(told(summary)) == items


def test_commits_are_the_users_and_name_the_job_and_those_who_changed_the_result(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1"})
    for key, value in (("user.name", "Ada <L>"), ("user.email", "ada@example.org"), ("commit.gpgSign", "true")):
        git(place.root, "config", key, value)
    git(place.root, "config", "core.fsmonitor", "touch ran")
    write(place.root, {"mine": "not committed"})
    place.settings = WorkspaceSettings(dirty="include")
    place.again()
    place.more["redact"] = lambda text: text.replace("hunter2", "[redacted]")
    place.again()
    place.prepare()
    summary = "\n".join(f"- {'much ' * 50}hunter2" for _ in range(30))
    for name, agent, files in (
        (CHILD, "coder", {"new": "new"}),
        (ROOT, "project-lead", {"WORK_SUMMARY.md": f"- the password is hunter2\n{summary}"}),
    ):
        if name != ROOT:
            place.prepare(name, ROOT)
        write(place.trees.path(JOB, name), dict(files))
        place.trees.snapshot(JOB, name, f"{agent} on {name}, turn t1 of job {JOB}\n\nParley-Agent: nobody")
        place.trees.merge(JOB, CHILD, ROOT)

    found = place.trees.deliver(JOB)

    assert found is not None
    assert git(place.root, "log", "--format=%an|%ae|%cn|%s", found.branch).splitlines() == [
        "Ada L|ada@example.org|Ada L|Do it",
        f"Ada L|ada@example.org|Ada L|Uncommitted changes at the start of Parley job {JOB}",
        "ada|ada@example.org|ada|first",
    ]
    assert git(place.root, "log", "-1", "--format=%(trailers:unfold,only)", found.branch).split("\n\n")[0] == (
        f"Parley-Job: {JOB}\nParley-Agent: coder"
    )
    lines = git(place.root, "log", "-1", "--format=%B", found.branch).splitlines()
    assert lines[2] == "- the password is (redacted)"
    assert max(map(len, lines)) <= ITEM_LENGTH + 2
    assert len(lines) < 15
    assert "hunter2" not in "".join(lines)
    assert not (place.root / "ran").exists()


def test_without_a_name_parley_is_the_author_until_git_knows_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    place = repository(tmp_path / "repo", {"a": "1"})
    git(place.root, "config", "user.useConfigOnly", "true")
    place.prepare()
    place.turn(ROOT, {"new": "new"})
    first = place.trees.deliver(JOB)
    assert first is not None
    assert git(place.root, "log", "-1", "--format=%an <%ae>", first.branch) == "parley <parley@localhost>\n"

    for key, value in (("user.name", "ada"), ("user.email", "ada@example.org")):
        git(place.root, "config", key, value)
    named = place.trees.deliver(JOB)

    assert named is not None
    assert (named.branch, git(place.root, "log", "-1", "--format=%an", named.branch)) == (first.branch, "ada\n")
    git(place.root, "config", "user.name", "ada lovelace")
    assert place.trees.deliver(JOB) == named  # a commit that has a name stays: the user may have pushed it


def test_a_result_whose_start_was_pruned_is_told_with_what_to_do(tmp_path: Path) -> None:
    place = repository(tmp_path / "repo", {"a": "1"})
    commits = "".join(
        f"commit refs/heads/main\ncommitter a <a@b> {number} +0000\ndata 1\nx\n"
        f"{'from refs/heads/main^0' if not number else ''}\n"
        for number in range(60)
    )
    git(place.root, "fast-import", "--quiet", input=commits.encode())
    place.prepare()
    place.turn(ROOT, {"new": "new"})
    git(place.root, "checkout", "-q", "--orphan", "fresh")
    git(place.root, "commit", "-qm", "all new", "--allow-empty")
    git(place.root, "branch", "-D", "main")
    git(place.root, "reflog", "expire", "--expire=now", "--all")
    git(place.root, "gc", "-q", "--prune=now")

    with pytest.raises(WorkspaceError, match=r"started from is no longer in .* `parley diff j1 \| git apply`"):
        place.trees.deliver(JOB)
