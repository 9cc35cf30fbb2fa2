"""A hostile program in a real cage that does not know how the cage was tried. Outside is looked at, too."""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.ports.turns import Bind, Site
from parley.sandbox import Boundary
from tests.sandbox.cage_harness import CageHarness, lay_out, run

HOSTILE = r"""
import ctypes, json, os, signal, socket, subprocess, sys
told = json.loads(sys.argv[1])
secret, root, work, pid = told["secret"], told["root"], told["workspace"], told["pid"]
results = {}
def tries(function):
    try:
        results[function.__name__] = repr(function())
    except BaseException as error:
        results[function.__name__] = "refused " + type(error).__name__
@tries
def read_beside(): return open(secret).read()
@tries
def read_by_dots(): return open(work + "/../secret").read()
@tries
def read_by_symlink():
    os.symlink(secret, work + "/link"); return open(work + "/link").read()
@tries
def read_by_planted_symlink(): return open(work + "/planted").read()
@tries
def write_by_planted_symlink(): open(work + "/planted", "w").write("escaped")
@tries
def list_beside(): return [name for name in os.listdir(root) if name == "secret"][0]
@tries
def write_beside(): open(secret, "w").write("escaped")
@tries
def create_beside(): open(root + "/created", "w").write("escaped")
@tries
def delete_beside(): os.remove(secret)
@tries
def link_from_beside(): os.link(secret, work + "/hard")
@tries
def rename_into_beside(): open(work + "/f", "w").close(); os.rename(work + "/f", root + "/moved")
@tries
def replace_git(): os.replace(work + "/f", work + "/.git")
@tries
def write_git(): open(work + "/.git", "a").write("x")
@tries
def remove_git(): os.remove(work + "/.git")
@tries
def plant_hook(): open(told["git"] + "/hooks/post-commit", "w").write("x")
@tries
def move_ref(): open(told["git"] + "/HEAD", "w").write("x")
@tries
def change_mode_beside(): os.chmod(secret, 0)
@tries
def change_time_beside(): os.utime(secret, (0, 0))
@tries
def see_processes():
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) != os.getpid() and os.path.exists("/proc/" + p):
            try:
                if b"canary-mark" in open(f"/proc/{p}/cmdline", "rb").read(): return p
            except OSError: pass
    raise ProcessLookupError
@tries
def signal_by_number(): os.kill(pid, signal.SIGKILL); return open("/nowhere")
@tries
def signal_everybody(): os.kill(-1, signal.SIGCONT); return open("/nowhere")
@tries
def read_parent_environment(): return [v for v in open("/proc/1/environ").read().split("\0") if "PATH" in v][0]
@tries
def connect_tcp(): return socket.create_connection(("127.0.0.1", told["tcp"]), 2)
@tries
def send_udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"escaped", ("127.0.0.1", told["udp"])); return open("/nowhere")
@tries
def connect_abstract():
    s = socket.socket(socket.AF_UNIX); s.connect("\0" + told["abstract"]); return s
@tries
def connect_path():
    s = socket.socket(socket.AF_UNIX); s.connect(root + "/socket"); return s
@tries
def resolve_names(): return socket.getaddrinfo("example.org", 80)
@tries
def reach_the_internet(): return socket.create_connection(("192.0.2.1", 80), 2)
@tries
def open_vsock(): return socket.socket(40, socket.SOCK_STREAM)
@tries
def open_raw(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
@tries
def open_packet(): return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
libc = ctypes.CDLL(None, use_errno=True)
def did(result):
    if result < 0: raise OSError(ctypes.get_errno(), "no")
    return result
@tries
def new_user_namespace(): did(libc.unshare(0x10000000))
@tries
def new_user_namespace_by_program(): return subprocess.run(["unshare", "-r", "true"], check=True)
@tries
def mount_something(): did(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
@tries
def unmount_the_seal(): did(libc.umount2((work + "/.git").encode(), 2))
@tries
def become_root(): os.setuid(0)
@tries
def change_root(): os.chroot("/tmp")
@tries
def plant_in_parent():
    code = "import os; open(f'/proc/{os.getppid()}/mem', 'r+b', 0)"
    subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True)
@tries
def plant_in_oneself(): open("/proc/self/mem", "r+b", 0)
@tries
def set_core_pattern(): open("/proc/sys/kernel/core_pattern", "w").write("|/bin/false")
@tries
def press_sysrq(): open("/proc/sysrq-trigger", "w").write("h")
@tries
def read_shadow(): return open("/etc/shadow").read()
@tries
def read_memory(): return open("/dev/mem", "rb")
@tries
def write_program(): open("/usr/bin/escaped", "w")
@tries
def write_interpreter(): open(sys.base_prefix + "/escaped", "w")
@tries
def write_package(): open(told["package"] + "/escaped.py", "w")
@tries
def run_setuid():
    out = subprocess.run(["sh", "-c", "for f in /usr/bin/su /usr/bin/mount /usr/bin/passwd; do [ -u $f ] && echo $f; done; awk '/NoNewPrivs/ {print $2}' /proc/self/status"], capture_output=True, text=True).stdout.split()
    assert out[-1] == "0"
print(json.dumps(results))
"""  # noqa: E501 - a line an attempt

ATTEMPTS = [line.split("(")[0][4:] for line in HOSTILE.splitlines() if line.startswith("def ") and "()" in line]

# What really would do harm, or take long, where nothing is in the way.
HARMFUL = ("mount_something", "set_core_pattern", "press_sysrq", "write_program", "write_interpreter", "change_root",
           "become_root", "reach_the_internet", "resolve_names", "unmount_the_seal", "write_package")  # fmt: skip


class Ground:
    """A yard with things around it that a hostile program would like to reach."""

    def __init__(self, yard: CageHarness) -> None:
        self.yard = yard
        self.git = yard.root / "repo.git"
        (self.git / "hooks").mkdir(parents=True)
        (self.git / "HEAD").write_text("ref", encoding="utf-8")
        (yard.workspace / ".git").write_text(f"gitdir: {self.git}\n", encoding="utf-8")
        (yard.workspace / "planted").symlink_to(yard.secret)
        for path in (self.git, self.git / "hooks", self.git / "HEAD"):
            path.chmod(0o777)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0{yard.root}")
        self.abstract.listen()
        self.path = socket.socket(socket.AF_UNIX)
        self.path.bind(f"{yard.root}/socket")
        self.path.listen()
        (yard.root / "socket").chmod(0o777)
        self.process = subprocess.Popen(["sh", "-c", "read canary_mark; : canary-mark"], stdin=subprocess.PIPE)
        self.before = self.look()

    def look(self) -> list[Any]:
        """All that is outside the workspace and the home, to the letter."""
        paths = sorted(path for path in self.yard.root.rglob("*") if not path.is_relative_to(self.yard.workspace))
        paths = [path for path in paths if not path.is_relative_to(self.yard.home)]
        git = (self.yard.workspace / ".git").read_bytes()
        return [git, *((str(path), os.lstat(path).st_ctime_ns, os.lstat(path).st_mode) for path in paths)]

    def words(self) -> str:
        return json.dumps(
            {
                "secret": str(self.yard.secret),
                "root": str(self.yard.root),
                "workspace": str(self.yard.workspace),
                "git": str(self.git),
                "pid": self.process.pid,
                "tcp": self.tcp.getsockname()[1],
                "udp": self.udp.getsockname()[1],
                "abstract": str(self.yard.root),
                "package": str(Path(__file__).parents[2] / "src/parley"),
            }
        )

    def close(self) -> None:
        for one in (self.tcp, self.udp, self.abstract, self.path):
            one.close()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="module")
def ground(boundary: Boundary) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="parley-ground-") as folder:
        Path(folder).chmod(0o777)
        ground = Ground(lay_out(Path(folder), boundary))
        yield ground
        ground.close()


@pytest.fixture(scope="module")
def results(boundary: Boundary, ground: Ground) -> dict[str, str]:
    yard = ground.yard
    seal = Bind(str(yard.workspace / ".git"), str(yard.workspace / ".git"))
    site = Site(str(yard.workspace), binds=(seal,))
    told: dict[str, str] = run(boundary, yard.python(HOSTILE, ground.words(), site=site)).json()
    return told


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_hostile_program_is_refused(results: dict[str, str], attempt: str) -> None:
    assert results[attempt].startswith("refused "), results[attempt]


def test_nothing_outside_has_changed(results: dict[str, str], ground: Ground) -> None:
    assert ground.look() == ground.before
    assert ground.yard.secret.read_text("utf-8") == "outside"
    assert ground.process.poll() is None
    with pytest.raises(BlockingIOError):
        ground.udp.recv(10)


def test_the_same_program_gets_out_where_there_is_no_cage(ground: Ground, tmp_path: Path, boundary: Boundary) -> None:
    """Attempts that can't succeed anywhere would show nothing."""
    yard = lay_out(tmp_path / "bare", boundary)
    (yard.workspace / "planted").symlink_to(yard.secret)
    words = json.loads(ground.words()) | {"root": str(yard.root), "secret": str(yard.secret), "pid": 2**22 - 1}
    words |= {"workspace": str(yard.workspace), "git": str(yard.root / "repo.git")}
    program = HOSTILE.replace("os.kill(-1, signal.SIGCONT)", "1")
    for harmful in HARMFUL:
        program = program.replace(f"@tries\ndef {harmful}(", f"def {harmful}(")
    done = subprocess.run(
        ["python3", "-c", program, json.dumps(words)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    out = [name for name, told in json.loads(done.stdout).items() if not told.startswith("refused ")]
    assert {"read_beside", "read_by_dots", "read_by_planted_symlink", "write_beside", "list_beside", "connect_tcp",
            "connect_abstract", "see_processes", "rename_into_beside", "create_beside",
            "plant_in_oneself"} <= set(out)  # fmt: skip
