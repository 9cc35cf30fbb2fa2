"""One turn while it runs: what it tells, the calls that wait for a reply, and what it has used up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from parley.adapters.claude.results import Fault, Lost, denials_of, limit_of, number_of, tokens_of, usage_of, written_of
from parley.adapters.claude.tools import SERVER
from parley.ports import Called, Ended, Order, Progress, TurnEvent, Waiting
from parley.text import cut

PROGRESS_LIMIT = 500  # characters of a line that is told
REFUSALS = 20
USES = 1000  # of tools that are remembered
SIGN_SECONDS = 15.0  # between two signs of life while a response is being written
SYNTHETIC = "<synthetic>"  # the model of what the CLI says in its own name
OVER = "your turn is over; nothing that you do now counts"
ENDING = frozenset(("AskQuestion", "Answer", "AskHuman"))  # one of these that was taken ends the turn


class Turn:
    """Lives on the runner's loop; only `silence` and what it guards may be touched from elsewhere."""

    def __init__(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        self.order = order
        self._tell = tell
        self._lock = threading.Lock()
        self._silent = False
        self._calls: dict[int, asyncio.Future[tuple[bool, str]]] = {}
        self._count = 0
        self._batch = 1  # of the agent's messages with tool calls: the one whose calls run now
        self._ending = False
        self.over = False
        self.results: list[Mapping[str, Any]] = []
        self.refusals: list[str] = []
        self._refused: set[str] = set()  # the uses of tools that are told already
        self._uses: dict[str, str] = {}  # those under way, each with its tool's name
        self.wait_seconds: float | None = None
        self.wrapping = False  # its time is over, and the agent is yet to be told so
        self.stopped = False  # its time to wrap up is over, too
        self._waits = False
        self.last = ""  # the entry of the session that the turn came to
        self.tokens = 0.0  # in the context before the last response
        self.written = 0.0  # in that response
        self.model = ""
        self._signed = time.monotonic()

    @property
    def silent(self) -> bool:
        """Whether the turn was ended from outside."""
        return self._silent

    def silence(self) -> None:
        """Tell nothing more, from now on."""
        with self._lock:
            self._silent = True

    def tell(self, event: TurnEvent) -> None:
        """Tell the engine, unless the turn was ended from outside."""
        with self._lock:
            if not self._silent:
                self._tell(event)

    def progress(self, text: str, tool: str = "", use: str = "", *, over: bool = False) -> None:
        """A sign of life, on one line; with a tool, that its use begins or is over."""
        line = " ".join(text.split())
        if line or tool:
            self.tell(Progress(self.order.job, self.order.turn, cut(line, PROGRESS_LIMIT), tool, use, over))

    def waits(self, reason: str, until: float) -> None:
        """It waits for the API, and tries again at that time."""
        self._waits = True
        self.tell(Waiting(self.order.job, self.order.turn, cut(reason, PROGRESS_LIMIT), until))

    def goes_on(self) -> None:
        """The API answers again."""
        if self._waits:
            self._waits = False
            self.tell(Waiting(self.order.job, self.order.turn))

    def sign(self) -> None:
        """A response is being written: a sign of life now and then."""
        if time.monotonic() - self._signed > SIGN_SECONDS:
            self._signed = time.monotonic()
            self.progress("writing")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """A call of the protocol's: whether it was taken, and what the agent is told."""
        if self.over or self._silent:
            return False, OVER
        self._count += 1
        number = self._count
        waiting: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        self._calls[number] = waiting
        order = self.order
        self.tell(Called(order.job, order.turn, order.token, number, tool, dict(arguments), self._batch))
        try:
            ok, text = await waiting
        finally:
            self._calls.pop(number, None)
        self._ending |= ok and tool in ENDING
        return ok, text

    def batch_is_over(self) -> bool:
        """All tool calls of one message have run; whether one of them ends the turn."""
        self._batch += 1
        return self._ending

    def answer(self, number: int, ok: bool, text: str) -> None:
        """A call's reply has come."""
        waiting = self._calls.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result((ok, text))

    def finish(self) -> None:
        """No call counts from now on; whoever still waits is told so."""
        self.over = True
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_result((False, OVER))

    def refuse(self, text: str, use: str = "") -> None:
        """Remember what was refused: by the pre-tool check, or by the CLI itself."""
        if len(self._refused) < USES:
            self._refused.add(use)
        self.progress(f"refused: {text}")
        if len(self.refusals) < REFUSALS:
            self.refusals.append(cut(text, PROGRESS_LIMIT))

    # ---- what the CLI says -----------------------------------------------------------------------

    def take_in(self, message: Message) -> None:
        """Make something of a message of the SDK's. It checks no field, and any process in the cage may say it."""
        match message:
            case AssistantMessage(parent_tool_use_id=None):
                self._take_response(message)
            case UserMessage(content=list(blocks), parent_tool_use_id=None):
                if any(isinstance(block, ToolResultBlock) for block in blocks):
                    self._came_to(message.uuid)  # where the turn ends, if one of these calls ends it
                for block in blocks:
                    match block:
                        case ToolResultBlock(tool_use_id=str(use)) if name := self._uses.pop(use, ""):
                            self.progress("", name, use, over=True)
                        case _:
                            pass
            case StreamEvent():
                self.sign()
            case SystemMessage(subtype="init", data=data):
                if {"name": SERVER, "status": "failed"} in _named(data.get("mcp_servers")):
                    raise Lost(Fault("Claude Code could not reach the protocol's tools"))
            case SystemMessage(subtype="api_retry", data=data):
                seconds = number_of(data.get("retry_delay_ms")) / 1000
                self.progress(f"Claude Code retries in {seconds:.1f} s: the API answered {data.get('error_status')}")
            case _:
                pass

    def _take_response(self, message: AssistantMessage) -> None:
        self._came_to(message.uuid)
        if message.model != SYNTHETIC and isinstance(message.model, str):
            self.tokens, self.model = tokens_of(message.usage), message.model
        for block in message.content:
            match block:
                case TextBlock(text=str(text)):
                    self.progress(text)
                case ToolUseBlock(id=str(use), name=str(), input=dict()):
                    self.progress(_doing(block), self._begin_use(block), use)
                case _:
                    pass

    def _came_to(self, entry: object) -> None:
        if entry and isinstance(entry, str):
            self.last = entry

    def _begin_use(self, block: ToolUseBlock) -> str:
        name = block.name.rpartition("__")[2]
        if len(self._uses) < USES:
            self._uses[block.id] = name
        return name

    def overhear(self, message: dict[str, Any]) -> None:
        """What the SDK's own messages leave out."""
        if message.get("type") == "result":
            self.results.append(message)
            for use, text in denials_of(message):
                if use not in self._refused:
                    self.refuse(f"Claude Code itself lets nobody do this: {text}", use)
        self.written = written_of(message) or self.written
        wait = limit_of(message)
        if wait is not None:
            self.wait_seconds = wait

    def ended(
        self,
        *,
        text: str = "",
        handle: str = "",
        context: float = 0.0,
        fault: Fault | None = None,
        boundary: Mapping[str, Any],
    ) -> Ended:
        """How the turn ended."""
        order = self.order
        return Ended(
            order.job,
            order.turn,
            order.epoch,
            text=text,
            handle=handle,
            usage=usage_of(self.results, context),
            model=self.model,
            fault=fault.text if fault else "",
            refusals=tuple(self.refusals),
            boundary=boundary,
            hard=fault.hard if fault else False,
            unconfined=fault.unconfined if fault else False,
            overtime=self.stopped,
        )


def _named(servers: object) -> list[dict[str, Any]]:
    """The servers that the CLI names, each with its status alone."""
    listed = servers if isinstance(servers, list) else []
    return [{key: one.get(key) for key in ("name", "status")} for one in listed if isinstance(one, dict)]


def _doing(block: ToolUseBlock) -> str:
    """A tool's use, in a line."""
    given = block.input
    subject = next(
        (given[key] for key in ("command", "file_path", "path", "pattern", "to", "thread") if key in given), ""
    )
    return f"{block.name.rpartition('__')[2]} {subject}"
