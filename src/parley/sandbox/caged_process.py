"""A running agent process in a verified cage, and how it is ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from parley.machine import disk
from parley.ports.turns import BoundaryError
from parley.sandbox.cage import CageVerdict
from parley.sandbox.gateway.gateway import Gateway, Request
from parley.sandbox.limits import process_tree
from parley.sandbox.limits.memory_limit import ControlGroup

PATIENCE_SECONDS = 2.0


class Caged:
    """A running agent process in a verified cage."""

    def __init__(
        self, process: subprocess.Popen[bytes], verdict: CageVerdict, gateway: Gateway | None, mark: bytes = b""
    ) -> None:
        self.process = process
        self.verdict = verdict
        self._gateway = gateway
        self._mark = mark  # where there is no boundary: the variable that its processes have
        self._frozen = False
        self.exceeded = ""  # the bound for which it was ended
        self.group: ControlGroup | None = None  # where the kernel keeps its memory below the bound
        self._filled: tuple[Path, ...] = ()  # folders that are deleted with it: they outgrew the disk
        self._init = self._main = 0
        self._handle = -1
        self._lock = threading.Lock()

    def settle(self, group: ControlGroup | None = None) -> None:
        """Note the cage's processes while only the launcher runs in it, and put them into the group."""
        if self._gateway is not None:
            self._gateway.forget()  # the launcher's requests
        (self._init,) = process_tree.children(self.process.pid)
        self._handle = os.pidfd_open(self._init)
        (self._main,) = process_tree.children(self._init)
        if group is not None:
            try:
                group.take((self.process.pid, self._init, self._main))
            except OSError:  # a group may be made, and not entered: its memory is counted instead
                group.close()
            else:
                self.group = group

    @property
    def root(self) -> int:
        """The process whose root is the cage's; 0 where there is no cage."""
        return self._init

    def likely_members(self) -> set[int]:
        """Its processes, as a quick look finds them: one that has just lost its parent may be missing."""
        top = self._init or self.process.pid
        return {top} | process_tree.descendants_from(top)

    def members(self, parents: Mapping[int, int]) -> set[int]:
        """Its processes, among those that are given with their parents."""
        if self._init:
            return {self._init} | process_tree.descendants_among(parents, self._init)
        pid = self.process.pid
        return {pid} | process_tree.descendants_among(parents, pid) | process_tree.marked(parents, self._mark)

    @property
    def ended(self) -> bool:
        """Whether its process has ended. The runner is left to wait for it."""
        if self.process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # another thread has just waited for it
            return True

    def exceed(self, why: str, filled: tuple[Path, ...] = ()) -> None:
        """End it because it went beyond a bound. Its runner finds the reason in `exceeded`."""
        with self._lock:
            if self.exceeded or self.ended:
                return
            self.exceeded, self._filled = why, filled
            with contextlib.suppress(ProcessLookupError):
                if self._handle >= 0:
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                else:
                    process_tree.end_all_but(self.process.pid, 0)
                    os.kill(self.process.pid, signal.SIGKILL)

    def denied(self) -> tuple[str, ...]:
        """What the gateway refused since this was last asked, each once, in words."""
        return self._gateway.tell_denied() if self._gateway is not None else ()

    @property
    def requests(self) -> list[Request]:
        """The last requests to the gateway."""
        return self._gateway.requests() if self._gateway is not None else []

    def tidy(self) -> None:
        """End every process in the cage but the agent's main one and the init."""
        plain = self._init == 0
        above, kept = (self.process.pid, 0) if plain else (self._init, self._main)
        if self.process.poll() is None and not process_tree.end_all_but(above, kept):
            raise BoundaryError(
                f"processes of the turn would not end in {process_tree.TIDY_SECONDS:.0f} s; the agent has to be ended"
            )

    def freeze(self) -> None:
        """Stop the agent's main process until it is thawed, and end all others."""
        main = self._main or self.process.pid
        if self.process.poll() is None:
            self._frozen = True
            # first: a stopped process starts no others while they are ended
            if not process_tree.stop(main) and self.process.poll() is None:
                raise BoundaryError(
                    f"the agent would not stop in {process_tree.TIDY_SECONDS:.0f} s; it has to be ended"
                )
        self.tidy()

    def thaw(self) -> None:
        """Let the agent's main process go on."""
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
        """End all its processes and wait for them; the exit status. The caller closes the pipes."""
        with self._lock:
            self._end()
            if self._gateway is not None:
                self._gateway.close()
            status = self.process.wait()
            if self.group is not None:
                if not self.exceeded and self.group.exceeded():  # the kernel was faster than the watch
                    self.exceeded = self.group.exceeded_reason
                self.group.close()
            filled, self._filled = self._filled, ()
            for folder in filled:
                _take_away(folder)
            return status

    def _end(self) -> None:
        if self._handle < 0:
            if self.process.poll() is None:
                process_tree.end_all_but(self.process.pid, 0)
                self.process.kill()
                self.process.wait()
            if self._mark and not process_tree.end_marked(self._mark):
                raise BoundaryError("processes of the turn would not end within 2 s; end them by hand")
            return
        # the init first: bubblewrap then reaps it, so that no zombie waits for the machine's own init
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        gone = process_tree.await_end(self._handle)
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self._handle)
        self._handle = -1
        if not gone:
            raise BoundaryError(f"process {self._init} would not end; end it by hand")


def _take_away(folder: Path) -> None:
    """Rename a folder that outgrew the disk at once; a thread deletes it."""
    gone = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        folder.rename(gone)
        threading.Thread(target=disk.remove, args=(gone,), name="parley-remove", daemon=True).start()
