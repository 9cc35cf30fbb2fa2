"""A harness for the Claude runner: a workspace, a scripted API, and the real CLI behind the real boundary."""

from __future__ import annotations

import contextlib
import json
import queue
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from parley.ports.turns import Called, Ended, Order, Progress, Runner, Site, TurnEvent
from parley.runners.claude import claude_runner
from parley.runners.claude.system_prompt import RolePrompt, bare_prompt
from parley.sandbox import Boundary
from parley.settings.schema import ClaudeSettings
from parley.workflow.paths.claims import refuse_at
from tests.apis.messages import MessagesAPI, Script

KEY = "sk-planted-0123456789"
TOOLS = ("Send", "CloseConversation", "AskQuestion")
ROLE = {
    "name": "coder",
    "prompt": "You write code.",
    "tools": ["Read", "Edit", "Write", "Bash", *TOOLS],
}
SECONDS = 30.0
FROM = "[MESSAGE] project-lead:\n"


def order_of(job: str, turn: str, message: str, workspace: str, home: str, handle: str) -> Order:
    """A coder's turn."""
    return Order(
        turn=turn,
        job=job,
        epoch=1,
        token=turn.replace("t", "token"),
        agent="coder",
        thread="dispatch:d1",
        message=message,
        message_id=turn.replace("t", "m"),
        sender="project-lead",
        state="EXECUTE",
        visit=1,
        site=Site(workspace),
        home=home,
        handle=handle,
        may_ask=False,
        time_limit_seconds=SECONDS,
        tools=TOOLS,
        runner="claude",
        role=json.dumps(ROLE),
    )


class ClaudeHarness:
    """One instance and its runner."""

    def __init__(
        self,
        root: Path,
        api: MessagesAPI,
        boundary: Boundary,
        idle_seconds: float = 600.0,
        prompt: RolePrompt = bare_prompt,
        **settings: Any,
    ) -> None:
        self.prompt = prompt
        self.api = api
        self.boundary = boundary
        self.root = root
        self.idle_seconds = idle_seconds
        self.settings = ClaudeSettings(**{"max_retries": 1, **settings})
        self.workspace = root / "work"
        self.home = root / "home"
        for folder in (self.workspace, self.home):
            folder.mkdir(parents=True, exist_ok=True)
            boundary.hand_over(folder)
        self.environment = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}
        self.runner: Runner = self.new_runner()
        self.events: queue.SimpleQueue[TurnEvent] = queue.SimpleQueue()
        self.told: list[TurnEvent] = []
        self.handle = ""
        self.count = 0
        self.job = f"j{uuid.uuid4().hex}"

    def new_runner(self) -> Runner:
        return claude_runner(
            self.settings,
            self.boundary,
            self.environment,
            prompt=self.prompt,
            judge=refuse_at,
            idle_seconds=self.idle_seconds,
        )

    def another_home(self) -> Path:
        home = self.root / f"home{self.count}"
        home.mkdir()
        self.boundary.hand_over(home)
        return home

    def prompts(self) -> list[str]:
        """The messages to the instance, each without the line that names its sender."""
        return [text.removeprefix(FROM) for text in self.api.prompts()]

    def order(self, message: str, **changes: Any) -> Order:
        self.count += 1
        order = order_of(self.job, f"t{self.count}", message, str(self.workspace), str(self.home), self.handle)
        return replace(order, **changes)

    def start(self, message: str, **changes: Any) -> Order:
        order = self.order(message, **changes)
        self.runner.start(order, self.events.put)
        return order

    def next(self) -> TurnEvent:
        event = self.events.get(timeout=SECONDS)
        self.told.append(event)
        return event

    def play(
        self, message: str, answer: Callable[[Called], tuple[bool, str]] = lambda _: (True, "taken"), **changes: Any
    ) -> Ended:
        """Run a turn to its end and keep its handle, as the engine does."""
        self.start(message, **changes)
        while not isinstance(event := self.next(), Ended):
            if isinstance(event, Called):
                ok, text = answer(event)
                self.runner.reply(event.job, event.turn, event.number, ok, text, {})
        if not event.fault:
            self.handle = event.handle
        return event

    def processes(self, mark: str = "") -> list[int]:
        """The living processes of this stage's cages, whose command line holds a text."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"PARLEY_TURN={self.job}/".encode() not in (entry / "environ").read_bytes():
                    continue
                if mark.encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                    found.append(int(entry.name))
        return found

    @property
    def calls(self) -> list[Called]:
        return [event for event in self.told if isinstance(event, Called)]

    @property
    def progress(self) -> list[str]:
        return [event.text for event in self.told if isinstance(event, Progress) and not event.over]

    def results(self) -> list[str]:
        """What the tools answered, as the model got it in its last request."""
        found = []
        for message in self.api.requests[-1].document["messages"]:
            content = message["content"]
            for block in content if isinstance(content, list) else ():
                if block["type"] == "tool_result":
                    inner = block.get("content", "")
                    found.append(inner if isinstance(inner, str) else "\n".join(part.get("text", "") for part in inner))
        return found


@contextlib.contextmanager
def claude_harness(root: Path, boundary: Boundary, script: Script, **settings: Any) -> Iterator[ClaudeHarness]:
    with MessagesAPI(script, key=KEY) as api:
        stage = ClaudeHarness(root, api, boundary, **settings)
        try:
            yield stage
        finally:
            stage.runner.close()


def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)
