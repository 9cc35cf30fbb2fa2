"""A workspace may lie wherever its user can write: there the cage is as tight as elsewhere."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.ports.turns import Bind, BoundaryError, Site
from parley.sandbox import Boundary, Cage
from parley.sandbox.cage import HOME
from parley.sandbox.cage_profile import Profile
from parley.settings.schema import BoundarySettings
from tests.sandbox.cage_harness import CageHarness, lay_out, run
from tests.sandbox.test_spoiled_cages import SPOILS, Spoil, Spoiled

PLACES = (
    "/tmp", "/var/tmp", "/dev/shm", "/run", "/usr/local", "/usr/lib", "/usr/share", "/opt", "/srv", "/mnt", "/var/lib",
    "/etc", "/home", "/root", "/",
)  # fmt: skip
HERE = [place for place in PLACES if os.access(place, os.W_OK | os.X_OK)]  # an ordinary user has few of them
# What is seen only where the cage is drawn for the very place of the workspace.
LOCAL = ("no Landlock", "the real home", "the parent, readable", "the parent, writable", "a .git that can be written",
         "a root that can be written", "a /usr that can be written", "the host's /etc")  # fmt: skip


@contextmanager
def laid_out(place: str, boundary: Boundary, mode: int = 0o777) -> Iterator[CageHarness]:
    with tempfile.TemporaryDirectory(prefix="parley-yard-", dir=place) as folder:
        Path(folder).chmod(mode)
        yield lay_out(Path(folder), boundary)


@pytest.mark.parametrize("place", HERE)
@pytest.mark.parametrize("mode", [0o777, 0o700], ids=["open", "shut"])
def test_an_agent_works_in_a_workspace_anywhere(boundary: Boundary, place: str, mode: int) -> None:
    with laid_out(place, boundary, mode) as yard:
        done = run(boundary, yard.cage("sh", "-c", "echo made > made && cat made && ls -A .. && touch ../beside"))

        assert done.out.splitlines()[0] == "made"
        assert (yard.workspace / "made").read_text("utf-8") == "made\n"
        assert not (yard.root / "beside").exists()


@pytest.mark.parametrize("place", HERE)
def test_what_lies_beside_the_workspace_is_not_seen_there(boundary: Boundary, place: str) -> None:
    with laid_out(place, boundary) as yard:
        done = run(boundary, yard.cage("sh", "-c", f"cat {yard.secret}; ls -A {yard.root}"))

        assert done.out.split() == ["workspace"]


@pytest.mark.parametrize("place", [place for place in ("/dev/shm", "/var/tmp", "/usr/local", "/home") if place in HERE])
@pytest.mark.parametrize("spoil,attempt", [pytest.param(*SPOILS[name], id=name) for name in LOCAL])
def test_a_spoiled_cage_is_refused_there_too(
    boundary: Boundary, place: str, spoil: Spoil, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with laid_out(place, boundary) as yard:
        (yard.root / "person").mkdir()
        (yard.root / "person/diary").touch()
        monkeypatch.setenv("HOME", str(yard.root / "person"))
        (yard.workspace / ".git").touch(0o666)
        (yard.root / "gitfile").touch(0o666)
        seal = Bind(str(yard.root / "gitfile"), str(yard.workspace / ".git"))
        spoiled = Spoiled(yard, spoil)
        try:
            with pytest.raises(BoundaryError, match=rf"did not hold.*\"{attempt}\"|bwrap: Can't mkdir"):
                spoiled.launch(yard.cage(site=Site(str(yard.workspace), binds=(seal,))))
        finally:
            spoiled.close()


def _uncovered(profile: Profile, yard: CageHarness) -> None:
    profile.last = [word for word in profile.last if word not in profile.covers]
    profile.last = [*(word for word in profile.last if word != "--remount-ro")][-2:]
    profile.covers.clear()


def _hosts_shared_memory(profile: Profile, yard: CageHarness) -> None:
    profile.system += ["--bind", "/dev/shm", "/dev/shm"]


@pytest.mark.skipif("/usr/local" not in HERE, reason="this user can't write below /usr")
def test_a_private_folder_below_usr_that_is_not_covered_is_found(boundary: Boundary) -> None:
    class Uncovered(Boundary):
        def draw(self, cage: Cage) -> Profile:
            drawn = super().draw(cage)
            _uncovered(drawn, yard)
            return drawn

    with laid_out("/usr/local", boundary) as yard:
        spoiled = Uncovered(private=(yard.root,))
        try:
            with pytest.raises(BoundaryError, match=r'did not hold.*"list_around"'):
                spoiled.launch(yard.cage())
        finally:
            spoiled.close()


@pytest.mark.skipif("/usr/local" not in HERE, reason="this user can't write below /usr")
@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["open", "shut"])
def test_another_home_of_the_users_below_usr_is_shown_to_no_cage(yard: CageHarness, mode: int) -> None:
    with tempfile.TemporaryDirectory(prefix="parley-other-", dir="/usr/local") as folder:
        Path(folder).chmod(mode)
        other = Path(folder) / "repository" / ".parley"
        other.mkdir(parents=True)
        (other / "bus.db").touch()
        boundary = Boundary(private=(other,), personal=(other.parent,))
        try:
            done = run(boundary, yard.cage("sh", "-c", f"ls -A {other}; cat {other}/bus.db && echo read"))
        finally:
            boundary.close()
    assert done.out == ""


def test_the_hosts_shared_memory_is_found_beside_a_workspace_in_it(boundary: Boundary) -> None:
    with laid_out("/dev/shm", boundary) as yard, tempfile.NamedTemporaryFile(dir="/dev/shm"):
        spoiled = Spoiled(yard, _hosts_shared_memory)
        try:
            with pytest.raises(BoundaryError, match=r'did not hold.*"shared_memory"|bwrap: Can'):
                spoiled.launch(yard.cage())
        finally:
            spoiled.close()


def test_a_folder_for_temporary_files_whose_name_is_no_text_will_do(
    yard: CageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = os.fsdecode(os.fsencode(yard.root) + b"/caf\xe9")
    Path(place).mkdir(mode=0o777)
    monkeypatch.setattr(tempfile, "tempdir", place)
    boundary = Boundary()
    try:
        assert run(boundary, yard.cage("echo", "held")).out == "held\n"
    finally:
        boundary.close()


def test_parleys_own_folder_is_not_shown_where_the_user_made_all_around_it_readable(yard: CageHarness) -> None:
    kept = yard.root / ".parley"
    kept.mkdir()
    (kept / "bus.db").touch()
    boundary = Boundary(BoundarySettings(readable=(str(yard.root),)), private=(kept,))
    try:
        done = run(boundary, yard.cage("sh", "-c", f"cat {yard.secret}; ls -A {kept}"))
    finally:
        boundary.close()
    assert (done.out, done.status) == ("outside", 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make /home/agent")
def test_a_workspace_below_the_folder_that_becomes_the_agents_home_is_not_hidden_by_it(boundary: Boundary) -> None:
    home = Path(HOME)
    made = not home.exists()
    home.mkdir(exist_ok=True)
    try:
        with laid_out(HOME, boundary) as yard:
            (yard.home / yard.root.name).symlink_to("/oldroot/tmp")  # left by the agent, on the way to its workspace
            done = run(boundary, yard.cage("sh", "-c", "touch made ~/at-home; rm ~/.aside-*; ls -A ~"))

            assert (yard.workspace / "made").exists()
            assert (yard.home / "at-home").exists()
            assert sorted(done.out.split()) == sorted(["at-home", yard.root.name])
    finally:
        if made:
            home.rmdir()


ODD = b" |\n|\t|\"|'|\\|:|,|%s|#|-x|--bind|..x|\xff|\xc3\xbc|\xe2\x80\x8b|proc|dev|tmp|home|agent|.git|$(id)|\x1b[2J|*"
PLAIN = st.binary(min_size=1, max_size=12).map(lambda text: text.replace(b"/", b"_").replace(b"\0", b"_"))
NAMES = st.sampled_from(ODD.split(b"|")) | PLAIN.filter(lambda name: name not in (b".", b".."))
PIECES = st.lists(NAMES, min_size=1, max_size=6)


@settings(max_examples=15, deadline=None)
@given(names=PIECES)
@example([b"d"] * 200)
@example([b"home", b"agent"])
@example([b"new\nline", b"-", b"\xff\xfe"])
def test_no_name_on_the_way_to_a_workspace_changes_the_cage(boundary: Boundary, names: list[bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="parley-yard-") as folder:
        Path(folder).chmod(0o777)
        yard = lay_out(Path(folder, *map(os.fsdecode, names)), boundary)
        cage = replace(yard.cage("sh", "-c", "pwd -P > made; cat ../secret"), home=yard.home)
        done = run(boundary, cage)

        assert "outside" not in done.out
        assert (yard.workspace / "made").read_bytes() == os.fsencode(yard.workspace) + b"\n"
