"""One turn of a program that is run as an agent, from the start of its cage to the end of its processes."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, cast

from msgspec.structs import replace

from parley.base.text import BadText, cut, last_bytes, lenient, read_json
from parley.ports.turns import BoundaryError, Called, Ended, Order, Progress, Waiting
from parley.roles.role_snapshot import from_text
from parley.runners.command import codex, codex_session, tool_caller, turn_folder
from parley.runners.command.configured_agents import Agent, AgentError, filled, program
from parley.runners.command.program_output import SHOWN, CodexOutput, TextOutput, parked, seconds_of
from parley.runners.command.tool_socket import ToolSocket
from parley.runners.turn_thread import Tell, TurnThread
from parley.sandbox import UNCACHED, Boundary, Cage, Caged, HoldPolicy, Route, UpstreamTrouble
from parley.sandbox.cage import GATEWAY, HOME

BIN = Path(__file__).resolve().parent / "bin"
BRIDGE = "parley.runners.command.mcp_bridge"
TRY_LATER = 75  # the exit code for "retry later" (EX_TEMPFAIL of sysexits.h)
LIMITS = (429, 503, 529)  # HTTP statuses for "retry later"
LINES = 2000  # of progress in one turn
SIGNS = 10 * LINES  # tool uses, which are reported beyond LINES
SIGN_SECONDS = 5.0  # between two signs of life of a program that reports nothing else
STDERR_TAIL = 64 * 1024
ARGUMENT_LIMIT = 100_000  # bytes; Linux takes no single argument above 128 KiB
DRAIN_LIMIT = 64 << 20
AMPLE_BYTES = 64 << 20  # of output that is read as fast as it comes
REST = 3  # beyond that, reading pauses so many times as long as a chunk took: other jobs need the processor
LONGEST_REST = 0.5  # seconds
HANDLE_LIMIT = 1 << 20  # characters
_CHUNK = 1 << 16


class CommandTurn(TurnThread):
    """Starts the program, reads its output, and answers its calls."""

    hopeless: ClassVar[tuple[type[Exception], ...]] = (BoundaryError, AgentError)

    def __init__(
        self,
        order: Order,
        agent: Agent,
        boundary: Boundary,
        instructions: str,
        tell: Tell,
    ) -> None:
        super().__init__(order, tell)
        self.agent = agent
        self._boundary, self._instructions = boundary, instructions
        self._lines = 0
        self._signed = time.monotonic()
        self._tool_socket: ToolSocket | None = None
        self._caged: Caged | None = None
        self._asked = self._stopped = False  # its time is over: it was asked to end, then killed
        self._before = _Handle.read(order.handle, agent.name)
        self._output = CodexOutput(self._progress) if agent.output == "codex-json" else TextOutput(agent.handle)

    def reply(self, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        with self._lock:
            if self._tool_socket is not None:
                self._tool_socket.reply(number, ok, text, data)

    def wrap_up(self) -> bool:
        """Ask the program to end, by SIGTERM. If it then exits with 0, its turn has ended normally."""
        with self._lock:
            if self._caged is None:
                return False
            self._asked = True
            self._caged.ask_to_end()
            return True

    def stop(self) -> bool:
        """Kill it; its end is reported."""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._wake.send(b".")
        return True

    # ---- in its own thread -----------------------------------------------------------------------

    def _troubled(self, trouble: UpstreamTrouble | None) -> None:
        order, setting = self.order, f"upstream of [agents.{self.agent.name}]"
        reason, until = (trouble.words(setting), trouble.until) if trouble else ("", 0.0)
        self._tell(Waiting(order.job, order.turn, cut(reason, SHOWN), until))

    def _progress(self, text: str, using: codex.CodexToolEvent | None = None) -> None:
        self._lines += 1
        if self._lines <= LINES:
            more = "… (too much output: lines are left out)" if self._lines == LINES else ""
            self._tell(self._tool_progress(more or cut(text, SHOWN), using))
        elif using and self._lines <= SIGNS:
            self._tell(self._tool_progress("", using._replace(result="")))
        else:
            self._sign()

    def _tool_progress(self, text: str, using: codex.CodexToolEvent | None) -> Progress:
        about = using._asdict() if using else {}
        return Progress(job=self.order.job, turn=self.order.turn, text=text, **about)

    def _hear(self, data: bytes) -> None:
        """Read its output; any output is a sign of life."""
        self._output.take(data)
        self._sign()

    def _sign(self) -> None:
        """Report a sign of life now and then for a program that reports nothing else."""
        now = time.monotonic()
        if now - self._signed >= SIGN_SECONDS:
            self._signed = now
            self._tell(Progress(self.order.job, self.order.turn, ""))

    def _called(self, number: int, tool: str, arguments: Mapping[str, Any]) -> None:
        order = self.order
        self._tell(
            Called(job=order.job, turn=order.turn, token=order.token, number=number, tool=tool, arguments=arguments)
        )

    def _carry_out(self, ended: Ended) -> Ended:
        order = self.order
        with turn_folder.TurnFolder(order.home) as folder:
            cage = self._cage()
            folder.write(turn_folder.MESSAGE, order.addressed)
            folder.write(turn_folder.ROLE, self._instructions)
            tool_socket = ToolSocket(folder.descriptor, turn_folder.SOCKET, order.token, self._called)
            try:
                with self._lock:
                    self._tool_socket = tool_socket
                for path in (order.home, order.site.workspace):
                    self._boundary.hand_over(path)
                ended = self._live(cage, ended)
                return replace(ended, refusals=(*tool_socket.refused, *ended.refusals))
            finally:
                with self._lock:
                    self._tool_socket = None
                tool_socket.close()
                folder.clear(turn_folder.SOCKET)

    def _live(self, cage: Cage, ended: Ended) -> Ended:
        caged = self._boundary.launch(cage)
        stream = _Streams(caged)
        with self._lock:
            self._caged = caged
        try:
            self._attend(stream)
        finally:
            with self._lock:
                self._caged = None
            status = caged.kill()
            said = stream.close(self._output.take)
        usage, totals = self._output.usage(self._before.used)
        session = self._output.session or self._before.session
        size = codex_session.size(self.order.home, session) if self.agent.preset == codex.NAME else -1
        ended = replace(
            ended,
            text=self._output.text(),
            usage=usage,
            boundary=caged.verdict.summary(),
            refusals=caged.denied(),
            handle=_Handle(session, totals or self._before.used, size).text(self.agent.name),
        )
        if caged.exceeded:
            return replace(ended, fault=caged.exceeded)
        if self._stopped or (self._asked and status != 0):
            return replace(ended, fault=self.order.overran, overtime=True)
        last = caged.requests[-1:]
        limited = bool(last and last[0].status in LIMITS)
        wait = seconds_of(last[0].retry_after) if limited else 0.0
        return self._judge(ended, status, said, limited=limited or status == TRY_LATER, wait=wait)

    def _judge(self, ended: Ended, status: int, said: str, *, limited: bool, wait: float) -> Ended:
        if status == 0 and not self._output.fault:
            return ended
        how = f"it was killed by signal {-status}" if status < 0 else f"it exited with {status}"
        fault = self._output.fault or (f"{how}: {said}" if said else how)
        # only Codex's text is trusted to report a limit; of others, the exit code or the gateway's statuses
        later = parked(fault, limited=limited) if limited or self._output.fault else 0.0
        return replace(ended, fault=cut(fault, SHOWN), parked_seconds=wait or later)

    def _attend(self, stream: _Streams) -> None:
        """Read output until the program ends, or the turn is ended."""
        message = self.order.addressed.encode("utf-8", "replace")
        with selectors.DefaultSelector() as selector, _watched(stream.process.pid) as exit_handle:
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(exit_handle, selectors.EVENT_READ)
            selector.register(stream.out, selectors.EVENT_READ)
            selector.register(stream.err, selectors.EVENT_READ)
            selector.register(stream.into, selectors.EVENT_WRITE)
            while not self._cancelled and not self._stopped:
                ready = {key.fileobj for key, _ in selector.select()}
                begun = time.monotonic()
                if stream.into in ready and not (message := stream.feed(message)):
                    selector.unregister(stream.into)
                    stream.into.close()
                if stream.out in ready and not stream.hear(self._hear):
                    selector.unregister(stream.out)
                if stream.err in ready and not stream.overhear(self._progress):
                    selector.unregister(stream.err)
                if exit_handle in ready:
                    return
                if stream.taken > AMPLE_BYTES:
                    time.sleep(min(LONGEST_REST, REST * (time.monotonic() - begun)))

    # ---- its cage -------------------------------------------------------------------------------

    def _cage(self) -> Cage:
        order, agent = self.order, self.agent
        home = order.home if self._boundary.settings.accept else HOME
        found, binds = program(agent)
        way = agent.way
        who = f"the agent {agent.name}"
        headers = {name: filled(value, f"{who}: header {name}") for name, value in (way.headers if way else {}).items()}
        given = {name: filled(value, f"{who}: environment {name}") for name, value in agent.environment.items()}
        return Cage(
            site=order.site,
            home=Path(order.home),
            command=tuple(self._words(found, home)),
            environment=self._environment(home) | given,
            binds=(*binds, *agent.binds),
            route=Route(
                upstream=way.upstream,
                headers=headers,
                paths=way.paths,
                hosts=way.hosts,
                methods=way.methods,
                hold=self._hold_policy(),
            )
            if way
            else None,
            mark=f"{order.job}/{order.turn}",
        )

    def _hold_policy(self) -> HoldPolicy | None:
        """The gateway's care for Codex, which waits for a model. Other programs handle their requests themselves."""
        if self.agent.preset != codex.NAME:
            return None
        return HoldPolicy(codex.ENDINGS, troubled=self._troubled, heard=self._sign)

    def _words(self, found: str, home: str) -> list[str]:
        agent, model = self.agent, self._model()
        if agent.preset == codex.NAME:
            # resuming a missing session would lose turn after turn: a new one is begun
            if not codex_session.put_back(self.order.home, self._before.session, self._before.size):
                self._before = _Handle()
            bridge = self._boundary.python(BRIDGE)
            variables = (tool_caller.SOCKET, tool_caller.TOKEN, tool_caller.NAMES)
            told = self._instructions
            if len(told.encode()) > ARGUMENT_LIMIT:
                file = f"{home}/{turn_folder.FOLDER}/{turn_folder.ROLE}"
                told = f"You are `{self.order.agent}`. What that means is in {file}: read it first."
            return codex.words(found, self._before.session, GATEWAY, bridge, variables, model, told)
        values = {
            "{message_file}": f"{home}/{turn_folder.FOLDER}/{turn_folder.MESSAGE}",
            "{role_file}": f"{home}/{turn_folder.FOLDER}/{turn_folder.ROLE}",
            "{handle}": self._before.session,
            "{home}": home,
            "{workspace}": self.order.site.workspace,
            "{model}": model,
        }
        words = list(agent.resume) if agent.resume and self._before.session else list(agent.command)
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]
        return [found if word == agent.command[0] and not at else word for at, word in enumerate(words)]

    def _model(self) -> str:
        model = from_text(self.order.role).model
        return model if model not in ("", "inherit") else self.agent.model

    def _environment(self, home: str) -> dict[str, str]:
        order = self.order
        folder = f"{home}/{turn_folder.FOLDER}"
        given = {
            "PATH": f"{BIN}:{self._boundary.search_path()}",
            "HOME": home,
            "LANG": "C.UTF-8",
            **UNCACHED,
            tool_caller.SOCKET: f"{folder}/{turn_folder.SOCKET}",
            tool_caller.TOKEN: order.token,
            tool_caller.NAMES: ",".join(order.tools),
            "PARLEY_PYTHON": self._boundary.python("")[0],
            "PARLEY_MESSAGE": f"{folder}/{turn_folder.MESSAGE}",
            "PARLEY_ROLE": f"{folder}/{turn_folder.ROLE}",
            "PARLEY_AGENT": order.agent,
            "PARLEY_THREAD": order.thread,
            "PARLEY_SENDER": order.sender,
            "PARLEY_STATE": order.state,
        }
        if self.agent.way is not None:
            given["PARLEY_GATEWAY"] = f"http://{GATEWAY}"
            if self.agent.way.hosts:
                given |= {"HTTPS_PROXY": f"http://{GATEWAY}", "https_proxy": f"http://{GATEWAY}"}
        return given


class _Streams:
    """The pipes of a caged program."""

    def __init__(self, caged: Caged) -> None:
        self.process = caged.process
        self.into, self.out, self.err = (
            cast("IO[bytes]", pipe) for pipe in (caged.process.stdin, caged.process.stdout, caged.process.stderr)
        )
        for pipe in (self.into, self.out, self.err):
            os.set_blocking(pipe.fileno(), False)
        self._said = bytearray()
        self._last = b""
        self.taken = 0  # bytes

    def feed(self, message: bytes) -> bytes:
        """Write some of the message; returns the rest."""
        try:
            return message[os.write(self.into.fileno(), message[:_CHUNK]) :]
        except BlockingIOError:
            return message
        except OSError:  # it has closed its input
            return b""

    def hear(self, take: Callable[[bytes], None]) -> bool:
        """Read some of standard output; False at its end."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.out.fileno(), _CHUNK)
            self.taken += len(data)
            take(data)
            return bool(data)
        return True

    def overhear(self, progress: Callable[[str], None] | None) -> bool:
        """Read some of standard error, line by line; False at its end."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.err.fileno(), _CHUNK)
            self.taken += len(data)
            *lines, rest = (self._said + data).split(b"\n")
            self._said = bytearray(last_bytes(bytes(rest), STDERR_TAIL))
            for line in lines:
                if line.strip():
                    self._last = last_bytes(bytes(line), STDERR_TAIL)
                    if progress is not None:
                        progress(_shown(line))
            return bool(data)
        return True

    def close(self, take: Callable[[bytes], None]) -> str:
        """All writers have ended: read what is still in the pipes. Returns the last line of standard error."""
        for _ in range(DRAIN_LIMIT // _CHUNK):
            if not self.hear(take):
                break
        for _ in range(DRAIN_LIMIT // _CHUNK):
            if not self.overhear(None):
                break
        take(b"\n")
        for pipe in (self.into, self.out, self.err):
            with contextlib.suppress(OSError):
                pipe.close()
        return _shown(self._said if self._said.strip() else self._last)


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[int]:
    """A descriptor that is readable as soon as a process has ended."""
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)


def _shown(line: bytes | bytearray) -> str:
    return cut(lenient(bytes(line)).strip(), SHOWN)


@dataclass(frozen=True, slots=True)
class _Handle:
    """What is kept of an instance between its turns."""

    session: str = ""
    used: Mapping[str, float] = field(default_factory=dict)  # by the session, from its beginning
    size: int = -1  # of the session's file, when the turn ended

    @classmethod
    def read(cls, text: str, name: str) -> _Handle:
        """A handle, if it is this agent's own."""
        try:
            told = read_json(text or "{}", HANDLE_LIMIT)
        except BadText:
            return cls()
        if not isinstance(told, dict) or told.get("agent") != name:
            return cls()
        used, size = told.get("used"), told.get("size")
        return cls(
            str(told.get("session", "")),
            dict(used) if isinstance(used, dict) else {},
            size if isinstance(size, int) else -1,
        )

    def text(self, name: str) -> str:
        """As the bus keeps it."""
        if not self.session:
            return ""
        return json.dumps(
            {"agent": name, "session": self.session, "used": dict(self.used), "size": self.size}, sort_keys=True
        )
