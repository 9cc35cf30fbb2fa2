"""Machines of a test's own: each a network namespace with addresses of its own, all joined by a router.

Whatever passes from one to another goes through the router, which drops what a test wants dropped: silently, as a cable
that was pulled or a firewall does. The namespaces have no names, and no way to this machine's own network. Each
lives as long as a process that ends with the tests, however those end: nothing is left behind, and tests side by side
never meet.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

CI = os.environ.get("CI") == "true"
ROUTER = "router"
PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "bash": "bash"}
_PREFIX = "10.77"


def require_namespaces() -> None:
    """Skip the test where namespaces can't be made; fail it in CI."""
    missing = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        line = f"{', '.join(missing)} missing, and the tests of the network with them: `make system` installs them"
    elif os.geteuid() != 0:
        line = "only root can make network namespaces: the tests of the network are left out"
    else:
        return
    if CI:
        pytest.fail(line)
    pytest.skip(line)


class Network:
    """Named machines. `inside` says how a program is run on one of them."""

    def __init__(self, names: Sequence[str], held: ExitStack) -> None:
        self._places = {name: _namespace(held) for name in (ROUTER, *names)}
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._cuts: list[tuple[str, str]] = []
        for name in names:
            self._join(name)
        self._ip(ROUTER, "link set lo up")
        _run(*self.inside(ROUTER), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")

    def _join(self, name: str) -> None:
        number, cable = self._numbers[name], f"cable{self._numbers[name]}"
        self._ip(
            ROUTER,
            f"link add name {cable} type veth peer name eth0 netns {self._places[name]}",
            f"address add {_PREFIX}.{number}.1/24 dev {cable}",
            f"link set {cable} up",
        )
        self._ip(
            name,
            "link set lo up",
            f"address add {self.address(name)}/24 dev eth0",
            f"address add {self.alias(name)}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {_PREFIX}.{number}.1",
        )

    def _ip(self, name: str, *lines: str) -> None:
        _run(*self.inside(name), "ip", "-batch", "-", given="\n".join(lines))

    # ---- machines ------------------------------------------------------------------------------

    def address(self, name: str) -> str:
        """A machine's address."""
        return f"{_PREFIX}.{self._numbers[name]}.2"

    def alias(self, name: str) -> str:
        """Another address of a machine: one that no certificate names."""
        return f"{_PREFIX}.{self._numbers[name]}.3"

    def inside(self, name: str) -> tuple[str, ...]:
        """What goes before the words of a command that is to run on a machine. The process stays the same one."""
        return ("nsenter", f"--net=/proc/{self._places[name]}/ns/net")

    def answers(self, name: str, port: int, of: str = "") -> bool:
        """Whether a machine reaches a port: of its own, or of another machine's."""
        address = self.address(of or name)
        words = [*self.inside(name), "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"]
        return subprocess.run(words, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0

    # ---- partitions ----------------------------------------------------------------------------

    def cut(self, one: str, *others: str) -> None:
        """Drop all that passes between a machine and some others, or all others."""
        for other in others or [name for name in self._numbers if name != one]:
            self.drop(one, other)
            self.drop(other, one)

    def drop(self, source: str, target: str) -> None:
        """Drop what one machine sends another, and nothing that comes back."""
        if (source, target) not in self._cuts:
            self._cuts.append((source, target))
            self._rule("add", source, target)

    def heal(self) -> None:
        """Let everything through again."""
        while self._cuts:
            self._rule("del", *self._cuts[-1])
            self._cuts.pop()

    def _rule(self, what: str, source: str, target: str) -> None:
        of, to = (f"{_PREFIX}.{self._numbers[name]}.0/24" for name in (source, target))
        self._ip(ROUTER, f"rule {what} from {of} to {to} blackhole")


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """Machines with these names, for as long as they are needed."""
    require_namespaces()
    with ExitStack() as held:
        yield Network(names, held)


def _namespace(held: ExitStack) -> int:
    """A namespace, by the process that holds it: it ends when this process closes its input, or dies."""
    holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    held.callback(holder.communicate)
    ours, deadline = Path("/proc/self/ns/net").readlink(), time.monotonic() + 60
    while Path(f"/proc/{holder.pid}/ns/net").readlink() == ours:
        assert holder.poll() is None, "unshare has ended"
        assert time.monotonic() < deadline, "no namespace was made"
        time.sleep(0.002)
    return holder.pid


def _run(*words: str, given: str = "") -> None:
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, given, done.stderr)
