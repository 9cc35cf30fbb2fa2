"""A verified, running agent process, and how it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from parley.adapters import disk
from parley.adapters.boundary import family
from parley.adapters.boundary.cage import Verdict
from parley.adapters.boundary.gateway import Gateway, Request
from parley.adapters.boundary.memory import Group
from parley.ports import BoundaryError

PATIENCE_SECONDS = 2.0


class Caged:
    """A verified, running agent process."""

    def __init__(
        self, process: subprocess.Popen[bytes], verdict: Verdict, gateway: Gateway | None, mark: bytes = b""
    ) -> None:
        self.process = process
        self.verdict = verdict
        self._gateway = gateway
        self._mark = mark  # where there is no boundary: the variable by which its processes are known
        self._frozen = False
        self.exceeded = ""  # which bound it went beyond, and was ended for
        self.group: Group | None = None  # where the kernel keeps its memory below the bound
        self._filled: tuple[Path, ...] = ()  # what goes with it: folders that outgrew the disk
        self._init = self._main = 0
        self._handle = -1
        self._lock = threading.Lock()

    def settle(self, group: Group | None = None) -> None:
        """Note who is who while nobody but the launcher is there, and put them into the group."""
        if self._gateway is not None:
            self._gateway.forget()  # what the launcher asked for
        (self._init,) = family.children(self.process.pid)
        self._handle = os.pidfd_open(self._init)
        (self._main,) = family.children(self._init)
        if group is not None:
            try:
                group.take((self.process.pid, self._init, self._main))
            except OSError:  # it may be made, and not moved to: its memory is counted instead
                group.close()
            else:
                self.group = group

    @property
    def root(self) -> int:
        """The process whose root is the cage's; 0 where there is no cage."""
        return self._init

    def members(self, parents: Mapping[int, int]) -> set[int]:
        """Its processes, of those that are known with their parents."""
        if self._init:
            return {self._init} | family.descendants_among(parents, self._init)
        pid = self.process.pid
        return {pid} | family.descendants_among(parents, pid) | family.marked(parents, self._mark)

    @property
    def ended(self) -> bool:
        """Whether its process has ended. It is left to be waited for by whoever runs it."""
        if self.process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # another thread has just waited for it
            return True

    def exceed(self, why: str, filled: tuple[Path, ...] = ()) -> None:
        """End it because it went beyond a bound. Whoever waits for it finds the reason in `exceeded`."""
        with self._lock:
            if self.exceeded or self.ended:
                return
            self.exceeded, self._filled = why, filled
            with contextlib.suppress(ProcessLookupError):
                if self._handle >= 0:
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                else:
                    family.end_all_but(self.process.pid, 0)
                    os.kill(self.process.pid, signal.SIGKILL)

    def denied(self) -> tuple[str, ...]:
        """What the way out refused since this was last asked, each once, in words."""
        return self._gateway.tell_denied() if self._gateway is not None else ()

    @property
    def requests(self) -> list[Request]:
        """What was asked of the gateway: the last of it."""
        return self._gateway.requests() if self._gateway is not None else []

    def tidy(self) -> None:
        """End every process in the cage but the agent's main one and the init."""
        plain = self._init == 0
        above, kept = (self.process.pid, 0) if plain else (self._init, self._main)
        if self.process.poll() is None and not family.end_all_but(above, kept):
            raise BoundaryError(
                f"processes of the turn would not end in {family.TIDY_SECONDS:.0f} s; the agent has to be ended"
            )

    def freeze(self) -> None:
        """Tidy, and let the agent's main process do nothing until it is thawed."""
        main = self._main or self.process.pid
        if self.process.poll() is None:
            self._frozen = True
            # stopped first: what can't run starts nothing while the rest is ended
            if not family.stop(main) and self.process.poll() is None:
                raise BoundaryError(f"the agent would not stop in {family.TIDY_SECONDS:.0f} s; it has to be ended")
        self.tidy()

    def thaw(self) -> None:
        """Let it go on."""
        if self._frozen:
            self._frozen = False
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._main or self.process.pid, signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Ask the agent's main process to end, by SIGTERM."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._main or self.process.pid, signal.SIGTERM)

    def kill(self) -> int:
        """End all of it and wait until it is gone; the exit status. The pipes stay the caller's to close."""
        with self._lock:
            self._end()
            if self._gateway is not None:
                self._gateway.close()
            status = self.process.wait()
            if self.group is not None:
                if not self.exceeded and self.group.exceeded():  # its end came before it was looked at
                    self.exceeded = self.group.told
                self.group.close()
            filled, self._filled = self._filled, ()
            for folder in filled:
                _take_away(folder)
            return status

    def _end(self) -> None:
        if self._handle < 0:
            if self.process.poll() is None:
                family.end_all_but(self.process.pid, 0)
                self.process.kill()
                self.process.wait()
            if self._mark and not family.end_marked(self._mark):
                raise BoundaryError("processes of the turn would not end within 2 s; end them by hand")
            return
        # the init first: whoever started it then reaps it, and no zombie waits for a machine's own init
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        gone = family.await_end(self._handle)
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self._handle)
        self._handle = -1
        if not gone:
            raise BoundaryError(f"process {self._init} would not end; end it by hand")


def _take_away(folder: Path) -> None:
    """Give a folder that outgrew the disk another name at once; it is deleted in its own time."""
    gone = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        folder.rename(gone)
        threading.Thread(target=disk.remove, args=(gone,), name="parley-remove", daemon=True).start()
