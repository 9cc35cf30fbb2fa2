"""What a running agent takes of memory and disk is bounded while it runs, not afterwards."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.machine import disk
from parley.ports.turns import Site
from parley.sandbox import Boundary, Cage
from parley.sandbox.limits import memory_limit
from parley.sandbox.limits.process_tree import children
from parley.sandbox.limits.resource_watch import ResourceWatch, is_low
from parley.settings.schema import BoundarySettings
from parley.workspaces.quota import RunningJobQuota
from tests.sandbox.cage_harness import PATH, PATIENCE_SECONDS, CageHarness, close, run

MEGABYTES = 200
NOWHERE = Path("/nonexistent")  # where no cgroup is found: memory is counted
KERNELS = {"cgroup": memory_limit.GROUPS, "sampling": NOWHERE}

HOGS = {
    "one process": "b = bytearray(400 << 20); import time; time.sleep(600)",
    "many processes": """
import os, time
for _ in range(8):
    if not os.fork():
        b = bytearray(os.urandom(1) * (50 << 20)); time.sleep(600)
time.sleep(600)
""",
    "shared memory": """
import mmap, time
m = mmap.mmap(-1, 400 << 20)
for at in range(0, 400 << 20, 4096): m[at] = 1
time.sleep(600)
""",
    "/dev/shm": "open('/dev/shm/x', 'wb').write(bytes(400 << 20)); import time; time.sleep(600)",
    "/tmp": """
import time
with open('/tmp/x', 'wb') as f:
    for _ in range(400): f.write(bytes(1 << 20))
time.sleep(600)
""",
    "memory files": """
import os, time
for n in range(4):
    f = os.memfd_create('x')
    for _ in range(100): os.write(f, bytes(1 << 20))
time.sleep(600)
""",
}


@pytest.fixture(params=KERNELS)
def bounded(request: pytest.FixtureRequest) -> Iterator[Boundary]:
    """A boundary with little memory, kept by the kernel or counted."""
    made = Boundary(BoundarySettings(memory_mb=MEGABYTES), groups=KERNELS[request.param])
    if request.param == memory_limit.KERNEL and made.memory_kept_by() != memory_limit.KERNEL:
        pytest.skip("the kernel lets this user make no cgroup with a bound of its own")
    yield made
    made.close()


@pytest.mark.parametrize("hog", HOGS)
def test_an_agent_that_takes_too_much_memory_is_ended(bounded: Boundary, yard: CageHarness, hog: str) -> None:
    caged = bounded.launch(yard.python(HOGS[hog]))
    try:
        caged.process.wait(PATIENCE_SECONDS)
    finally:
        caged.kill()
        close(caged)
    assert caged.exceeded == "it was ended: its processes took more than 200 MB of memory ([boundary] memory_mb)"


def test_a_cage_has_one_share_of_the_processors_however_many_sessions_it_begins(
    boundary: Boundary, yard: CageHarness
) -> None:
    """Each session of a user's has a share of its own; a hundred of them kept `parley withdraw` from being served."""
    own = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    apart = [line for line in own if "cpu" in line.split(":")[1].split(",")]
    if not apart or boundary.memory_kept_by() != memory_limit.KERNEL:
        pytest.skip("the kernel keeps no share of the processors for a group of this user's")
    program = "import os, time\nif not os.fork():\n  os.setsid(); print('begun', flush=True)\ntime.sleep(600)"
    caged = boundary.launch(yard.python(program))
    try:
        assert caged.process.stdout is not None
        assert caged.process.stdout.readline() == b"begun\n"
        inside = [child for pid in children(caged.root) for child in (pid, *children(pid))]
        groups = {line for pid in inside for line in Path(f"/proc/{pid}/cgroup").read_text("ascii").splitlines()}
    finally:
        caged.kill()
        close(caged)
    [shared] = [line for line in groups if "cpu" in line.split(":")[1].split(",")]
    assert len(inside) > 1
    assert shared not in own
    assert not list((memory_limit.GROUPS / "cpu").rglob(Path(shared).name))


def test_a_group_of_the_newer_version_has_its_bound(tmp_path: Path) -> None:
    """As systemd gives one to a user: processes lie in a leaf, and what gives memory on is further up."""
    own = tmp_path / "own"
    own.write_text("0::/user/app/leaf\n", "ascii")
    for folder, gives in (
        ("", "cpu memory"),
        ("user", "cpu memory pids"),
        ("user/app", "memory"),
        ("user/app/leaf", ""),
    ):
        (tmp_path / "groups" / folder).mkdir()
        (tmp_path / "groups" / folder / "cgroup.subtree_control").write_text(f"{gives}\n", "ascii")
    group = memory_limit.make_group(MEGABYTES << 20, tmp_path / "groups", own)
    assert group is not None
    [made] = (tmp_path / "groups" / "user" / "app").glob("parley-*")
    group.take([1])
    held = {path.name: path.read_text("ascii") for path in made.iterdir()}
    assert held == {
        "memory.max": str(MEGABYTES << 20), "memory.swap.max": "0", "memory.oom.group": "1", "cgroup.procs": "1"
    }  # fmt: skip
    assert not group.exceeded()
    (made / "memory.events").write_text("low 0\nmax 4\noom 1\noom_kill 1\n", "ascii")
    assert group.exceeded()


HIDING = {
    "in a socket": """
import os, socket, time
s, t = socket.socketpair()
for n in range(12):
    f = os.memfd_create('x')
    os.posix_fallocate(f, 0, 100 << 20)
    socket.send_fds(s, [b'x'], [f]); os.close(f)
time.sleep(600)
""",
    "by a mapping that is not read": """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
for n in range(12):
    f = os.memfd_create('x')
    os.posix_fallocate(f, 0, 100 << 20)
    libc.mmap(None, 4096, 1, 1, f, 0); os.close(f)
time.sleep(600)
""",
}


@pytest.mark.parametrize("hog", HIDING)
def test_an_agent_that_hides_memory_is_ended_by_what_the_machine_lacks(
    yard: CageHarness, hog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, and not kept by the kernel: no process shows what a socket carries, or what is mapped and not read."""
    monkeypatch.setattr(memory_limit, "UNSEEN", MEGABYTES << 20)
    made = Boundary(BoundarySettings(memory_mb=MEGABYTES), groups=NOWHERE)
    caged = made.launch(yard.python(HIDING[hog]))
    try:
        caged.process.wait(PATIENCE_SECONDS)
    finally:
        caged.kill()
        close(caged)
        made.close()
    assert caged.exceeded == "it was ended: its processes took more than 200 MB of memory ([boundary] memory_mb)"


def test_a_segment_that_outlives_its_processes_is_small(boundary: Boundary, yard: CageHarness) -> None:
    program = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmget.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
print([libc.shmget(0, size, 0o1600) >= 0 for size in (1, 1 << 16, (1 << 16) + 1, 1 << 30, 1 << 32, (1 << 40) + 1)])
"""
    assert run(boundary, yard.python(program)).out == "[True, True, False, False, False, False]\n"


def test_an_agent_below_the_bound_is_left_alone(bounded: Boundary, yard: CageHarness) -> None:
    """Twelve that share what they have: each shows all of it, and together they have it once."""
    program = """
import mmap, os, time
m = mmap.mmap(-1, 60 << 20)
for at in range(0, 60 << 20, 4096): m[at] = 1
for _ in range(12):
    if not os.fork():
        for at in range(0, 60 << 20, 4096): m[at]
        time.sleep(2); os._exit(0)
for _ in range(12): os.wait()
print('done')
"""
    done = run(bounded, yard.python(program))
    assert (done.out, done.status) == ("done\n", 0)


def test_what_is_memory_in_a_cage_is_bounded_by_itself(boundary: Boundary, yard: CageHarness) -> None:
    program = (
        "import json, os; print(json.dumps({n: os.statvfs(n).f_blocks * os.statvfs(n).f_frsize for n in "
        "('/tmp', '/dev/shm', '/run')}))"
    )
    assert run(boundary, yard.python(program)).json() == {"/tmp": 2 << 30, "/dev/shm": 512 << 20, "/run": 1 << 20}


# ---- the disk --------------------------------------------------------------------------------------

FILLERS = {
    "a file in the workspace": ("f = open('big', 'wb')", "f.write(bytes(1 << 20)); f.flush()"),
    "a file in the home": ("f = open('/home/agent/big', 'wb')", "f.write(bytes(1 << 20)); f.flush()"),
    "a file without a name": (
        "f = open('big', 'wb'); import os; os.unlink('big')",
        "f.write(bytes(1 << 20)); f.flush()",
    ),
    "a folder that is shut": (
        "import os; os.mkdir('d'); f = open('d/big', 'wb'); os.chmod('d', 0)",
        "f.write(bytes(1 << 20)); f.flush()",
    ),
    "a deep folder": (
        "import os\nfor _ in range(1500): os.mkdir('d' * 50); os.chdir('d' * 50)\nf = open('big', 'wb')",
        "f.write(bytes(1 << 20)); f.flush()",
    ),
}
FILL = "{}\nfor n in range(300):\n    {}\nimport time; time.sleep(600)"
FULL = """
import time
with open('big', 'wb', buffering=0) as f:
    while True:
        try: f.write(bytes(1 << 20))
        except OSError: time.sleep(0.1)
"""
QUOTA = 64 << 20


@pytest.fixture
def plain() -> Iterator[Boundary]:
    made = Boundary()
    yield made
    made.close()


def job_of(root: Path, boundary: Boundary, files: int = 100_000) -> tuple[RunningJobQuota, Cage]:
    """A job's folders, and a cage of one of its agents."""
    job = root / "jobs" / "j"
    for folder in (job / "work", job / "homes" / "a"):
        folder.mkdir(parents=True)
        boundary.hand_over(folder)
    room = RunningJobQuota(job, QUOTA, files)
    return room, Cage(Site(str(job / "work"), room=room), job / "homes" / "a", ("true",), PATH)


def played(boundary: Boundary, cage: Cage, program: str) -> str:
    """Run a program until it is ended; why it was."""
    caged = boundary.launch(Cage(cage.site, cage.home, CageHarness(cage.home).python(program).command, PATH))
    try:
        caged.process.wait(2 * PATIENCE_SECONDS)
    finally:
        caged.kill()
        close(caged)
    return caged.exceeded


@pytest.mark.parametrize("filler", FILLERS)
def test_an_agent_that_fills_the_disk_is_ended(plain: Boundary, tmp_path: Path, filler: str) -> None:
    _, cage = job_of(tmp_path, plain)
    why = played(plain, cage, FILL.format(*FILLERS[filler]))
    assert why.startswith("it was ended: the job's files took ")
    assert why.endswith(" MB, and may take 64 MB ([workspace] quota_mb)")


def test_a_home_that_was_filled_is_taken_away(plain: Boundary, tmp_path: Path) -> None:
    _, cage = job_of(tmp_path, plain)
    played(plain, cage, FILL.format(*FILLERS["a file in the home"]))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while list(cage.home.parent.iterdir()):
        assert time.monotonic() < deadline, "the home's files are still there"
        time.sleep(0.01)


def test_an_agent_that_makes_too_many_files_is_ended(plain: Boundary, tmp_path: Path) -> None:
    _, cage = job_of(tmp_path, plain, files=3000)
    program = "for n in range(20_000): open(f'f{n}', 'w').close()\nimport time; time.sleep(600)"
    assert played(plain, cage, program) == "it was ended: it made more than 3000 files ([workspace] files)"


@pytest.mark.parametrize(
    "hide",
    ["socket.send_fds(s, [b'x'], [f])", "libc.mmap(None, 4096, 1, 1, f, 0)"],
    ids=["in a socket", "by a mapping"],
)
def test_an_agent_that_hides_files_is_ended_by_what_the_disk_lacks(
    plain: Boundary, tmp_path: Path, hide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "UNSEEN", QUOTA)
    _, cage = job_of(tmp_path, plain)
    program = f"""
import ctypes, os, socket, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
s, t = socket.socketpair()
time.sleep(1)  # the job is looked at before
for _ in range(15):  # again, since other programs may give back as much meanwhile
    f = os.open('big', os.O_RDWR | os.O_CREAT)
    os.unlink('big')
    os.posix_fallocate(f, 0, 300 << 20)
    {hide}
    os.close(f)
    time.sleep(3)
time.sleep(600)
"""
    assert played(plain, cage, program).endswith(" MB, and may take 64 MB ([workspace] quota_mb)")


AT_ONCE = {
    "bytes": "import os; os.posix_fallocate(os.open('big', os.O_RDWR | os.O_CREAT), 0, 300 << 20)",
    "files": "for n in range(3000): open(f'f{n}', 'w').close()",
}


@pytest.mark.parametrize("what", AT_ONCE)
def test_the_turn_after_one_that_took_too_much_is_ended_too(plain: Boundary, tmp_path: Path, what: str) -> None:
    """It takes as much as the one before: what that one held must not be taken for what lay there before."""
    room, cage = job_of(tmp_path, plain, files=500)
    beside = [room.folder / name for name in ("trees/other", "homes/other")]
    for folder in beside:
        folder.mkdir(parents=True)
        plain.hand_over(folder)
    site = Site(str(beside[0]), room=room)
    other = plain.launch(Cage(site, beside[1], ("sleep", "600"), PATH))  # so the job is watched all the time
    try:
        for _ in range(2):
            assert "it was ended: " in played(plain, cage, f"{AT_ONCE[what]}\nimport time; time.sleep(600)")
            disk.remove(cage.site.workspace)
            Path(cage.site.workspace).mkdir()
            plain.hand_over(cage.site.workspace)
    finally:
        other.kill()
        close(other)


def test_sparse_files_and_second_names_cost_nothing(plain: Boundary, tmp_path: Path) -> None:
    _, cage = job_of(tmp_path, plain)
    program = """
import os, time
with open('sparse', 'wb') as f: f.truncate(2 << 30)
with open('real', 'wb') as f: f.write(bytes(40 << 20))
for n in range(20): os.link('real', f'real{n}')
with open('more', 'wb') as f: f.write(bytes(8 << 20))
time.sleep(3)
"""
    assert played(plain, cage, program) == ""


def test_a_sparse_file_weighs_its_blocks_and_a_hard_link_once(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2 << 30)
    (tmp_path / "real").write_bytes(bytes(1 << 20))
    os.link(tmp_path / "real", tmp_path / "again")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = disk.weigh(tmp_path)
    assert found.files == 5
    assert 1 << 20 <= found.bytes < 2 << 20


def test_a_deep_folder_is_weighed_and_removed_with_few_descriptors(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d" * 60, dir_fd=here)
        below = os.open("d" * 60, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with os.fdopen(os.open("end", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(bytes(1 << 20))
    os.close(here)
    found = disk.weigh(top)
    assert (found.files, found.bytes >= 1 << 20) == (2001, True)
    disk.remove(top)
    assert not top.exists()


def test_a_nearly_full_disk_ends_the_agent_that_filled_it(plain: Boundary, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(("mount", "-t", "tmpfs", "-o", "size=40m,mode=0755", "none", small), check=False).returncode:
        pytest.skip("this user can't mount a small filesystem")
    try:
        room, cage = job_of(small, plain)
        why = played(plain, cage, FULL)
        assert why.startswith("it was ended: the disk has ")
        assert room.spoilt(Path(cage.site.workspace)) is True
    finally:
        subprocess.run(("umount", "-l", small), check=True)


def test_a_small_disk_is_not_called_full_for_being_small() -> None:
    some = disk.DiskSpace(used=0, free=30 << 20, files=0, files_free=100, size=32 << 20, most_files=100)
    assert not is_low(some)
    assert is_low(disk.DiskSpace(used=0, free=1 << 20, files=0, files_free=100, size=32 << 20, most_files=100))
    assert is_low(disk.DiskSpace(used=0, free=30 << 20, files=0, files_free=0, size=32 << 20, most_files=100))


def test_the_watch_ends_with_its_cages(yard: CageHarness) -> None:
    boundary = Boundary()
    watch = ResourceWatch(1 << 40)
    caged = boundary.launch(yard.cage("sleep", "600"))
    watch.add(caged, yard.cage())
    caged.kill()
    close(caged)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while watch.busy:
        assert time.monotonic() < deadline, "the watch goes on without a cage"
        time.sleep(0.01)
    boundary.close()
