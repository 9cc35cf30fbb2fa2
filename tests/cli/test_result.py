"""`parley diff`, `parley merge` and `parley gc`: the result comes home, and what is left over goes."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.home import APPROVES, LEADS, Home
from tests.workspaces.user_repository import fingerprint, git, write

EFFECTS = "{write: {path: hello.txt, text: 'hello'}}, {write: {path: a.txt, text: 'changed'}}"
SUMMARY = "{write: {path: WORK_SUMMARY.md"
WORKS = APPROVES + LEADS.replace(f"do: [{SUMMARY}", f"do: [{EFFECTS}, {SUMMARY}")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A user's repository, with a job that is done."""
    home = Home(tmp_path_factory.mktemp("result") / "work")
    home.folder.mkdir()
    git(home.folder, "init", "-q")
    for key, value in (("user.name", "ada"), ("user.email", "ada@example.org")):
        git(home.folder, "config", key, value)
    write(home.folder, {"a.txt": "a", "PLAN.md": "my own plan"})
    git(home.folder, "add", "-A")
    git(home.folder, "commit", "-qm", "first")
    home.write("../p.yaml", WORKS)
    done = home.run("run", "Say hello", "--playbook", "../p.yaml", "--json")
    assert done.code == 0, done
    home.environment["JOB"] = done.document["id"]
    return home


@pytest.fixture
def user(finished: Home, tmp_path: Path) -> Home:
    """The same for each test: a home can be moved along with its repository, and is taken in there."""
    shutil.copytree(finished.folder.parent, tmp_path / "moved", symlinks=True)
    moved = Home(tmp_path / "moved" / "work", dict(finished.environment))
    assert "moved, copied or restored" in moved.here("ls").err
    assert moved.here("bus", "adopt", "--yes").code == 0
    return moved


def job_of(home: Home) -> str:
    return home.environment["JOB"]


def test_a_job_that_is_done_is_a_branch_of_the_users_repository(user: Home) -> None:
    branch = f"parley/say-hello-{job_of(user)}"

    assert git(user.folder, "diff", "--name-status", f"main...{branch}") == "M\ta.txt\nA\thello.txt\n"
    assert git(user.folder, "log", "--all", "--format=%an %cn %s") == "ada ada Say hello\nada ada first\n"
    assert git(user.folder, "log", "-1", "--format=%b", branch) == (
        f"- work\n\nParley-Job: {job_of(user)}\nParley-Agent: project-lead\n\n"
    )
    assert git(user.folder, "for-each-ref", "--format=%(refname)") == f"refs/heads/main\nrefs/heads/{branch}\n"
    assert git(user.folder, "status", "--porcelain") == ""
    assert git(user.folder, "fsck", "--no-dangling") == ""


def test_diff_shows_the_work_and_with_all_the_protocols_files_too(user: Home) -> None:
    done = user.here("diff", job_of(user))
    assert done.code == 0
    assert "+++ b/hello.txt" in done.out
    assert "PLAN.md" not in done.out

    whole = user.here("diff", job_of(user)[:4], "--all", "--stat").out
    assert [
        name for name in ("INTENT.md", f"PLAN.{job_of(user)}.md", "WORK_SUMMARY.md", "hello.txt") if name not in whole
    ] == []
    document = user.here("diff", job_of(user), "--json").document
    assert document["changes"] == [
        {"path": "a.txt", "added": 1, "removed": 1},
        {"path": "hello.txt", "added": 1, "removed": 0},
    ]
    assert (document["id"], document["state"]) == (job_of(user), "DONE")


def test_merge_brings_the_work_into_the_users_branch_once(user: Home) -> None:
    done = user.run("merge", job_of(user))

    assert (done.code, done.out) == (0, f"parley/say-hello-{job_of(user)} is merged: 2 files\n")
    assert (user.folder / "hello.txt").read_text() == "hello"
    assert (user.folder / "PLAN.md").read_text() == "my own plan"
    assert git(user.folder, "status", "--porcelain") == ""
    assert git(user.folder, "log", "-1", "--format=%an %s%n%b") == (
        f"ada Merge parley/say-hello-{job_of(user)}\n"
        f"Say hello\n\nParley-Job: {job_of(user)}\nParley-Agent: project-lead\n\n"
    )
    again = user.run("merge", job_of(user), "--json").document
    assert (again["before"], again["paths"]) == (True, [])


def test_what_is_merged_is_said_to_be_and_not_offered_again(user: Home) -> None:
    job, merges = job_of(user), f"parley merge {job_of(user)}"
    before = user.here("show", job, "--json").document
    assert not before["delivery"]["merged"]
    assert merges in before["exits"]
    assert merges in before["delivery"]["commands"]

    user.here("merge", job)
    after = user.here("show", job, "--json").document
    assert after["delivery"]["merged"]
    assert merges not in (*after["exits"], *after["delivery"]["commands"])
    shown = user.here("show", job).out
    assert "it is merged: what you have checked out has it" in shown
    assert merges not in shown


def test_merge_goes_on_top_of_what_the_user_has_done_meanwhile(user: Home) -> None:
    write(user.folder, {"mine": "mine"})
    git(user.folder, "add", "-A")
    git(user.folder, "commit", "-qm", "mine")
    write(user.folder, {"mine": "dirty, and not in the way", "untracked": "x"})

    done = user.run("merge", job_of(user), "--all")

    assert done.code == 0
    assert f"your own PLAN.md stays as it is; the job's is PLAN.{job_of(user)}.md\n" in done.out
    assert (user.folder / "mine").read_text() == "dirty, and not in the way"
    assert (user.folder / "INTENT.md").read_text() == "intent"
    assert (user.folder / "PLAN.md").read_text() == "my own plan"
    assert (user.folder / f"PLAN.{job_of(user)}.md").read_text() == "plan"


def unnamed(user: Home) -> Home:
    """The same user, whose git has no name for them, and no host to make one of."""
    for key in ("user.name", "user.email"):
        git(user.folder, "config", "--unset", key)
    git(user.folder, "config", "user.useConfigOnly", "true")
    user.environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return user


def test_merge_takes_the_name_that_the_users_environment_gives(user: Home) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        user.environment |= {f"GIT_{who}_NAME": "grace", f"GIT_{who}_EMAIL": "grace@example.org"}

    done = user.run("merge", job_of(user))

    assert done.code == 0, done
    assert git(user.folder, "log", "-1", "--format=%an %cn") == "grace grace\n"


def test_without_any_name_merge_moves_the_branch_on_as_long_as_no_commit_is_needed(user: Home) -> None:
    done = unnamed(user).run("merge", job_of(user))

    assert done.code == 0, done
    assert (user.folder / "hello.txt").read_text() == "hello"
    assert git(user.folder, "log", "-1", "--format=%an %s") == "ada Say hello\n"
    assert user.here("merge", job_of(user), "--json").document["before"]


def test_without_any_name_a_merge_that_needs_a_commit_says_what_to_do(user: Home) -> None:
    write(user.folder, {"mine": "mine"})
    git(user.folder, "add", "-A")
    git(user.folder, "commit", "-qm", "mine")
    before = fingerprint(user.folder)

    done = unnamed(user).run("merge", job_of(user))

    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"parley: {job_of(user)} was not merged: git does not know who you are;"
        ' tell it with `git config user.name "…"` and user.email\n'
    )
    assert {name for name in before if fingerprint(user.folder)[name] != before[name]} == {".git/config"}


@pytest.mark.parametrize(
    "how, said",
    [
        ("conflict", "conflicts with what is checked out in a.txt; merge parley/say-hello-"),
        ("dirty", "changes of your own in a.txt; commit or stash"),
        ("untracked", "hello.txt of yours would be overwritten; move it away"),
        ("strange", "nothing in common"),
    ],
)
def test_what_would_not_merge_is_refused_and_nothing_is_changed(user: Home, how: str, said: str) -> None:
    if how == "conflict":
        write(user.folder, {"a.txt": "mine"})
        git(user.folder, "commit", "-qam", "mine")
    elif how == "dirty":
        write(user.folder, {"a.txt": "mine"})
    elif how == "untracked":
        write(user.folder, {"hello.txt": "mine"})
    else:
        git(user.folder, "checkout", "-q", "--orphan", "strange")
        git(user.folder, "commit", "-qm", "strange")
    git(user.folder, "status")
    before, head = fingerprint(user.folder), git(user.folder, "rev-parse", "HEAD")

    line = user.fails("merge", job_of(user), code=1)

    assert said in line
    assert fingerprint(user.folder) == before
    assert git(user.folder, "rev-parse", "HEAD") == head


def test_only_what_is_done_can_be_merged(asked: Home) -> None:
    job = asked.job()

    assert [name for name in ("merge", "pr") if "it is not done yet" not in asked.refuses(name, job)] == []
    asked.here("withdraw", job)
    assert [name for name in ("merge", "pr") if "it was withdrawn" not in asked.refuses(name, job)] == []


def test_a_folder_without_a_repository_gets_the_files_where_none_differ(home: Home) -> None:
    home.write("../p.yaml", WORKS)
    job = home.run("run", "Say hello", "--playbook", "../p.yaml", "--json").document["id"]
    home.write("a.txt", "mine")

    assert "a.txt" in home.fails("merge", job, code=1)
    assert not (home.folder / "hello.txt").exists()
    (home.folder / "a.txt").unlink()
    assert home.run("merge", job).out == f"2 files of {job} copied into {home.folder}\n"
    assert (home.folder / "hello.txt").read_text() == "hello"
    assert "already" in home.run("merge", job).out


def test_gc_lists_and_frees_what_is_merged_and_keeps_what_is_not(user: Home) -> None:
    job, folder = job_of(user), user.job_file(job_of(user), "work")
    assert user.here("gc").out.startswith("nothing to delete: no finished job older than")

    kept = user.here("gc", "--older", "0s")
    assert f"{job} stays" in kept.out
    assert "its result is not merged" in kept.out
    assert folder.is_dir()
    user.run("merge", job)
    dry = user.here("gc", "--older", "0s", "--dry-run", "--json").document
    assert dry["bytes"] == sum(item["bytes"] for item in dry["items"]) > 0
    assert folder.is_dir()
    assert "were deleted" in user.here("gc", job, "--state", "done").out

    assert not folder.exists()
    assert user.here("gc").out.startswith("nothing to delete")  # what is left are the bases that no job needs
    assert not user.job_file(job, "snapshots.git").exists()
    assert list((user.folder / ".parley/bases").iterdir()) == []
    assert user.here("audit", job).code == 0
    assert git(user.folder, "for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
    assert git(user.folder, "fsck", "--no-dangling") == ""


@pytest.mark.parametrize("how", ["merged", "squashed", "picked"])
def test_a_branch_goes_at_once_when_the_user_has_its_work_and_is_not_made_again(user: Home, how: str) -> None:
    job, branch = job_of(user), f"parley/say-hello-{job_of(user)}"
    if how == "merged":
        assert user.here("merge", job).code == 0
    elif how == "squashed":
        git(user.folder, "merge", "-q", "--squash", branch)
        git(user.folder, "commit", "-qm", "by hand")
    else:
        git(user.folder, "commit", "-q", "--allow-empty", "-m", "other")
        git(user.folder, "cherry-pick", branch)
        write(user.folder, {"hello.txt": "changed since"})
        git(user.folder, "commit", "-qam", "later")
    git(user.folder, "checkout", "-q", branch)
    assert user.here("gc").out.startswith("nothing to delete")  # it is checked out
    git(user.folder, "checkout", "-q", "main")

    said = user.here("gc", "--dry-run").out
    assert said.splitlines()[1:] == ["1 branch would be deleted"]
    assert user.here("gc").out.splitlines()[1:] == ["1 branch was deleted"]

    assert git(user.folder, "for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
    assert f"{branch} is in what you have checked out already" in user.here("merge", job).out
    assert git(user.folder, "branch", "--format=%(refname)") == "refs/heads/main\n"
    assert user.job_file(job, "work").is_dir()


WITHDRAWN = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: half.txt, text: "half\n"}}, {ask: {text: "go on?"}}]
"""


def test_gc_and_merge_agree_on_a_job_that_was_withdrawn(home: Home) -> None:
    did, idle = home.start(WITHDRAWN), home.start("agents: {intent-lead: [{match: x, do: []}]}")
    for job in (did, idle):
        home.here("withdraw", job)
    kept, freed = home.job_file(did, "work"), home.job_file(idle, "work")

    assert "it was withdrawn; see what there is with `parley diff" in home.fails("merge", did)
    said = home.here("gc", "--older", "0s").out

    assert f"{did} stays" in said
    assert f"look at it with `parley diff {did}`, or delete it with --unmerged" in said
    assert "parley merge" not in said
    assert "+half" in home.here("diff", did).out
    assert (kept.is_dir(), freed.is_dir()) == (True, False)
    home.here("gc", did, "--unmerged")
    assert not kept.exists()


def test_what_gc_has_freed_is_offered_to_nobody(user: Home) -> None:
    job = job_of(user)
    assert user.here("gc", "--older", "0s", "--unmerged").code == 0

    document, said = user.here("show", job, "--json").document, user.here("show", job).out
    assert document["exits"] == [f"parley audit {job}", f"parley export {job}", f"parley log {job}"]
    assert document["delivery"]["commands"] == []
    assert [word for word in ("parley diff", "parley merge", document["result"]) if word in said] == []
    assert "`parley gc` has deleted them" in user.refuses("diff", job)
    assert "`parley gc` has deleted them" in user.refuses("merge", job, code=1)


def test_gc_gives_up_unmerged_work_only_when_told_to_and_live_jobs_never(user: Home) -> None:
    user.write("../wait.yaml", LEADS)
    waiting = user.run("run", "wait", "--playbook", "../wait.yaml", "--json").document["id"]

    said = user.here("gc", "--older", "0s", "--unmerged").out

    assert f"parley/say-hello-{job_of(user)} stays: it is not merged, or you work on it; delete it with" in said
    assert not user.job_file(job_of(user), "work").exists()
    assert user.job_file(waiting, "work").is_dir()
    assert "is not finished" in user.refuses("gc", waiting)
    assert "no age" in user.refuses("gc", "--older", "soon")
    assert "there is no state 'gone'" in user.refuses("gc", "--state", "gone")
    assert user.here("diff", waiting, "--json").code == 0


def test_what_is_not_committed_is_told_of_in_one_line(user: Home) -> None:
    write(user.folder, {"b.txt": "new"})
    done = user.run("run", "x", "--playbook", "../p.yaml", "--policy", "never")

    assert "\nparley: not committed, so not part of the job: b.txt" in f"\n{done.err}"


def test_settings_that_can_not_be_used_are_told_with_their_place(home: Home) -> None:
    playbook = home.write("p.yaml", WORKS)
    for line, said in (
        ('copy = "x"', "[workspace] copy: it must be a list of paths"),
        ('copy = [".env", "../x"]', "[workspace] copy: '../x' can't be copied; name files and folders of the"),
        ('copy = ["/etc/passwd"]', "[workspace] copy: '/etc/passwd' can't be copied"),
        ('copy = [".git/config"]', "[workspace] copy: '.git/config' can't be copied"),
        ("setup = 1", "[workspace] setup: it must be a command"),
        ("quota_mb = 0", "[workspace] quota_mb: it must be a whole number"),
        ('dirty = "yes"', "[workspace] dirty: 'yes' is not known"),
        ("unknown = 1", "[workspace] unknown: there is no such setting"),
    ):
        home.write("parley.toml", f"[workspace]\n{line}\n")
        assert said in home.refuses("run", "x", "--playbook", playbook)


def test_a_diff_can_be_applied_elsewhere(user: Home, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    git(tmp_path, "clone", "-q", str(user.folder), "elsewhere")
    patch = user.here("diff", job_of(user)).out
    git(elsewhere, "apply", input=patch.encode())

    assert (elsewhere / "hello.txt").read_text() == "hello"
    assert json.loads(user.here("show", job_of(user), "--json").out)["exits"][:2] == [
        f"parley diff {job_of(user)}",
        f"parley merge {job_of(user)}",
    ]
