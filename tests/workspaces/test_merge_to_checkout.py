"""Merging a result into the user's checkout: nothing that an agent wrote runs, and nothing of the user's is lost."""

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.ports.workspaces import WorkspaceError
from parley.workspaces.checkout.source_repository import find_source
from parley.workspaces.checkout.users_git_settings import UsersGitSettings
from parley.workspaces.delivery import file_placement
from parley.workspaces.delivery.merge_to_checkout import CheckoutMerge, WontMerge
from parley.workspaces.delivery.result_branch import ResultBranch
from tests.workspaces.user_repository import JOB, ROOT, UserRepository, fingerprint, git, repository, write

HOOKS = (
    "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge", "post-checkout", "post-commit",
    "reference-transaction", "post-index-change", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman",
)  # fmt: skip


@pytest.fixture(autouse=True)
def as_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user whose git knows a name, and no other settings but those of the repository."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = ada\n\temail = ada@example.org\n")


def home_of(tmp_path: Path, files: dict[str, str | bytes] | None = None) -> UserRepository:
    return repository(tmp_path / "repo", files)


def result(
    place: UserRepository, files: dict[str, str | bytes], gone: tuple[str, ...] = (), programs: tuple[str, ...] = ()
) -> None:
    """A job's result."""
    work = place.prepare()
    write(work, files)
    for path in programs:
        (work / path).chmod(0o755)
    kept = place.turn(ROOT, {}, gone)
    assert kept.left_out == ()


def delivered(place: UserRepository, *, signs: bool = False) -> ResultBranch:
    found = place.trees.deliver(JOB, signs=signs)
    assert found is not None
    return found


def merge(place: UserRepository, *, dry: bool = False) -> CheckoutMerge:
    place.again()
    return place.trees.merge_to_checkout(JOB, dry=dry)


def script(marker: Path) -> str:
    return f"#!/bin/sh\necho ran >> {shlex.quote(str(marker))}\nexec cat\n"


def refused(place: UserRepository, *names: str) -> str:
    """What a merge is refused with: it names what is in the way, and leaves all as it was."""
    place.trees.deliver(JOB)
    before, index = fingerprint(place.root), git(place.root, "ls-files", "-s", "-v")
    with pytest.raises(WontMerge) as error:
        merge(place)
    assert fingerprint(place.root) == before
    assert git(place.root, "ls-files", "-s", "-v") == index
    assert [name for name in names if name not in str(error.value)] == []
    return str(error.value)


# ---- nothing that an agent wrote runs -----------------------------------------------------------------


@pytest.mark.parametrize("how", ["relative", "absolute", "included", "worktree", "global", "root"])
def test_hooks_of_a_folder_in_the_tree_do_not_run(tmp_path: Path, how: str) -> None:
    place, marker = home_of(tmp_path), tmp_path / "ran"
    folder = "" if how == "root" else "hooks/"
    path = {"absolute": str(place.root / "hooks"), "root": "."}.get(how, "hooks")
    if how == "included":
        write(place.root, {"shared.gitconfig": "[core]\n\thooksPath = hooks\n"})
        git(place.root, "add", "-A")
        git(place.root, "commit", "-qm", "shared")
        git(place.root, "config", "include.path", "../shared.gitconfig")
    elif how == "worktree":
        git(place.root, "config", "extensions.worktreeConfig", "true")
        git(place.root, "config", "--worktree", "core.hooksPath", path)
    elif how == "global":
        git(place.root, "config", "--file", str(tmp_path / ".gitconfig"), "core.hooksPath", path)
    else:
        git(place.root, "config", "core.hooksPath", path)
    names = tuple(f"{folder}{name}" for name in HOOKS)
    result(place, {name: script(marker) for name in names}, programs=names)

    place.trees.deliver(JOB)
    found = merge(place)

    assert not marker.exists()
    assert set(found.paths) == set(names)
    assert {one.path for one in found.obeyed} == set(names)
    assert all(os.access(place.root / name, os.X_OK) for name in names)
    assert git(place.root, "-c", f"core.hooksPath={os.devnull}", "status", "--porcelain") == ""


def test_hooks_of_the_users_that_call_what_the_result_changed_do_not_run_and_are_named(tmp_path: Path) -> None:
    place, marker = home_of(tmp_path, {"tools/check.sh": "#!/bin/sh\nexit 0\n", "a": "a"}), tmp_path / "ran"
    for name in HOOKS:
        path = place.root / ".git/hooks" / name
        path.write_text("#!/bin/sh\nexec sh tools/check.sh\n")
        path.chmod(0o755)
    result(place, {"tools/check.sh": f"echo ran > {marker}\n"})

    found = merge(place)

    assert not marker.exists()
    assert set(found.hooks) >= {"pre-merge-commit", "commit-msg", "post-merge", "reference-transaction"}
    assert [(one.path, "names it" in one.by) for one in found.obeyed] == [("tools/check.sh", True)]
    assert git(place.root, "show", "HEAD:tools/check.sh") == f"echo ran > {marker}\n"


@pytest.mark.parametrize(
    "kind, command",
    [
        ("smudge", "tools/run"),
        ("clean", "./tools/run"),
        ("process", "sh tools/run"),
        ("smudge", "sh -c './tools/run %f'"),
        ("clean", "{root}/tools/run %f"),
        ("process", "env tools/run"),
        ("smudge", "true; tools/run"),
        ("smudge", "cat --script=tools/run"),
    ],
)
def test_a_filter_that_may_be_an_agents_does_not_run(tmp_path: Path, command: str, kind: str) -> None:
    files: dict[str, str | bytes] = {
        "tools/run": "#!/bin/sh\nexec cat\n",
        ".gitattributes": "*.x filter=f\n",
        "a.x": "a\n",
    }
    place, marker = home_of(tmp_path, files), tmp_path / "ran"
    result(place, {"tools/run": script(marker), "a.x": "b\n"}, programs=("tools/run",))
    os.utime(place.root / "a.x", (1, 1))  # so that git has to look at what it holds
    git(place.root, "config", f"filter.f.{kind}", command.format(root=place.root))

    found = merge(place)

    assert not marker.exists()
    assert found.unfiltered == ("f (a.x)",)
    assert (place.root / "a.x").read_text() == "b\n"
    assert "tools/run" in {one.path for one in found.obeyed}


@pytest.mark.parametrize(
    "words", ["-f new.awk", "-fnew.awk", "-f {root}/new.awk", "-f{root}/new.awk", "-f ~/repo/new.awk"]
)
def test_a_filter_finds_no_file_that_the_result_brings(tmp_path: Path, words: str) -> None:
    place, marker = home_of(tmp_path, {".gitattributes": "*.x filter=f\n", "a.x": "a\n"}), tmp_path / "ran"
    for kind in ("smudge", "clean"):
        git(place.root, "config", f"filter.f.{kind}", f"awk {words.format(root=place.root)}")
    result(place, {"new.awk": f'BEGIN {{ system("echo ran > {marker}") }} {{ print }}\n', "b.x": "b\n"})

    merge(place)

    assert not marker.exists()
    assert (place.root / "b.x").read_text() == "b\n"


def test_a_merge_whose_files_need_such_a_filter_is_refused(tmp_path: Path) -> None:
    place = home_of(tmp_path, {".gitattributes": "*.x filter=f\n"})
    git(place.root, "config", "filter.f.smudge", "./run")
    git(place.root, "config", "filter.f.required", "true")
    result(place, {"a.x": "a"})

    assert "filter f" in refused(place, "a.x")


def test_a_filter_whose_program_lies_elsewhere_runs_in_the_users_repository(tmp_path: Path) -> None:
    """As git-lfs does."""
    program, seen = tmp_path / "bin" / "big-files", tmp_path / "seen"
    write(tmp_path, {"bin/big-files": f"#!/bin/sh\ngit rev-parse --absolute-git-dir > {seen}\ntr a-z A-Z\n"})
    program.chmod(0o755)
    place = home_of(tmp_path, {".gitattributes": "*.x filter=big\n", "a": "a"})
    git(place.root, "config", "filter.big.smudge", f"{program} smudge -- %f")
    git(place.root, "config", "filter.big.clean", "tr A-Z a-z")
    git(place.root, "config", "filter.big.required", "true")
    result(place, {"new.x": "loud\n"})

    assert merge(place).unfiltered == ()
    assert (place.root / "new.x").read_text() == "LOUD\n"
    assert seen.read_text() == f"{place.root / '.git'}\n"
    assert git(place.root, "status", "--porcelain") == ""


def test_what_runs_in_a_merge_is_led_into_the_checkout_by_no_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any name: the shell's own stand for those of Python, Perl, Node and all others."""
    program, seen = tmp_path / "bin/filter", tmp_path / "seen"
    write(tmp_path, {"bin/filter": f"#!/bin/sh\nenv >> {seen}\nexec cat\n"})
    program.chmod(0o755)
    place = home_of(tmp_path, {".gitattributes": "*.x filter=f\n", "a": "a"})
    for kind in ("clean", "smudge"):
        git(place.root, "config", f"filter.f.{kind}", str(program))
    result(place, {"new.x": "new\n", "sitecustomize.py": "evil"})
    (tmp_path / "link").symlink_to(place.root)
    led = {"ENV": "{}/env.sh", "PYTHONPATH": "/opt/x:{}", "PERL5OPT": "-I{}/lib -Mx", "NODE_PATH": f"{tmp_path}/link"}
    for name, value in {**led, "KEPT": "{}-other/x:/opt"}.items():
        monkeypatch.setenv(name, value.format(place.root))
    monkeypatch.chdir(place.root)

    merge(place)

    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert "KEPT" in names
    assert names.isdisjoint(led)


@pytest.mark.parametrize("key", ["core.sshCommand", "credential.helper", "alias.fetch-it"])
def test_git_that_a_filter_starts_runs_nothing_of_the_tree(tmp_path: Path, key: str) -> None:
    """As git-lfs does for a server that wants a key."""
    asks = {
        "core.sshCommand": "timeout 5 git ls-remote ssh://localhost/x < /dev/null",
        "credential.helper": "printf 'protocol=https\\nhost=x\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill",
        "alias.fetch-it": "git fetch-it < /dev/null",
    }
    program, marker = tmp_path / "bin/big-files", tmp_path / "ran"
    write(tmp_path, {"bin/big-files": f"#!/bin/sh\n( {asks[key]} ) > /dev/null 2>&1\nexec cat\n"})
    program.chmod(0o755)
    place = home_of(tmp_path, {".gitattributes": "*.x filter=big\n", "run": "#!/bin/sh\n", "a": "a"})
    git(place.root, "config", "filter.big.smudge", str(program))
    git(place.root, "config", key, f"{'!' if key.startswith(('alias', 'cred')) else ''}{place.root}/run")
    write(place.root, {"run": script(marker)})
    (place.root / "run").chmod(0o755)
    result(place, {"new.x": "new\n"})

    assert merge(place).unfiltered == ()
    assert (place.root / "new.x").read_text() == "new\n"
    assert not marker.exists()


COMMANDS = {
    "core.pager": "./run",
    "core.editor": "./run",
    "core.sshCommand": "./run",
    "core.askPass": "./run",
    "core.alternateRefsCommand": "./run",
    "credential.helper": "!./run",
    "alias.merge": "!./run",
    "alias.status": "!./run",
    "alias.update-ref": "!./run",
    "merge.f.driver": "./run %A",
    "diff.f.textconv": "./run",
    "diff.external": "./run",
    "trailer.t.command": "./run",
    "hook.h.command": "./run",
    "hook.h.event": "reference-transaction",
    "interactive.diffFilter": "./run",
    "gpg.program": "./run",
    "merge.autoStash": "true",
    "rerere.enabled": "true",
    "submodule.recurse": "true",
    "gc.auto": "1",
    "core.untrackedCache": "true",
    "core.splitIndex": "true",
    "protocol.allow": "always",
}


@pytest.mark.parametrize("monitor", ["./run", "{root}/run", "true"])
def test_no_setting_of_the_users_makes_a_merge_run_what_lies_in_the_tree(tmp_path: Path, monitor: str) -> None:
    files: dict[str, str | bytes] = {"run": "#!/bin/sh\nexit 0\n", ".gitattributes": "* merge=f diff=f\n", "a": "a"}
    place, marker = home_of(tmp_path, files), tmp_path / "ran"
    for name, value in {**COMMANDS, "core.fsmonitor": monitor.format(root=place.root)}.items():
        git(place.root, "config", name, value)
    result(place, {"run": script(marker), "b": "b"}, programs=("run",))

    place.trees.uncommitted()
    place.trees.deliver(JOB)
    found = merge(place)

    assert not marker.exists()
    assert set(found.paths) == {"run", "b"}
    assert not (place.root / ".git/fsmonitor--daemon.ipc").exists()


def test_settings_that_the_result_brings_do_not_count(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    place = home_of(tmp_path, {".gitconfig": "[core]\n", "a.x": "a\n"})
    git(place.root, "config", "include.path", "../.gitconfig")
    lines = "".join(f'[filter "f"]\n{kind} = /bin/sh -c "echo > {marker}"\n' for kind in ("clean", "smudge", "process"))
    command = '[hook "h"]\nevent = reference-transaction\ncommand = ./post-merge\n'
    hooks = f"[core]\nhooksPath = .\nfsmonitor = ./fsmonitor\n{command}"
    files: dict[str, str | bytes] = {".gitconfig": f"{lines}{hooks}", ".gitattributes": "* filter=f\n", "a.x": "b\n"}
    for name in ("post-merge", "reference-transaction", "post-index-change", "fsmonitor"):
        files[name] = script(marker)
    result(place, files, programs=("post-merge", "reference-transaction", "post-index-change", "fsmonitor"))

    found = merge(place)

    assert not marker.exists()
    assert ".gitconfig" in {one.path for one in found.obeyed}


@pytest.mark.parametrize("key", ["include.path", "includeIf.gitdir:/nowhere/.path"])
def test_a_file_that_git_would_include_once_it_is_there_is_named(tmp_path: Path, key: str) -> None:
    place = home_of(tmp_path)
    git(place.root, "config", key, "../team.settings")
    result(place, {"team.settings": "[core]\nfsmonitor = ./run\n"})

    assert [one.path for one in merge(place, dry=True).obeyed] == ["team.settings"]


def settings_of(place: UserRepository) -> UsersGitSettings:
    source = find_source(place.root)
    assert source is not None
    return UsersGitSettings(source)


def _hooks_behind_a_link(root: Path) -> None:
    (root.parent / "hooks").symlink_to(root / "deep/tools")
    git(root, "config", "core.hooksPath", str(root.parent / "hooks"))


def _hooks_by_a_link_of_the_tree(root: Path) -> None:
    (root / "hk").symlink_to("deep/tools")
    git(root, "config", "core.hooksPath", "hk")


def _hook_is_a_link(root: Path) -> None:
    (root / ".git/hooks/pre-push").symlink_to("../../deep/tools/lib.inc")


def _called(how: str) -> Callable[[Path], None]:
    return lambda root: write(root, {".git/hooks/pre-commit": how})


@pytest.mark.parametrize(
    "prepare, by",
    [
        (_hooks_behind_a_link, "git: a hook (core.hooksPath)"),
        (_hooks_by_a_link_of_the_tree, "git: a hook (core.hooksPath)"),
        (_hook_is_a_link, "git: your hook pre-push names it"),
        (lambda root: git(root, "config", "init.templateDir", str(root / "deep")), "git: init.templatedir names deep"),
        (lambda root: git(root, "config", "alias.x", "!cd deep; cd tools; . lib.inc"), "git: alias.x names it"),
        (_called('. "$(dirname "$0")/../../deep/tools/lib.inc"'), "git: your hook pre-commit names it"),
        (_called("cd deep/tools && . ./lib.inc"), "git: your hook pre-commit names it"),
        (lambda root: write(root, {".envrc": "source_env deep/tools/lib.inc\n"}), ".envrc names it"),
        (
            lambda root: write(root, {"package.json": '{"scripts": {"postinstall": "sh deep/tools/lib.inc"}}'}),
            "package.json names it",
        ),
        (lambda root: write(root, {"package.json": '{"main": "deep/tools/lib.inc"}'}), ""),
        (_called("echo deeper/tools/lib.include"), ""),
    ],
)
def test_what_hooks_and_other_tools_call_is_named_however_they_reach_it(
    tmp_path: Path, prepare: Callable[[Path], object], by: str
) -> None:
    place = home_of(tmp_path, {"deep/tools/lib.inc": "a"})
    prepare(place.root)

    assert settings_of(place).obeyed(["deep/tools/lib.inc"]) == ({"deep/tools/lib.inc": by} if by else {})


def test_a_module_that_a_hook_runs_is_named(tmp_path: Path) -> None:
    place = home_of(tmp_path)
    write(place.root, {".git/hooks/pre-commit": "python3 -m tools.check\n"})

    assert list(settings_of(place).obeyed(["tools/check.py", "tools/other.py"])) == ["tools/check.py"]


def test_a_program_that_the_result_brings_is_not_found_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, marker = home_of(tmp_path), tmp_path / "ran"
    names = tuple(f"{folder}{name}" for folder in ("", "bin/") for name in ("git", "env", "sh", "gpg"))
    result(place, {name: script(marker) for name in names}, programs=names)
    monkeypatch.setenv("PATH", f".:bin:{place.root}/bin:{os.environ['PATH']}")
    monkeypatch.chdir(place.root)

    merge(place)

    assert not marker.exists()
    place.again()
    place.trees.uncommitted()


@pytest.mark.parametrize("program", ["./sign", "{root}/sign", "sign"])
def test_a_signature_is_not_made_by_a_program_of_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    place, marker = home_of(tmp_path, {"sign": "#!/bin/sh\n", "a": "a"}), tmp_path / "ran"
    monkeypatch.setenv("PATH", f"{place.root}:{os.environ['PATH']}")
    (place.root / "sign").chmod(0o755)
    git(place.root, "commit", "-qam", "program")
    result(place, {"sign": script(marker)})
    place.trees.deliver(JOB)
    git(place.root, "config", "commit.gpgSign", "true")
    git(place.root, "config", "gpg.program", program.format(root=place.root))

    with pytest.raises(WorkspaceError, match=r"signed by .* outside the repository"):
        merge(place)
    assert not marker.exists()


def test_a_user_who_signs_has_a_signed_merge_of_a_signed_result(tmp_path: Path) -> None:
    place = home_of(tmp_path)
    write(tmp_path, {"bin/sign": "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho made up\n"})
    (tmp_path / "bin/sign").chmod(0o755)
    git(place.root, "config", "commit.gpgSign", "true")
    git(place.root, "config", "gpg.program", "false")
    result(place, {"new": "new"})
    branch = delivered(place).branch
    plain = git(place.root, "cat-file", "commit", branch)
    with pytest.raises(WorkspaceError, match=r"could not sign the result: .*; nothing was changed: unlock your key"):
        merge(place)
    assert git(place.root, "cat-file", "commit", branch) == plain
    git(place.root, "config", "gpg.program", str(tmp_path / "bin/sign"))

    merge(place)

    assert "gpgsig made up" in git(place.root, "cat-file", "commit", "HEAD")
    signed = git(place.root, "cat-file", "commit", "HEAD^2")
    assert signed.replace("gpgsig made up\n", "") == plain
    assert git(place.root, "cat-file", "commit", branch) == signed


def test_a_result_that_was_pushed_or_that_a_job_goes_on_from_is_not_signed_anew(tmp_path: Path) -> None:
    place = home_of(tmp_path)
    git(place.root, "config", "commit.gpgSign", "true")
    git(place.root, "config", "gpg.program", "false")
    result(place, {"new": "new"})
    found = delivered(place)
    tracking = f"refs/remotes/origin/{found.branch}"

    git(place.root, "update-ref", tracking, found.commit)
    assert delivered(place, signs=True) == found
    git(place.root, "update-ref", "-d", tracking)
    write(place.trees.home, {"jobs/later/snapshots.git/refs/parley/former": f"{found.commit}\n"})
    assert delivered(place, signs=True) == found


# ---- a merge is a merge -------------------------------------------------------------------------------


def test_a_merge_is_a_commit_of_the_users_with_a_clean_checkout(tmp_path: Path) -> None:
    place = home_of(tmp_path, {"a": "a", "gone/deep/b": "b", "turns/file": "x", "other": "o", "run": "#!/bin/sh\n"})
    result(
        place,
        {"a": "changed", "new/deep/c": "c", "run": "#!/bin/sh\n"},
        gone=("gone/deep/b", "turns/file"),
        programs=("run",),
    )
    write(place.root, {"mine": "x"})
    git(place.root, "add", "mine")
    git(place.root, "commit", "-qm", "mine")
    write(place.root, {"other": "staged", "untracked": "u"})
    git(place.root, "add", "other")
    write(place.root, {"other": "and changed"})
    head = git(place.root, "rev-parse", "HEAD").strip()

    found = merge(place)

    assert set(found.paths) == {"a", "new/deep/c", "gone/deep/b", "turns/file", "run"}
    assert git(place.root, "log", "-1", "--format=%an %ae %cn %s").startswith(
        "ada ada@example.org ada Merge parley/do-it"
    )
    assert git(place.root, "rev-parse", "HEAD^1", "HEAD^2", "ORIG_HEAD").split() == [head, found.commit, head]
    assert git(place.root, "status", "--porcelain") == "MM other\n?? untracked\n"
    assert git(place.root, "diff-files", "--name-only") == "other\n"
    assert not (place.root / "gone").exists()
    assert not (place.root / "turns").exists()
    assert git(place.root, "reflog", "-1", "--format=%gs").startswith("merge parley/do-it")
    assert git(place.root, "fsck", "--no-dangling") == ""
    assert [path.name for path in (place.root / ".git").glob("*parley*")] == []
    assert merge(place).before


@pytest.mark.parametrize(
    "how", ["autocrlf", "attributes", "encoding", "sparse", "split", "worktree", "detached", "sha256"]
)
def test_files_are_written_as_the_users_git_would(tmp_path: Path, how: str) -> None:
    words = ("--object-format=sha256",) if how == "sha256" else ()
    place = repository(tmp_path / "repo", {"in/a.txt": "a\n", "out/b.txt": "b\n", "u.txt": "u\n"}, *words)
    if how == "autocrlf":
        git(place.root, "config", "core.autocrlf", "true")
    elif how == "attributes":
        write(place.root, {".git/info/attributes": "*.txt text eol=crlf\n"})
    elif how == "encoding":
        write(place.root, {".git/info/attributes": "*.txt text working-tree-encoding=UTF-16LE\n"})
    elif how == "sparse":
        git(place.root, "sparse-checkout", "set", "in")
    elif how == "split":
        git(place.root, "update-index", "--split-index")
    elif how == "worktree":
        git(place.root, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
        place = UserRepository(tmp_path / "other")
    elif how == "detached":
        git(place.root, "checkout", "-q", "--detach")
    if how in ("autocrlf", "attributes", "encoding"):
        for path in ("in/a.txt", "out/b.txt", "u.txt"):
            (place.root / path).unlink()
        git(place.root, "checkout", "--", ".")
    assert git(place.root, "status", "--porcelain") == ""
    result(place, {"in/a.txt": "1\n", "out/b.txt": "2\n", "in/new.txt": "3\n", "out/new.txt": "4\n"})

    done = merge(place)

    assert any("you have no branch checked out" in line for line in done.remarks) == (how == "detached")
    assert git(place.root, "status", "--porcelain") == ""
    assert git(place.root, "diff-files", "--name-only") == ""
    assert git(place.root, "show", "HEAD:out/new.txt") == "4\n"
    ends = {"autocrlf": b"3\r\n", "attributes": b"3\r\n", "encoding": "3\n".encode("utf-16-le")}
    assert (place.root / "in/new.txt").read_bytes() == ends.get(how, b"3\n")
    assert (place.root / "out").exists() == (how != "sparse")


def test_the_first_commit_of_a_repository_is_the_result(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "-q")
    write(tmp_path / "repo", {".git/info/exclude": "/.parley/\n", "mine": "mine"})
    place = UserRepository(tmp_path / "repo")
    result(place, {"new": "new"})

    merge(place)

    assert git(place.root, "status", "--porcelain") == "?? mine\n"
    assert git(place.root, "log", "--format=%s") == "Do it\n"


def test_a_path_that_a_driver_of_the_users_merges_is_left_to_the_user(tmp_path: Path) -> None:
    place = home_of(tmp_path, {".gitattributes": "lock merge=mine\n", "lock": "1\n2\n3\n4\n5\n6\n7\n8\n"})
    result(place, {"lock": "1\n2\n3\n4\n5\n6\n7\nchanged\n"})
    write(place.root, {"lock": "mine\n2\n3\n4\n5\n6\n7\n8\n"})
    git(place.root, "commit", "-qam", "mine")

    assert "driver mine" in refused(place, "lock")


def test_nothing_is_changed_by_a_dry_run(tmp_path: Path) -> None:
    place = home_of(tmp_path)
    result(place, {".envrc": "x", "a.txt": "changed"})
    place.trees.deliver(JOB)
    before = fingerprint(place.root)

    found = merge(place, dry=True)

    assert fingerprint(place.root) == before
    assert (found.paths, [one.path for one in found.obeyed]) == ((".envrc", "a.txt"), [".envrc"])


# ---- nothing is lost ----------------------------------------------------------------------------------


def _ignored(root: Path) -> None:
    write(root, {".git/info/exclude": "/.parley/\n.env\nbuild\n", ".env": "SECRET"})


def _folder(root: Path) -> None:
    write(root, {".git/info/exclude": "/.parley/\nkept\n", "build/kept": "mine"})


def _link(root: Path) -> None:
    (root.parent / "elsewhere").mkdir()
    (root / "new").symlink_to(root.parent / "elsewhere")


def _assumed(root: Path) -> None:
    git(root, "update-index", "--assume-unchanged", "a")
    write(root, {"a": "mine"})


def _skipped(root: Path) -> None:
    git(root, "update-index", "--skip-worktree", "a")
    write(root, {"a": "mine"})


def _sparse(root: Path) -> None:
    git(root, "sparse-checkout", "set", "--no-cone", "/*", "!/b")
    write(root, {"b": "mine"})


def _intended(root: Path) -> None:
    write(root, {"new.py": "mine"})
    git(root, "add", "-N", "new.py")


def _racy(root: Path) -> None:
    """A change that neither size nor time tells."""
    seen = (root / "a").stat()
    git(root, "update-index", "--refresh")
    (root / "a").write_text("b")
    os.utime(root / "a", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    os.utime(root / ".git/index", ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _staged(root: Path) -> None:
    write(root, {"a": "mine"})
    git(root, "add", "a")


def _untracked_again(root: Path) -> None:
    git(root, "rm", "-q", "--cached", "a")


def _a_link_now(root: Path) -> None:
    (root / "a").unlink()
    (root / "a").symlink_to("b")


def _nested(root: Path) -> None:
    write(root, {"new/.git/HEAD": "x"})


def _staged_alone(root: Path, path: str) -> None:
    """Something that lies in the index and nowhere else."""
    write(root, {path: "mine"})
    git(root, "add", path)
    (root / path).unlink()
    if "/" in path:
        (root / path).parent.rmdir()


LOSSES: dict[str, tuple[Callable[[Path], None], dict[str, str | bytes], str]] = {
    "untracked": (lambda root: write(root, {"new.py": "mine"}), {"new.py": "theirs"}, "new.py"),
    "ignored": (_ignored, {".env": "theirs"}, ".env"),
    "a link of the user's": (lambda root: (root / "new.py").symlink_to("a"), {"new.py": "theirs"}, "new.py"),
    "a dangling link": (lambda root: (root / "new.py").symlink_to("nowhere"), {"new.py": "theirs"}, "new.py"),
    "a folder with an ignored file, where a file goes": (_folder, {"build": "theirs"}, "build/kept"),
    "a file where a folder goes": (lambda root: write(root, {"new": "mine"}), {"new/x": "theirs"}, "new"),
    "a link where a folder goes": (_link, {"new/x": "theirs"}, "new"),
    "a repository where a folder goes": (_nested, {"new/x": "theirs"}, "new/.git"),
    "a special file": (lambda root: os.mkfifo(root / "new.py"), {"new.py": "theirs"}, "new.py"),
    "assumed unchanged": (_assumed, {"a": "theirs"}, "a"),
    "skipped": (_skipped, {"a": "theirs"}, "a"),
    "outside a sparse checkout": (_sparse, {"b": "theirs"}, "b"),
    "to be added": (_intended, {"new.py": "theirs"}, "new.py"),
    "changed within a tick": (_racy, {"a": "theirs"}, "a"),
    "deleted": (lambda root: (root / "a").unlink(), {"a": "theirs"}, "a"),
    "staged": (_staged, {"a": "theirs"}, "a"),
    "staged alone, where a file goes": (lambda root: _staged_alone(root, "new/x"), {"new": "theirs"}, "new/x"),
    "staged alone, where a folder goes": (lambda root: _staged_alone(root, "new"), {"new/x": "theirs"}, "new"),
    "taken from the index": (_untracked_again, {"a": "theirs"}, "a"),
    "made a program": (lambda root: (root / "a").chmod(0o755), {"a": "theirs"}, "a"),
    "replaced by a link": (_a_link_now, {"a": "x"}, "a"),
}  # fmt: skip


@pytest.mark.parametrize("case", LOSSES)
def test_what_would_be_lost_is_named_and_stays(tmp_path: Path, case: str) -> None:
    place = home_of(tmp_path, {"a": "a", "b": "b"})
    prepare, files, name = LOSSES[case]
    result(place, files)
    prepare(place.root)

    refused(place, name)


def test_nothing_is_put_into_folders_of_parleys_own(tmp_path: Path) -> None:
    """In a home that is a repository, the keys by which it knows the user's word may lie in the tree."""
    place = home_of(tmp_path)
    place.more = {"private": [place.root / ".local/state/parley", tmp_path]}
    result(place, {".local/state/parley/buses/x": "a key", ".local/state/other": "x"})

    assert ".local/state/parley/buses/x is Parley's own place" in refused(place)


def test_files_that_the_result_deletes_and_the_user_has_changed_stay(tmp_path: Path) -> None:
    place = home_of(tmp_path, {"a": "a", "b": "b"})
    result(place, {}, gone=("a",))
    write(place.root, {"a": "mine"})

    refused(place, "a")


def test_an_ignored_folder_keeps_what_is_in_it_when_its_tracked_files_go(tmp_path: Path) -> None:
    place = home_of(tmp_path, {"out/a": "a", ".gitignore": "*.log\n", "b": "b"})
    result(place, {}, gone=("out/a",))
    write(place.root, {"out/my.log": "mine"})

    merge(place)

    assert (place.root / "out/my.log").read_text() == "mine"
    assert not (place.root / "out/a").exists()


def test_what_lies_there_already_byte_for_byte_is_no_obstacle(tmp_path: Path) -> None:
    place = home_of(tmp_path)
    result(place, {"same": "x\n", "new": "n"})
    write(place.root, {"same": "x\n"})
    seen = (place.root / "same").stat()

    merge(place)

    assert (place.root / "same").stat().st_ino == seen.st_ino
    assert git(place.root, "status", "--porcelain") == ""


def test_a_file_becomes_a_folder_and_a_folder_a_file_or_a_link(tmp_path: Path) -> None:
    place = home_of(tmp_path, {"file": "f", "folder/deep/x": "x", "other/y": "y"})
    work = place.prepare()
    (work / "file").unlink()
    shutil.rmtree(work / "folder")
    shutil.rmtree(work / "other")
    write(work, {"file/in": "in", "folder": "now a file"})
    (work / "other").symlink_to("file/in")
    place.turn(ROOT, {})

    merge(place)

    assert (place.root / "file/in").read_text() == "in"
    assert (place.root / "folder").read_text() == "now a file"
    assert (place.root / "other").read_text() == "in"
    assert git(place.root, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "mark", ["MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge/done", "sequencer/todo", "BISECT_LOG", "index.lock"]
)
def test_a_checkout_in_the_middle_of_something_is_left_alone(tmp_path: Path, mark: str) -> None:
    place = home_of(tmp_path)
    result(place, {"new": "new"})
    write(place.root, {f".git/{mark}": git(place.root, "rev-parse", "HEAD") if mark.isupper() else ""})

    said = refused(place)
    assert "under way" in said or "index.lock" in said
    assert not (place.root / "new").exists()


def test_submodules_with_content_stay(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", {"lib": "lib"})
    place = home_of(tmp_path)
    git(place.root, "submodule", "add", "-q", str(inner.root), "module")
    git(place.root, "commit", "-qm", "module")
    git(place.root, "config", "submodule.recurse", "true")
    write(place.root, {"module/lib": "mine", "module/untracked": "mine"})
    result(place, {"new": "new"})

    merge(place)

    assert (place.root / "module/lib").read_text() == "mine"
    assert (place.root / "module/untracked").read_text() == "mine"
    assert (place.root / "new").read_text() == "new"


# ---- all or none --------------------------------------------------------------------------------------


def many(tmp_path: Path) -> UserRepository:
    place = home_of(tmp_path, {"a": "a", "b": "b", "d/e": "e", "f": "f"})
    result(place, {"a": "1", "b": "2", "n/m": "3"}, gone=("d/e",))
    return place


@pytest.mark.parametrize(
    "step, number, error",
    [
        ("_move_away", 1, OSError(28, "No space left on device")),
        ("_move_away", 3, KeyboardInterrupt()),
        ("_make_folder", 1, OSError(13, "Permission denied")),
        ("_put", 1, KeyboardInterrupt()),
        ("_put", 3, OSError(28, "No space left on device")),
    ],
)
def test_a_merge_that_fails_half_way_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int, error: BaseException
) -> None:
    place = many(tmp_path)
    place.trees.deliver(JOB)
    git(place.root, "status")
    before = fingerprint(place.root)
    real, calls = getattr(file_placement.Placement, step), []

    def failing(self: file_placement.Placement, *words: object, **more: object) -> object:
        calls.append(words)
        if len(calls) == number:
            raise error
        return real(self, *words, **more)

    monkeypatch.setattr(file_placement.Placement, step, failing)
    with pytest.raises((WontMerge, KeyboardInterrupt)):
        merge(place)
    assert fingerprint(place.root) == before
    monkeypatch.setattr(file_placement.Placement, step, real)

    assert merge(place).remarks == ()
    assert git(place.root, "status", "--porcelain") == ""


KILLED = """
import os, signal, sys
from pathlib import Path
from parley.workspaces.delivery import file_placement, merge_to_checkout
from tests.workspaces.user_repository import JOB, UserRepository
step, number = sys.argv[2], int(sys.argv[3])
owner = merge_to_checkout if hasattr(merge_to_checkout, step) else file_placement.Placement
real, calls = getattr(owner, step), []
def dying(*words, **more):
    calls.append(1)
    if len(calls) == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*words, **more)
setattr(owner, step, dying)
UserRepository(Path(sys.argv[1])).trees.merge_to_checkout(JOB)
"""


def killed(place: UserRepository, step: str, number: int) -> None:
    """A merge whose process is killed at one of its steps."""
    here = Path(__file__).parents[2]
    words = [sys.executable, "-c", KILLED, str(place.root), step, str(number)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(words, env=environment, cwd=here, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    "step, number", [("_move_away", 2), ("_put", 1), ("_put", 3), ("_install", 1), ("clear_folders", 1)]
)
def test_a_merge_that_was_killed_is_taken_back_by_the_next_one(tmp_path: Path, step: str, number: int) -> None:
    place = many(tmp_path)
    place.trees.deliver(JOB)
    killed(place, step, number)

    found = merge(place)

    assert found.remarks == (() if step == "clear_folders" else ("an earlier merge was interrupted, and is undone",))
    assert found.before == (step == "clear_folders")
    assert git(place.root, "status", "--porcelain") == ""
    assert (place.root / "n/m").read_text() == "3"
    assert [path.name for path in (place.root / ".git").glob("*parley*")] == []


def test_a_record_that_came_with_the_repository_moves_and_deletes_nothing(tmp_path: Path) -> None:
    """As an archive of a repository has it: what it says would be obeyed as what a merge has left."""
    place, precious, record = home_of(tmp_path), tmp_path / "precious", tmp_path / "repo/.git/parley-merge"
    result(place, {"new": "new"})
    place.trees.deliver(JOB)
    write(precious, {"file": "mine", "plan.json": "{}"})
    more = {"place": str(precious), "commit": git(place.root, "rev-parse", "HEAD").strip(), "record": "1"}
    plan = {"old": {}, "new": {}, "folders": {}, "made": [], "more": more}
    for leave in (
        lambda: record.symlink_to(precious),
        lambda: record.write_text("mine"),
        lambda: write(record, {"plan.json": json.dumps(plan)}),
        lambda: write(record, {"plan.json": '{"old": 1}'}),
    ):
        leave()
        with pytest.raises(WontMerge, match="parley-merge is in the way"):
            merge(place)

        assert (precious / "file").read_text() == "mine"
        assert not (place.root / "new").exists()
        shutil.rmtree(record) if record.is_dir() and not record.is_symlink() else record.unlink()


def test_what_the_user_wrote_since_a_merge_was_killed_is_kept(tmp_path: Path) -> None:
    place = many(tmp_path)
    place.trees.deliver(JOB)
    killed(place, "_put", 3)
    (place.root / "a").write_text("written since")

    found = merge(place)

    kept = [Path(line.rpartition(" is ")[2]) for line in found.remarks]
    assert [path.read_text() for path in kept] == ["written since"]


def test_a_file_that_the_user_changes_at_the_last_moment_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = many(tmp_path)
    place.trees.deliver(JOB)
    real = file_placement.PlacementPlan.write

    def late(self: file_placement.PlacementPlan, record: Path) -> None:
        real(self, record)
        (place.root / "b").write_text("mine, just now")
        write(place.root, {"n": "mine, too"})

    monkeypatch.setattr(file_placement.PlacementPlan, "write", late)
    with pytest.raises(WontMerge, match="is in the way"):
        merge(place)

    assert (place.root / "b").read_text() == "mine, just now"
    assert (place.root / "n").read_text() == "mine, too"
    assert (place.root / "a").read_text() == "a"
    assert (place.root / "d/e").read_text() == "e"


def test_nothing_is_written_through_a_link_that_comes_at_the_last_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = many(tmp_path)
    place.trees.deliver(JOB)
    (tmp_path / "elsewhere").mkdir()
    real = file_placement.PlacementPlan.write

    def late(self: file_placement.PlacementPlan, record: Path) -> None:
        real(self, record)
        (place.root / "n").symlink_to(tmp_path / "elsewhere")

    monkeypatch.setattr(file_placement.PlacementPlan, "write", late)
    with pytest.raises(WorkspaceError):
        merge(place)

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (place.root / "a").read_text() == "a"


NAMES = st.sampled_from(["a", "b", "d", "d/x", "d/y", "d/z/w", "e"])
TREES = st.dictionaries(NAMES, st.sampled_from(["1", "2", "3"]), max_size=5).filter(
    lambda tree: not any(f"{one}/" in other for one in tree for other in tree if other.startswith(f"{one}/"))
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(start=TREES, made=TREES, mine=TREES, ignored=st.booleans())
def test_whatever_lies_there_a_merge_gives_the_result_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    start: dict[str, str],
    made: dict[str, str],
    mine: dict[str, str],
    ignored: bool,
) -> None:
    """The user's files are any; each is there afterwards, byte for byte, unless it was committed and is unchanged."""
    place = repository(tmp_path_factory.mktemp("any") / "repo", {**start, "always": "x"})
    work = place.prepare()
    for path in start:
        (work / path).unlink()
    for folder in sorted((path for path in work.rglob("*") if path.is_dir()), reverse=True):
        folder.rmdir()
    write(work, dict(made))
    place.turn(ROOT, {})
    if ignored:
        write(place.root, {".git/info/exclude": "*\n"})
    for path, text in mine.items():
        target = place.root / path
        if not any(above.is_file() for above in (target, *target.parents) if above != target) and not target.is_dir():
            write(place.root, {path: text})
    before = files_of(place.root)
    git(place.root, "status")
    place.trees.deliver(JOB)

    try:
        merge(place)
    except WontMerge:
        assert files_of(place.root) == before
        return
    after = files_of(place.root)
    own = {path: text for path, text in before.items() if start.get(path) != text and path != "always"}
    assert {path: after.get(path) for path in own} == own
    assert {path: after.get(path) for path in made if made[path] != start.get(path)} == {
        path: text for path, text in made.items() if text != start.get(path)
    }


def files_of(root: Path) -> dict[str, str]:
    found = {}
    for here, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in (".git", ".parley")]
        for name in names:
            path = Path(here) / name
            if stat.S_ISREG(path.lstat().st_mode):
                found[path.relative_to(root).as_posix()] = path.read_text()
    return found


# ---- a folder without a repository --------------------------------------------------------------------


def test_a_copy_into_a_folder_is_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    place = UserRepository(tmp_path / "folder")
    place.prepare()
    place.turn(ROOT, {"a": "a", "b/c": "c", "d": "d"})
    real, calls = file_placement.Placement._put, []

    def failing(self: file_placement.Placement, *words: object) -> object:
        calls.append(words)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return real(self, *words)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(file_placement.Placement, "_put", failing)
    with pytest.raises(WontMerge, match="No space left"):
        merge(place)
    assert files_of(place.root) == {}
    assert [path.name for path in place.root.iterdir()] == [".parley"]

    assert set(merge(place).paths) == {"a", "b/c", "d"}
    assert files_of(place.root) == {"a": "a", "b/c": "c", "d": "d"}


@pytest.mark.parametrize("how", ["file", "link", "folder", "above"])
def test_a_copy_into_a_folder_replaces_nothing(tmp_path: Path, how: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "elsewhere").mkdir()
    place = UserRepository(tmp_path / "folder")
    place.prepare()
    place.turn(ROOT, {"a/b": "a", "x": "x"})
    if how == "above":
        (place.root / "a").symlink_to(tmp_path / "elsewhere")
    elif how == "link":
        (place.root / "x").symlink_to(tmp_path / "elsewhere/x")
    elif how == "folder":
        write(place.root, {"x/mine": "mine"})
    else:
        write(place.root, {"x": "mine"})

    with pytest.raises(WontMerge, match="differ"):
        merge(place)

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (place.root / "a/b").exists()
