"""Protections are taken away one at a time: each time the launch is refused, with the attempt that got out named."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.ports.turns import Bind, BoundaryError, Site
from parley.sandbox import Boundary, Cage, launch_report, seccomp
from parley.sandbox.cage_profile import INTERPRETER, Profile
from parley.settings.schema import BoundarySettings
from tests.sandbox.cage_harness import CageHarness, finish, run

Spoil = Callable[[Profile, CageHarness], None]
KINDS = ("user", "ipc", "pid", "net", "uts", "cgroup")


def _sharing(kind: str) -> Spoil:
    def spoil(profile: Profile, yard: CageHarness) -> None:
        place = profile.walls.index("--unshare-all")
        profile.walls[place : place + 2] = [f"--unshare-{each}" for each in KINDS if each != kind]
        if kind == "uts":
            host = profile.walls.index("--hostname")
            del profile.walls[host : host + 2]

    return spoil


def _without(word: str, count: int = 1) -> Spoil:
    def spoil(profile: Profile, yard: CageHarness) -> None:
        words = profile.walls if word in profile.walls else profile.last
        place = words.index(word)
        del words[place : place + count]

    return spoil


def _with(*words: str) -> Spoil:
    def spoil(profile: Profile, yard: CageHarness) -> None:
        profile.system += words

    return spoil


def _open_ways(profile: Profile) -> None:
    """Leave out the seals of what leads to the binds."""
    profile.last = ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", *profile.last[-2:]]


def _host_tmp(profile: Profile, yard: CageHarness) -> None:
    profile.system += ["--bind", "/tmp", "/tmp"]
    _open_ways(profile)


def _bind(path: Callable[[CageHarness], Path], *, writable: bool = False) -> Spoil:
    def spoil(profile: Profile, yard: CageHarness) -> None:
        shown = Bind(str(path(yard)), str(path(yard)), writable)
        profile.binds.insert(0, shown)
        _open_ways(profile)

    return spoil


def _root_shown(profile: Profile, yard: CageHarness) -> None:
    """As `--ro-bind / /` does it; what an ordinary user can't pass through would hide itself."""
    named = {"/proc", "/dev", "/home", f"/{Path(INTERPRETER).parts[1]}"} - {"/usr"}
    shown = [path for path in map(str, Path("/").iterdir()) if path not in named and not Path(path).is_symlink()]
    profile.system += [word for path in shown for word in ("--ro-bind", path, path)]
    profile.data.clear()
    _open_ways(profile)


def _no_filter(profile: Profile, yard: CageHarness) -> None:
    profile.filter = b""


def _leaky_filter(name: str) -> Spoil:
    def spoil(profile: Profile, yard: CageHarness) -> None:
        profile.filter = seccomp.assemble([name])

    return spoil


def _no_landlock(profile: Profile, yard: CageHarness) -> None:
    profile.wall = False


def _writable_proc(profile: Profile, yard: CageHarness) -> None:
    profile.writable.append("/proc")
    _mounted_writable_proc(profile, yard)


def _mounted_writable_proc(profile: Profile, yard: CageHarness) -> None:
    place = profile.last.index("/proc")
    del profile.last[place - 1 : place + 1]


def _unsealed(profile: Profile, yard: CageHarness) -> None:
    profile.binds = [Bind(bind.source, bind.target, writable=True) for bind in profile.binds]


def _leaked_variable(profile: Profile, yard: CageHarness) -> None:
    profile.walls.remove("--clearenv")
    profile.environment["SECRET_OF_PARLEY"] = "1"


def _leaked_descriptor(profile: Profile, yard: CageHarness) -> None:
    profile.descriptors = (os.open(yard.secret, os.O_RDONLY),)


def _rewritable(profile: Profile, yard: CageHarness) -> None:
    profile.last = profile.last[-2:]


def _root_inside(profile: Profile, yard: CageHarness) -> None:
    profile.walls += ["--uid", "0", "--gid", "0"]


def _capable(profile: Profile, yard: CageHarness) -> None:
    place = profile.walls.index("--cap-drop")
    profile.walls[place : place + 2] = ["--cap-add", "ALL"]


SPOILS: dict[str, tuple[Spoil, str]] = {
    "the host's network": (_sharing("net"), "tcp"),
    "the host's processes": (_sharing("pid"), "other_processes"),
    "the host's shared memory": (_sharing("ipc"), "other_namespaces"),
    "the host's name": (_sharing("uts"), "other_namespaces"),
    "the host's control groups": (_sharing("cgroup"), "other_namespaces"),
    "the whole root": (_root_shown, "read_outside"),
    "no filter of system calls": (_no_filter, "filtered"),
    "a filter that forgets io_uring": (_leaky_filter("io_uring"), "io_uring"),
    "a filter that forgets keyrings": (_leaky_filter("keyring"), "keyring"),
    "a filter that forgets odd sockets": (_leaky_filter("socket_families"), "socket_families"),
    "a filter that forgets the terminal": (_leaky_filter("terminal"), "terminal"),
    "no Landlock": (_no_landlock, "second_wall"),
    "a /proc that can be written": (_writable_proc, "write_memory"),
    "the real home": (_bind(lambda _: Path.home()), "real_home"),
    "the parent, readable": (_bind(lambda yard: yard.root), "list_around"),
    "the parent, writable": (_bind(lambda yard: yard.root, writable=True), "write_beside"),
    "a .git that can be written": (_unsealed, "write_sealed"),
    "capabilities": (_capable, "capabilities"),
    "a variable of Parley's own": (_leaked_variable, "environment"),
    "a descriptor of Parley's own": (_leaked_descriptor, "descriptors"),
    "the session of its starter": (_without("--new-session"), "terminal"),
    "outliving Parley": (_without("--die-with-parent"), "outlive"),
    "a root that can be written": (_rewritable, "write_system"),
    "a /usr that can be written": (_with("--bind", "/usr", "/usr"), "write_system"),
    "the host's /tmp": (_host_tmp, "read_outside"),
    "the host's /etc": (_with("--ro-bind", "/etc", "/etc"), "list_around"),
    "the host's /dev": (_with("--dev-bind", "/dev", "/dev"), "devices"),
    "the host's /proc": (_with("--ro-bind", "/proc", "/proc"), "other_processes"),
    "root inside": (_root_inside, "become_root"),
}


class Spoiled(Boundary):
    """A boundary from whose profile something was taken away."""

    def __init__(self, yard: CageHarness, spoil: Spoil) -> None:
        super().__init__()
        self._yard = yard
        self._spoil = spoil

    def draw(self, cage: Cage) -> Profile:
        drawn = super().draw(cage)
        self._spoil(drawn, self._yard)
        for place in drawn.descriptors:
            os.set_inheritable(place, True)
        return drawn


@pytest.fixture
def sealed(yard: CageHarness) -> Cage:
    """A cage whose workspace has a `.git` that is not the agent's."""
    (yard.root / "gitfile").write_text("gitdir: /nowhere\n", encoding="utf-8")
    (yard.root / "gitfile").chmod(0o666)
    (yard.workspace / ".git").touch(0o666)
    seal = Bind(str(yard.root / "gitfile"), str(yard.workspace / ".git"))
    return yard.cage(site=Site(str(yard.workspace), binds=(seal,)))


@pytest.fixture
def spoiled(yard: CageHarness, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Boundary]:
    (yard.root / "person").mkdir()
    (yard.root / "person/diary").touch()
    monkeypatch.setenv("HOME", str(yard.root / "person"))
    boundary = Spoiled(yard, request.param)
    yield boundary
    boundary.close()


@pytest.mark.parametrize(
    "spoiled,attempt", [pytest.param(*spoil, id=name) for name, spoil in SPOILS.items()], indirect=["spoiled"]
)
def test_a_spoiled_profile_is_refused(spoiled: Boundary, attempt: str, sealed: Cage) -> None:
    # a checkout below /tmp or /var/tmp can't be shown at all where the host's /tmp lies over its place
    with pytest.raises(BoundaryError, match=rf"did not hold.*\"{attempt}\"|bwrap: Can't mkdir parents") as refused:
        spoiled.launch(sealed)

    assert "\n" not in str(refused.value)


def test_the_same_cage_unspoiled_is_not_refused(boundary: Boundary, sealed: Cage) -> None:
    assert run(boundary, sealed).status == 0


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_mounted_writable_proc, id="Landlock alone"),
        pytest.param(lambda profile, _: profile.writable.append("/proc"), id="the mount alone"),
    ],
)
def test_each_of_two_walls_keeps_the_memory_of_others_by_itself(yard: CageHarness, spoil: Spoil) -> None:
    boundary = Spoiled(yard, spoil)
    try:
        assert run(boundary, yard.cage()).status == 0
    finally:
        boundary.close()


def test_a_canary_that_was_touched_counts_whatever_the_inside_says(yard: CageHarness) -> None:
    class Blind(Boundary):
        """One whose canary is changed by another program while the cage is tried."""

        def draw(self, cage: Cage) -> Profile:
            canary, _ = self._helpers()
            (canary.folder / "secret").write_text("changed", encoding="utf-8")
            return super().draw(cage)

    boundary = Blind()
    try:
        with pytest.raises(BoundaryError, match="change_outside: files outside were changed"):
            boundary.launch(yard.cage())
    finally:
        boundary.close()


def test_a_launcher_that_leaves_a_result_out_is_refused(yard: CageHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    real = launch_report.read
    monkeypatch.setattr(launch_report, "read", lambda control: [line for line in real(control) if line[0] != "climb"])
    boundary = Boundary()
    try:
        with pytest.raises(BoundaryError, match="climb: it was not reported"):
            boundary.launch(yard.cage())
    finally:
        boundary.close()


def test_an_exempt_attempt_is_let_pass_and_shown(yard: CageHarness) -> None:
    boundary = Boundary(BoundarySettings(exempt=("io_uring", "keyring")))
    try:
        caged = boundary.launch(yard.cage())
        finish(caged)
    finally:
        boundary.close()
    results = {attempt.name: attempt.result for attempt in caged.verdict.attempts}
    assert results["keyring"] == "exempt"
    assert results["udp"] == "held"
    assert caged.verdict.summary().exemptions == ("attempt io_uring", "attempt keyring")


def test_an_exemption_of_nothing_that_there_is_is_refused(yard: CageHarness) -> None:
    with pytest.raises(BoundaryError, match="there is no attempt 'upd'"):
        Boundary(BoundarySettings(exempt=("upd",))).launch(yard.cage())
