"""The pre-tool check by itself: what it allows stays inside, whatever links lie in the way."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.ports.turns import Bind, Claim, Site
from parley.runners.claude.guard import BUILT_IN, HOME, ToolRefused, ToolScope, built_in, check, resolve

NAMES = st.sampled_from(["a", "b", "link", "deep", "..", ".", "", "x y"])
PATHS = st.lists(NAMES, max_size=6).map("/".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | PATHS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@contextmanager
def scope(**site: Any) -> Iterator[ToolScope]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name in ("work/deep/a", "home", "beside"):
            (root / name).mkdir(parents=True)
        place = Site(str(root / "work"), **site)
        yield ToolScope(place, str(root / "home"), frozenset(BUILT_IN), frozenset({"Send"}))


def allowed(where: ToolScope, tool: str, folder: str = "", **arguments: Any) -> bool:
    try:
        check(where, tool, arguments, folder or where.site.workspace)
    except ToolRefused:
        return False
    return True


@settings(max_examples=60)
@given(
    links=st.dictionaries(st.sampled_from(["link", "deep/link", "a"]), PATHS, max_size=3),
    path=PATHS,
    absolute=st.booleans(),
)
def test_what_may_be_written_really_lies_inside(links: dict[str, str], path: str, absolute: bool) -> None:
    with scope() as where:
        workspace = Path(where.site.workspace)
        for name, target in links.items():
            if target:
                (workspace / name).symlink_to(target)

        if allowed(where, "Write", file_path=f"{workspace}/{path}" if absolute else path):
            real = os.path.realpath(f"{workspace}/{path}")
            scratch = real.startswith("/tmp/") and not real.startswith(str(workspace.parent))
            assert f"{real}/".startswith(f"{workspace}/") or scratch


@settings(max_examples=60)
@given(path=PATHS, target=PATHS)
def test_a_path_is_resolved_as_the_system_resolves_it(path: str, target: str) -> None:
    with scope() as where:
        workspace = Path(where.site.workspace)
        if target:
            (workspace / "link").symlink_to(target)
        whole = f"{workspace}/{path}"
        if path and not path.startswith("/") and os.access(whole, os.F_OK):
            assert resolve(where, path, str(workspace)) == os.path.realpath(whole)


@settings(max_examples=50)
@given(tool=st.sampled_from(["Write", "Edit", "NotebookEdit", "Read", "Bash"]), value=JSON)
def test_arguments_that_make_no_sense_are_refused(tool: str, value: Any) -> None:
    key = {"Bash": "command", "NotebookEdit": "notebook_path"}.get(tool, "file_path")
    with scope() as where:
        assert not allowed(where, tool, other=value)
        assert isinstance(value, str) or not allowed(where, tool, **{key: value})


@pytest.mark.parametrize(
    "path, fine",
    [
        ("a.txt", True),
        ("deep/a/b.txt", True),
        ("~/scratch.md", True),
        (f"{HOME}/.cache/x", True),
        ("/tmp/x", True),
        ("", False),
        ("..", False),
        ("../beside/x", False),
        ("../work-other/x", False),
        ("/", False),
        ("/etc/passwd", False),
        (f"{HOME}/../x", False),
        (f"{HOME}x", False),
        ("/proc/self/environ", False),
        (".git", False),
        (".git/config", False),
        (".claude/settings.json", False),
        ("deep/../.claude/x", False),
        ("a\0b", False),
    ],
)
def test_where_may_be_written(path: str, fine: bool) -> None:
    with scope() as where:
        assert allowed(where, "Write", file_path=path) is fine
        assert allowed(where, "Edit", file_path=path) is fine
        assert allowed(where, "NotebookEdit", notebook_path=path) is fine


def test_beside_a_workspace_in_tmp_is_not_scratch() -> None:
    with scope() as where:
        beside = str(Path(where.site.workspace).parent / "beside/x")
        assert not allowed(where, "Write", file_path=beside)
        assert not allowed(where, "Read", file_path=where.home)


def test_links_are_followed_in_the_agent_s_own_world() -> None:
    with scope() as where:
        workspace, home = Path(where.site.workspace), Path(where.home)
        (home / "out").symlink_to("/etc")
        (home / "in").symlink_to(workspace)
        (workspace / "home").symlink_to(HOME)
        (workspace / "self").symlink_to("self")

        assert not allowed(where, "Write", file_path=f"{HOME}/out/x")
        assert allowed(where, "Write", file_path=f"{HOME}/in/x")
        assert not allowed(where, "Write", file_path=f"{HOME}/in/.git/x")
        assert allowed(where, "Write", file_path="home/x")
        assert not allowed(where, "Write", file_path="home/out/x")
        assert not allowed(where, "Write", file_path="self")


def test_what_is_sealed_or_read_only_is_not_written() -> None:
    with scope() as where:
        sealed = f"{where.site.workspace}/PLAN.md"
        site = Site(
            where.site.workspace, binds=(Bind(sealed, sealed), Bind("/x", f"{where.site.workspace}/own", writable=True))
        )
        closed = ToolScope(site, where.home, where.tools, where.protocol)
        assert not allowed(closed, "Write", file_path="PLAN.md")
        assert allowed(closed, "Read", file_path="PLAN.md")
        assert allowed(closed, "Write", file_path="own/x")
        only = ToolScope(Site(where.site.workspace, writable=False), where.home, where.tools, where.protocol)
        assert not allowed(only, "Write", file_path="a")
        assert allowed(only, "Write", file_path=f"{HOME}/a")


def _whose(site: Site, path: str) -> str:
    assert site.worker == "web"
    return "" if path.startswith("deep/") else f"{path} belongs to db (rule: db owns db/**); ask with a note"


@pytest.mark.parametrize(
    "tool, key", [("Write", "file_path"), ("Edit", "file_path"), ("NotebookEdit", "notebook_path")]
)
def test_what_belongs_to_another_is_refused_with_its_owner_wherever_the_path_leads(tool: str, key: str) -> None:
    with scope(worker="web") as where:
        workspace = Path(where.site.workspace)
        (workspace / "db").mkdir()
        (workspace / "deep/out").symlink_to("../db")
        (workspace / "db/in").symlink_to("../deep")
        owned = replace(where, judge=_whose)
        for path in ("db/x", f"{workspace}/db/x", "deep/../db/x", "deep/out/x", "./db//x", "db/in/../db/x", "top", "."):
            with pytest.raises(ToolRefused, match=r"belongs to db \(rule: db owns db/\*\*\)"):
                check(owned, tool, {key: path}, str(workspace))
        for path in ("deep/x", "db/in/x", "deep/a/../x", f"{HOME}/x", "/tmp/x"):
            check(owned, tool, {key: path}, str(workspace))
        check(owned, "Read", {"file_path": "db/x"}, str(workspace))
        with pytest.raises(ToolRefused, match="no tool 'MultiEdit'"):
            check(owned, "MultiEdit", {"file_path": "deep/x", "edits": []}, str(workspace))


def test_where_paths_have_owners_and_nobody_can_judge_nothing_is_written() -> None:
    with scope(worker="web") as where:
        assert not allowed(where, "Write", file_path="deep/x")
        assert allowed(where, "Write", file_path=f"{HOME}/x")
    with scope(claims=(Claim("db", ("db/**",)),)) as where:
        assert not allowed(where, "Edit", file_path="deep/x")


@pytest.mark.parametrize(
    "tool, arguments, fine",
    [
        ("Bash", {"command": "rm -rf /"}, True),  # the boundary's matter
        ("Bash", {"command": "x", "run_in_background": True}, False),
        ("Bash", {"command": "x", "dangerouslyDisableSandbox": True}, False),
        ("Bash", {"command": ["x"]}, False),
        ("Bash", {}, False),
        ("Read", {"file_path": "/usr/include/stdio.h"}, True),
        ("Read", {"file_path": "/etc/shadow"}, False),
        ("Glob", {"pattern": "**/*.py"}, True),
        ("Glob", {"pattern": "../**"}, False),
        ("Glob", {"pattern": "/etc/*"}, False),
        ("Glob", {"pattern": "*", "path": ".."}, False),
        ("Grep", {"pattern": "../x", "glob": "*.py"}, True),
        ("Grep", {"pattern": "x", "path": "/etc"}, False),
        ("mcp__p__Send", {"to": "x"}, True),
        ("mcp__p__Answer", {}, False),
        ("mcp__other__Send", {}, False),
        ("WebFetch", {"url": "http://x"}, False),
        ("Task", {}, False),
        ("Agent", {}, False),
        ("", {}, False),
    ],
)
def test_what_else_may_be_done(tool: str, arguments: dict[str, Any], fine: bool) -> None:
    with scope() as where:
        assert allowed(where, tool, **arguments) is fine


def test_a_role_has_no_tool_that_starts_others_or_reaches_out() -> None:
    wanted = ["Task", "Agent", "Read", "Bash(git *)", "WebSearch", "TodoWrite", "KillShell", "Send", "Write"]

    assert built_in(wanted, ("Send",)) == ("Read", "Write", "Bash")
