"""Playbooks: what scripted agents, the proxy and the human do in a job, read from YAML.

Every error is one line with its place. A job keeps its playbook as JSON of the same form.
"""

from __future__ import annotations

import math
import re
import signal
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from parley.base.documents.node import (
    YAML,
    DocumentError,
    Entries,
    Node,
    Place,
    Scalar,
    decoded,
    is_null,
    node_of,
    quoted,
)
from parley.base.documents.reader import Fields, Reader, instead
from parley.base.documents.yaml_text import read_yaml
from parley.base.options import NAMES as CHOICES
from parley.protocol.molecules import AGENT_NAME, LONGEST_NAME, Ruling

MAX_BYTES = 1024 * 1024
MAX_SLEEP = 1_000_000_000
MAX_USED = 1_000_000_000_000_000

VERDICTS = tuple(ruling.value for ruling in Ruling)
USAGE = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "cost")
STATES = ("INTENT", "PLAN", "EXECUTE")
PROXY = "proxy"
HUMAN = "human"
DISPATCHER = "dispatcher"


@dataclass(frozen=True)
class PlayAction:
    """One thing that an agent does: its name in the playbook and what stands there."""

    name: str
    value: Any

    def to_json(self) -> dict[str, Any]:
        """The action as it stands in a playbook."""
        return {self.name: self.value}


@dataclass(frozen=True)
class _Matcher:
    match: str
    repeat: bool = False
    state: str | None = None
    visit: int | None = None

    def fits(self, message: str, state: str, visit: int) -> bool:
        """Whether the rule is for this message in this visit of this state."""
        if self.state not in (None, state) or self.visit not in (None, visit):
            return False
        return _compiled(self.match).search(message) is not None

    def _conditions(self) -> dict[str, Any]:
        narrowing = {"state": self.state, "visit": self.visit}
        given = {key: value for key, value in narrowing.items() if value is not None}
        return {"match": self.match, "repeat": self.repeat, **given}


@dataclass(frozen=True)
class PlayRule(_Matcher):
    """What an agent does on a message that fits."""

    do: tuple[PlayAction, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The rule as it stands in a playbook; the scripted agent takes it in this form."""
        return {**self._conditions(), "do": [action.to_json() for action in self.do]}


@dataclass(frozen=True)
class HumanRule(_Matcher):
    """What the human answers to a question that fits; without a verdict a plain answer."""

    verdict: str | None = None
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """The rule as it stands in a playbook."""
        verdict = {} if self.verdict is None else {"verdict": self.verdict}
        return {**self._conditions(), **verdict, "text": self.text}


@dataclass(frozen=True)
class Playbook:
    """Who does what. Without `human` a real one is waited for; without `proxy` that one asks if it may."""

    human: tuple[HumanRule, ...] | None = None
    proxy: tuple[PlayRule, ...] | None = None
    agents: Mapping[str, tuple[PlayRule, ...]] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)  # where an agent first stands

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, of the same form as the file."""
        data: dict[str, Any] = {"agents": {name: _listed(rules) for name, rules in self.agents.items()}}
        if self.human is not None:
            data["human"] = _listed(self.human)
        if self.proxy is not None:
            data["proxy"] = _listed(self.proxy)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Playbook:
        """Read back what `to_json` gave, as strictly as a file."""
        return _PlaybookReader().playbook(node_of(data, "playbook", YAML))

    def rules(self, agent: str) -> list[dict[str, Any]] | None:
        """An agent's rules, as the scripted agent takes them; None for a proxy without rules."""
        if agent == PROXY:
            return None if self.proxy is None else _listed(self.proxy)
        return _listed(self.agents.get(agent, ()))

    def recipients(self, agent: str) -> frozenset[str]:
        """Whom the agent's rules send to."""
        rules = (self.proxy or ()) if agent == PROXY else self.agents.get(agent, ())
        sends = (action.value for rule in rules for action in rule.do if action.name == "send")
        return frozenset(value["to"] for value in sends if "to" in value)

    def answer(self, message: str, state: str, visit: int, used: Collection[int]) -> tuple[int, HumanRule] | None:
        """The human's first rule that fits and is not used up, with its index; `used` holds indexes."""
        for index, rule in enumerate(self.human or ()):
            if (rule.repeat or index not in used) and rule.fits(message, state, visit):
                return index, rule
        return None


def load(path: Path) -> Playbook:
    """Read a playbook file; DocumentError if it can't be used."""
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problem = f"the playbook can't be read ({reason})"
        raise DocumentError(Place(name, 1, 1), problem, "give the path of a readable YAML file") from error
    if len(content) > MAX_BYTES:
        raise _too_large(name)
    return parse(decoded(content, name), name)


def parse(text: str, name: str) -> Playbook:
    """Read a playbook's text; `name` is what errors call it."""
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise _too_large(name)
    node = read_yaml(text.removeprefix("\ufeff"), name)
    if is_null(node):
        raise DocumentError(Place(name, 1, 1), "the playbook is empty", "give rules under 'agents'")
    return _PlaybookReader().playbook(node)


def _too_large(name: str) -> DocumentError:
    return DocumentError(Place(name, 1, 1), "the playbook is larger than 1 MiB", "make it smaller")


def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a pattern that a later Python reads otherwise is still a pattern
        return re.compile(pattern)


def _listed(rules: Iterable[PlayRule | HumanRule]) -> list[dict[str, Any]]:
    return [rule.to_json() for rule in rules]


class _PlaybookReader(Reader):
    """Reads a playbook's nodes, checking everything."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    def fail(self, node: Node, problem: str, remedy: str) -> NoReturn:
        """Tell what is wrong at a node and what to do."""
        raise node.error(problem, remedy)

    def agent(self, node: Node, what: str) -> str:
        """An agent's name."""
        name = self.text(node, what)
        if not AGENT_NAME.fullmatch(name):
            remedy = f"begin with a-z and go on with a-z, 0-9, '_' or '-', up to {LONGEST_NAME} characters"
            self.fail(node, f"{quoted(name)} is not an agent's name", remedy)
        self._places.setdefault(name, node.place)
        return name

    # Rules

    def playbook(self, node: Node) -> Playbook:
        """The whole playbook."""
        top = self.fields(node, "a playbook", (HUMAN, PROXY, "agents"))
        human = self.items(top[HUMAN], f"'{HUMAN}'") if HUMAN in top else None
        proxy = self.items(top[PROXY], f"'{PROXY}'") if PROXY in top else []
        return Playbook(
            human=None if human is None else tuple(self.human_rule(item) for item in human),
            # An empty list is no rules: the proxy then asks the human if it may.
            proxy=tuple(self.rule(item, _PROXY_ACTIONS) for item in proxy) or None,
            agents=self.agents(top["agents"]) if "agents" in top else {},
            places=self._places,
        )

    def agents(self, node: Node) -> dict[str, tuple[PlayRule, ...]]:
        """The rules of each agent."""
        entries = self.fields(node, "'agents'")
        agents: dict[str, tuple[PlayRule, ...]] = {}
        for name, value in entries.values.items():
            self.agent(entries.keys[name], "an agent's name")
            if name in (HUMAN, PROXY):
                self.fail(entries.keys[name], f"'{name}' is not one of the agents", "move it to the top level")
            rules = self.items(value, f"the rules of '{name}'")
            agents[name] = tuple(self.rule(item, _AGENT_ACTIONS) for item in rules)
        return agents

    def conditions(self, rule: Fields) -> dict[str, Any]:
        """What narrows a rule."""
        conditions: dict[str, Any] = {"match": self.pattern(self.required(rule, "match"))}
        if "repeat" in rule:
            conditions["repeat"] = self.flag(rule["repeat"], "'repeat'")
        if "state" in rule:
            conditions["state"] = self.choice(rule["state"], "state", STATES)
        if "visit" in rule:
            conditions["visit"] = self.integer(rule["visit"], "'visit'", 1, math.inf)
        return conditions

    def pattern(self, node: Node) -> str:
        """A regular expression. One that YAML reads as a number or a truth value is nearly always a slip."""
        pattern = node.value if isinstance(node, Scalar) else None
        if not isinstance(pattern, str):
            self.fail(node, "'match' must be a text", "put the regular expression in quotes")
        try:
            _compiled(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            problem = f"'match' is not a regular expression ({error})"
            self.fail(node, problem, "correct it; a backslash makes a special character plain")
        return pattern

    def human_rule(self, node: Node) -> HumanRule:
        """A rule of the human."""
        known = ("match", "verdict", "text", "repeat", "state", "visit")
        rule = self.fields(node, "a rule of 'human'", known)
        if "verdict" not in rule and "text" not in rule:
            self.fail(node, "a rule of 'human' needs 'verdict' or 'text'", "add what the human answers")
        verdict = self.verdict(rule, (*VERDICTS, *CHOICES))
        text = self.text(rule["text"], "'text'") if "text" in rule else ""
        if verdict == "revise" and not text.strip():
            where = rule["text" if "text" in rule else "verdict"]
            self.fail(where, "'revise' needs words", "add 'text: …' that says what is to change")
        return HumanRule(**self.conditions(rule), verdict=verdict, text=text)

    def verdict(self, entries: Fields, known: tuple[str, ...] = VERDICTS) -> str | None:
        """The verdict, if one is given; none is a plain answer. A human's may be a choice that the question lists."""
        node = entries.get("verdict")
        if is_null(node) or (isinstance(node, Scalar) and node.value == "none"):
            return None
        return self.choice(node, "verdict", known)

    def rule(self, node: Node, actions: Mapping[str, _ActionReader]) -> PlayRule:
        """A rule of an agent or of the proxy."""
        rule = self.fields(node, "a rule", ("match", "repeat", "state", "visit", "do"))
        conditions = self.conditions(rule)
        do = self.items(self.required(rule, "do"), "'do'")
        return PlayRule(**conditions, do=tuple(self.action(item, actions) for item in do))

    def action(self, node: Node, actions: Mapping[str, _ActionReader]) -> PlayAction:
        """One action."""
        entries = self.fields(node, "an action")
        if len(entries.values) != 1:
            self.fail(node, f"an action has one key, not {len(entries.values)}", "write one '- …' for each action")
        [(name, value)] = entries.values.items()
        if name not in actions:
            only_proxy = name in _PROXY_ACTIONS
            problem = f"'{name}' is only for the proxy" if only_proxy else f"unknown action {quoted(name)}"
            remedy = "move it to 'proxy'" if only_proxy else instead(name, actions)
            self.fail(entries.keys[name], problem, remedy)
        return PlayAction(name, actions[name](self, value))

    # Actions

    def texts(self, node: Node, action: str, *keys: str) -> dict[str, str]:
        """An action's texts, all required; only `text` may be empty."""
        entries = self.fields(node, f"'{action}'", keys)
        given = {key: self.required(entries, key) for key in keys}
        return {
            key: self.text(value, "'text'") if key == "text" else self.filled(value, f"'{key}'")
            for key, value in given.items()
        }

    def write(self, node: Node) -> dict[str, str]:
        return self.texts(node, "write", "path", "text")

    def shell(self, node: Node) -> str:
        return self.filled(node, "'shell'")

    def ask(self, node: Node) -> dict[str, str]:
        return self.texts(node, "ask", "text")

    def assert_artifact(self, node: Node) -> dict[str, str]:
        return self.texts(node, "assert", "artifact", "text")

    def address(self, entries: Fields) -> dict[str, str]:
        """Either a recipient or a thread."""
        if "to" in entries and "thread" in entries:
            problem = f"{entries.what} has both 'to' and 'thread'"
            self.fail(entries.keys["thread"], problem, "remove one of them")
        if "to" in entries:
            return {"to": self.agent(entries["to"], "'to'")}
        if "thread" not in entries:
            remedy = "add 'to: AGENT' or 'thread: NAME'"
            self.fail(entries.node, f"{entries.what} has neither 'to' nor 'thread'", remedy)
        return {"thread": self.filled(entries["thread"], "'thread'")}

    def send(self, node: Node) -> dict[str, Any]:
        entries = self.fields(node, "'send'", ("to", "as", "thread", "text", "files"))
        value: dict[str, Any] = {**self.address(entries)}
        if "as" in entries:
            if "thread" in value:
                self.fail(entries.keys["as"], "'as' names a new thread, not an old one", "remove it or use 'to'")
            value["as"] = self.thread_name(entries["as"])
        if "files" in entries:
            value["files"] = self.paths(entries["files"])
        return {**value, "text": self.text(self.required(entries, "text"), "'text'")}

    def paths(self, node: Node) -> list[str]:
        """The files that go along: any names, since a playbook may try what the tool refuses."""
        listed = self.items(node, "'files'", remedy="write files: [notes.md]")
        return [self.filled(each, "a file") for each in listed]

    def thread_name(self, node: Node) -> str:
        """A name for a thread: neither the dispatcher's nor like one of the protocol's own ids."""
        name = self.filled(node, "'as'")
        if name == DISPATCHER or ":" in name:
            self.fail(node, f"{quoted(name)} can't name a thread", f"choose one without ':', not '{DISPATCHER}'")
        return name

    def close(self, node: Node) -> dict[str, str]:
        return self.address(self.fields(node, "'close'", ("to", "thread")))

    def mapping(self, node: Node) -> Any:
        """Any mapping: a playbook may try what the tool refuses."""
        if not isinstance(node, Entries):
            self.fail(node, "this must be a mapping", "write {key: value, …}")
        return self.value(node)

    def note(self, node: Node) -> Any:
        if not isinstance(node, Entries):
            self.fail(node, "'note' must be a mapping", "write {key: value, …}")
        return self.value(node)

    def status(self, node: Node) -> Any:
        return self.value(node) if isinstance(node, Entries) else {"status": self.text(node, "'status'")}

    def outcome(self, node: Node) -> Any:
        """Any mapping, and any text: a playbook may try what a broken record does."""
        return self.value(node) if isinstance(node, Entries) else self.text(node, "'outcome'")

    def sleep(self, node: Node) -> int | float:
        return self.number(node, "'sleep'", 0, MAX_SLEEP)

    def crash(self, node: Node) -> int:
        signals = signal.valid_signals()
        number = self.integer(node, "'crash'", min(signals), max(signals))
        if number not in signals:
            self.fail(node, f"{number} is not a signal here", "use one like 9 (KILL) or 15 (TERM)")
        return number

    def say(self, node: Node) -> str:
        return self.text(node, "'say'")

    def usage(self, node: Node) -> dict[str, int | float]:
        entries = self.fields(node, "'usage'", USAGE)
        return {name: self.number(value, f"'{name}'", 0, MAX_USED) for name, value in entries.values.items()}

    def ask_human(self, node: Node) -> str | dict[str, Any]:
        if not isinstance(node, Entries):
            return self.text(node, "'ask_human'")
        entries = self.fields(node, "'ask_human'", ("text", "found", "would", "confidence", "reason"))
        self.required(entries, "text")
        words = (key for key in ("text", "found", "would", "reason") if key in entries)
        value: dict[str, Any] = {key: self.text(entries[key], f"'{key}'") for key in words}
        return value | self.confidence(entries)

    def confidence(self, entries: Fields) -> dict[str, Any]:
        """How sure the proxy is, if it says so."""
        if "confidence" not in entries:
            return {}
        return {"confidence": self.number(entries["confidence"], "'confidence'", 0, 1)}

    def predict(self, node: Node) -> dict[str, Any]:
        entries = self.fields(node, "'predict'", ("verdict", "confidence"))
        verdict = self.verdict(entries)
        return {**({} if verdict is None else {"verdict": verdict}), **self.confidence(entries)}

    def answer(self, node: Node) -> dict[str, Any]:
        if isinstance(node, Scalar):
            return {"text": self.text(node, "'answer'")}
        entries = self.fields(node, "'answer'", ("verdict", "text", "confidence", "reason"))
        if "verdict" not in entries and "text" not in entries:
            self.fail(node, "'answer' needs 'verdict' or 'text'", "add one")
        value: dict[str, Any] = {"text": self.text(entries["text"], "'text'") if "text" in entries else ""}
        verdict = self.verdict(entries, (*VERDICTS, *CHOICES))
        if verdict is not None:
            value["choice" if verdict in CHOICES else "verdict"] = verdict
        if "reason" in entries:
            value["reason"] = self.text(entries["reason"], "'reason'")
        return value | self.confidence(entries)


_ActionReader = Callable[[_PlaybookReader, Node], Any]

_AGENT_ACTIONS: Mapping[str, _ActionReader] = {
    "write": _PlaybookReader.write,
    "shell": _PlaybookReader.shell,
    "send": _PlaybookReader.send,
    "close": _PlaybookReader.close,
    "ask": _PlaybookReader.ask,
    "assert": _PlaybookReader.assert_artifact,
    "note": _PlaybookReader.note,
    "status": _PlaybookReader.status,
    "verdict": _PlaybookReader.mapping,
    "resolve": _PlaybookReader.mapping,
    "outcome": _PlaybookReader.outcome,
    "sleep": _PlaybookReader.sleep,
    "crash": _PlaybookReader.crash,
    "say": _PlaybookReader.say,
    "usage": _PlaybookReader.usage,
}
_PROXY_ACTIONS: Mapping[str, _ActionReader] = {
    **_AGENT_ACTIONS,
    "ask_human": _PlaybookReader.ask_human,
    "answer": _PlaybookReader.answer,
    "predict": _PlaybookReader.predict,
}
