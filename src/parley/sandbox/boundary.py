"""The boundary: starts agents in cages, and only in cages that withstood every attempt."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

from parley.ports.turns import Bind, BoundaryError
from parley.sandbox import bind_places, bubblewrap, cage_profile, inside_bundle, launch_report, seccomp, shared_links
from parley.sandbox.cage import GATEWAY, HOME, Cage, CageVerdict, Route
from parley.sandbox.caged_process import Caged
from parley.sandbox.canaries import Canary
from parley.sandbox.gateway.gateway import Gateway
from parley.sandbox.gateway.upstream_trouble import UpstreamHealth
from parley.sandbox.inside import attempts, launcher
from parley.sandbox.inside.syscalls import MACHINE
from parley.sandbox.limits import memory_limit, process_tree
from parley.sandbox.limits.resource_watch import ResourceWatch
from parley.sandbox.spawner import Spawner, popen
from parley.settings.schema import BoundarySettings

MARK = "PARLEY_TURN"
CAGE = "PARLEY_CAGE"  # the variable that marks a cage's processes where there is no boundary
TRIED = "tried"
TRIAL_SECONDS = 5.0
MEMORY_BYTES, MEMORY_SHARE = 8 << 30, 2  # for a cage, unless the settings say it; half of a smaller machine's
UID = 64417  # an ordinary user that no machine has, where Parley itself is root
INSIDE = (
    "syscalls",
    "landlock",
    "scene",
    "file_escapes",
    "process_escapes",
    "network_escapes",
    "kernel_escapes",
    "attempts",
    "launcher",
)

# The bubblewrap that worked, by the user that cages run as and by those that are installed.
_CHOSEN: dict[tuple[int, tuple[str, ...]], bubblewrap.Choice] = {}


class Boundary:
    """Starts agents in cages. One for each engine; any thread may call it."""

    def __init__(
        self,
        settings: BoundarySettings | None = None,
        given: tuple[Bind, ...] = (),
        groups: Path = memory_limit.GROUPS,
        private: Iterable[Path] = (),
        personal: Iterable[Path] = (),
    ) -> None:
        """`given`: read-only folders that every cage shows. `groups`: where the kernel's cgroups are.

        `private`: Parley's own folders, which no cage shows. `personal`: the user's, which a cage shows only where
        the settings make them readable.
        """
        self.settings = settings or BoundarySettings()
        self._given = given
        self._groups = groups
        self._private = [os.path.realpath(folder) for folder in private]
        self._personal = [os.path.realpath(folder) for folder in (*map(str, personal), *_real_home())]
        self.uid = _free_uid() if os.geteuid() == 0 else os.geteuid()
        self._is_root = os.geteuid() == 0
        self._lock = threading.Lock()
        self._canary: Canary | None = None
        self._spawner: Spawner | None = None
        self._seen = shared_links.SeenWorkspaces()
        self._watch = ResourceWatch(self.memory_bytes)
        self._healths: dict[str, UpstreamHealth] = {}  # by the upstream's URL: what all cages know of it

    # ---- what callers need to know ---------------------------------------------------------------

    @property
    def memory_bytes(self) -> int:
        """How much memory the processes of a cage may take together."""
        share = memory_limit.machine_bytes() // MEMORY_SHARE
        return (self.settings.memory_mb << 20) or min(MEMORY_BYTES, share)

    def memory_kept_by(self) -> str:
        """How that bound is kept on this machine: by the kernel, or by counting."""
        group = memory_limit.make_group(MEMORY_BYTES, self._groups)
        if group is None:
            return memory_limit.SAMPLING
        group.close()
        return memory_limit.KERNEL

    def hand_over(self, path: Path | str) -> None:
        """Give a tree to the user that agents run as: quick where it is that user's already. Links are not followed."""
        if self._is_root and not self.settings.accept:
            shared_links.hand_over(str(path), self.uid)

    @staticmethod
    def python(module: str, *words: str) -> tuple[str, ...]:
        """The command that runs a module of Parley inside a cage, with the standard library alone."""
        start = (
            "import runpy,sys;sys.path.insert(0,sys.argv.pop(1));runpy.run_module(sys.argv.pop(1),None,'__main__',True)"
        )
        return (
            cage_profile.INTERPRETER,
            "-I",
            "-S",
            "-c",
            start,
            str(Path(cage_profile.PACKAGE).parent),
            module,
            *words,
        )

    def search_path(self) -> str:
        """The PATH inside a cage: the machine's programs, Parley's Python, what the settings make readable."""
        folders = [f"{sys.base_prefix}/bin", *(f"{path}/bin" for path in _readable(self.settings))]
        return ":".join(("/usr/local/bin", "/usr/bin", "/bin", *folders))

    def close(self) -> None:
        """Remove the canaries and end the spawner: cages that are still open die with it."""
        self._watch.close()
        with self._lock:
            if self._canary is not None:
                self._canary.close()
            if self._spawner is not None:
                self._spawner.close()
            self._canary = self._spawner = None

    # ---- launching -------------------------------------------------------------------------------

    def launch(self, cage: Cage) -> Caged:
        """Start an agent in a cage that withstood every attempt; a BoundaryError if it did not."""
        begun = time.monotonic()
        cage = self._connected(cage)
        if self.settings.accept == "none":
            bind_places.copy(Bind(str(cage.home), HOME), self._given, os.geteuid())
            bind_places.link(cage.site.workspace, cage.site.binds)
            caged = self._plain(cage)
            self._watch.add(caged, cage)
            return caged
        cage = replace(cage, binds=(*cage.binds, *self._given))
        self._check_exemptions()
        program = self.choice().program
        drawn = self.draw(cage)
        try:
            unlinked, nested = shared_links.copy_shared_files(self._seen, cage.site.workspace, self.uid)
            unlinked += bind_places.make_ready({cage.site.workspace, HOME}, HOME, drawn.binds, self.uid)
        except OSError as error:
            raise BoundaryError(f"{cage.site.workspace} can't be made ready for an agent: {error.strerror}") from error
        token = secrets.token_hex(8)
        canary, spawner = self._helpers()
        ours, theirs = socket.socketpair()
        files: list[int] = []
        shown: dict[str, str] = {}
        gateway = None
        process = None
        try:
            words = self._words(cage, drawn, canary, token)
            shown = spawner.show(list(dict.fromkeys(bind.source for bind in drawn.binds)))
            inner = [cage_profile.INTERPRETER, "-I", "-S", "-c", inside_bundle.BOOT, str(theirs.fileno())]
            command = self._command(spawner.reach(program), drawn, inner, shown, files)
            process = spawner.start(command, drawn.environment, (theirs.fileno(), *files, *drawn.descriptors))
            theirs.close()
            ours.settimeout(launch_report.VERIFY_SECONDS)
            ours.sendall(inside_bundle.pack(INSIDE, words))
            if cage.route is not None:
                gateway = self._gateway(_take_listener(ours), cage.route)
            verdict = launch_report.judge(
                launch_report.read(ours), canary.judge(token, cage.site.workspace), self.settings, self.uid
            )
            verdict = replace(
                verdict,
                milliseconds=(time.monotonic() - begun) * 1e3,
                unlinked=tuple(unlinked),
                nested=tuple(nested),
            )
            launch_report.insist(verdict)
            caged = Caged(process, verdict, gateway)
            caged.settle(memory_limit.make_group(self.memory_bytes, self._groups))
            ours.sendall(launcher.GO)
            self._watch.add(caged, cage)
            return caged
        except (OSError, ValueError, EOFError) as error:
            raise BoundaryError(launch_report.no_report(_abandon(process, gateway), error)) from error
        except BoundaryError:
            _abandon(process, gateway)
            raise
        finally:
            spawner.hide(shown)
            for one in (ours, theirs):
                one.close()
            for place in files:
                os.close(place)

    def _gateway(self, listener: socket.socket, route: Route) -> Gateway:
        with self._lock:
            health = self._healths.setdefault(route.upstream, UpstreamHealth())
        try:
            return Gateway(listener, route, self.settings.hosts, health)
        except (BoundaryError, ValueError):
            listener.close()
            raise

    def _connected(self, cage: Cage) -> Cage:
        """The cage, with a route to the hosts that the user lists, and variables that tell its programs."""
        if not self.settings.hosts:
            return cage
        named = {"HTTPS_PROXY": f"http://{GATEWAY}", "https_proxy": f"http://{GATEWAY}"}
        return replace(cage, route=cage.route or Route(), environment={**named, **cage.environment})

    def draw(self, cage: Cage) -> cage_profile.Profile:
        """The profile of a cage."""
        drawn = cage_profile.draw(cage, self.uid, _readable(self.settings), self._private, self._personal)
        drawn.filter = seccomp.assemble(self.settings.exempt)
        drawn.wall = "landlock" not in self.settings.exempt
        drawn.environment = {MARK: cage.mark} if cage.mark else {}
        return drawn

    def _check_exemptions(self) -> None:
        known = ["landlock", *(attempt.__name__ for attempt in attempts.ATTEMPTS)]
        for name in self.settings.exempt:
            if name not in known:
                raise BoundaryError(f"[boundary] exempt: there is no attempt {name!r}; `parley doctor` lists them")

    def choice(self) -> bubblewrap.Choice:
        """The bubblewrap that works here, tried once in a process; a BoundaryError where there is none."""
        if sys.platform != "linux":
            raise BoundaryError(f"there is no boundary for {sys.platform}: run Parley on Linux, {bubblewrap.ACCEPT}")
        if MACHINE not in seccomp.ARCHITECTURES:
            raise BoundaryError(f"there is no boundary for {MACHINE}: use x86_64 or aarch64, {bubblewrap.ACCEPT}")
        known = (self.uid, bubblewrap.candidates())
        if known not in _CHOSEN:
            _CHOSEN[known] = bubblewrap.choose(self._problem)
        return _CHOSEN[known]

    def _problem(self, program: bubblewrap.Program) -> str:
        """Try a bubblewrap with an empty cage, as the user that cages run as; what is wrong with it, or nothing."""
        _, spawner = self._helpers()
        files: list[int] = []
        try:
            inner = ["/bin/sh", "-c", f"echo {TRIED}"]
            command = self._command(spawner.reach(program), cage_profile.empty(), inner, {}, files)
            process = spawner.start(command, {}, tuple(files))
            with process:
                try:
                    said, complaint = process.communicate(timeout=TRIAL_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    return f"it did not end within {TRIAL_SECONDS:g} s"
        except OSError as error:
            return f"it can't be started: {error.strerror}"
        finally:
            for place in files:
                os.close(place)
        if said.decode("utf-8", "replace").strip() == TRIED:
            return ""
        words = complaint.decode("utf-8", "replace").strip().splitlines()
        return words[-1].removeprefix("bwrap: ") if words else f"it ran nothing and ended with {process.returncode}"

    def _helpers(self) -> tuple[Canary, Spawner]:
        with self._lock:
            if self._canary is None:
                self._canary = Canary(self.uid if self._is_root else None)
            if self._spawner is None:
                self._spawner = Spawner(self.uid if self._is_root else None)
            return self._canary, self._spawner

    def _words(self, cage: Cage, drawn: cage_profile.Profile, canary: Canary, token: str) -> dict[str, object]:
        allowed = cage_profile.landlock_lists(drawn)
        site = cage.site
        sealed = [bind.target for bind in (*site.binds, *cage.binds) if not bind.writable]
        environment = {**cage.environment, **drawn.environment}
        environment.setdefault("HOME", HOME)
        limits = {
            "processes": self.settings.processes,
            "open_files": self.settings.open_files,
            "file_size": self.settings.file_megabytes << 20,
            "core": 0,
        }
        return {
            **canary.words(),
            "token": token,
            "workspace": site.workspace,
            "workspace_writable": site.writable,
            "home": HOME,
            "sealed": sealed if site.writable else [*sealed, site.workspace],
            "visible": drawn.visible,
            "variables": [MARK, "PWD", "LC_CTYPE"],
            "repositories": cage_profile.hidden(drawn, shared_links.repositories(site.workspace)),
            "real_home": cage_profile.hidden(drawn, _real_home()),
            "route": cage.route is not None,
            "wall": drawn.wall,
            "readable": allowed.readable,
            "writable": allowed.writable,
            "listable": allowed.listable,
            "command": list(cage.command),
            "environment": environment,
            "limits": limits,
        }

    @staticmethod
    def _command(
        program: str,
        drawn: cage_profile.Profile,
        inner: list[str],
        shown: dict[str, str],
        files: list[int],
    ) -> list[str]:
        """The command to spawn. Its arguments lie in memory files: a command line can be read inside."""

        def data(content: bytes) -> int:
            files.append(_memory(content))
            return files[-1]

        words = drawn.arguments(shown.__getitem__, data)
        if drawn.filter:
            words += ["--seccomp", str(data(drawn.filter))]
        listed = data("".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape"))
        return [program, "--args", str(listed), "--", *inner]

    def _plain(self, cage: Cage) -> Caged:
        """Start an agent without a boundary, as the user has accepted: in a session of its own, with the mark."""
        own = secrets.token_hex(16)
        environment = {**cage.environment, MARK: cage.mark, CAGE: own}
        environment.setdefault("HOME", str(cage.home))
        command = list(cage.command)
        gateway = None
        if cage.route is not None:
            listener = socket.create_server(("127.0.0.1", 0))
            there = f"127.0.0.1:{listener.getsockname()[1]}"
            environment = {name: value.replace(GATEWAY, there) for name, value in environment.items()}
            command = [word.replace(GATEWAY, there) for word in command]
            gateway = self._gateway(listener, cage.route)
        try:
            process = popen(command, environment, (), cage.site.workspace)
        except OSError as error:
            if gateway is not None:
                gateway.close()
            raise BoundaryError(f"{cage.command[0]} can't be started: {error.strerror}; see `parley doctor`") from error
        return Caged(process, CageVerdict(accepted="none", uid=os.geteuid()), gateway, f"{CAGE}={own}".encode())


def _free_uid() -> int:
    for uid in range(UID, UID + 100):
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return uid
    return UID


def _real_home() -> list[str]:
    try:
        return [str(Path.home())]
    except RuntimeError:
        return []  # this user has none


def _readable(settings: BoundarySettings) -> list[str]:
    paths = [os.path.realpath(Path(path).expanduser()) for path in settings.readable]
    return [path for path in paths if Path(path).exists()]


def _memory(content: bytes) -> int:
    place = os.memfd_create("parley", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(place, view) :]
    os.lseek(place, 0, os.SEEK_SET)
    return place


def _take_listener(control: socket.socket) -> socket.socket:
    _, handed, _, _ = socket.recv_fds(control, 1, 1)
    if not handed:
        raise EOFError("it opened no gateway")
    return socket.socket(fileno=handed[0])


def _abandon(process: subprocess.Popen[bytes] | None, gateway: Gateway | None) -> str:
    """End a process that could not be verified as a cage; the last line that it printed."""
    if gateway is not None:
        gateway.close()
    if process is None:
        return ""
    process_tree.end_all_but(process.pid, 0)
    process.kill()
    process.wait()
    errors = cast("IO[bytes]", process.stderr)
    os.set_blocking(errors.fileno(), False)
    said = (errors.read(1 << 16) or b"").decode("utf-8", "replace").strip().splitlines()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            cast("IO[bytes]", stream).close()
    return said[-1] if said else ""
