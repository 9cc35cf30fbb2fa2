"""A turn's place on another host is the same place, and so is what comes back."""

import codecs
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused
from parley.hosts.mirror.place_names import session_folder, stored, taken_back
from parley.ports.turns import Bind, Order
from parley.runners.claude.agent_home import AgentHome
from parley.runners.command import codex_session
from parley.settings.schema import WorkspaceSettings
from tests.hosts.mirrored_place import CHILD, JOB, ROOT, Mirrored, fill, git, tree_of, without_room, write
from tests.workspaces.test_unreadable import as_ordinary_user
from tests.workspaces.user_repository import UserRepository


@pytest.fixture
def place(tmp_path: Path) -> Mirrored:
    return Mirrored(tmp_path)


def seen_inside(laid: Order, *words: str) -> str:
    """Git as the agent has it inside its boundary, by the binds of its order."""
    at = {bind.target: bind.source for bind in laid.site.binds}
    objects = ":".join(at[name] for name in ("/run/parley/turns", "/run/parley/base") if name in at)
    where = (f"--git-dir={at['/run/parley/git']}", f"--work-tree={laid.site.workspace}")
    return git(Path(laid.site.workspace), *where, *words, env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": objects})


# ---- any tree ------------------------------------------------------------------------------------

PLAIN = (
    b"a",
    b"b.txt",
    b"-x",
    b"%",
    b"%%.git",
    b".gitignore",
    b".gitmodules",
    b"\xff\xfe",
    b"new\nline",
    b"caf\xc3\xa9",
)
NAMES = st.sampled_from(PLAIN) | st.binary(min_size=1, max_size=12).filter(
    lambda name: not {0, ord("/")} & set(name) and name not in (b".", b"..") and stored(name) in (name, b"%" + name)
)
LEAVES = (
    st.tuples(st.just("file"), st.sampled_from((0o644, 0o755, 0o600, 0o444, 0o750)), st.binary(max_size=40))
    | st.tuples(st.just("link"), st.just(0), st.sampled_from((b"a", b"../..", b"/nowhere", b"\xff")))
)  # fmt: skip
TREES = st.recursive(
    LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
).filter(lambda tree: isinstance(tree, dict))  # fmt: skip


def make(folder: Path, tree: dict[bytes, Any]) -> None:
    for name, what in tree.items():
        path = folder / os.fsdecode(name)
        if isinstance(what, dict):
            path.mkdir()
            make(path, what)
        elif what[0] == "link":
            path.symlink_to(os.fsdecode(what[2]))
        else:
            path.write_bytes(what[2])
            path.chmod(what[1])


def replace_with(folder: Path, tree: dict[bytes, Any]) -> None:
    for path in folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    make(folder, {name: what for name, what in tree.items() if name != b".git"})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Mirrored:
    return Mirrored(tmp_path_factory.mktemp("shared"))


@given(TREES, TREES, TREES)
@settings(max_examples=5)
def test_any_tree_arrives_and_comes_back_byte_for_byte(
    shared: Mirrored, workspace: dict[bytes, Any], home: dict[bytes, Any], after: dict[bytes, Any]
) -> None:
    """One host takes all the turns, so that each begins with what the last one left there."""
    order, host = shared.order(), shared.host()
    here = Path(order.site.workspace)
    Path(order.home).mkdir(parents=True, exist_ok=True)
    replace_with(here, workspace)
    replace_with(Path(order.home), home)

    laid, _ = shared.there(host, order)

    there = Path(laid.site.workspace)
    assert tree_of(there) == tree_of(here)
    assert tree_of(Path(laid.home)) == tree_of(Path(order.home))

    replace_with(there, after)
    replace_with(Path(laid.home), workspace)
    shared.back(host, order, laid)

    assert tree_of(here) == tree_of(there)
    assert tree_of(Path(order.home)) == tree_of(Path(laid.home))


@given(st.binary(min_size=1, max_size=8))
def test_every_name_is_taken_back_as_it_was(name: bytes) -> None:
    assert taken_back(stored(name)) == name


# ---- what belongs to a place ---------------------------------------------------------------------


def test_ignored_and_untracked_files_belong_to_the_place_and_what_git_calls_its_own_stays(place: Mirrored) -> None:
    told: list[str] = []
    place.mirror._tell = told.append
    order, host = place.order(), place.host()
    here = Path(order.site.workspace)
    fill(
        here, {".gitignore": "node_modules/\n", "node_modules/x/index.js": "x", "inner/.git/HEAD": "x", "inner/f": "f"}
    )
    os.mkfifo(here / "pipe")

    laid, _ = place.there(host, order)
    there = Path(laid.site.workspace)

    assert (there / "node_modules/x/index.js").read_text() == "x"
    assert (there / "inner/f").read_text() == "f"
    assert not (there / "inner/.git").exists()
    assert not (there / "pipe").exists()
    [line] = told
    assert "work/inner/.git" in line
    assert "work/pipe" in line

    (there / "inner/f").write_text("g")
    place.back(host, order, laid)

    assert (here / "inner/f").read_text() == "g"
    assert (here / "inner/.git/HEAD").is_file(), "what did not travel is not deleted"
    assert (here / "pipe").exists()


def test_an_agent_reads_its_history_and_keeps_its_own_commits_on_every_host(place: Mirrored) -> None:
    place.order()
    place.user.turn(ROOT, {"a.txt": "two"})
    first, one, two = place.order(), place.host("one"), place.host("two")
    laid, _ = place.there(one, first)

    assert seen_inside(laid, "log", "--format=%s").splitlines() == ["turn of job:j1", "first"]
    assert seen_inside(laid, "status", "--porcelain") == ""
    assert seen_inside(laid, "show", "HEAD~1:a.txt") == "a\n"
    write(Path(laid.site.workspace), {"mine.txt": "mine"})
    seen_inside(laid, "switch", "-q", "-c", "mine")
    seen_inside(laid, "add", "-A")
    seen_inside(laid, "commit", "-qm", "my own")
    place.back(one, first, laid)
    place.user.trees.snapshot(JOB, ROOT, "second turn")
    place.mirror.drop([first])

    second = place.order()
    laid, _ = place.there(two, second)

    assert seen_inside(laid, "log", "--format=%s").splitlines()[:1] == ["second turn"]
    assert seen_inside(laid, "log", "--format=%s", "mine").splitlines() == ["my own", "turn of job:j1", "first"]
    assert seen_inside(laid, "fsck", "--no-dangling") == ""


def test_a_long_history_that_was_cut_arrives_as_it_was_cut(tmp_path: Path) -> None:
    place = Mirrored(tmp_path)
    many = "".join(f"commit refs/heads/main\ncommitter a <a@b> {n} +0000\ndata 1\nc\n" for n in range(60))
    first = "from refs/heads/main^0\n"
    git(place.user.root, "fast-import", "--quiet", input=many.replace("c\n", f"c\n{first}", 1).encode())
    place.user.again()

    laid, _ = place.there(place.host(), place.order())

    assert len(seen_inside(laid, "log", "--format=%s").splitlines()) == 50


def test_a_dispatcher_sees_its_workers_trees(place: Mirrored) -> None:
    place.user.settings = WorkspaceSettings(copy=(".env",))
    write(place.user.root, {".env": "SECRET=1"})
    place.user.again()
    place.order()
    place.user.prepare(CHILD, ROOT)
    place.user.turn(CHILD, {"work.txt": "done"})
    order, host = place.order(children=[CHILD]), place.host()

    laid, _ = place.there(host, order)

    [shown] = [bind.source for bind in laid.site.binds if bind.target.endswith("/.parley/children")]
    assert (Path(shown) / "c1/work.txt").read_text() == "done"
    assert (Path(shown) / "c1/.env").readlink() == Path(laid.site.workspace) / ".env", "links lead to this host's files"
    assert seen_inside(laid, "show", "refs/children/c1:work.txt") == "done"
    (place.user.root / ".env").unlink()


def test_a_sealed_file_is_bound_there_as_it_was_approved(place: Mirrored) -> None:
    place.order()
    place.user.turn(ROOT, {"PLAN.md": "the plan"})
    order, host = place.order(sealed=("PLAN.md",)), place.host()

    laid, _ = place.there(host, order)

    [seal] = [bind for bind in laid.site.binds if bind.target == f"{laid.site.workspace}/PLAN.md"]
    assert Path(seal.source).read_text() == "the plan"
    assert Path(seal.source).is_relative_to(host.home)


def test_the_proxys_clone_goes_out_and_does_not_come_back(place: Mirrored) -> None:
    place.order()
    kept = place.user.turn(ROOT, {"a.txt": "asked about"})
    site = place.user.trees.clone(JOB, "escalation:q1", ROOT, kept.tree, {})
    order, host = place.order("escalation:q1", site=site), place.host()

    laid, _ = place.there(host, order)
    there = Path(laid.site.workspace)
    assert (there / "a.txt").read_text() == "asked about"

    (there / "a.txt").write_text("forged")
    fill(Path(laid.home), {"notes.md": "n"})
    place.back(host, order, laid)

    assert (Path(order.site.workspace) / "a.txt").read_text() == "asked about"
    assert (Path(order.home) / "notes.md").read_text() == "n"


def test_what_lies_elsewhere_is_refused_with_its_path(place: Mirrored) -> None:
    order = place.order()
    more = Bind("/etc/hostname", "/run/parley/x")
    site = structs.replace(order, site=type(order.site)(order.site.workspace, binds=(*order.site.binds, more)))

    with pytest.raises(PlaceRefused, match=r"^/etc/hostname is shown to coder, and is no part of the job's own files"):
        place.mirror.send(site)
    assert place.refs() == []


@pytest.mark.parametrize("source", ["snapshots.git/config", "../other/work", "gitdirs/../state.json", "streams/x"])
def test_no_other_file_of_a_home_can_be_sent(place: Mirrored, source: str) -> None:
    order = place.order()
    more = Bind(f"{place.job_folder}/{source}", "/run/parley/x")

    with pytest.raises(PlaceRefused, match="is no part of the job's own files"):
        place.mirror.send(structs.replace(order, site=type(order.site)(order.site.workspace, binds=(more,))))


# ---- what a host brings itself -------------------------------------------------------------------


def test_what_set_up_and_copies_bring_is_each_hosts_own(tmp_path: Path) -> None:
    def set_up(site: Any, command: str) -> None:
        write(Path(site.workspace), {f"deps/{command}": str(tmp_path)})

    place = Mirrored(tmp_path, {"setup": "install"})
    place.user.settings = WorkspaceSettings(copy=(".env",), setup="install")
    place.user.more = {"set_up": set_up}
    write(place.user.root, {".env": "SECRET=coordinator"})
    place.user.again()
    fill(tmp_path / "copies", {".env": "SECRET=host"})
    runs: list[str] = []

    def set_up_there(site: Any, command: str, stop: Any) -> None:
        runs.append(command)
        write(Path(site.workspace), {"deps/x": "host", "cache/y": "host"})

    order = place.order()
    host = place.host(set_up=set_up_there, copies=tmp_path / "copies")
    laid, _ = place.there(host, order)
    there = Path(laid.site.workspace)

    assert runs == ["install"]
    assert (there / ".env").read_text() == "SECRET=host"
    assert sorted(path.name for path in (there / "deps").iterdir()) == ["x"]
    held = git(place.bare, "rev-list", "--objects", "--all")
    assert "SECRET=coordinator" not in "".join(
        git(place.bare, "cat-file", "-p", line.split()[0]) for line in held.splitlines()
    )

    write(there, {"new.txt": "new"})
    place.back(host, order, laid)
    here = Path(order.site.workspace)

    assert (here / ".env").read_text() == "SECRET=coordinator"
    assert sorted(path.name for path in here.iterdir()) == [".env", ".git", "a.txt", "deps", "new.txt", "sub"]
    place.user.trees.snapshot(JOB, ROOT, "turn")

    again, _ = place.there(host, place.order())
    assert runs == ["install"], "a warm workspace is set up already"
    assert (Path(again.site.workspace) / "cache/y").read_text() == "host"
    (place.user.root / ".env").unlink()


# ---- sessions ------------------------------------------------------------------------------------

SESSION = "11111111-2222-3333-4444-555555555555"
LAST = "66666666-2222-3333-4444-555555555555"


def test_a_session_of_claude_code_goes_on_where_the_workspace_lies_now(place: Mirrored) -> None:
    order, host = place.order(), place.host()
    line = f'{{"uuid":"{LAST}"}}\n'
    name = session_folder(order.site.workspace)
    fill(Path(order.home), {f".claude/projects/{name}/{SESSION}.jsonl": line})

    laid, _ = place.there(host, order)

    there = Path(laid.home) / ".claude/projects"
    assert [path.name for path in there.iterdir()] == [session_folder(laid.site.workspace)] != [name]
    assert AgentHome(laid.home).put_back(SESSION, LAST, len(line))

    with next(there.iterdir()).joinpath(f"{SESSION}.jsonl").open("a") as file:
        file.write("{}\n")
    place.back(host, order, laid)

    kept = Path(order.home) / f".claude/projects/{name}/{SESSION}.jsonl"
    assert kept.read_text() == f"{line}{{}}\n"
    assert len(list((Path(order.home) / ".claude/projects").iterdir())) == 1


def test_where_claude_code_would_not_find_a_session_none_is_there_so_that_it_begins_anew(tmp_path: Path) -> None:
    place = Mirrored(tmp_path)
    order = place.order()
    name = session_folder(order.site.workspace)
    fill(Path(order.home), {f".claude/projects/{name}/{SESSION}.jsonl": "{}\n", ".claude/other": "x"})

    laid, _ = place.there(place.host("h" * 120 + "/" + "i" * 120), order)

    assert session_folder(laid.site.workspace) == ""
    assert (Path(laid.home) / ".claude/other").is_file()
    assert not AgentHome(laid.home).put_back(SESSION, "", 3)


def test_a_session_of_codex_goes_on(place: Mirrored) -> None:
    order, host = place.order(), place.host()
    fill(Path(order.home), {f".codex/sessions/2026/01/02/rollout-{SESSION}.jsonl": "{}\n"})

    laid, _ = place.there(host, order)

    assert codex_session.put_back(laid.home, SESSION, 3)


# ---- an ordinary user ----------------------------------------------------------------------------


def _shut_away(user: UserRepository) -> None:
    place = Mirrored(user.root.parent / "place")
    order, host = place.order(), place.host()
    here = Path(order.site.workspace)
    fill(here, {"unread": "u", "shut/f": "f", "fixed/g": "g"})
    for path, mode in (("unread", 0), ("shut", 0), ("fixed/g", 0o444), ("fixed", 0o555)):
        (here / path).chmod(mode)

    laid, _ = place.there(host, order)
    there = tree_of(Path(laid.site.workspace))

    assert there[b"unread"] == ("file", 0o400, b"u")
    assert there[b"shut/f"] == ("file", 0o644, b"f")
    assert there[b"fixed/g"] == ("file", 0o444, b"g")
    (Path(laid.site.workspace) / "fixed/g").unlink()
    (Path(laid.site.workspace) / "fixed").chmod(0o500)
    place.back(host, order, laid)
    assert tree_of(here) == {**{path: there[path] for path in there if path != b"fixed/g"}, b"fixed": FIXED}


FIXED = ("folder", 0o700, b"")


def test_what_its_agent_has_shut_arrives_and_can_be_read() -> None:
    for name in ("latin-1", "utf-8"):
        codecs.lookup(name)  # where Python lies, that user may not look
    as_ordinary_user(_shut_away)


# ---- bounds --------------------------------------------------------------------------------------


def test_a_place_that_takes_more_than_the_job_may_is_not_packed(tmp_path: Path) -> None:
    place = Mirrored(tmp_path)
    place.user.settings = WorkspaceSettings(quota_mb=1)
    place.user.again()
    order = place.order()
    fill(Path(order.home), {"large": os.urandom(2 << 20)})

    with pytest.raises(MirrorError, match=r"it takes more than the job's quota; remove some files"):
        place.mirror.send(order)


def test_a_sparse_file_stays_where_it_is(place: Mirrored) -> None:
    order, host = place.order(), place.host()
    with (Path(order.site.workspace) / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    laid, _ = place.there(host, order)
    assert not (Path(laid.site.workspace) / "sparse").exists()

    place.back(host, order, laid)
    assert (Path(order.site.workspace) / "sparse").stat().st_size == 1 << 40


def test_an_order_of_another_home_is_refused(place: Mirrored, tmp_path: Path) -> None:
    order = place.order()

    with pytest.raises(MirrorError, match="is no folder of this coordinator's home"):
        place.host().send(order)
    with pytest.raises(MirrorError, match="it was laid out elsewhere"):
        place.host().give_back(without_room(order), order)
