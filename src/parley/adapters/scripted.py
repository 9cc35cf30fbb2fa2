"""The scripted agent: plays an agent's rules of a playbook, with no model and no key.

Two layers. `play` is pure: it yields what the agent wants done and takes what came of it. `main` is the
process around it: one JSON object a line on standard input and output, effects carried out in the workspace.

A process is started for every turn, so this module imports only what starts fast: no YAML, no dataclasses, no
subprocess. Rules come as plain JSON, in the very form that a playbook has.
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import stat
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

OUTCOME_PATH = ".parley/outcome.json"
DISPATCHER = "dispatcher"
PROGRESS_LIMIT = 2000
NO_ANSWER = "no answer: the policy does not allow asking the human"

EXIT_OK = 0
EXIT_ENGINE_GONE = 1
EXIT_BAD_ORDER = 2

_STDIN = 0
_STDOUT = 1
_STDERR = 2
_CHUNK = 65536
_POLL_SECONDS = 0.05
_LONGEST_SELECT = 3600.0
_LONGEST_SLEEP = 1e9
_COMMAND_SHOWN = 200


class Write(NamedTuple):
    """Write a file of the workspace."""

    path: str
    text: str


class Shell(NamedTuple):
    """Run a command in the workspace."""

    command: str


class Call(NamedTuple):
    """Call a tool of the protocol."""

    tool: str
    args: dict[str, Any]


class Sleep(NamedTuple):
    """Do nothing for a while."""

    seconds: float


class Crash(NamedTuple):
    """Die by a signal."""

    signal: int


Effect = Write | Shell | Call | Sleep | Crash


class Reply(NamedTuple):
    """What came of an effect; not ok is a refusal and `text` its reason."""

    ok: bool
    text: str
    data: dict[str, Any]


class Order(NamedTuple):
    """One turn to play: whose, by which rules, on which message, with what the instance remembers."""

    agent: str
    rules: tuple[dict[str, Any], ...] | None
    """None is the proxy without rules: it asks the human if it may, and passes the verdict on."""
    message: str
    state: str
    visit: int
    handle: dict[str, Any]
    may_ask: bool = False
    default: str = ""
    """The turn's final text where no rule is found."""


class Ending(NamedTuple):
    """How the turn ended: its final text, what the instance remembers, what was refused on the way."""

    text: str
    handle: dict[str, Any]
    refusals: tuple[str, ...]


class OrderError(ValueError):
    """The order can't be played; the message is one line that says why."""


class EngineGoneError(Exception):
    """The other end of the pipes is closed: nobody wants this turn any more."""


# The player


def play(order: Order) -> Generator[Effect, Reply, Ending]:
    """Play one turn. The same order and the same replies give the same effects."""
    player = _Player(order.handle)
    if order.rules is None:
        yield from player.pass_on(order)
        return Ending(player.text, order.handle, tuple(player.refusals))
    index = _find(order, order.rules, player.used)
    if index is None:
        return Ending(order.default, order.handle, ())
    rule = order.rules[index]
    if not rule.get("repeat", False):
        player.used.append(index)
    for action in rule["do"]:
        for name, value in action.items():
            yield from _ACTIONS[name](player, value)
    return Ending(player.text, player.handle(), tuple(player.refusals))


def _find(order: Order, rules: tuple[dict[str, Any], ...], used: list[int]) -> int | None:
    """The index of the first rule that fits and is not used up."""
    for index, rule in enumerate(rules):
        if index in used or rule.get("state") not in (None, order.state):
            continue
        if rule.get("visit") not in (None, order.visit):
            continue
        try:
            if re.search(rule["match"], order.message):
                return index
        except (re.error, RecursionError, OverflowError) as error:
            raise OrderError(
                f"rule {index + 1} of {order.agent}: 'match' is not a regular expression ({error})"
            ) from error
    return None


_QUESTION = "[QUESTION]"
_VERDICTS = ("approve", "revise", "backtrack intent", "backtrack plan", "withdraw")
# A table and not a pattern: compiling one costs more than the rest of this module's start.
_HUMAN_MARKS: dict[str, dict[str, Any]] = {
    "[HUMAN]": {},
    **{f"[HUMAN {verdict}]": {"verdict": verdict} for verdict in _VERDICTS},
}


class _Player:
    """What one turn keeps track of while its actions are played."""

    def __init__(self, handle: Mapping[str, Any]) -> None:
        self.used: list[int] = list(handle.get("used", ()))
        self.names: dict[str, str] = dict(handle.get("names", {}))
        self.opened: dict[str, list[str]] = {to: list(ids) for to, ids in handle.get("opened", {}).items()}
        self.text = ""
        self.refusals: list[str] = []

    def handle(self) -> dict[str, Any]:
        """What the instance remembers; a closed thread is no longer among the opened ones."""
        return {"used": self.used, "names": self.names, "opened": self.opened}

    def perform(self, effect: Effect) -> Generator[Effect, Reply, Reply]:
        """Yield an effect and keep its refusal; a refusal never stops the play."""
        reply = yield effect
        if not reply.ok:
            self.refusals.append(reply.text)
        return reply

    def call(self, tool: str, args: dict[str, Any]) -> Generator[Effect, Reply, Reply]:
        """Call a tool."""
        return (yield from self.perform(Call(tool, args)))

    def thread(self, name: str) -> str | None:
        """The thread that a playbook calls by this name; None, and a refusal, if there is none.

        A colon is only in the protocol's own thread ids: these go out as they are, so that a playbook can try
        one that it must not see.
        """
        if name == DISPATCHER or ":" in name:
            return name
        if name in self.names:
            return self.names[name]
        return self.newest(name)

    def newest(self, to: str) -> str | None:
        """The newest open thread to this recipient; None, and a refusal, if there is none."""
        threads = self.opened.get(to)
        if threads:
            return threads[-1]
        self.refusals.append(f"no thread is named {to!r} and none to {to!r} is open: send to it first")
        return None

    def write(self, value: Mapping[str, Any]) -> Generator[Effect, Reply, None]:
        yield from self.perform(Write(value["path"], value["text"]))

    def shell(self, value: str) -> Generator[Effect, Reply, None]:
        yield from self.perform(Shell(value))

    def send(self, value: Mapping[str, Any]) -> Generator[Effect, Reply, None]:
        if "to" in value:
            yield from self.open(value["to"], value.get("as"), value["text"])
            return
        thread = self.thread(value["thread"])
        if thread is not None:
            yield from self.call("Send", {"thread": thread, "text": value["text"]})

    def open(self, to: str, name: str | None, text: str) -> Generator[Effect, Reply, None]:
        """Send to a recipient: always a new thread."""
        reply = yield from self.call("Send", {"to": to, "text": text})
        if not reply.ok:
            return
        thread = reply.data.get("thread")
        if not isinstance(thread, str):
            self.refusals.append(f"the reply to Send to {to!r} names no thread")
            return
        self.opened.setdefault(to, []).append(thread)
        if name is not None:
            self.names[name] = thread

    def close(self, value: Mapping[str, Any]) -> Generator[Effect, Reply, None]:
        thread = self.newest(value["to"]) if "to" in value else self.thread(value["thread"])
        if thread is None:
            return
        reply = yield from self.call("CloseConversation", {"thread": thread})
        if reply.ok:
            self.opened = {to: [t for t in threads if t != thread] for to, threads in self.opened.items()}

    def ask(self, value: Mapping[str, Any]) -> Generator[Effect, Reply, None]:
        yield from self.call("AskQuestion", {"text": value["text"], "kind": "question"})

    def assert_artifact(self, value: Mapping[str, Any]) -> Generator[Effect, Reply, None]:
        args = {"text": value["text"], "kind": "assert", "artifact": value["artifact"]}
        yield from self.call("AskQuestion", args)

    def ask_human(self, value: str) -> Generator[Effect, Reply, None]:
        yield from self.call("AskHuman", {"text": value})

    def answer(self, value: Mapping[str, Any]) -> Generator[Effect, Reply, None]:
        yield from self.call("Answer", dict(value))

    def note(self, value: Mapping[str, Any]) -> Generator[Effect, Reply, None]:
        yield from self.call("Note", dict(value))

    def outcome(self, value: Mapping[str, Any] | str) -> Generator[Effect, Reply, None]:
        """Write the outcome record; a string goes there as it is, to try what a broken one does."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) + "\n"
        yield from self.perform(Write(OUTCOME_PATH, text))

    def sleep(self, value: float) -> Generator[Effect, Reply, None]:
        yield from self.perform(Sleep(value))

    def crash(self, value: int) -> Generator[Effect, Reply, None]:
        yield from self.perform(Crash(value))

    def say(self, value: str) -> Generator[Effect, Reply, None]:
        """Set the final text; the last one counts. A generator like the others, but it asks for nothing."""
        self.text = value
        yield from ()

    def pass_on(self, order: Order) -> Generator[Effect, Reply, None]:
        """The proxy without rules.

        Only a mark at the very beginning is the human's: a question that quotes one must not answer itself.
        """
        head, end, said = order.message.lstrip().partition("]")
        verdict = _HUMAN_MARKS.get(head + end)
        if verdict is not None:
            yield from self.call("Answer", {"text": said.strip(), "confidence": 1.0, **verdict})
            return
        _, mark, question = order.message.partition(_QUESTION)
        if not mark:
            self.text = order.default
            return
        problem = NO_ANSWER
        if order.may_ask:
            reply = yield from self.call("AskHuman", {"text": question.strip() or order.message})
            if reply.ok:
                return
            problem = f"no answer: {reply.text}"
        yield from self.call("Answer", {"verdict": "revise", "text": problem})


_ACTIONS: dict[str, Callable[[_Player, Any], Generator[Effect, Reply, None]]] = {
    "write": _Player.write,
    "shell": _Player.shell,
    "send": _Player.send,
    "close": _Player.close,
    "ask": _Player.ask,
    "assert": _Player.assert_artifact,
    "note": _Player.note,
    "outcome": _Player.outcome,
    "sleep": _Player.sleep,
    "crash": _Player.crash,
    "say": _Player.say,
    "ask_human": _Player.ask_human,
    "answer": _Player.answer,
}


# The order, as it comes in

_VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "shell": (str,),
    "outcome": (str, dict),
    "sleep": (int, float),
    "crash": (int,),
    "say": (str,),
    "ask_human": (str,),
}
_REQUIRED = {"write": ("path", "text"), "send": ("text",), "ask": ("text",), "assert": ("artifact", "text")}
_ADDRESSED = ("send", "close")


def read_order(data: object) -> Order:
    """Make an order of the first line's JSON; OrderError says what is wrong with it."""
    if not isinstance(data, dict):
        raise OrderError("the order is not a JSON object")
    rules = _field(data, "rules", (list, type(None)))
    for number, rule in enumerate(rules or (), start=1):
        _check_rule(rule, f"rule {number}")
    return Order(
        agent=_field(data, "agent", (str,)),
        rules=None if rules is None else tuple(rules),
        message=_field(data, "message", (str,)),
        state=_field(data, "state", (str,), ""),
        visit=_field(data, "visit", (int,), 1),
        handle=_check_handle(_field(data, "handle", (dict,), {})),
        may_ask=_field(data, "may_ask", (bool,), default=False),
        default=_field(data, "default", (str,), ""),
    )


_MISSING = object()


def _field(data: Mapping[str, Any], key: str, types: tuple[type, ...], default: object = _MISSING) -> Any:
    value = data.get(key, default)
    if value is _MISSING:
        raise OrderError(f"the order has no {key!r}")
    if not isinstance(value, types):
        raise OrderError(f"the order's {key!r} is of the wrong type ({type(value).__name__})")
    return value


def _check_handle(handle: dict[str, Any]) -> dict[str, Any]:
    used, names, opened = handle.get("used", []), handle.get("names", {}), handle.get("opened", {})
    if not (
        isinstance(used, list)
        and isinstance(names, dict)
        and isinstance(opened, dict)
        and all(isinstance(index, int) for index in used)
        and all(isinstance(thread, str) for thread in names.values())
        and all(isinstance(threads, list) for threads in opened.values())
    ):
        raise OrderError("the order's 'handle' is not one that a turn of this agent ended with")
    return handle


def _check_rule(rule: object, where: str) -> None:
    if not isinstance(rule, dict) or not isinstance(rule.get("match"), str):
        raise OrderError(f"{where} is not an object with a text 'match'")
    actions = rule.get("do")
    if not isinstance(actions, list):
        raise OrderError(f"{where} has no list 'do'")
    for number, action in enumerate(actions, start=1):
        if not isinstance(action, dict) or len(action) != 1 or not _ACTIONS.keys() >= action.keys():
            raise OrderError(f"action {number} of {where} is not an object with one known action")
        for name, value in action.items():
            if not _fits_action(name, value):
                raise OrderError(f"action {number} of {where}: {name!r} has a wrong or missing value")


def _fits_action(name: str, value: object) -> bool:
    if not isinstance(value, _VALUE_TYPES.get(name, (dict,))):
        return False
    if name == "crash":
        return value in signal.valid_signals()
    if isinstance(value, int | float):
        return 0 <= value <= _LONGEST_SLEEP
    if not isinstance(value, dict):
        return True
    if name in _ADDRESSED and not ("to" in value) ^ ("thread" in value):
        return False
    texts = [value.get(key) for key in _REQUIRED.get(name, ())]
    if name in _ADDRESSED:
        texts += [value[key] for key in ("to", "thread", "as") if key in value]
    return all(isinstance(text, str) for text in texts)


# The process


class _Wire:
    """The lines to and from the engine. Its end is noticed also while a command runs or the agent sleeps."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._calls = 0

    def fill(self) -> None:
        """Take what has come in."""
        try:
            chunk = os.read(_STDIN, _CHUNK)
        except OSError as error:
            raise EngineGoneError from error
        if not chunk:
            raise EngineGoneError
        self._pending += chunk

    def line(self) -> bytes:
        """The next line, without its end."""
        seen = 0
        while (end := self._pending.find(b"\n", seen)) < 0:
            seen = len(self._pending)
            self.fill()
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line

    def send(self, data: Mapping[str, Any]) -> None:
        """Send one line, whole."""
        rest = memoryview(json.dumps(data).encode() + b"\n")
        while rest:
            try:
                rest = rest[os.write(_STDOUT, rest) :]
            except OSError as error:
                raise EngineGoneError from error

    def progress(self, text: str) -> None:
        """Report what the agent does."""
        self.send({"progress": text[:PROGRESS_LIMIT]})

    def pause(self, seconds: float) -> None:
        """Sleep, but not longer than the engine lives."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([_STDIN], [], [], min(left, _LONGEST_SELECT))[0]:
                self.fill()

    def call(self, token: str, effect: Call) -> Reply:
        """Call a tool and wait for its reply; a reply to another call is none of ours."""
        self._calls += 1
        self.send({"call": self._calls, "token": token, "tool": effect.tool, "args": effect.args})
        while True:
            data = _json(self.line(), "reply")
            if not isinstance(data, dict):
                raise OrderError("a reply is not a JSON object")
            if data.get("reply") == self._calls:
                found = data.get("data")
                return Reply(
                    ok=data.get("ok") is True,
                    text=str(data.get("text", "")),
                    data=found if isinstance(found, dict) else {},
                )


def _json(line: bytes, what: str) -> object:
    try:
        data: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise OrderError(f"the {what} is not one line of JSON ({error})") from error
    return data


def _done(text: str = "") -> Reply:
    return Reply(ok=True, text=text, data={})


def _refused(text: str) -> Reply:
    return Reply(ok=False, text=text, data={})


def _write(workspace: str, path: str, text: str) -> None:
    """Write a file of the workspace whole or not at all; OSError or ValueError if it can't be done."""
    if os.path.isabs(path):  # noqa: PTH117 - pathlib is slow to import, here and below
        raise ValueError("it is not relative to the workspace")
    # Links are followed first and judged by where they lead: one that stays inside is as good as a file.
    target = os.path.realpath(os.path.join(workspace, path))  # noqa: PTH118
    if not target.startswith(workspace.rstrip("/") + "/"):
        raise ValueError("it leads outside the workspace")
    content = text.encode()
    folder = os.path.dirname(target)  # noqa: PTH120
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    temporary = f"{folder}/.parley-write-{os.getpid()}"
    try:
        with open(temporary, "xb") as file:  # noqa: PTH123
            file.write(content)
        if os.path.exists(target):  # noqa: PTH110
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))  # noqa: PTH101,PTH116 - a script stays one
        os.replace(temporary, target)  # noqa: PTH105
    except OSError:
        if os.path.exists(temporary):  # noqa: PTH110
            os.unlink(temporary)  # noqa: PTH108
        raise


def _start(command: str, output: int) -> int:
    """Start a command in this process's directory, group and session; its id."""
    return os.posix_spawn(
        "/bin/sh",
        ["/bin/sh", "-c", command],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, _STDIN, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, _STDOUT),
            (os.POSIX_SPAWN_DUP2, output, _STDERR),
        ],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these two, a command expects them
    )


def _watch(pid: int, reading: int, wire: _Wire) -> tuple[int, bytes]:
    """Wait for a command's exit code, keeping the tail of what it says.

    The command ends when its shell does: what it left in the background may hold the output open for ever.
    """
    tail = bytearray()
    done = status = 0
    while not done:
        done, status = os.waitpid(pid, os.WNOHANG)
        ready = select.select([reading, _STDIN], [], [], 0 if done else _POLL_SECONDS)[0]
        if _STDIN in ready:
            wire.fill()
        if reading in ready:
            chunk = os.read(reading, _CHUNK)
            if not chunk and not done:
                done, status = os.waitpid(pid, 0)
            tail += chunk
            del tail[: -PROGRESS_LIMIT * 4]  # four bytes a character at most
    return os.waitstatus_to_exitcode(status), bytes(tail)


def _shell(command: str, wire: _Wire) -> str:
    """Run a command to its end; how it ended, and the tail of what it said."""
    reading, writing = os.pipe()
    try:
        try:
            pid = _start(command, writing)
        finally:
            os.close(writing)
        try:
            code, tail = _watch(pid, reading, wire)
        except EngineGoneError:
            os.kill(pid, signal.SIGKILL)
            raise
    finally:
        os.close(reading)
    head = f"exit {code}" if code >= 0 else f"killed by signal {-code}"
    said = tail.decode(errors="replace").rstrip()
    room = PROGRESS_LIMIT - len(head) - 1
    return f"{head}\n{said[-room:]}" if said else head


def _crash(number: int) -> None:
    """Die by a signal, and leave no core in the workspace."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    # Reached where the signal doesn't end a process, or for the first process of a container.
    os._exit(128 + number)


def _carry_out(effect: Effect, wire: _Wire, token: str, workspace: str) -> Reply:
    """Do what the player wants done."""
    if isinstance(effect, Call):
        return wire.call(token, effect)
    if isinstance(effect, Sleep):
        wire.progress(f"sleep {effect.seconds}")
        wire.pause(effect.seconds)
        return _done()
    if isinstance(effect, Crash):
        wire.progress(f"crash {effect.signal}")
        _crash(effect.signal)
        return _done()
    subject = effect.path if isinstance(effect, Write) else effect.command[:_COMMAND_SHOWN]
    doing = f"write {subject}" if isinstance(effect, Write) else f"shell {subject}"
    wire.progress(doing)
    try:
        if isinstance(effect, Shell):
            wire.progress(_shell(effect.command, wire))
        else:
            _write(workspace, effect.path, effect.text)
    except (OSError, ValueError) as error:
        refusal = f"{doing}: {error.strerror if isinstance(error, OSError) else error}"
        wire.progress(f"refused: {refusal}")
        return _refused(refusal)
    return _done()


def _enter(data: object) -> str:
    """Go to the order's workspace; its real path."""
    workspace: str = _field(data, "workspace", (str,)) if isinstance(data, dict) else ""
    try:
        os.chdir(workspace)
    except (OSError, ValueError) as error:
        raise OrderError(f"the order's workspace {workspace!r} can't be entered ({error})") from error
    return os.path.realpath(os.curdir)


def _serve(wire: _Wire) -> None:
    """Take one order, play it, report its end."""
    try:
        line = wire.line()
    except EngineGoneError as error:
        raise OrderError("no order came in: one line of JSON is expected on standard input") from error
    data = _json(line, "order")
    order = read_order(data)
    token: str = _field(data, "token", (str,), "") if isinstance(data, dict) else ""
    workspace = _enter(data)
    ending = _conduct(play(order), lambda effect: _carry_out(effect, wire, token, workspace))
    wire.send({"end": ending._asdict() | {"usage": {"turns": 1}}})


def _conduct(turn: Generator[Effect, Reply, Ending], carry_out: Callable[[Effect], Reply]) -> Ending:
    """Lead a turn to its end."""
    try:
        effect = next(turn)
        while True:
            effect = turn.send(carry_out(effect))
    except StopIteration as stop:
        ending: Ending = stop.value
        return ending


def main() -> int:
    """Play one turn over standard input and output; the process's exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupted turn is just gone: no traceback
    warnings.simplefilter("ignore")  # a pattern that a later Python reads otherwise is still a pattern
    try:
        _serve(_Wire())
    except EngineGoneError:
        return EXIT_ENGINE_GONE
    except OrderError as error:
        os.write(_STDERR, f"scripted agent: {error}".replace("\n", " ").encode(errors="replace") + b"\n")
        return EXIT_BAD_ORDER
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
