"""One instance of an agent: a Claude Code behind the boundary, kept ready between turns."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKError,
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    ResultMessage,
    SdkMcpTool,
    create_sdk_mcp_server,
)

from parley.base.text import cut
from parley.ports.turns import Bind, BoundaryError, Ended, Judge, Order, unjudged
from parley.roles.role_snapshot import RoleSnapshot, from_text
from parley.runners.claude.agent_home import AgentHome
from parley.runners.claude.claude_process import ClaudeProcess, launch
from parley.runners.claude.claude_program import ClaudeProgram
from parley.runners.claude.claude_turn import OVER, ClaudeTurn
from parley.runners.claude.command_line import arguments, environment
from parley.runners.claude.guard import HOME, ToolRefused, ToolScope, built_in, check
from parley.runners.claude.login import PATHS, UPSTREAM, Login
from parley.runners.claude.offered_tools import SERVER, described
from parley.runners.claude.session_handle import SessionHandle
from parley.runners.claude.system_prompt import (
    COMPACT,
    SCRATCH_LIMIT,
    RolePrompt,
    composed,
    system_prompt,
    wrap_up,
)
from parley.runners.claude.turn_results import Fault, Lost, fault_of, wait_of, window_of
from parley.sandbox import Boundary, Cage, HoldPolicy, Route, UpstreamTrouble
from parley.settings.schema import ClaudeSettings

CHECK_SECONDS = 20.0
PROMPT_LIMIT = 120_000  # bytes; a command line takes no longer word
WIND_DOWN_SECONDS = 0.35
WRITTEN_SECONDS = 2.0

CHECK_FAILED = "the check of this call failed, so the answer is no"
ENDINGS = ("message_stop",)  # the events that end a response of the Messages API
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
GO_ON = "(The API failed in the middle of your turn, and answers again. Go on where you were.)"  # to the model
TURN_ENDED = "your turn ended with that call, as it should; go on with the message that you got since"  # to the model


class InstanceConfig:
    """What every instance is started with."""

    def __init__(
        self,
        settings: ClaudeSettings,
        boundary: Boundary,
        program: ClaudeProgram,
        login: Callable[[], Login | None],
        prompt: RolePrompt,
        binds: Callable[[Order], tuple[Bind, ...]],
        judge: Judge = unjudged,
    ) -> None:
        self.settings = settings
        self.boundary = boundary
        self.program = program
        self.login = login
        self.prompt = prompt
        self.binds = binds
        self.judge = judge


class Instance:
    """Runs one turn at a time, on the runner's loop."""

    def __init__(self, config: InstanceConfig) -> None:
        self._config = config
        self.lock = asyncio.Lock()
        self.used = time.monotonic()
        self._process: ClaudeProcess | None = None
        self._shape: tuple[object, ...] = ()
        self._scope: ToolScope | None = None
        self._handle = SessionHandle()  # the running process's session
        self._base = SessionHandle()  # the session as the bus has it
        self._interrupted: str | None = None  # the id of the message of a turn that was interrupted in it
        self._window = 0.0
        self._turn: ClaudeTurn | None = None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None

    # ---- a turn ----------------------------------------------------------------------------------

    async def run(self, turn: ClaudeTurn) -> Ended | None:
        """Run a turn to its end; None if it was interrupted and the process is ready for the next."""
        order = turn.order
        self._turn = turn
        handle = SessionHandle.of(order)
        try:
            ended = await self._take(turn, handle)
        except Lost as lost:
            fault = self._exceeded() or lost.fault
        except BoundaryError as error:
            fault = Fault(str(error), hard=True, unconfined=True)
        except (ClaudeSDKError, OSError) as error:
            fault = self._exceeded() or Fault(f"Claude Code could not go on: {self._why(str(error))}")
        else:
            return ended
        finally:
            turn.finish()
            self._turn = None
            self.used = time.monotonic()
        process = self._process
        await self.end()
        if process is not None:
            _tell_denied(process, turn)
        if not turn.stopped:
            return turn.ended(fault=fault, context=handle.context)
        end = await asyncio.to_thread(AgentHome(order.home).end_of, self._handle.session)
        kept = self._handle.after(end.last, end.size, self._context(turn, handle)) if end.size else handle
        return turn.ended(
            handle=kept.text() if kept.session else "",
            fault=Fault(order.overran),
            context=kept.context,
        )

    async def _take(self, turn: ClaudeTurn, handle: SessionHandle) -> Ended | None:
        order = turn.order
        await asyncio.to_thread(self._prepare, order)
        home = AgentHome(order.home)
        warm = self._fits(order, handle)
        self._interrupted = None
        cut_short = await asyncio.to_thread(home.interrupted, handle.document())
        interrupted = "\n\n".join(one.text for one in cut_short if one.message_id != order.message_id)
        lost = False
        process = self._process
        if process is None or not warm:
            process, resumed = await self._start(order, handle)
            lost = bool(handle.session) and not resumed
        turn.confined = process.caged.verdict.summary()
        compacted: str | None = None
        if handle.context >= COMPACT and not lost:
            compacted = await self._compact(process, turn, home)
        message = composed(
            order.addressed,
            self._seen(order),
            interrupted="" if warm else interrupted,
            context=0.0 if lost else handle.context,
            compacted=compacted,
            lost=lost,
        )
        result = await self._converse(process, turn, message)
        fault = self._fault(process, turn, result)
        if fault and fault.too_long and compacted is None and handle.turns:
            compacted = await self._compact(process, turn, home)
            message = composed(order.addressed, self._seen(order), compacted=compacted)
            result = await self._converse(process, turn, message)
            fault = self._fault(process, turn, result)
        failures = 0
        while fault and fault.parked_seconds and not turn.silent:
            await self._sit_out(turn, fault)
            result = await self._converse(process, turn, GO_ON)
            failures += 1
            fault = self._fault(process, turn, result, failures)
        if turn.silent:
            turn.finish()
            self._interrupted = order.message_id
            await process.rest()
            return None
        if fault:
            raise Lost(fault)
        return await self._conclude(process, turn, home, result)

    def _fault(
        self, process: ClaudeProcess, turn: ClaudeTurn, result: Mapping[str, Any], failures: int = 0
    ) -> Fault | None:
        if turn.stopped:
            return Fault(turn.order.overran)
        return fault_of(result, wait_of(process.retry_after()) or turn.wait_seconds, failures)

    @staticmethod
    async def _sit_out(turn: ClaudeTurn, fault: Fault) -> None:
        """Wait for the API where Claude Code has given up waiting; the process stays as it is."""
        turn.waits(fault.text, time.time() + fault.parked_seconds)
        await asyncio.sleep(fault.parked_seconds)
        turn.goes_on()

    async def _conclude(
        self, process: ClaudeProcess, turn: ClaudeTurn, home: AgentHome, result: Mapping[str, Any]
    ) -> Ended:
        turn.finish()
        size = await self._written(home, turn.last)
        try:
            await process.rest()
        except BoundaryError:
            await self.end()  # a process that does not end by itself ends with its cage
        _tell_denied(process, turn)
        self._window = window_of(result, turn.model) or self._window
        context = self._context(turn, SessionHandle())
        self._handle = self._base = self._handle.after(turn.last, size, context)
        text = result.get("result")
        return turn.ended(
            text=text if isinstance(text, str) else "",
            handle=self._handle.text(),
            context=context,
        )

    def _context(self, turn: ClaudeTurn, before: SessionHandle) -> float:
        return min(1.0, (turn.tokens + turn.written) / self._window) if self._window else before.context

    async def _written(self, home: AgentHome, last: str) -> int:
        """Wait until the session's file holds the end of the turn; returns its length."""
        deadline = time.monotonic() + WRITTEN_SECONDS
        while (size := await asyncio.to_thread(home.mark, self._handle.session, last)) is None:
            if time.monotonic() > deadline:
                return 0  # nothing to resume: the next process begins a new session
            await asyncio.sleep(0.01)
        return size

    # ---- talking ---------------------------------------------------------------------------------

    async def _converse(self, process: ClaudeProcess, turn: ClaudeTurn, message: str) -> Mapping[str, Any]:
        """Send a message and read all messages up to the result, which is returned."""
        await process.say(message)
        return await self._hear(process, turn)

    async def _hear(self, process: ClaudeProcess, turn: ClaudeTurn) -> Mapping[str, Any]:
        async for message in process.hear():
            turn.take_in(message)
            if isinstance(message, ResultMessage) and turn.results:
                return turn.results[-1]
        raise Lost(Fault(f"Claude Code ended before its turn did: {process.why('it said nothing')}"))

    async def _compact(self, process: ClaudeProcess, turn: ClaudeTurn, home: AgentHome) -> str:
        """Have the conversation summarized; returns the scratch file's text."""
        turn.progress("the context is summarized")
        await process.compact()
        result = await self._hear(process, turn)
        if fault := self._fault(process, turn, result):
            raise Lost(fault)
        return await asyncio.to_thread(home.scratch, SCRATCH_LIMIT)

    def _overhear(self, message: dict[str, Any]) -> None:
        if self._turn is not None:
            self._turn.overhear(message)

    # ---- what the CLI asks back ------------------------------------------------------------------

    async def _check(self, given: HookInput, use: str | None, _context: HookContext) -> HookJSONOutput:
        """The pre-tool check. If it fails itself, the answer is no."""
        turn = self._turn
        try:
            reason = self._refusal(given, turn)
        except Exception as error:  # noqa: BLE001 - fail closed: an exception here would count as consent
            reason = f"{CHECK_FAILED} ({type(error).__name__})"
        if reason and turn is not None:
            turn.refuse(reason, use or "")
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny" if reason else "allow",
                "permissionDecisionReason": reason or "inside the workspace",
            }
        }

    def _hooks(self) -> Any:
        """The hooks. The SDK's types do not know PostToolBatch yet; the CLI does."""
        return {
            "PreToolUse": [HookMatcher(hooks=[self._check], timeout=CHECK_SECONDS, on_failure="block")],
            "PostToolBatch": [HookMatcher(hooks=[self._batch_over], timeout=CHECK_SECONDS)],
        }

    async def _batch_over(self, _given: HookInput, _use: str | None, _context: HookContext) -> HookJSONOutput:
        """All calls of a message have run. Where one of them ends the turn, the API is not asked again."""
        turn = self._turn
        if turn is None:
            return {}
        if turn.batch_is_over():
            return {"continue_": False, "stopReason": TURN_ENDED}
        if not turn.wrapping:
            return {}
        turn.wrapping = False
        turn.progress("it is told that its time is over")
        told: Any = {"hookEventName": "PostToolBatch", "additionalContext": wrap_up(turn.order.time_limit_seconds)}
        return {"hookSpecificOutput": told}

    # ---- what the gateway tells ------------------------------------------------------------------

    def _hold_policy(self, login: Login) -> HoldPolicy:
        """How the gateway handles trouble of the API; it reports from its threads."""
        loop = asyncio.get_running_loop()
        setting = "" if login.upstream == UPSTREAM else "ANTHROPIC_BASE_URL"

        def later(act: Callable[[ClaudeTurn], None]) -> None:
            def now() -> None:
                if self._turn is not None:
                    act(self._turn)

            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(now)

        def troubled(trouble: UpstreamTrouble | None) -> None:
            if trouble is None:
                later(ClaudeTurn.goes_on)
            else:
                reason, until = trouble.words(setting), trouble.until
                later(lambda turn: turn.waits(reason, until))

        return HoldPolicy(ENDINGS, PING, troubled, lambda: later(ClaudeTurn.sign))

    def _refusal(self, given: Mapping[str, Any], turn: ClaudeTurn | None) -> str:
        if turn is None or turn.over or self._scope is None:
            return OVER
        folder = given.get("cwd")
        try:
            check(
                self._scope,
                given["tool_name"],
                given["tool_input"],
                folder if isinstance(folder, str) and folder.startswith("/") else self._scope.site.workspace,
            )
        except ToolRefused as refused:
            return str(refused)
        return ""

    def _tools(self, order: Order) -> list[SdkMcpTool[Any]]:
        return [self._tool(name, order) for name in order.tools]

    def _tool(self, name: str, order: Order) -> SdkMcpTool[Any]:
        async def call(given: dict[str, Any]) -> dict[str, Any]:
            turn = self._turn
            ok, text = await turn.call(name, given) if turn is not None else (False, OVER)
            return {"content": [{"type": "text", "text": text}], "is_error": not ok}

        description, schema = described(name, order.tools)
        return SdkMcpTool(name, description, schema, call)

    # ---- the process -----------------------------------------------------------------------------

    def _fits(self, order: Order, handle: SessionHandle) -> bool:
        """Whether the running process can go on: same role and place, and the session that the bus names.

        An interrupted one remembers its last message, which is fine for another message. But the same message again
        means that the turn was lost and its files were restored: then the session must be restored too.
        """
        return (
            self._process is not None
            and self._process.ready
            and self._shape == self._shape_of(order)
            and self._base == handle
            and self._interrupted != order.message_id
        )

    def _shape_of(self, order: Order) -> tuple[object, ...]:
        return (order.agent, order.role, order.skills, order.site, order.home, order.tools, self._config.binds(order))

    async def _start(self, order: Order, handle: SessionHandle) -> tuple[ClaudeProcess, bool]:
        """Start a process for the session that the bus names, or for a new one; whether the session was resumed."""
        await self.end()
        config, role = self._config, from_text(order.role)
        login = await asyncio.to_thread(config.login)
        if login is None:
            raise Lost(Fault("Claude Code has no login any more; log in again and resume the job", hard=True))
        home = AgentHome(order.home)
        resumed = bool(handle.session) and await asyncio.to_thread(
            home.put_back, handle.session, handle.last, handle.size
        )
        self._handle = handle if resumed else SessionHandle.new(order.thread)
        self._base = handle
        tools = built_in(_tools(role, order), order.tools)
        seen = self._seen(order)
        self._scope = ToolScope(
            site=order.site,
            home=order.home,
            tools=frozenset(tools),
            protocol=frozenset(order.tools),
            seen=seen,
            judge=config.judge,
        )
        prompt = await asyncio.to_thread(system_prompt, order, role, config.prompt)
        if len(prompt.encode()) > PROMPT_LIMIT:
            raise Lost(
                Fault(f"the prompt of {order.agent} has more than {PROMPT_LIMIT} bytes; shorten its role", hard=True)
            )
        command = config.program.command if seen == HOME else config.program.outside()
        cage = Cage(
            site=order.site,
            home=Path(order.home),
            command=arguments(command, config.settings, role, prompt, tools, self._handle.session, resume=resumed),
            environment=environment(config.settings, login, seen, config.boundary.search_path()),
            binds=(*config.program.binds, *config.binds(order)),
            route=Route(login.upstream, login.headers, PATHS, hold=self._hold_policy(login)),
            mark=f"{order.job}/{order.agent}@{order.thread}",
        )
        caged = await launch(config.boundary, cage)
        options = ClaudeAgentOptions(
            system_prompt={"type": "custom", "prompt": prompt, "snapshot": False},
            hooks=self._hooks(),
            mcp_servers={SERVER: create_sdk_mcp_server(SERVER, tools=self._tools(order))},
            verbatim_prompts=True,
        )
        self._process = process = ClaudeProcess(caged, options, self._overhear)
        self._shape = self._shape_of(order)
        try:
            await process.connect()
        except Exception as error:  # the SDK raises plain Exceptions for a CLI that has ended
            raise Lost(Fault(f"Claude Code did not start: {process.why(str(error))}")) from error
        return process, resumed

    def _seen(self, order: Order) -> str:
        """The instance's home as the agent sees it: the real path where the user accepted having no boundary."""
        return order.home if self._config.boundary.settings.accept else HOME

    def _prepare(self, order: Order) -> None:
        """Give the agent ownership of its files: Parley has written there since its last turn."""
        home = Path(order.home)
        home.parent.mkdir(exist_ok=True)  # and nothing above: a job's deleted folder is not made again
        home.mkdir(exist_ok=True)
        for folder in (order.home, order.site.workspace):
            self._config.boundary.hand_over(folder)

    async def interrupt(self, task: asyncio.Task[None]) -> bool:
        """Ask the CLI to stop; whether it did, and is ready for another turn."""
        process, turn = self._process, self._turn
        if process is None or turn is None or not await process.interrupt():
            return False
        turn.finish()
        done, _ = await asyncio.wait({task}, timeout=WIND_DOWN_SECONDS)
        return bool(done)

    async def stop(self, turn: ClaudeTurn, task: asyncio.Task[None]) -> None:
        """End a turn at once, because its time is over; what its session holds by then is kept."""
        if self._turn is not turn:
            return
        turn.stopped = True
        turn.finish()
        process = self._process
        if process is not None and await process.interrupt():
            await asyncio.wait({task}, timeout=WIND_DOWN_SECONDS)
        if self._turn is turn:
            await self.end()

    async def end(self) -> None:
        """End its process, with all that is in its cage."""
        process, self._process = self._process, None
        if process is not None:
            await process.end()

    def _exceeded(self) -> Fault | None:
        """The limit for which its process was ended, if it was."""
        exceeded = self._process.caged.exceeded if self._process is not None else ""
        return Fault(exceeded) if exceeded else None

    def _why(self, said: str) -> str:
        return self._process.why(said) if self._process is not None else cut(said, 300)


def _tell_denied(process: ClaudeProcess, turn: ClaudeTurn) -> None:
    """Record the requests that the gateway refused as refusals of the running turn."""
    for text in process.caged.denied():
        turn.refuse(text)


def _tools(role: RoleSnapshot, order: Order) -> Sequence[str]:
    """The tools that a role names; a default set where it names none."""
    if role.tools:
        return role.tools
    return ("Read", "Edit", "Write", "Bash") if order.site.writable else ("Read", "Bash")
