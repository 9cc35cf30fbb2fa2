"""A Messages API on loopback that plays a script in place of a model, and fails as the real one does.

    script = Script({"coder": [Turn("hello", [Use("Write", {…}), Use("Send", {…}), Say("done")])]})
    with MessagesAPI(script) as api:
        ...  # ANTHROPIC_BASE_URL=api.url

The agent is known by the line `You are NAME` of its system prompt. A request without tools is a side request.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

from tests.apis.script import (
    ALWAYS,
    Cut,
    Drop,
    Malformed,
    Say,
    ScriptedAPI,
    ScriptedHandler,
    Slow,
    Step,
    Together,
    Use,
    acting,
    last_found,
    steps,
)

_AGENT = re.compile(r"^You are (?!an? |the )`?([A-Za-z0-9_-]+)", re.MULTILINE)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_INTERRUPTED = re.compile(r"\[Request interrupted by user")
_ENDING = ("AskQuestion", "Answer", "AskHuman")  # a tool that was used well ends the turn
_ids = count(1)


# ---- what a script says --------------------------------------------------------------------------


@dataclass(frozen=True)
class Fail:
    """An HTTP error in place of a response, so many times."""

    status: int
    message: str = ""
    retry_after: float | None = None
    times: int = ALWAYS

    KINDS: ClassVar[Mapping[int, tuple[str, str]]] = {
        400: ("invalid_request_error", "invalid request"),
        401: ("authentication_error", "invalid x-api-key"),
        403: ("permission_error", "your key may not do this"),
        429: ("rate_limit_error", "this would exceed your rate limit"),
        500: ("api_error", "internal server error"),
        503: ("api_error", "service unavailable"),
        529: ("overloaded_error", "Overloaded"),
    }


def too_long(times: int = ALWAYS) -> Fail:
    """The context is longer than the model takes."""
    return Fail(400, "prompt is too long: 212345 tokens > 200000 maximum", times=times)


Trouble = Fail | Drop | Cut | Malformed | Slow
Block = Say | Use | Together | Trouble


@dataclass(frozen=True)
class Usage:
    """What a response says that it cost, in tokens."""

    input_tokens: int = 100
    output_tokens: int = 10
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    def document(self) -> dict[str, int]:
        """As the API puts it."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Turn:
    """What an agent does when it gets a message in which the pattern is found."""

    match: str
    blocks: Sequence[Block] | Callable[[Exchange], Sequence[Block]]
    repeat: bool = False
    usage: Usage | None = None  # of each response of this turn; else reckoned from the request's size


@dataclass(frozen=True)
class Script:
    """All agents' turns; how a request is answered that fits none; and what a summary says when one compacts."""

    agents: Mapping[str, Sequence[Turn]]
    otherwise: str = "Nothing to do."
    summary: str = "<summary>\nSUMMARY OF THE CONVERSATION\n</summary>"


# ---- what a request shows ------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    document: Mapping[str, Any]
    time: float

    @property
    def system(self) -> str:
        """The system prompt, as one text."""
        system = self.document.get("system") or ""
        return system if isinstance(system, str) else "\n".join(str(block.get("text", "")) for block in system)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model is offered."""
        return [str(tool.get("name")) for tool in self.document.get("tools") or ()]

    @property
    def agent(self) -> str:
        """Whose request this is."""
        found = _AGENT.search(self.system)
        return found.group(1) if found else ""

    @property
    def compacts(self) -> bool:
        """Whether it asks for a summary of the conversation."""
        return "create a detailed summary" in (_texts_of(self.document["messages"][-1]) or [""])[-1]


@dataclass(frozen=True)
class Exchange:
    """A conversation up to where the script goes on."""

    prompt: str
    prompts: tuple[str, ...]
    results: tuple[str, ...]  # of this turn's tool calls, in order
    earlier: tuple[str, ...]  # of all tool calls of the conversation

    def last(self, pattern: str) -> str:
        """What a pattern last found in a tool's result or a message, e.g. a thread's id."""
        return last_found(pattern, (*reversed(self.earlier), *reversed(self.prompts)))


def _texts_of(message: Mapping[str, Any]) -> list[str]:
    """A message's texts, without what the client itself reminds the model of."""
    content = message.get("content") or ""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [_REMINDER.sub("", block.get("text", "")) for block in blocks if block.get("type") == "text"]
    return [text.strip() for text in texts if text.strip()]


def _results_of(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_result":
            inner = block.get("content") or ""
            yield inner if isinstance(inner, str) else "\n".join(str(part.get("text", "")) for part in inner)


@dataclass
class _Talk:
    """One message to the agent and what has come of it so far."""

    prompt: str
    answers: int = 0
    results: list[str] = field(default_factory=list)


def _ended(message: Mapping[str, Any], ending: Collection[str]) -> bool:
    """Whether the turn was over with these results: what stands beside them is the next message."""
    content = message.get("content")
    return any(
        block.get("type") == "tool_result" and block.get("tool_use_id") in ending and not block.get("is_error")
        for block in (content if isinstance(content, list) else ())
    )


def _ending_uses(message: Mapping[str, Any]) -> set[str]:
    content = message.get("content")
    return {
        block["id"]
        for block in (content if isinstance(content, list) else ())
        if block.get("type") == "tool_use" and block["name"].rpartition("__")[2] in _ENDING
    }


def _talks(messages: Sequence[Mapping[str, Any]]) -> list[_Talk]:
    talks: list[_Talk] = []
    over = True  # what comes next is another message, and not more of the same
    ending: set[str] = set()
    for message in messages:
        if message.get("role") == "assistant":
            over = True
            ending = _ending_uses(message)
            if talks:
                talks[-1].answers += 1
        elif message.get("role") == "user":
            results = list(_results_of(message))
            if results and talks:
                talks[-1].results += results
            remarks = bool(results) and not _ended(message, ending)
            for text in _texts_of(message):
                if _INTERRUPTED.search(text):
                    over, remarks = True, False
                elif remarks:
                    continue  # a remark of the client's on what its tools gave
                elif over:
                    talks.append(_Talk(text))
                    over = False
                else:
                    talks[-1].prompt += f"\n{text}"
    return talks


# ---- what is answered ----------------------------------------------------------------------------


class MessagesAPI(ScriptedAPI):
    """The server. Every request is kept in `requests`, side requests in `asides`."""

    def __init__(self, script: Script, *, key: str = "") -> None:
        self.handler = _Handler
        super().__init__(key)
        self.script = script
        self.requests: list[Request] = []
        self.asides: list[Request] = []
        self.refused: list[Request] = []

    def of(self, agent: str) -> list[Request]:
        """An agent's requests, in order."""
        return [request for request in self.requests if request.agent == agent]

    def prompts(self, number: int = -1) -> list[str]:
        """The messages to the agent in the conversation of a request, the last one's unless said otherwise."""
        return [talk.prompt for talk in _talks(self.requests[number].document["messages"])]

    def plan(self, request: Request) -> tuple[Step, Usage | None, tuple[object, ...]]:
        """What is to be answered; the last value names this place in the script."""
        talks = _talks(request.document["messages"])
        turns = self.script.agents.get(request.agent, ())
        found = acting(turns, (talk.prompt for talk in talks))
        if found is None:
            return Step((), (Say(self.script.otherwise),)), None, ()
        turn, talk = turns[found], talks[-1]
        blocks = turn.blocks(_exchange(talks)) if callable(turn.blocks) else turn.blocks
        responses = steps(blocks)
        number = min(talk.answers, len(responses) - 1)
        return responses[number], turn.usage, (request.agent, found, number)


def _exchange(talks: Sequence[_Talk]) -> Exchange:
    return Exchange(
        talks[-1].prompt,
        tuple(talk.prompt for talk in talks),
        tuple(talks[-1].results),
        tuple(result for talk in talks for result in talk.results),
    )


class _Handler(ScriptedHandler):
    """One connection, one request."""

    @property
    def api(self) -> MessagesAPI:
        return self.server.api  # type: ignore[attr-defined,no-any-return]  # set where the server is made

    def do_HEAD(self) -> None:  # noqa: N802 - the base class names it so
        self._send(200, {})

    def do_GET(self) -> None:  # noqa: N802 - the base class names it so
        self._send(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})

    def do_POST(self) -> None:  # noqa: N802 - the base class names it so
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            document = json.loads(body)
        except ValueError:
            self._fail(Fail(400, "not JSON"))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(path=self.path, headers=headers, body=body, document=document, time=time.monotonic())
        if not self.path.startswith("/v1/messages"):
            self.api.refused.append(request)
            self.do_GET()
            return
        if self.path.startswith("/v1/messages/count_tokens"):
            self.api.asides.append(request)
            self._send(200, {"input_tokens": len(body) // 4})
            return
        if self.api.key and self.api.key not in {headers.get("x-api-key"), headers.get("authorization", "")[7:]}:
            self.api.refused.append(request)
            self._fail(Fail(401))
            return
        with contextlib.suppress(OSError):
            self._answer(request)

    def _answer(self, request: Request) -> None:
        if request.compacts or not request.tools:
            self.api.asides.append(request)
            text = self.api.script.summary if request.compacts else "ok"
            self._stream(request, (Say(text),), None)
            return
        step, usage, place = self.api.plan(request)
        self.api.requests.append(request)
        for trouble in self.api.trouble(step, place):
            match trouble:
                case Fail():
                    self._fail(trouble)
                    return
                case Drop():
                    if request.document.get("stream"):
                        self._begin(usage or Usage())
                    self.abort()
                    return
                case Cut():
                    self._stream(request, step.blocks, usage, cut=True)
                    return
                case Malformed() if not request.document.get("stream"):
                    self._send(200, b'{"type": "message", "content": [')
                    return
                case Malformed():
                    self._begin(usage or Usage())
                    self.wfile.write(b'event: content_block_start\ndata: {"type": "content_block_sta\n\n')
                    return
                case Slow(seconds=seconds) if not request.document.get("stream"):
                    self.api.closing.wait(seconds)
                case Slow(seconds=seconds):
                    self._begin(usage or Usage())
                    if not self._wait(seconds):
                        return
                    self._stream(request, step.blocks, usage, begun=True)
                    return
                case _:
                    raise AssertionError(trouble)
        self._stream(request, step.blocks, usage)

    def _wait(self, seconds: float) -> bool:
        """Let time pass with pings; whether the client is still there."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.api.closing.wait(min(left, 0.25)):
                return False
            self.event("ping", {})
        return True

    def _fail(self, fail: Fail) -> None:
        kind, message = Fail.KINDS.get(fail.status, ("api_error", "error"))
        headers = {} if fail.retry_after is None else {"retry-after": f"{fail.retry_after:g}"}
        document = {"type": "error", "error": {"type": kind, "message": fail.message or message}}
        self._send(fail.status, document, headers)

    def _send(self, status: int, document: Mapping[str, Any] | bytes, headers: Mapping[str, str] | None = None) -> None:
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("request-id", f"req_{next(_ids)}")
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    def _begin(self, usage: Usage, model: str = "claude-sonnet-5") -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", f"req_{next(_ids)}")
        self.end_headers()
        self.event("message_start", {"message": _message(model, [], None, usage.document() | {"output_tokens": 1})})

    def _stream(
        self,
        request: Request,
        blocks: Sequence[Say | Use],
        usage: Usage | None,
        *,
        begun: bool = False,
        cut: bool = False,
    ) -> None:
        reckoned = usage or Usage(input_tokens=len(request.body) // 4)
        model = str(request.document.get("model", ""))
        content = [_block(block, request) for block in blocks]
        reason = "tool_use" if any(isinstance(block, Use) for block in blocks) else "end_turn"
        if not request.document.get("stream"):
            self._send(200, _message(model, content, reason, reckoned.document()))
            return
        if not begun:
            self._begin(reckoned, model)
        for index, block in enumerate(content):
            if block["type"] == "text":
                start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                start = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            self.event("content_block_start", {"index": index, "content_block": start})
            self.event("content_block_delta", {"index": index, "delta": delta})
            self.event("content_block_stop", {"index": index})
        if cut:
            self.abort()
            return
        ending = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": reckoned.document()}
        self.event("message_delta", ending)
        self.event("message_stop", {})


def _message(model: str, content: list[dict[str, Any]], reason: str | None, usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": f"msg_{next(_ids)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": dict(usage),
    }


def _block(block: Say | Use, request: Request) -> dict[str, Any]:
    if isinstance(block, Say):
        return {"type": "text", "text": block.text}
    given = block.arguments
    arguments = given(_exchange(_talks(request.document["messages"]))) if callable(given) else given
    name = _full_name(block.tool, request.tools)
    return {"type": "tool_use", "id": f"toolu_{next(_ids)}", "name": name, "input": dict(arguments)}


def _full_name(tool: str, offered: Sequence[str]) -> str:
    """A tool's name as the request has it: the protocol's come with their server's name before them."""
    return next((name for name in offered if name.rpartition("__")[2] == tool), tool)
