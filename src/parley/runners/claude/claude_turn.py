"""One running turn of Claude Code: its events, the calls that wait for replies, and its usage."""

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

from parley.base.text import cut
from parley.ports.turns import (
    RESULT_LIMIT,
    Called,
    Confined,
    Ended,
    Order,
    Progress,
    Sign,
    TurnEvent,
    Waiting,
)
from parley.runners.claude.offered_tools import SERVER
from parley.runners.claude.turn_results import (
    Fault,
    Lost,
    denials_of,
    limit_of,
    number_of,
    tokens_of,
    usage_of,
    written_of,
)

PROGRESS_LIMIT = 500  # characters of a progress line
MAX_RECORDED_REFUSALS = 20
USES = 1000  # tool uses that are remembered
SIGN_SECONDS = 15.0  # between two signs of life while a response is being written
SYNTHETIC = "<synthetic>"  # the model of messages that the CLI itself writes
OVER = "your turn is over; nothing that you do now counts"
ENDING = frozenset(("AskQuestion", "Answer", "AskHuman"))  # one of these, once accepted, ends the turn


class ClaudeTurn:
    """A turn on the runner's loop; other threads may only call `silence` and what it guards."""

    def __init__(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        self.order = order
        self._tell = tell
        self._lock = threading.Lock()
        self._silent = False
        self._calls: dict[int, asyncio.Future[tuple[bool, str]]] = {}
        self._count = 0
        self._batch = 1  # counts the agent's messages with tool calls
        self._ending = False
        self.over = False
        self.results: list[Mapping[str, Any]] = []
        self.refusals: list[str] = []
        self._refused: set[str] = set()  # the tool uses whose refusal is recorded already
        self._uses: dict[str, str] = {}  # running tool uses, each with its tool's name
        self.wait_seconds: float | None = None
        self.wrapping = False  # its time is over, and the agent has to be told
        self.stopped = False  # its time to wrap up is over too
        self._waits = False
        self.last = ""  # the session's entry that the turn has reached
        self.tokens = 0.0  # in the context before the last response
        self.written = 0.0  # in that response
        self.model = ""
        self.confined: Confined | None = None  # how its process was confined, once that was started
        self._signed = time.monotonic()

    @property
    def silent(self) -> bool:
        """Whether the turn was ended from outside."""
        return self._silent

    def silence(self) -> None:
        """Report nothing from now on."""
        with self._lock:
            self._silent = True

    def tell(self, event: TurnEvent) -> None:
        """Report to the engine, unless the turn was ended from outside."""
        with self._lock:
            if not self._silent:
                self._tell(event)

    def progress(
        self,
        text: str,
        tool: str = "",
        use: str = "",
        result: ToolResultBlock | None = None,
        *,
        sign: Sign = Sign.WORK,
    ) -> None:
        """A sign of life, on one line; with a tool, that its use begins, or is over with a result."""
        line = " ".join(text.split())
        if line or tool:
            self.tell(
                Progress(
                    job=self.order.job,
                    turn=self.order.turn,
                    text=cut(line, PROGRESS_LIMIT),
                    tool=tool,
                    use=use,
                    over=result is not None,
                    result=cut(_result(result.content), RESULT_LIMIT) if result else "",
                    failed=bool(result and result.is_error),
                    sign=sign,
                )
            )

    def waits(self, reason: str, until: float) -> None:
        """The turn waits for the API, and retries at that time."""
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
            self.progress("writing", sign=Sign.WRITING)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """A call of a protocol tool: whether it was accepted, and what the agent is told."""
        if self.over or self._silent:
            return False, OVER
        self._count += 1
        number = self._count
        waiting: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        self._calls[number] = waiting
        order = self.order
        self.tell(
            Called(
                job=order.job,
                turn=order.turn,
                token=order.token,
                number=number,
                tool=tool,
                arguments=dict(arguments),
                batch=self._batch,
            )
        )
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
        """Accept no more calls; those that wait are told that the turn is over."""
        self.over = True
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_result((False, OVER))

    def refuse(self, text: str, use: str = "") -> None:
        """Record a refusal by the pre-tool check, or by the CLI itself."""
        if len(self._refused) < USES:
            self._refused.add(use)
        self.progress(f"refused: {text}")
        if len(self.refusals) < MAX_RECORDED_REFUSALS:
            self.refusals.append(cut(text, PROGRESS_LIMIT))

    # ---- what the CLI says -----------------------------------------------------------------------

    def take_in(self, message: Message) -> None:
        """Read a message of the SDK's. The SDK checks no field, and any process in the cage may have written it."""
        match message:
            case AssistantMessage(parent_tool_use_id=None):
                self._take_response(message)
            case UserMessage(content=list(blocks), parent_tool_use_id=None):
                if any(isinstance(block, ToolResultBlock) for block in blocks):
                    self._came_to(message.uuid)  # the turn's last entry, if one of these calls ends it
                for block in blocks:
                    match block:
                        case ToolResultBlock(tool_use_id=str(use)) if name := self._uses.pop(use, ""):
                            self.progress("", name, use, block)
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
                    self.progress(_subject(block), self._begin_use(block), use)
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
        """Read what the SDK's own messages leave out."""
        if message.get("type") == "result":
            self.results.append(message)
            for use, text in denials_of(message):
                if use not in self._refused:
                    self.refuse(f"Claude Code itself does not allow this: {text}", use)
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
            boundary=self.confined,
            hard=fault.hard if fault else False,
            unconfined=fault.unconfined if fault else False,
            overtime=self.stopped,
        )


def _named(servers: object) -> list[dict[str, Any]]:
    """The servers that the CLI names, each with its status alone."""
    listed = servers if isinstance(servers, list) else []
    return [{key: one.get(key) for key in ("name", "status")} for one in listed if isinstance(one, dict)]


_SUBJECTS = (
    "command", "file_path", "notebook_path", "path", "pattern", "to", "thread", "artifact", "skill", "query", "url",
    "description", "text",
)  # fmt: skip


def _subject(block: ToolUseBlock) -> str:
    """What a tool use is about. The SDK checks no field."""
    return str(next((block.input[key] for key in _SUBJECTS if key in block.input), ""))


def _result(content: object) -> str:
    """What a tool gave back, as text. The SDK checks no field."""
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text", f"({part.get('type')})") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
