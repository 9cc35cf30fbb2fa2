"""A Messages API on loopback that plays a script in place of a model, and fails as the real one does.

    script = Script({"coder": [Turn("hello", [Use("Write", {…}), Use("Send", {…}), Say("done")])]})
    with MessagesAPI(script) as api:
        ...  # ANTHROPIC_BASE_URL=api.url

For each agent a list of turns, as in a playbook: the first whose pattern is found in the newest message acts,
once in a conversation unless it repeats. Each `Use` ends a response; its result comes with the next request, and the
script goes on behind it. What to say is worked out from the request alone, which holds the whole conversation: so
an agent that was killed and resumed from its session gets the same answers again. Only failures are counted here.

The agent is known by the line `You are NAME` of its system prompt. A request without tools is a side request.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, ClassVar, Self

ALWAYS = 1 << 30
_AGENT = re.compile(r"^You are (?!an? |the )`?([A-Za-z0-9_-]+)", re.MULTILINE)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_INTERRUPTED = re.compile(r"\[Request interrupted by user")
_ids = count(1)


# ---- what a script says --------------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    """Some text."""

    text: str


@dataclass(frozen=True)
class Use:
    """A tool call. A tool of the protocol's may be named as the protocol names it.

    Arguments that depend on what was said so far are given as a function of the Exchange.
    """

    tool: str
    arguments: Mapping[str, Any] | Callable[[Exchange], Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Together:
    """Several tool calls in one response."""

    uses: tuple[Use, ...]

    def __init__(self, *uses: Use) -> None:
        object.__setattr__(self, "uses", uses)


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


@dataclass(frozen=True)
class Drop:
    """The connection breaks in the middle of a response."""

    times: int = ALWAYS


@dataclass(frozen=True)
class Malformed:
    """A response with an event that is no JSON."""

    times: int = ALWAYS


@dataclass(frozen=True)
class Slow:
    """The response takes its time, with pings; then it comes."""

    seconds: float
    times: int = ALWAYS


Trouble = Fail | Drop | Malformed | Slow
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
        for text in (*reversed(self.earlier), *reversed(self.prompts)):
            if found := re.findall(pattern, text):
                return str(found[-1])
        raise LookupError(f"{pattern} is nowhere in this conversation")


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


def _talks(messages: Sequence[Mapping[str, Any]]) -> list[_Talk]:
    talks: list[_Talk] = []
    over = True  # what comes next is another message, and not more of the same
    for message in messages:
        if message.get("role") == "assistant":
            over = True
            if talks:
                talks[-1].answers += 1
        elif message.get("role") == "user":
            results = list(_results_of(message))
            if results and talks:
                talks[-1].results += results
            remarks = bool(results)
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


@dataclass(frozen=True)
class _Step:
    """One response: what goes wrong before it, then its blocks."""

    troubles: tuple[Trouble, ...]
    blocks: tuple[Say | Use, ...]


def _steps(blocks: Sequence[Block]) -> list[_Step]:
    steps: list[_Step] = []
    troubles: list[Trouble] = []
    said: list[Say | Use] = []
    for block in blocks:
        if isinstance(block, Trouble):
            troubles.append(block)
        elif isinstance(block, Say):
            said.append(block)
        else:
            uses = block.uses if isinstance(block, Together) else (block,)
            steps.append(_Step(tuple(troubles), (*said, *uses)))
            troubles, said = [], []
    steps.append(_Step(tuple(troubles), tuple(said) or (Say("Done."),)))
    return steps


class MessagesAPI:
    """The server. Every request is kept in `requests`, side requests in `asides`."""

    def __init__(self, script: Script, *, key: str = "") -> None:
        self.script = script
        self.key = key  # if given, a request without it is refused
        self.requests: list[Request] = []
        self.asides: list[Request] = []
        self.refused: list[Request] = []
        self._spent: Counter[tuple[object, ...]] = Counter()
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.api = self  # type: ignore[attr-defined]  # how the handler finds the script
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What ANTHROPIC_BASE_URL is to be."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def of(self, agent: str) -> list[Request]:
        """An agent's requests, in order."""
        return [request for request in self.requests if request.agent == agent]

    def prompts(self, number: int = -1) -> list[str]:
        """The messages to the agent in the conversation of a request, the last one's unless said otherwise."""
        return [talk.prompt for talk in _talks(self.requests[number].document["messages"])]

    def plan(self, request: Request) -> tuple[_Step, Usage | None, tuple[object, ...]]:
        """What is to be answered; the last value names this place in the script."""
        talks = _talks(request.document["messages"])
        turns = self.script.agents.get(request.agent, ())
        used: set[int] = set()
        found: int | None = None
        for talk in talks:
            matching = (
                number
                for number, turn in enumerate(turns)
                if (number not in used or turn.repeat) and re.search(turn.match, talk.prompt)
            )
            found = next(matching, None)
            if found is not None:
                used.add(found)
        if found is None:
            return _Step((), (Say(self.script.otherwise),)), None, ()
        turn, talk = turns[found], talks[-1]
        blocks = turn.blocks(_exchange(talks)) if callable(turn.blocks) else turn.blocks
        steps = _steps(blocks)
        number = min(talk.answers, len(steps) - 1)
        return steps[number], turn.usage, (request.agent, found, number)

    def trouble(self, step: _Step, place: tuple[object, ...]) -> list[Trouble]:
        """What goes wrong this time; spent when it is taken."""
        wrong = []
        with self._lock:
            for order, trouble in enumerate(step.troubles):
                if self._spent[*place, order] < trouble.times:
                    self._spent[*place, order] += 1
                    wrong.append(trouble)
                    if not isinstance(trouble, Slow):
                        break
        return wrong


def _exchange(talks: Sequence[_Talk]) -> Exchange:
    return Exchange(
        talks[-1].prompt,
        tuple(talk.prompt for talk in talks),
        tuple(talks[-1].results),
        tuple(result for talk in talks for result in talk.results),
    )


class _Handler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server_version = "scripted"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""

    @property
    def api(self) -> MessagesAPI:
        return self.server.api  # type: ignore[attr-defined,no-any-return]  # set where the server is made

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        self._send(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            document = json.loads(body)
        except ValueError:
            self._fail(Fail(400, "not JSON"))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body, document, time.monotonic())
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
                    self._abort()
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
        self._stream(request, step.blocks, usage)

    def _wait(self, seconds: float) -> bool:
        """Let time pass with pings; whether the client is still there."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.api.closing.wait(min(left, 0.25)):
                return False
            self._event("ping", {})
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

    def _abort(self) -> None:
        """Break the connection, so that the other side sees it as broken."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()

    def _event(self, kind: str, document: Mapping[str, Any]) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **document})}\n\n".encode())
        self.wfile.flush()

    def _begin(self, usage: Usage, model: str = "claude-sonnet-5") -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", f"req_{next(_ids)}")
        self.end_headers()
        self._event("message_start", {"message": _message(model, [], None, usage.document() | {"output_tokens": 1})})

    def _stream(
        self, request: Request, blocks: Sequence[Say | Use], usage: Usage | None, *, begun: bool = False
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
            self._event("content_block_start", {"index": index, "content_block": start})
            self._event("content_block_delta", {"index": index, "delta": delta})
            self._event("content_block_stop", {"index": index})
        ending = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": reckoned.document()}
        self._event("message_delta", ending)
        self._event("message_stop", {})


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
