"""A scripted agent's turn by the rules of a playbook, as a pure generator: effects go out, replies come in.

It is started for every turn, so it imports only what starts fast. Rules come as plain JSON, in the very
form that a playbook has.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

OUTCOME_PATH = ".parley/outcome.json"
DISPATCHER = "dispatcher"
NO_ANSWER = "no answer: the policy does not allow asking the human"
_LONGEST_SLEEP = 1e9
_MOST_USED = 1e15


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
    """Die by a signal; the handle tells the next try that this rule did."""

    signal: int
    handle: dict[str, Any]


Effect = Write | Shell | Call | Sleep | Crash


class CallReply(NamedTuple):
    """The result of an effect; if not ok, `text` is the reason of the refusal."""

    ok: bool
    text: str
    data: dict[str, Any]


class PlayOrder(NamedTuple):
    """One turn to play: the agent, its rules, the message, and the instance's memory."""

    agent: str
    rules: tuple[dict[str, Any], ...] | None
    """None is the proxy without rules: it asks the human if it may, and passes the answer on unchanged."""
    message: str
    state: str
    visit: int
    handle: dict[str, Any]
    may_ask: bool = False
    default: str = ""
    """The turn's final text where no rule is found."""
    kind: str = "message"
    """What the message is: `question` and `reply` are to the proxy."""
    asked: str = ""
    """The question, where it is one."""


class PlayEnding(NamedTuple):
    """The end of a turn: its final text, the instance's memory, and the refusals."""

    text: str
    handle: dict[str, Any]
    refusals: tuple[str, ...]
    usage: dict[str, float] = {}  # noqa: RUF012 - never written to; what the turn says it used


class OrderError(ValueError):
    """The order can't be played; the message is one line that says why."""


# The player


def play(order: PlayOrder) -> Generator[Effect, CallReply, PlayEnding]:
    """Play one turn. The same order and the same replies give the same effects."""
    player = _Player(order.handle)
    if order.rules is None:
        yield from player.pass_on(order)
        return PlayEnding(player.text, order.handle, tuple(player.refusals), player.usage)
    index = _find(order, order.rules, player)
    if index is None:
        return PlayEnding(order.default, order.handle, ())
    rule = order.rules[index]
    if not rule.get("repeat", False):
        player.begin(index)
    for action in rule["do"]:
        for name, value in action.items():
            yield from _ACTIONS[name](player, value)
    return PlayEnding(player.text, player.handle(), tuple(player.refusals), player.usage)


def _find(order: PlayOrder, rules: tuple[dict[str, Any], ...], player: _Player) -> int | None:
    """The index of the first rule that matches and is not used up; one that crashed comes last."""
    fatal = None
    for index, rule in enumerate(rules):
        if index in player.used or rule.get("state") not in (None, order.state):
            continue
        if rule.get("visit") not in (None, order.visit):
            continue
        try:
            if re.search(rule["match"], order.message):
                if index not in player.fatal:
                    return index
                fatal = index if fatal is None else fatal
        except (re.error, RecursionError, OverflowError) as error:
            raise OrderError(
                f"rule {index + 1} of {order.agent}: 'match' is not a regular expression ({error})"
            ) from error
    return fatal


class _Player:
    """The state of one turn while its actions are played."""

    def __init__(self, handle: dict[str, Any]) -> None:
        self.used: list[int] = list(handle.get("used", ()))
        self.fatal: list[int] = list(handle.get("fatal", ()))  # the rules that crashed
        self.names: dict[str, str] = dict(handle.get("names", {}))
        self.opened: dict[str, list[str]] = {to: list(ids) for to, ids in handle.get("opened", {}).items()}
        self.text = ""
        self.refusals: list[str] = []
        self.usage: dict[str, float] = {}
        self.dead: dict[str, Any] = {"used": [], "names": {}, "opened": {}} | handle

    def begin(self, index: int) -> None:
        """A rule begins to act. If it crashes, the handle records only this."""
        self.used.append(index)
        self.dead["fatal"] = sorted({*self.fatal, index})

    def handle(self) -> dict[str, Any]:
        """The instance's memory, without closed threads."""
        died = {"fatal": self.fatal} if self.fatal else {}
        return {"used": self.used, "names": self.names, "opened": self.opened} | died

    def perform(self, effect: Effect) -> Generator[Effect, CallReply, CallReply]:
        """Yield an effect and record its refusal; a refusal never stops the turn."""
        reply = yield effect
        if not reply.ok:
            self.refusals.append(reply.text)
        return reply

    def call(self, tool: str, args: dict[str, Any]) -> Generator[Effect, CallReply, CallReply]:
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

    def write(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.perform(Write(value["path"], value["text"]))

    def shell(self, value: str) -> Generator[Effect, CallReply, None]:
        yield from self.perform(Shell(value))

    def send(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        if "to" in value:
            yield from self.open(value["to"], value.get("as"), value["text"], value.get("files"))
            return
        thread, along = self.thread(value["thread"]), _along(value.get("files"))
        if thread is not None:
            yield from self.call("Send", {"thread": thread, "text": value["text"], **along})

    def open(
        self, to: str, name: str | None, text: str, files: Sequence[str] | None = None
    ) -> Generator[Effect, CallReply, None]:
        """Send to a recipient: always a new thread."""
        reply = yield from self.call("Send", {"to": to, "text": text, **_along(files)})
        if not reply.ok:
            return
        thread = reply.data.get("thread")
        if not isinstance(thread, str):
            self.refusals.append(f"the reply to Send to {to!r} names no thread")
            return
        self.opened.setdefault(to, []).append(thread)
        if name is not None:
            self.names[name] = thread

    def close(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        thread = self.newest(value["to"]) if "to" in value else self.thread(value["thread"])
        if thread is None:
            return
        reply = yield from self.call("CloseConversation", {"thread": thread})
        if reply.ok:
            self.opened = {to: [t for t in threads if t != thread] for to, threads in self.opened.items()}

    def ask(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.call("AskQuestion", {"text": value["text"], "kind": "question"})

    def assert_artifact(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        args = {"text": value["text"], "kind": "assert", "artifact": value["artifact"]}
        yield from self.call("AskQuestion", args)

    def ask_human(self, value: Mapping[str, Any] | str) -> Generator[Effect, CallReply, None]:
        yield from self.call("AskHuman", {"text": value} if isinstance(value, str) else dict(value))

    def predict(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.call("Predict", dict(value))

    def answer(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.call("Answer", dict(value))

    def note(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.call("Note", dict(value))

    def status(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.call("Status", dict(value))

    def verdict(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.call("Verdict", dict(value))

    def resolve(self, value: Mapping[str, Any]) -> Generator[Effect, CallReply, None]:
        yield from self.call("Resolve", dict(value))

    def outcome(self, value: Mapping[str, Any] | str) -> Generator[Effect, CallReply, None]:
        """Write the outcome record; a string is written as it is, to test malformed ones."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) + "\n"
        yield from self.perform(Write(OUTCOME_PATH, text))

    def sleep(self, value: float) -> Generator[Effect, CallReply, None]:
        yield from self.perform(Sleep(value))

    def crash(self, value: int) -> Generator[Effect, CallReply, None]:
        yield from self.perform(Crash(value, self.dead))

    def say(self, value: str) -> Generator[Effect, CallReply, None]:
        """Set the final text; the last one counts. A generator like the others, without effects."""
        self.text = value
        yield from ()

    def use(self, value: Mapping[str, float]) -> Generator[Effect, CallReply, None]:
        """Report usage, as an agent with a model would; several reports add up."""
        for name, amount in value.items():
            counted = "cost_usd" if name == "cost" else name
            self.usage[counted] = self.usage.get(counted, 0.0) + amount
        yield from ()

    def pass_on(self, order: PlayOrder) -> Generator[Effect, CallReply, None]:
        """The proxy without rules: it adds nothing to a question, nor to the human's words."""
        if order.kind == "reply":  # without a verdict: the engine passes on those with one
            yield from self.call("Answer", {"text": ""})
            return
        if order.kind != "question":
            self.text = order.default
            return
        problem = NO_ANSWER
        if order.may_ask:
            reply = yield from self.call("AskHuman", {"text": order.asked or order.message})
            if reply.ok:
                return
            problem = f"no answer: {reply.text}"
        yield from self.call("Answer", {"verdict": "revise", "text": problem})


_ACTIONS: dict[str, Callable[[_Player, Any], Generator[Effect, CallReply, None]]] = {
    "write": _Player.write,
    "shell": _Player.shell,
    "send": _Player.send,
    "close": _Player.close,
    "ask": _Player.ask,
    "assert": _Player.assert_artifact,
    "note": _Player.note,
    "status": _Player.status,
    "verdict": _Player.verdict,
    "resolve": _Player.resolve,
    "outcome": _Player.outcome,
    "sleep": _Player.sleep,
    "crash": _Player.crash,
    "say": _Player.say,
    "usage": _Player.use,
    "ask_human": _Player.ask_human,
    "answer": _Player.answer,
    "predict": _Player.predict,
}


def _along(files: Sequence[str] | None) -> dict[str, list[str]]:
    """The argument for files that are sent along."""
    return {} if files is None else {"files": list(files)}


# The order, as it comes in

_VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "shell": (str,),
    "outcome": (str, dict),
    "sleep": (int, float),
    "crash": (int,),
    "say": (str,),
    "ask_human": (str, dict),
}
_REQUIRED = {"write": ("path", "text"), "send": ("text",), "ask": ("text",), "assert": ("artifact", "text")}
_ADDRESSED = ("send", "close")


def read_order(data: object) -> PlayOrder:
    """Read an order from the first line's JSON; OrderError says what is wrong with it."""
    if not isinstance(data, dict):
        raise OrderError("the order is not a JSON object")
    rules = _field(data, "rules", (list, type(None)))
    for number, rule in enumerate(rules or (), start=1):
        _check_rule(rule, f"rule {number}")
    return PlayOrder(
        agent=_field(data, "agent", (str,)),
        rules=None if rules is None else tuple(rules),
        message=_field(data, "message", (str,)),
        state=_field(data, "state", (str,), ""),
        visit=_field(data, "visit", (int,), 1),
        handle=_check_handle(_field(data, "handle", (dict,), {})),
        may_ask=_field(data, "may_ask", (bool,), default=False),
        default=_field(data, "default", (str,), ""),
        kind=_field(data, "kind", (str,), "message"),
        asked=_field(data, "asked", (str,), ""),
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
    fatal = handle.get("fatal", [])
    if not (
        isinstance(used, list)
        and isinstance(fatal, list)
        and isinstance(names, dict)
        and isinstance(opened, dict)
        and all(isinstance(index, int) for index in (*used, *fatal))
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
    if name == "usage":
        return all(isinstance(amount, int | float) and 0 <= amount <= _MOST_USED for amount in value.values())
    if name in _ADDRESSED and not ("to" in value) ^ ("thread" in value):
        return False
    texts = [value.get(key) for key in _REQUIRED.get(name, ())]
    if name in _ADDRESSED:
        texts += [value[key] for key in ("to", "thread", "as") if key in value]
    return all(isinstance(text, str) for text in texts)


# The process
