"""The walk of one message, watched: a real `parley run` with scripted agents, up to the first transition.

A way-point is a function that a message has to pass whatever the engine looks like: a rule of the protocol, or a
method of a port. What lies on the way to each is observed: the functions of ours that were being called when it was
reached. Where one of them is renamed or moved, the walk shows it; where a way-point is not reached, there is no walk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from parley.bus.store import Store
from parley.cli.main import main as parley
from parley.ports.turns import Runner, Turns
from parley.ports.workspaces import Workspace
from parley.protocol import RULES
from parley.protocol.conversation import Admission
from parley.sandbox.boundary import Boundary
from tools.map.modules import PACKAGE, SOURCE, functions, tree_of

REQUEST = "Say hello"
PLAYBOOK = r"""
human:
  - {match: INTENT, verdict: approve, text: "Yes."}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{send: {to: researcher, as: look, text: "What is here?"}}]
    - match: 'an empty repository'
      do:
        - {close: {thread: look}}
        - {write: {path: INTENT.md, text: "A program that says hello.\n"}}
        - {assert: {artifact: INTENT.md, text: "Is this what you mean?"}}
    - match: '\[ANSWER approve\]'
      do: [{outcome: {outcome: APPROVED_INTENT, reason: "the human approved it"}}]
  researcher:
    - match: 'What is here'
      do: [{say: "an empty repository"}]
  project-lead:
    - match: '\[PLAN\]'
      do: [{ask: {text: "Shall I go on?"}}]
"""


class WayPoint(NamedTuple):
    """Something that has to happen to the message, and the function that does it."""

    happens: str
    function: Callable[..., Any]


WAY = (
    WayPoint("The command makes the job known to the bus", Store.create),
    WayPoint("The request becomes the first molecules of the soup: [open]", RULES["open"].react),
    WayPoint("The orchestrator sends it to the lead of INTENT: [spark]", RULES["spark"].react),
    WayPoint("The lead is woken by it: [wake]", RULES["wake"].react),
    WayPoint("All of this is one transaction", Store.commit),
    WayPoint("After the commit the lead's turn is put out", Turns.submit),
    WayPoint("The runner of its role takes the turn", Runner.start),
    WayPoint("The runner starts the agent in a cage", Boundary.launch),
    WayPoint("The agent calls Send, and the protocol says whether it may", Admission.admit),
    WayPoint("The agent ends its turn, and its worktree is kept", Workspace.snapshot),
    WayPoint("What it sends leaves its hands: [send-step]", RULES["send-step"].react),
    WayPoint("The message opens a conversation with another agent: [spark]", RULES["spark"].react),
    WayPoint("That agent is woken by it: [wake]", RULES["wake"].react),
    WayPoint("That agent's report goes back: [send]", RULES["send"].react),
    WayPoint("The lead asserts INTENT.md, and the proxy is woken for it: [send-ask]", RULES["send-ask"].react),
    WayPoint("The proxy has looked at it, and it is put before the human: [escalate]", RULES["escalate"].react),
    WayPoint("The human's approval goes to the lead: [respond]", RULES["respond"].react),
    WayPoint("The lead ends its last turn, and its outcome record is read", Workspace.read_outcome),
    WayPoint("The orchestrator weighs the outcome, and PLAN is next: [transition]", RULES["transition"].react),
)  # fmt: skip


class Place(NamedTuple):
    """A function of ours, as the page shows it."""

    file: str
    function: str
    summary: str


class Stage(NamedTuple):
    """A way-point, with the functions that led to it, the outermost first."""

    happens: str
    apart: bool  # in another thread than the command's
    places: tuple[Place, ...]


class Unreached(Exception):
    """The message did not come to a way-point: the map can't be drawn."""


class Watcher:
    """Follows the way-points in their order, from whatever thread each is reached."""

    def __init__(self, way: Sequence[WayPoint]) -> None:
        self._way = way
        self._seen: list[Stage] = []

    def look(self, frame: FrameType, event: str, argument: object) -> None:
        """A function is called: note the way that led there, if it is the next way-point."""
        if event != "call" or len(self._seen) == len(self._way):
            return
        point = self._way[len(self._seen)]
        if is_call_of(frame, point.function):
            apart = threading.current_thread() is not threading.main_thread()
            self._seen.append(Stage(point.happens, apart, tuple(map(place_of, ours(frame)))))

    def stages(self) -> list[Stage]:
        """What was seen."""
        if len(self._seen) < len(self._way):
            missed = self._way[len(self._seen)]
            raise Unreached(f"the message never came to {missed.function.__qualname__}: {missed.happens}")
        return self._seen

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See every call of this thread, and of those that begin meanwhile."""
        threading.setprofile(self.look)
        sys.setprofile(self.look)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def is_call_of(frame: FrameType, function: Callable[..., Any]) -> bool:
    """Whether a frame is a call of a function; of a port's method, by what implements the port."""
    if frame.f_code is function.__code__:
        return True
    if frame.f_code.co_name != function.__name__ or "self" not in frame.f_locals:
        return False
    port = getattr(sys.modules[function.__module__], function.__qualname__.partition(".")[0], None)
    given = type(frame.f_locals["self"])
    return getattr(port, "_is_protocol", False) and all(
        hasattr(given, name) for name in vars(port) if not name.startswith("_")
    )


def ours(frame: FrameType) -> list[CodeType]:
    """The functions of Parley's that are being called, the outermost first, without lambdas and inner functions."""
    found: list[CodeType] = []
    at: FrameType | None = frame
    while at is not None:
        code = at.f_code
        if code.co_filename.startswith(f"{SOURCE / PACKAGE}{os.sep}") and "<" not in code.co_qualname:
            found.append(code)
        at = at.f_back
    return found[::-1]


def place_of(code: CodeType) -> Place:
    """Where a function is, and what it says of itself; a rule says what it does in its notation."""
    file = Path(code.co_filename)
    rule = next((rule for rule in RULES.values() if rule.react.__code__ is code), None)
    summary = f"`{rule.shape}`" if rule is not None else functions(tree_of(file).body).get(code.co_qualname, "")
    return Place(file.relative_to(SOURCE).as_posix(), code.co_qualname, summary)


def walk() -> list[Stage]:
    """Run the job and watch it. For a process of its own: the command leaves its marks in this one."""
    watcher = Watcher(WAY)
    with tempfile.TemporaryDirectory(prefix="parley-map-") as name, Path(os.devnull).open("w") as nowhere:
        place = Path(name)
        for variable in ("HOME", "PARLEY_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            os.environ[variable] = str(place / variable.lower())
        (place / "home").mkdir()
        playbook, repository = place / "playbook.yaml", place / "repository"
        playbook.write_text(PLAYBOOK, encoding="utf-8")
        subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
        with redirect_stdout(nowhere), watcher.watching():
            parley(["run", REQUEST, "--playbook", str(playbook), "--repo", str(repository)])
    return watcher.stages()
