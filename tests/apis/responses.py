"""A Responses API on loopback that plays a script in place of a model, and fails as the real one does.

    script = Script({"coder": [Turn("hello", [Use("exec_command", {…}), Use("Send", {…}), Say("done")])]})
    with ResponsesAPI(script) as api:
        ...  # the client's base URL is api.url + "/v1"

The agent is known by the line `You are NAME` of its instructions, where the script knows that name.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.apis.script import (
    ALWAYS,
    Drop,
    Malformed,
    Say,
    ScriptedAPI,
    ScriptedHandler,
    Slow,
    Step,
    Use,
    acting,
    last_found,
    steps,
)

PATH = "/v1/responses"
CODE = "exec"
_AGENT = re.compile(r"^You are `?([A-Za-z0-9_-]+)", re.MULTILINE)
_CONTEXT = re.compile(r"<(environment_context|user_instructions|permissions)")
_ids = count(1)


# ---- what a script says --------------------------------------------------------------------------


@dataclass(frozen=True)
class Fail:
    """An HTTP error in place of a response, so many times."""

    status: int
    message: str = ""
    retry_after: float | None = None
    code: str = ""
    times: int = ALWAYS


def rate_limited(seconds: float, times: int = ALWAYS) -> Fail:
    """The provider's limit is reached, and it says for how long."""
    text = f"Rate limit reached for requests. Please try again in {seconds:g}s."
    return Fail(status=429, message=text, retry_after=seconds, code="rate_limit_exceeded", times=times)


@dataclass(frozen=True)
class Failed:
    """A stream that begins well and ends with `response.failed`."""

    code: str
    message: str
    times: int = ALWAYS


def too_long(times: int = ALWAYS) -> Failed:
    """The context is longer than the model takes."""
    return Failed("context_length_exceeded", "Your input exceeds the context window of this model.", times)


Trouble = Fail | Failed | Drop | Malformed | Slow
Block = Say | Use | Trouble


@dataclass(frozen=True)
class Turn:
    """What an agent does when it gets a message in which the pattern is found."""

    match: str
    blocks: Sequence[Block]
    repeat: bool = False


@dataclass(frozen=True)
class Script:
    """All agents' turns, and how a request is answered that fits none."""

    agents: Mapping[str, Sequence[Turn]]
    otherwise: str = "Nothing to do."


# ---- what a request shows ------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    document: Mapping[str, Any]
    agent: str = ""

    @property
    def tools(self) -> list[tuple[str, str]]:
        """The tools that the model is offered: namespace (often none) and name."""
        listed = list(self.document.get("tools") or ())
        for item in self.document.get("input") or ():
            if item.get("type") == "additional_tools":
                listed += item["tools"]
        found = []
        for tool in listed:
            if tool.get("type") == "namespace":
                found += [(tool["name"], inner["name"]) for inner in tool.get("tools", ())]
            else:
                found.append(("", str(tool.get("name") or tool.get("type"))))
        return found


@dataclass
class Exchange:
    """One message to the agent, and what has come of it so far."""

    prompt: str
    answers: int = 0
    results: list[str] = field(default_factory=list)
    earlier: tuple[str, ...] = ()  # all that was said to the agent before

    def last(self, pattern: str) -> str:
        """What a pattern last found in a tool's result or a message, e.g. a thread's id."""
        return last_found(pattern, (*reversed(self.results), self.prompt, *reversed(self.earlier)))


def text_of(item: Mapping[str, Any]) -> str:
    """A message's or a tool output's text."""
    content = item.get("content", item.get("output")) or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


def exchanges(items: Sequence[Mapping[str, Any]]) -> list[Exchange]:
    """The conversation, message by message. One response may be several items that follow each other."""
    found: list[Exchange] = []
    answering = False
    for item in items:
        if item.get("role") == "user":
            text = text_of(item)
            if not _CONTEXT.search(text):
                said = tuple(part for exchange in found for part in (exchange.prompt, *exchange.results))
                found.append(Exchange(text, earlier=said))
            answering = False
        elif item.get("role") == "assistant" or item.get("type") in ("function_call", "custom_tool_call"):
            if found and not answering:
                found[-1].answers += 1
            answering = True
        elif item.get("type") in ("function_call_output", "custom_tool_call_output") and found:
            found[-1].results.append(text_of(item))
            answering = False
    return found


# ---- what is answered ----------------------------------------------------------------------------


class ResponsesAPI(ScriptedAPI):
    """The server. Every request is kept in `requests`; what it would not take, in `refused`."""

    def __init__(self, script: Script, *, key: str = "") -> None:
        self.handler = _Handler
        super().__init__(key)
        self.script = script
        self.requests: list[Request] = []
        self.refused: list[Request] = []

    def of(self, agent: str) -> list[Request]:
        """An agent's requests, in order."""
        return [request for request in self.requests if request.agent == agent]

    def whose(self, document: Mapping[str, Any]) -> str:
        """The agent that a request is from: the last of its instructions that names one."""
        said = [str(document.get("instructions") or "")]
        said += [text_of(item) for item in document.get("input") or () if item.get("role") == "developer"]
        names = [name for text in said for name in _AGENT.findall(text) if name in self.script.agents]
        return names[-1] if names else ""

    def plan(self, request: Request) -> tuple[Step, Exchange, tuple[object, ...]]:
        """What is to be answered; the last value names this place in the script."""
        talks = exchanges(request.document.get("input") or ())
        turns = self.script.agents.get(request.agent, ())
        found = acting(turns, (talk.prompt for talk in talks))
        if found is None:
            return Step((), (Say(self.script.otherwise),)), Exchange(""), ()
        responses = steps(turns[found].blocks)
        number = min(talks[-1].answers, len(responses) - 1)
        return responses[number], talks[-1], (request.agent, found, number)


class _Handler(ScriptedHandler):
    """One connection, one request."""

    @property
    def api(self) -> ResponsesAPI:
        return self.server.api  # type: ignore[attr-defined,no-any-return]  # set where the server is made

    def do_GET(self) -> None:  # noqa: N802 - the base class names it so
        self._fail(Fail(404, self.path, code="not_found"))

    def do_POST(self) -> None:  # noqa: N802 - the base class names it so
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            document = json.loads(body)
        except ValueError:
            self._fail(Fail(400, "not JSON", code="invalid_request"))
            return
        request = Request(path=self.path, headers=headers, body=body, document=document, agent=self.api.whose(document))
        if self.path.partition("?")[0] != PATH:
            self.api.refused.append(request)
            self.do_GET()
        elif self.api.key and headers.get("authorization") != f"Bearer {self.api.key}":
            self.api.refused.append(request)
            self._fail(Fail(401, "Incorrect API key provided.", code="invalid_api_key"))
        else:
            with contextlib.suppress(OSError):
                self._answer(request)

    def _answer(self, request: Request) -> None:
        step, talk, place = self.api.plan(request)
        self.api.requests.append(request)
        for trouble in self.api.trouble(step, place):
            match trouble:
                case Fail():
                    self._fail(trouble)
                    return
                case Failed():
                    response = self._begin()
                    error = {"code": trouble.code, "message": trouble.message}
                    self.event("response.failed", {"response": response | {"status": "failed", "error": error}})
                    return
                case Drop():
                    self._begin()
                    self.abort()
                    return
                case Malformed():
                    self._begin()
                    self.wfile.write(b'event: response.output_item.added\ndata: {"type": "response.outp\n\n')
                    return
                case Slow(seconds=seconds):
                    if self.api.closing.wait(seconds):
                        return
                case _:
                    raise AssertionError(trouble)
        self._stream(request, step, talk)

    def _fail(self, fail: Fail) -> None:
        headers = {} if fail.retry_after is None else {"retry-after": f"{fail.retry_after:g}"}
        code = fail.code or "server_error"
        error = {"message": fail.message or "The server had an error.", "type": code, "param": None, "code": code}
        data = json.dumps({"error": error}).encode()
        with contextlib.suppress(OSError):
            self.send_response(fail.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    def _begin(self) -> dict[str, Any]:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        response = {"id": f"resp_{next(_ids)}", "object": "response", "created_at": int(time.time()), "output": []}
        self.event("response.created", {"response": response | {"status": "in_progress"}})
        return response

    def _stream(self, request: Request, step: Step, talk: Exchange) -> None:
        response = self._begin()
        items = []
        for index, block in enumerate(step.blocks):
            item = _item(block, request, talk)
            self.event("response.output_item.added", {"output_index": index, "item": item})
            if isinstance(block, Say):
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                self.event("response.output_text.delta", place | {"delta": block.text})
            self.event("response.output_item.done", {"output_index": index, "item": item})
            items.append(item)
        usage = {
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 200},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 1050,
        }
        ending = response | {"status": "completed", "output": items, "usage": usage}
        self.event("response.completed", {"response": ending})


def _item(block: Say | Use, request: Request, talk: Exchange) -> dict[str, Any]:
    number = next(_ids)
    if isinstance(block, Say):
        content = [{"type": "output_text", "text": block.text, "annotations": []}]
        return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": content}
    arguments = json.dumps(dict(block.arguments(talk) if callable(block.arguments) else block.arguments))
    namespace, name = _full_name(block.tool, request.tools)
    call = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
    if namespace:
        call["namespace"] = namespace
    if name == CODE and block.tool != CODE:  # this model calls its tools from a program that it writes
        program = f"text(await tools.{block.tool}({arguments}));"
        return call | {"type": "custom_tool_call", "input": program}
    return call | {"type": "function_call", "arguments": arguments}


def _full_name(tool: str, offered: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """A tool's name as it is offered: `Send` may be so called, or stand in a server's namespace."""
    for namespace, name in offered:
        if tool == name or name.endswith(f"__{tool}"):
            return namespace, name
    return next((one for one in offered if one[1] == CODE), ("", tool))
