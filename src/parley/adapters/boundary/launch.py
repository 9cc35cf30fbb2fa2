"""The boundary: starts agents in cages, and only in cages that held."""

from __future__ import annotations

import contextlib
import os
import pwd
import queue
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

from parley.adapters.boundary import attempts, bundle, family, launcher, links, profile, seccomp, stage
from parley.adapters.boundary.cage import BROKEN, ESCAPED, EXEMPT, GATEWAY, HELD, HOME, Attempt, Cage, Verdict
from parley.adapters.boundary.calls import MACHINE
from parley.adapters.boundary.canary import Canary
from parley.adapters.boundary.gateway import Gateway, Request
from parley.config import BoundarySettings
from parley.ports import BoundaryError

MARK = "PARLEY_TURN"
UID = 64417  # an ordinary user that no machine has, where Parley itself is root
VERIFY_SECONDS = 15.0
REPORT_LIMIT = 1 << 20
INSIDE = ("calls", "landlock", "attempts", "launcher")
STAGED = ("calls", "stage")
ACCEPT = 'or accept running without one: [boundary] accept = "none" in parley.toml'


class Caged:
    """A verified, running agent process."""

    def __init__(self, process: subprocess.Popen[bytes], verdict: Verdict, gateway: Gateway | None) -> None:
        self.process = process
        self.verdict = verdict
        self._gateway = gateway
        self._init = self._main = 0
        self._handle = -1
        self._lock = threading.Lock()

    def settle(self) -> None:
        """Note who is who while nobody but the launcher is there."""
        (self._init,) = family.children(self.process.pid)
        self._handle = os.pidfd_open(self._init)
        (self._main,) = family.children(self._init)

    @property
    def requests(self) -> list[Request]:
        """What was asked of the gateway: the last of it."""
        return self._gateway.requests() if self._gateway is not None else []

    def tidy(self) -> None:
        """End every process in the cage but the agent's main one and the init."""
        plain = self._init == 0
        above, kept = (self.process.pid, 0) if plain else (self._init, self._main)
        if self.process.poll() is None and not family.end_all_but(above, kept):
            raise BoundaryError("processes of the turn would not end within 2 s; the agent has to be ended")

    def kill(self) -> int:
        """End all of it and wait until it is gone; the exit status. The pipes stay the caller's to close."""
        if self.verdict.accepted and self.process.poll() is None:
            family.end_all_but(self.process.pid, 0)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        status = self.process.wait()
        with self._lock:
            if self._handle >= 0:
                gone = family.await_end(self._handle)
                os.close(self._handle)
                self._handle = -1
                if not gone:
                    raise BoundaryError(f"process {self._init} would not end; end it by hand")
            if self._gateway is not None:
                self._gateway.close()
        return status


class Boundary:
    """Starts agents in cages. One for each engine; any thread may call it."""

    def __init__(self, settings: BoundarySettings | None = None) -> None:
        self.settings = settings or BoundarySettings()
        self.uid = _free_uid() if os.geteuid() == 0 else os.geteuid()
        self._staged = os.geteuid() == 0
        self._lock = threading.Lock()
        self._canary: Canary | None = None
        self._spawner: _Spawner | None = None
        self._known = links.Known()

    # ---- what callers need besides ---------------------------------------------------------------

    def hand_over(self, path: Path | str) -> None:
        """Give a tree to whoever the agents run as: quick where it is theirs already. Links are not followed."""
        if self._staged and not self.settings.accept:
            links.hand_over(str(path), self.uid)

    @staticmethod
    def python(module: str, *words: str) -> tuple[str, ...]:
        """The command that runs a module of Parley inside a cage, with the standard library alone."""
        start = (
            "import runpy,sys;sys.path.insert(0,sys.argv.pop(1));runpy.run_module(sys.argv.pop(1),None,'__main__',True)"
        )
        return (profile.INTERPRETER, "-I", "-S", "-c", start, str(Path(profile.PACKAGE).parent), module, *words)

    def close(self) -> None:
        """Clear the canaries away and let the spawner go: cages still open die with it."""
        with self._lock:
            if self._canary is not None:
                self._canary.close()
            if self._spawner is not None:
                self._spawner.close()
            self._canary = self._spawner = None

    # ---- launching -------------------------------------------------------------------------------

    def launch(self, cage: Cage) -> Caged:
        """Start an agent, in a cage that held; a BoundaryError if it did not."""
        begun = time.monotonic()
        if self.settings.accept == "none":
            return self._plain(cage)
        program = self._program()
        unlinked, nested = links.part(self._known, cage.site.workspace, self.uid)
        drawn = self.draw(cage)
        token = secrets.token_hex(8)
        canary, spawner = self._company()
        ours, theirs = socket.socketpair()
        files: list[int] = []
        gateway = None
        process = None
        try:
            words = self._words(cage, drawn, canary, token)
            command, environment = self._command(program, drawn, theirs.fileno(), files)
            process = spawner.start(command, environment, (theirs.fileno(), *files, *drawn.descriptors))
            theirs.close()
            ours.settimeout(VERIFY_SECONDS)
            ours.sendall(bundle.pack(INSIDE, words))
            if cage.route is not None:
                gateway = Gateway(_take_listener(ours), cage.route, self.settings.hosts)
            verdict = self._judge(_report(ours), canary.judge(token, cage.site.workspace))
            verdict = replace(
                verdict,
                milliseconds=(time.monotonic() - begun) * 1e3,
                unlinked=tuple(unlinked),
                nested=tuple(nested),
            )
            _insist(verdict)
            caged = Caged(process, verdict, gateway)
            caged.settle()
            ours.sendall(launcher.GO)
            return caged
        except (OSError, ValueError, EOFError) as error:
            raise BoundaryError(_no_report(_abandon(process, gateway), error)) from error
        except BoundaryError:
            _abandon(process, gateway)
            raise
        finally:
            for one in (ours, theirs):
                one.close()
            for place in files:
                os.close(place)

    def draw(self, cage: Cage) -> profile.Profile:
        """The profile of a cage."""
        drawn = profile.draw(cage, self.uid, _readable(self.settings))
        drawn.filter = seccomp.assemble(self.settings.exempt)
        drawn.wall = "landlock" not in self.settings.exempt
        drawn.environment = {MARK: cage.mark} if cage.mark else {}
        return drawn

    def _program(self) -> str:
        if sys.platform != "linux":
            raise BoundaryError(f"there is no boundary for {sys.platform}: run Parley on Linux, {ACCEPT}")
        if MACHINE not in seccomp.ARCHITECTURES:
            raise BoundaryError(f"there is no boundary for {MACHINE}: use x86_64 or aarch64, {ACCEPT}")
        program = shutil.which("bwrap")
        if program is None:
            raise BoundaryError(f"bubblewrap is not installed: install it (package bubblewrap), {ACCEPT}")
        return program

    def _company(self) -> tuple[Canary, _Spawner]:
        with self._lock:
            if self._canary is None:
                self._canary = Canary(self.uid if self._staged else None)
            if self._spawner is None:
                self._spawner = _Spawner()
            return self._canary, self._spawner

    def _words(self, cage: Cage, drawn: profile.Profile, canary: Canary, token: str) -> dict[str, object]:
        readable, writable, listable = profile.landlock_lists(drawn)
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
            "variables": [*drawn.environment, "PWD", "LC_CTYPE"] if cage.mark else ["PWD", "LC_CTYPE"],
            "repositories": links.repositories(site.workspace),
            "route": cage.route is not None,
            "wall": drawn.wall,
            "readable": readable,
            "writable": writable,
            "listable": listable,
            "command": list(cage.command),
            "environment": environment,
            "limits": limits,
        }

    def _command(
        self, program: str, drawn: profile.Profile, control: int, files: list[int]
    ) -> tuple[list[str], dict[str, str]]:
        """The command to spawn: bubblewrap, or where Parley is root the stage that becomes it."""

        def data(content: bytes) -> int:
            files.append(_memory(content))
            return files[-1]

        sources = list(dict.fromkeys(bind.source for bind in drawn.binds))
        staged = {source: f"{stage.STAGE}/{number}" for number, source in enumerate(sources)}
        words = drawn.arguments(staged.__getitem__ if self._staged else str, data)
        if drawn.filter:
            words += ["--seccomp", str(data(drawn.filter))]
        listed = data("".join(f"{word}\0" for word in words).encode())
        inner = [profile.INTERPRETER, "-I", "-S", "-c", bundle.BOOT, str(control)]
        command = [program, "--args", str(listed), "--", *inner]
        if not self._staged:
            return command, drawn.environment
        payload = {"sources": sources, "uid": self.uid, "command": command, "environment": drawn.environment}
        setting = data(bundle.pack(STAGED, payload))
        return [profile.INTERPRETER, "-I", "-S", "-c", bundle.BOOT, str(setting)], drawn.environment

    def _judge(self, report: list[list[str]], seen: dict[str, str]) -> Verdict:
        exempt = self.settings.exempt
        results = {name: (result, detail) for name, result, detail in report}
        tried = []
        for attempt in attempts.ATTEMPTS:
            name = attempt.__name__
            result, detail = results.get(name, (BROKEN, "it was not reported"))
            if name in seen:
                result, detail = ESCAPED, seen[name]
            tried.append(Attempt(name, EXEMPT if name in exempt and result != HELD else result, detail))
        controls = []
        for name in ("landlock", *launcher.CONTROLS):
            _, detail = results.get(name, ("", "it was not reported"))
            good = detail.split(" ")[0] == "ok"
            controls.append(Attempt(name, HELD if good else EXEMPT if name in exempt else BROKEN, detail))
        shown = [f"attempt {name}" for name in exempt]
        shown += [f"readable {path}" for path in self.settings.readable]
        shown += [f"host {host}" for host in self.settings.hosts]
        resident = int(results.get("resident", ("", "0"))[1])
        return Verdict(tuple(tried), tuple(controls), tuple(shown), "", self.uid, resident)

    def _plain(self, cage: Cage) -> Caged:
        """Without a boundary, as the user has accepted it: a session of its own, and the mark."""
        environment = {**cage.environment, MARK: cage.mark}
        environment.setdefault("HOME", str(cage.home))
        gateway = None
        if cage.route is not None:
            listener = socket.create_server(("127.0.0.1", 0))
            there = f"127.0.0.1:{listener.getsockname()[1]}"
            environment = {name: value.replace(GATEWAY, there) for name, value in environment.items()}
            gateway = Gateway(listener, cage.route, self.settings.hosts)
        try:
            process = _popen(list(cage.command), environment, (), cage.site.workspace)
        except OSError as error:
            if gateway is not None:
                gateway.close()
            raise BoundaryError(f"{cage.command[0]} can't be started: {error.strerror}; see `parley doctor`") from error
        return Caged(process, Verdict(accepted="none", uid=os.geteuid()), gateway)


class _Spawner:
    """A thread that lives: a cage dies when the thread that started it does."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="parley-spawner", daemon=True).start()

    def _work(self) -> None:
        while (task := self._wanted.get()) is not None:
            task()

    def start(self, command: list[str], environment: dict[str, str], files: tuple[int, ...]) -> subprocess.Popen[bytes]:
        answer: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()

        def task() -> None:
            try:
                answer.put(_popen(command, environment, files))
            except OSError as error:
                answer.put(error)

        self._wanted.put(task)
        given = answer.get()
        if isinstance(given, OSError):
            raise given
        return given

    def close(self) -> None:
        self._wanted.put(None)


def _popen(
    command: list[str], environment: dict[str, str], files: tuple[int, ...], folder: str = "/"
) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=folder,
        env=environment,
        pass_fds=files,
        start_new_session=True,
    )


def _free_uid() -> int:
    for uid in range(UID, UID + 100):
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return uid
    return UID


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


def _report(control: socket.socket) -> list[list[str]]:
    """What the launcher says: name, result, detail."""
    said = bytearray()
    deadline = time.monotonic() + VERIFY_SECONDS
    while not said.endswith(b"\n\n"):
        control.settimeout(max(0.01, deadline - time.monotonic()))
        part = control.recv(1 << 16)
        if not part or len(said) > REPORT_LIMIT:
            raise EOFError("it ended before it had reported")
        said += part
    lines = said.decode("utf-8", "replace").splitlines()[:-1]
    return [line.split("\t", 2) for line in lines]


def _abandon(process: subprocess.Popen[bytes] | None, gateway: Gateway | None) -> str:
    """End what could not be verified; what it said last."""
    if gateway is not None:
        gateway.close()
    if process is None:
        return ""
    process.kill()
    said = cast("IO[bytes]", process.stderr).read(1 << 16).decode("utf-8", "replace").strip().splitlines()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            cast("IO[bytes]", stream).close()
    return said[-1] if said else ""


def _no_report(said: str, error: Exception) -> str:
    if "the stage: Operation not permitted" in said:
        return f"Parley is root here, but may not make a mount namespace: run it as an ordinary user, {ACCEPT}"
    if "creating new namespace" in said or "No permissions to" in said or "setting up uid map" in said:
        return f"user namespaces are not allowed here ({said}): allow them for ordinary users, {ACCEPT}"
    late = f"it did not report within {VERIFY_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
    return f"the boundary could not be verified: {said or late}; see `parley doctor`"


def _insist(verdict: Verdict) -> None:
    if not verdict.ok:
        raise BoundaryError(_refusal(verdict))


def _refusal(verdict: Verdict) -> str:
    fault = verdict.faults()[0]
    what = {ESCAPED: "it got out", BROKEN: "it could not be tried"}.get(fault.result, fault.result)
    if fault in verdict.controls:
        return f"the boundary keeps the agent from its work: {fault.name}: {fault.detail}; see `parley doctor`" + (
            "" if fault.name != "landlock" else ', or exempt it: [boundary] exempt = ["landlock"] in parley.toml'
        )
    return (
        f"the boundary did not hold: {fault.name}: {what}: {fault.detail}; no agent is started. See `parley doctor`; "
        f'if you accept it: [boundary] exempt = ["{fault.name}"] in parley.toml'
    )


__all__ = ["Boundary", "Caged"]
