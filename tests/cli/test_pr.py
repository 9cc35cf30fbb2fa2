"""`parley pr`: the result becomes a pull request, by a real push and a `gh` that records how it was called."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.home import APPROVES, LEADS, Done, Home
from tests.workspaces.user_repository import git, write

TOKEN = "ghp_" + "a1B2" * 9
SUMMARY = f"# Work summary\n\nhello.txt says hello. The token was {TOKEN}.\n\n## Assumptions\n- none\n"
WROTE = (
    f"{{write: {{path: hello.txt, text: 'hello'}}}}, {{write: {{path: WORK_SUMMARY.md, text: {json.dumps(SUMMARY)}}}}}"
)
WORKS = APPROVES + LEADS.replace('{write: {path: WORK_SUMMARY.md, text: "work"}}', WROTE)
ASKS = "https://forge.example/ada/hello/pull/new"

# The long flags of `gh pr create`, as the packages of Debian 12 (gh 2.23.0) and Debian 13 (gh 2.46.0) list them.
GH_FLAGS = {
    "2.23.0": "assignee base body body-file draft fill head label milestone no-maintainer-edit project recover reviewer"
    " title web help repo",
    "2.46.0": "assignee base body body-file draft dry-run fill fill-first fill-verbose head label milestone"
    " no-maintainer-edit project recover reviewer template title web help repo",
}
VALUED = (
    "assignee",
    "base",
    "body",
    "body-file",
    "head",
    "label",
    "milestone",
    "project",
    "recover",
    "reviewer",
    "title",
)
GH = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done > "$RECORD/argv"
while [ $# -gt 0 ]; do [ "$1" = --body-file ] && cat "$2" > "$RECORD/body"; shift; done
git config --get core.hooksPath > "$RECORD/hooks"
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A clone of a bare repository, with a job that is done."""
    above = tmp_path_factory.mktemp("pr")
    git(above, "init", "-q", "--bare", "hello.git")
    git(above, "clone", "-q", "hello.git", "work")
    home = Home(above / "work")
    for key, value in (("user.name", "ada"), ("user.email", "ada@example.org")):
        git(home.folder, "config", key, value)
    write(home.folder, {"a.txt": "a"})
    git(home.folder, "add", "-A")
    git(home.folder, "commit", "-qm", "first")
    git(home.folder, "push", "-q", "origin", "HEAD:main")
    home.write("../p.yaml", WORKS)
    ended = home.run("run", "Say hello", "--playbook", "../p.yaml", "--json")
    assert ended.code == 0, ended
    home.environment["JOB"] = ended.document["id"]
    return home


@pytest.fixture
def user(done: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The same for each test, with programs of its own first in PATH, and no `gh` among the others."""
    shutil.copytree(done.folder.parent, tmp_path / "moved", symlinks=True)
    moved = Home(tmp_path / "moved" / "work", dict(done.environment))
    git(moved.folder, "config", "remote.origin.url", "../hello.git")
    (tmp_path / "bin").mkdir()
    for name in ("git", "sh", "env", "cat", "setpriv", "true"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("RECORD", str(tmp_path))
    assert moved.here("bus", "adopt", "--yes").code == 0
    return moved


def gh(user: Home, ends: str) -> Path:
    """Install a `gh` that records, and then ends as told; where its records are."""
    record = user.folder.parents[1]
    path = record / "bin" / "gh"
    path.write_text(GH + ends)
    path.chmod(0o755)
    return record


def remote(user: Home) -> Path:
    return user.folder.parent / "hello.git"


def branch(user: Home) -> str:
    return f"parley/say-hello-{user.environment['JOB']}"


def pr(user: Home, *words: str) -> Done:
    return user.here("pr", user.environment["JOB"], *words)


def test_a_pull_request_is_pushed_and_opened_by_the_users_git_and_gh(user: Home) -> None:
    record = gh(user, "echo https://forge.example/ada/hello/pull/7\n")

    said = pr(user, "--draft")

    assert said.code == 0, said
    assert said.out.splitlines() == [
        f"{branch(user)} is pushed to origin",
        "the draft pull request is open into main: https://forge.example/ada/hello/pull/7",
    ]
    assert git(remote(user), "log", "--format=%an <%ae> %cn %s%n%b", "-1", branch(user)) == (
        "ada <ada@example.org> ada Say hello\n"
        "- hello.txt says hello.\n- The token was (redacted github-token).\n\n"
        f"Parley-Job: {user.environment['JOB']}\nParley-Agent: project-lead\n\n"
    )
    words = (record / "argv").read_text().split("\0")[:-1]
    assert words[:2] == ["pr", "create"]
    given = {words[at]: words[at + 1 : at + 2] for at in range(2, len(words)) if words[at].startswith("--")}
    assert given["--head"] + given["--base"] + given["--title"] == [branch(user), "main", "Say hello"]
    for version, known in GH_FLAGS.items():
        assert [flag for flag in given if flag[2:] not in known.split()] == [], version
    assert [flag for flag in given if flag != "--draft" and flag[2:] not in VALUED] == []
    assert (record / "body").read_text() == SUMMARY.replace(TOKEN, "[redacted github-token]")
    assert (record / "hooks").read_text() == f"{os.devnull}\n"
    assert not Path(given["--body-file"][0]).parent.exists()
    assert (
        f"or open a pull request: parley pr {user.environment['JOB']}" in user.here("show", user.environment["JOB"]).out
    )

    gh(user, f"echo 'a pull request for branch \"x\" already exists:\n{ASKS[:-4]}/7' >&2; exit 1\n")
    again = pr(user, "--title", f"With {TOKEN}", "--base", "next", "--json").document
    assert (again["before"], again["url"], again["pushed"]) == (True, f"{ASKS[:-4]}/7", True)
    assert (again["title"], again["base"]) == ("With [redacted github-token]", "next")


def test_without_gh_or_a_login_the_branch_is_pushed_and_the_next_step_is_told(user: Home) -> None:
    hook = remote(user) / "hooks" / "post-receive"
    hook.write_text(f"#!/bin/sh\necho 'Create a pull request by visiting:'; echo '  {ASKS}/x'\n")
    hook.chmod(0o755)
    job = user.environment["JOB"]
    body = user.job_file(job, "pull_request.md")

    said = pr(user)

    assert said.code == 0
    assert said.out.splitlines() == [
        f"{branch(user)} is pushed to origin",
        "no pull request was opened: gh is not installed",
        f"open it in a browser: {ASKS}/x",
        f"or with gh: gh pr create --head {branch(user)} --base main --title 'Say hello' --body-file {body}",
    ]
    assert "[redacted github-token]" in body.read_text()
    gh(user, "echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4\n")
    told = pr(user, "--json")
    assert (told.code, told.document["pushed"], told.document["opened"], told.document["url"]) == (0, True, False, None)
    assert told.document["why"] == "gh is not logged in; log in with `gh auth login`"
    assert told.document["command"].startswith("gh pr create --head ")
    gh(user, "echo 'GraphQL: No commits between main and x' >&2; exit 1\n")
    failed = pr(user)
    assert failed.code == 1
    assert "gh could not open it: GraphQL: No commits between main and x\n" in failed.out


def test_a_dry_run_changes_nothing_and_a_branch_of_the_users_is_pushed_as_it_is(user: Home) -> None:
    record = gh(user, "echo https://forge.example/1\n")
    before = git(remote(user), "for-each-ref"), git(user.folder, "for-each-ref")

    dry = pr(user, "--dry-run")

    assert dry.code == 0
    assert dry.out.startswith(
        f"{branch(user)} would be pushed to origin\na pull request into main would be opened: Say"
    )
    assert (git(remote(user), "for-each-ref"), git(user.folder, "for-each-ref")) == before
    assert not (record / "argv").exists()
    git(user.folder, "checkout", "-q", branch(user))
    write(user.folder, {"mine": "mine"})
    git(user.folder, "add", "mine")
    git(user.folder, "commit", "-qm", "mine")
    said = pr(user)
    assert said.code == 0, said
    assert f"you have changed {branch(user)} since the job was done: it is pushed as it is" in said.err
    assert git(remote(user), "log", "--format=%s", branch(user)) == "mine\nSay hello\nfirst\n"


def test_what_can_not_be_pushed_is_told_in_one_line(user: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    job = user.environment["JOB"]

    def refused(*words: str) -> str:
        said = pr(user, *words)
        lines = [line for line in said.err.splitlines() if "pushing" not in line]
        assert (said.code in (1, 2), said.out, len(lines)) == (True, "", 1), said
        return lines[0]

    assert "there is no remote 'elsewhere'; use one of: origin" in refused("--remote", "elsewhere")
    assert "a pull request needs one" in refused("--title", " ")
    git(user.folder, "update-ref", "refs/remotes/origin/main", branch(user))
    assert f"origin/main has all of {branch(user)} already" in refused()
    git(user.folder, "update-ref", "refs/remotes/origin/main", "main")
    hook = remote(user) / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'no branches of robots here'; exit 1\n")
    hook.chmod(0o755)
    assert "origin rejected" in (line := refused())
    assert "no branches of robots here" in line
    hook.unlink()
    git(user.folder, "push", "-q", "origin", f"main:refs/heads/{branch(user)}")
    git(user.folder, "commit", "-q", "--allow-empty", "-m", "other")
    git(user.folder, "push", "-q", "origin", f"+HEAD:refs/heads/{branch(user)}")
    assert f"origin has another {branch(user)}: [rejected]" in refused()
    git(user.folder, "config", "remote.origin.url", "../nowhere.git")
    assert "could not be pushed to origin: " in refused()
    git(user.folder, "config", "user.useConfigOnly", "true")
    git(user.folder, "config", "--unset", "user.email")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    assert "git does not know who you are" in refused()
    git(user.folder, "config", "user.email", "ada@example.org")
    git(user.folder, "remote", "remove", "origin")
    assert "has no remote; add one with `git remote add origin URL`" in refused()
    for name in ("one", "two"):
        git(user.folder, "remote", "add", name, "../hello.git")
    assert "there are several remotes (one, two); name one with --remote" in refused()
    assert user.here("gc", job, "--older", "0s", "--unmerged").code == 0
    assert "`parley gc` has deleted them" in refused()


def test_a_push_runs_nothing_of_the_checkout(user: Home, tmp_path: Path) -> None:
    script = f"#!/bin/sh\ntouch {tmp_path}/ran\n"
    for name in (".git/hooks/pre-push", "tools/ask"):
        user.write(name, script)
        (user.folder / name).chmod(0o755)

    said = pr(user)

    assert said.code == 0
    assert "your pre-push did not run; to run it: git push origin parley/" in said.err
    git(user.folder, "config", "credential.helper", "!sh tools/ask")
    assert "your git would run what lies in this checkout (credential.helper)" in pr(user).err
    git(user.folder, "config", "credential.helper", "!f() { echo quit=1; }; f")
    assert pr(user).code == 0
    assert not (tmp_path / "ran").exists()


def test_a_fork_is_named_with_its_owner_and_another_base_than_the_jobs_is_told(user: Home) -> None:
    git(user.folder, "remote", "rename", "origin", "fork")
    git(user.folder, "remote", "add", "upstream", "git@forge.example:acme/hello.git")
    git(user.folder, "update-ref", "refs/remotes/upstream/trunk", "HEAD")
    git(user.folder, "symbolic-ref", "refs/remotes/upstream/HEAD", "refs/remotes/upstream/trunk")
    git(user.folder, "config", "remote.fork.pushurl", "https://forge.example/ada/hello.git")

    found = pr(user, "--remote", "fork", "--dry-run", "--json").document

    assert (found["head"], found["base"]) == (f"ada:{branch(user)}", "trunk")
    assert found["remarks"] == [
        "upstream has no main, which the job started from: the pull request goes into trunk; --base names another"
    ]
