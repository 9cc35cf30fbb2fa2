"""One instance of an agent: its Claude Code behind the boundary, kept ready between its turns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    Message,
    ResultMessage,
    SdkMcpTool,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolUseBlock,
    create_sdk_mcp_server,
)

from parley.adapters.boundary import Boundary, Cage, Caged, Route
from parley.adapters.claude.guard import Ground, Refused, built_in, check
from parley.adapters.claude.handle import Handle
from parley.adapters.claude.homes import Home
from parley.adapters.claude.login import PATHS, Login
from parley.adapters.claude.program import Program
from parley.adapters.claude.prompt import (
    COMPACT,
    SCRATCH_LIMIT,
    RolePrompt,
    composed,
    role_of,
    system_prompt,
)
from parley.adapters.claude.results import Fault, fault_of, limit_of, tokens_of, wait_of, window_of, written_of
from parley.adapters.claude.start import arguments, environment
from parley.adapters.claude.tools import SERVER, described
from parley.adapters.claude.turn import OVER, Turn
from parley.adapters.claude.wire import Wire
from parley.config import ClaudeSettings
from parley.ports import Bind, BoundaryError, Ended, Order

CHECK_SECONDS = 20.0
PROMPT_LIMIT = 120_000  # bytes; a command line takes no longer word
INTERRUPT_SECONDS = 0.35
WIND_DOWN_SECONDS = 0.35
WRITTEN_SECONDS = 2.0
SIGN_SECONDS = 15.0  # between two signs of life while a response is being written
COMPACT_MESSAGE = {"type": "user", "message": {"role": "user", "content": "/compact"}, "parent_tool_use_id": None}

CHECK_FAILED = "the check of this call failed, so the answer is no"


class Lost(Exception):
    """A turn can't go on."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class Means:
    """What every instance is started with."""

    def __init__(
        self,
        settings: ClaudeSettings,
        boundary: Boundary,
        program: Program,
        login: Callable[[], Login | None],
        prompt: RolePrompt,
        binds: Callable[[Order], tuple[Bind, ...]],
    ) -> None:
        self.settings = settings
        self.boundary = boundary
        self.program = program
        self.login = login
        self.prompt = prompt
        self.binds = binds


class Instance:
    """Runs one turn at a time, on the runner's loop."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self.lock = asyncio.Lock()
        self.used = time.monotonic()
        self._client: ClaudeSDKClient | None = None
        self._caged: Caged | None = None
        self._wire: Wire | None = None
        self._shape: tuple[object, ...] = ()
        self._ground: Ground | None = None
        self._handle = Handle()  # the session of the process that is there
        self._base = Handle()  # what the bus names of it
        self._interrupted = ""  # the message of a turn that was cut short in it
        self._window = 0.0
        self._turn: Turn | None = None
        self._parked = 0
        self._signed = 0.0

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return self._caged is not None

    # ---- a turn ----------------------------------------------------------------------------------

    async def run(self, turn: Turn) -> Ended | None:
        """Run a turn to its end; None if it was interrupted and the process is ready for the next."""
        order = turn.order
        self._turn = turn
        boundary: dict[str, Any] = {}
        handle = Handle.of(order)
        try:
            async with asyncio.timeout(order.time_limit_seconds):
                ended = await self._take(turn, handle, boundary)
        except TimeoutError:
            fault = Fault(f"it took longer than {order.time_limit_seconds:g} s")
        except Lost as lost:
            fault = lost.fault
        except BoundaryError as error:
            fault = Fault(str(error), hard=True)
        except (ClaudeSDKError, OSError) as error:
            fault = Fault(f"Claude Code could not go on: {self._why(str(error))}")
        else:
            self._parked = 0
            return ended
        finally:
            turn.finish()
            self._turn = None
            self.used = time.monotonic()
        self._parked = self._parked + 1 if fault.parked_seconds else 0
        await self.end()
        return turn.ended(fault=fault, context=handle.context, boundary=boundary)

    async def _take(self, turn: Turn, handle: Handle, boundary: dict[str, Any]) -> Ended | None:
        order = turn.order
        await asyncio.to_thread(self._prepare, order)
        home = Home(order.home)
        warm = self._fits(order, handle)
        self._interrupted = ""
        cut_short = await asyncio.to_thread(home.interrupted, handle.document())
        interrupted = "\n\n".join(message for message in cut_short if not order.message.startswith(message))
        lost = False
        if not warm:
            resumed = await self._start(order, handle)
            lost = bool(handle.session) and not resumed
        caged = self._caged
        if caged is None:
            raise Lost(Fault("Claude Code is gone"))
        boundary.update(caged.verdict.summary())
        compacted: str | None = None
        if handle.context >= COMPACT and not lost:
            compacted = await self._compact(turn, home)
        message = composed(
            order.message,
            interrupted="" if warm else interrupted,
            context=0.0 if lost else handle.context,
            compacted=compacted,
            lost=lost,
        )
        result = await self._converse(message)
        fault = self._fault(turn, result)
        if fault and fault.too_long and compacted is None and handle.turns:
            compacted = await self._compact(turn, home)
            result = await self._converse(composed(order.message, compacted=compacted))
            fault = self._fault(turn, result)
        if turn.silent:
            turn.finish()
            self._interrupted = order.message
            await asyncio.to_thread(caged.tidy)
            return None
        if fault:
            raise Lost(fault)
        return await self._conclude(turn, caged, home, result)

    def _fault(self, turn: Turn, result: Mapping[str, Any]) -> Fault | None:
        heard = [request.retry_after for request in self._caged.requests[-1:]] if self._caged is not None else []
        wait = wait_of(heard[0]) if heard else None
        return fault_of(result, wait or turn.wait_seconds, self._parked)

    async def _conclude(self, turn: Turn, caged: Caged, home: Home, result: Mapping[str, Any]) -> Ended:
        turn.finish()
        size = await self._written(home, turn.last)
        try:
            await asyncio.to_thread(caged.tidy)
        except BoundaryError:
            await self.end()  # what would not end by itself ends with its cage
        context = self._context(turn, result)
        self._handle = self._base = self._handle.after(turn.last, size, context)
        text = result.get("result")
        return turn.ended(
            text=text if isinstance(text, str) else "",
            handle=self._handle.text(),
            context=context,
            boundary=caged.verdict.summary(),
        )

    def _context(self, turn: Turn, result: Mapping[str, Any]) -> float:
        self._window = window_of(result, turn.model) or self._window
        return min(1.0, (turn.tokens + turn.written) / self._window) if self._window else 0.0

    async def _written(self, home: Home, last: str) -> int:
        """Wait until the session's file holds the end of the turn; how long it is then."""
        deadline = time.monotonic() + WRITTEN_SECONDS
        while (size := await asyncio.to_thread(home.mark, self._handle.session, last)) is None:
            if time.monotonic() > deadline:
                return 0  # nothing to come back to: the next process begins a new session
            await asyncio.sleep(0.01)
        return size

    # ---- talking ---------------------------------------------------------------------------------

    async def _converse(self, message: str) -> Mapping[str, Any]:
        """Say something and take in all that comes of it; the result."""
        client = self._client
        if client is None:
            raise Lost(Fault("Claude Code is gone"))
        await client.query(message)
        return await self._hear(client)

    async def _hear(self, client: ClaudeSDKClient) -> Mapping[str, Any]:
        turn = self._turn
        async for message in client.receive_response():
            self._take_in(message)
            if isinstance(message, ResultMessage) and turn is not None and turn.results:
                return turn.results[-1]
        raise Lost(Fault(f"Claude Code ended before its turn did: {self._why('it said nothing')}"))

    async def _compact(self, turn: Turn, home: Home) -> str:
        """Have the conversation summed up; what the scratch file holds."""
        client, wire = self._client, self._wire
        if client is None or wire is None:
            raise Lost(Fault("Claude Code is gone"))
        turn.progress("the context is summed up")
        await wire.write(json.dumps({**COMPACT_MESSAGE, "session_id": "default"}) + "\n")
        result = await self._hear(client)
        if result.get("is_error") and (fault := self._fault(turn, result)):
            raise Lost(fault)
        return await asyncio.to_thread(home.scratch, SCRATCH_LIMIT)

    def _take_in(self, message: Message) -> None:
        turn = self._turn
        if turn is None:
            return
        match message:
            case AssistantMessage(parent_tool_use_id=None):
                turn.last = message.uuid or turn.last
                if message.model != "<synthetic>":
                    turn.tokens, turn.model = tokens_of(message.usage), message.model
                for block in message.content:
                    if isinstance(block, TextBlock):
                        turn.progress(block.text)
                    elif isinstance(block, ToolUseBlock):
                        turn.progress(_doing(block))
            case StreamEvent() if time.monotonic() - self._signed > SIGN_SECONDS:
                if self._signed:
                    turn.progress("writing")
                self._signed = time.monotonic()
            case SystemMessage(subtype="init", data=data):
                servers = {server.get("name"): server.get("status") for server in data.get("mcp_servers") or ()}
                if servers.get(SERVER) == "failed":
                    raise Lost(Fault("Claude Code could not reach the protocol's tools"))
            case SystemMessage(subtype="api_retry", data=data):
                seconds = float(data.get("retry_delay_ms") or 0) / 1000
                turn.progress(f"the API answered {data.get('error_status')}; trying again in {seconds:.1f} s")
            case _:
                pass

    def _overhear(self, message: dict[str, Any]) -> None:
        """What the SDK's own messages leave out."""
        turn = self._turn
        if turn is None:
            return
        if message.get("type") == "result":
            turn.results.append(message)
        turn.written = written_of(message) or turn.written
        wait = limit_of(message)
        if wait is not None:
            turn.wait_seconds = wait

    # ---- what the CLI asks back ------------------------------------------------------------------

    async def _check(self, given: HookInput, _id: str | None, _context: HookContext) -> HookJSONOutput:
        """The pre-tool check. Whatever goes wrong in it, the answer is no."""
        turn = self._turn
        try:
            reason = self._refusal(given, turn)
        except Exception:  # noqa: BLE001 - fail closed: an exception here would count as consent
            reason = CHECK_FAILED
        if reason and turn is not None:
            turn.refuse(reason)
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny" if reason else "allow",
                "permissionDecisionReason": reason or "inside the workspace",
            }
        }

    def _refusal(self, given: Mapping[str, Any], turn: Turn | None) -> str:
        if turn is None or turn.over or self._ground is None:
            return OVER
        folder = given.get("cwd")
        try:
            check(
                self._ground,
                given["tool_name"],
                given["tool_input"],
                folder if isinstance(folder, str) and folder.startswith("/") else self._ground.site.workspace,
            )
        except Refused as refused:
            return str(refused)
        return ""

    def _tool(self, name: str) -> SdkMcpTool[Any]:
        async def call(given: dict[str, Any]) -> dict[str, Any]:
            turn = self._turn
            ok, text = await turn.call(name, given) if turn is not None else (False, OVER)
            return {"content": [{"type": "text", "text": text}], "is_error": not ok}

        description, schema = described(name)
        return SdkMcpTool(name, description, schema, call)

    # ---- the process -----------------------------------------------------------------------------

    def _fits(self, order: Order, handle: Handle) -> bool:
        """Whether the process that is there can go on: the same role and place, and the session that the bus names.

        One that was interrupted remembers what it was at, which is well for whatever comes next. But a message that is
        given again means that the turn was lost and its files were put back, and so must be what it remembers.
        """
        wire = self._wire
        return (
            self._caged is not None
            and wire is not None
            and wire.is_ready()
            and self._shape == self._shape_of(order)
            and self._base == handle
            and not (self._interrupted and order.message.startswith(self._interrupted))
        )

    def _shape_of(self, order: Order) -> tuple[object, ...]:
        return (order.agent, order.role, order.skill, order.site, order.home, order.tools, self._means.binds(order))

    async def _start(self, order: Order, handle: Handle) -> bool:
        """Start a process for the session that the bus names, or for a new one; whether it could be resumed."""
        await self.end()
        means, role = self._means, role_of(order)
        login = await asyncio.to_thread(means.login)
        if login is None:
            raise Lost(Fault("Claude Code has no login any more; log in again and resume the job", hard=True))
        home = Home(order.home)
        resumed = bool(handle.session) and await asyncio.to_thread(
            home.put_back, handle.session, handle.last, handle.size
        )
        self._handle = handle if resumed else Handle.new(order.thread)
        self._base = handle
        tools = built_in(_tools(role, order), order.tools)
        self._ground = Ground(order.site, order.home, frozenset(tools), frozenset(order.tools))
        prompt = await asyncio.to_thread(system_prompt, order, role, means.prompt)
        if len(prompt.encode()) > PROMPT_LIMIT:
            raise Lost(
                Fault(f"the prompt of {order.agent} has more than {PROMPT_LIMIT} bytes; shorten its role", hard=True)
            )
        cage = Cage(
            site=order.site,
            home=Path(order.home),
            command=arguments(means.program, means.settings, role, prompt, tools, self._handle.session, resume=resumed),
            environment=environment(means.settings, login),
            binds=(*means.program.binds, *means.binds(order)),
            route=Route(login.upstream, login.headers, PATHS),
            mark=f"{order.job}/{order.agent}@{order.thread}",
        )
        self._caged = await self._launch(cage)
        self._shape = self._shape_of(order)
        self._wire = Wire(self._caged.process, self._overhear)
        options = ClaudeAgentOptions(
            system_prompt={"type": "custom", "prompt": prompt, "snapshot": False},
            hooks={"PreToolUse": [HookMatcher(hooks=[self._check], timeout=CHECK_SECONDS, on_failure="block")]},
            mcp_servers={SERVER: create_sdk_mcp_server(SERVER, tools=[self._tool(name) for name in order.tools])},
            verbatim_prompts=True,
        )
        self._client = ClaudeSDKClient(options, self._wire)
        try:
            await self._client.connect()
        except Exception as error:  # the SDK raises plain Exceptions for a CLI that is gone
            raise Lost(Fault(f"Claude Code did not start: {self._why(str(error))}")) from error
        return resumed

    def _prepare(self, order: Order) -> None:
        """Give the agent what is its own: others have written there since its last turn."""
        Path(order.home).mkdir(parents=True, exist_ok=True)
        for folder in (order.home, order.site.workspace):
            self._means.boundary.hand_over(folder)

    async def _launch(self, cage: Cage) -> Caged:
        """Start it in a thread; whoever is cancelled meanwhile waits, and ends what was started."""
        starting = asyncio.ensure_future(asyncio.to_thread(self._means.boundary.launch, cage))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(BoundaryError, OSError):
                self._caged = await starting
            raise

    async def interrupt(self, task: asyncio.Task[None]) -> bool:
        """Ask the CLI to stop what it does; whether it did, and is ready for another turn."""
        client, turn = self._client, self._turn
        if client is None or turn is None or not self.alive:
            return False
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await client.interrupt()
        except Exception:  # noqa: BLE001 - whatever keeps it from stopping, its cage is ended instead
            return False
        turn.finish()
        done, _ = await asyncio.wait({task}, timeout=WIND_DOWN_SECONDS)
        return bool(done)

    async def end(self) -> None:
        """End its process, with all that is in its cage."""
        caged, client, wire = self._caged, self._client, self._wire
        self._caged = self._client = self._wire = None
        if caged is not None:
            await asyncio.to_thread(caged.kill)
        if client is not None:
            with contextlib.suppress(Exception):
                await client.disconnect()
        if wire is not None:
            await wire.close()
        elif caged is not None:
            for pipe in (caged.process.stdin, caged.process.stdout, caged.process.stderr):
                if pipe is not None:
                    pipe.close()

    def _why(self, said: str) -> str:
        """The best reason there is for what went wrong."""
        words = self._wire.last_words() if self._wire is not None else ""
        return " ".join((words or said).split())[:300]


def _tools(role: Mapping[str, Any], order: Order) -> Sequence[str]:
    """The tools that a role names; what is enough for work where it names none."""
    named = role.get("tools")
    if isinstance(named, list) and named:
        return [name for name in named if isinstance(name, str)]
    return ("Read", "Edit", "Write", "Bash") if order.site.writable else ("Read", "Bash")


def _doing(block: ToolUseBlock) -> str:
    """A tool's use, in a line."""
    given = block.input
    subject = next(
        (given[key] for key in ("command", "file_path", "path", "pattern", "to", "thread") if key in given), ""
    )
    return f"{block.name.rpartition('__')[2]} {subject}"
