"""Playbooks: what scripted agents, the proxy and the human do in a job, read from YAML.

The file is composed to YAML's tree of nodes, never to Python objects: a node knows where it stands, so
whatever is wrong is told in one line with its place. A job keeps its playbook as JSON of the same form.
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

import yaml

from parley.adapters.nodes import (
    MAX_DEPTH,
    NULL,
    TAG,
    PlaybookError,
    compose,
    instead,
    is_number,
    node_of,
    position,
    quoted,
)
from parley.core.terms import AGENT_NAME, LONGEST_NAME, Ruling
from parley.options import NAMES as CHOICES

__all__ = ["Action", "HumanRule", "Playbook", "PlaybookError", "Rule", "load", "parse"]

MAX_BYTES = 1024 * 1024
MAX_SLEEP = 1_000_000_000
MAX_USED = 1_000_000_000_000_000
# What a playbook may weigh with its aliases written out; no file of the allowed size gets there without them.
MAX_WEIGHT = 16 * MAX_BYTES
_NODE_WEIGHT = 16

VERDICTS = tuple(ruling.value for ruling in Ruling)
USAGE = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "cost")
STATES = ("INTENT", "PLAN", "EXECUTE")
PROXY = "proxy"
HUMAN = "human"
DISPATCHER = "dispatcher"

# Where a text belongs it is taken as it is written: `shell: true` is the command and `text: yes` the word.
_TEXTS = frozenset(TAG + kind for kind in ("str", "bool", "int", "float", "timestamp", "value", "merge"))


Place = tuple[str, int, int]  # a file, a line and a column


@dataclass(frozen=True)
class Action:
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
class Rule(_Matcher):
    """What an agent does on a message that fits."""

    do: tuple[Action, ...] = ()

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
    proxy: tuple[Rule, ...] | None = None
    agents: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
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
        return _Reader("playbook").playbook(node_of(data))

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
    """Read a playbook file; PlaybookError if it can't be used."""
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problem = f"the playbook can't be read ({reason}); give the path of a readable YAML file"
        raise PlaybookError(name, 1, 1, problem) from error
    if len(content) > MAX_BYTES:
        raise _too_large(name)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line, column = position(content[: error.start].decode(), error.start)
        raise PlaybookError(name, line, column, "this is not UTF-8; save the file as UTF-8") from error
    return parse(text, name)


def parse(text: str, name: str) -> Playbook:
    """Read a playbook's text; `name` is what errors call it."""
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise _too_large(name)
    text = text.removeprefix("\ufeff")
    node = compose(text, name)
    if node is None:
        raise PlaybookError(name, 1, 1, "the playbook is empty; give rules under 'agents'")
    return _Reader(name).playbook(node)


def _too_large(name: str) -> PlaybookError:
    return PlaybookError(name, 1, 1, "the playbook is larger than 1 MiB; make it smaller")


def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a pattern that a later Python reads otherwise is still a pattern
        return re.compile(pattern)


def _listed(rules: Iterable[Rule | HumanRule]) -> list[dict[str, Any]]:
    return [rule.to_json() for rule in rules]


class _Entries:
    """The keys of a mapping, each with its value's node."""

    def __init__(self, node: yaml.Node, what: str) -> None:
        self.node = node
        self.what = what
        self.values: dict[str, yaml.Node] = {}
        self.keys: dict[str, yaml.Node] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.values


class _Reader:
    """Reads a playbook's nodes, checking everything."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._weight = 0
        self._places: dict[str, Place] = {}
        self._constructor = yaml.constructor.SafeConstructor()

    def fail(self, node: yaml.Node, problem: str, remedy: str) -> NoReturn:
        """Tell what is wrong at a node and what to do."""
        mark = node.start_mark
        raise PlaybookError(self._name, mark.line + 1, mark.column + 1, f"{problem}; {remedy}")

    def weigh(self, node: yaml.Node) -> None:
        """Count a node each time it is read: aliases may repeat one without end."""
        self._weight += _NODE_WEIGHT + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if self._weight > MAX_WEIGHT:
            self.fail(node, "the aliases make the playbook too large", "write out what is meant")

    # Values

    def entries(self, node: yaml.Node, what: str, known: Collection[str] | None = None) -> _Entries:
        """A mapping's entries; `known` are the keys that it may have, None: any."""
        self.weigh(node)
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{what} must be a mapping", "write {key: value, …}")
        found = _Entries(node, what)
        for key_node, value_node in node.value:
            if key_node.tag == f"{TAG}merge":
                self.fail(key_node, "'<<' does not merge mappings here", "write the keys out")
            key = self.text(key_node, "a key")
            if key in found:
                self.fail(key_node, f"the key {quoted(key)} is given twice", "remove one of them")
            if known is not None and key not in known:
                self.fail(key_node, f"unknown key {quoted(key)} in {what}", instead(key, known))
            found.values[key] = value_node
            found.keys[key] = key_node
        return found

    def required(self, entries: _Entries, key: str) -> yaml.Node:
        """The value of a key that has to be there."""
        if key not in entries:
            self.fail(entries.node, f"'{key}' is missing in {entries.what}", f"add '{key}: …'")
        return entries.values[key]

    def items(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """A sequence's items."""
        self.weigh(node)
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{what} must be a list", "write '- …' lines, or [] for none")
        items: list[yaml.Node] = node.value
        return items

    def text(self, node: yaml.Node, what: str) -> str:
        """A text, as it is written."""
        self.weigh(node)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _TEXTS:
            self.fail(node, f"{what} must be a text", "put it in quotes")
        text: str = node.value
        try:
            # Two escapes of a pair, as JSON writers make them, are one character.
            return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self.fail(node, f"{what} has half of a surrogate pair", "write the character itself")

    def filled(self, node: yaml.Node, what: str) -> str:
        """A text with something in it."""
        text = self.text(node, what)
        if not text:
            self.fail(node, f"{what} is empty", "fill it in")
        return text

    def number(self, node: yaml.Node, what: str, low: float, high: float) -> int | float:
        """A number within limits, both included."""
        self.weigh(node)
        limits = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of {low:g} or more"
        if not is_number(node):
            self.fail(node, f"{what} must be a number {limits}", "write it without quotes")
        value = self.scalar(node)
        if not low <= value <= high:
            self.fail(node, f"{what} must be a number {limits}", "correct it")
        number: int | float = value
        return number

    def integer(self, node: yaml.Node, what: str, low: float, high: float) -> int:
        """A whole number within limits."""
        value = self.number(node, what, low, high)
        if not isinstance(value, int):
            self.fail(node, f"{what} must be a whole number", "leave out the fraction")
        return value

    def flag(self, node: yaml.Node, what: str) -> bool:
        """True or false."""
        self.weigh(node)
        if not isinstance(node, yaml.ScalarNode) or node.tag != f"{TAG}bool":
            self.fail(node, f"{what} must be true or false", "write one of them without quotes")
        return bool(self.scalar(node))

    def scalar(self, node: yaml.Node) -> Any:
        """A number or a truth value, as YAML reads it."""
        constructor = self._constructor
        if not isinstance(node, yaml.ScalarNode):
            self.fail(node, "a number or a truth value must be plain", "correct it")
        try:
            if node.tag == f"{TAG}bool":
                return constructor.construct_yaml_bool(node)
            if node.tag == f"{TAG}int":
                return constructor.construct_yaml_int(node)
            return constructor.construct_yaml_float(node)
        except (ValueError, LookupError, OverflowError):
            self.fail(node, f"{quoted(str(node.value))} is not a value that YAML knows", "put it in quotes")

    def json(self, node: yaml.Node, depth: int = 0) -> Any:
        """Any value that JSON can hold."""
        if depth > MAX_DEPTH:
            self.fail(node, f"nested deeper than {MAX_DEPTH} levels", "make it flatter")
        if isinstance(node, yaml.MappingNode):
            values = self.entries(node, "a mapping").values
            return {key: self.json(value, depth + 1) for key, value in values.items()}
        if isinstance(node, yaml.SequenceNode):
            return [self.json(item, depth + 1) for item in self.items(node, "a list")]
        if node.tag == NULL:
            return None
        if node.tag not in (f"{TAG}bool", f"{TAG}int", f"{TAG}float"):
            return self.text(node, "a value")
        self.weigh(node)
        value = self.scalar(node)
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(node, f"{quoted(str(node.value))} is not a finite number", "put it in quotes")
        return value

    def one_of(self, node: yaml.Node, what: str, known: Collection[str]) -> str:
        """One of the words that are known."""
        word = self.text(node, what)
        if word not in known:
            self.fail(node, f"unknown {what} {quoted(word)}", instead(word, known))
        return word

    def agent(self, node: yaml.Node, what: str) -> str:
        """An agent's name."""
        name = self.text(node, what)
        if not AGENT_NAME.fullmatch(name):
            remedy = f"begin with a-z and go on with a-z, 0-9, '_' or '-', up to {LONGEST_NAME} characters"
            self.fail(node, f"{quoted(name)} is not an agent's name", remedy)
        mark = node.start_mark
        self._places.setdefault(name, (self._name, mark.line + 1, mark.column + 1))
        return name

    # Rules

    def playbook(self, node: yaml.Node) -> Playbook:
        """The whole playbook."""
        top = self.entries(node, "a playbook", (HUMAN, PROXY, "agents"))
        human = self.items(top.values[HUMAN], f"'{HUMAN}'") if HUMAN in top else None
        proxy = self.items(top.values[PROXY], f"'{PROXY}'") if PROXY in top else []
        return Playbook(
            human=None if human is None else tuple(self.human_rule(item) for item in human),
            # An empty list is no rules: the proxy then asks the human if it may.
            proxy=tuple(self.rule(item, _PROXY_ACTIONS) for item in proxy) or None,
            agents=self.agents(top.values["agents"]) if "agents" in top else {},
            places=self._places,
        )

    def agents(self, node: yaml.Node) -> dict[str, tuple[Rule, ...]]:
        """The rules of each agent."""
        entries = self.entries(node, "'agents'")
        agents: dict[str, tuple[Rule, ...]] = {}
        for name, value in entries.values.items():
            self.agent(entries.keys[name], "an agent's name")
            if name in (HUMAN, PROXY):
                self.fail(entries.keys[name], f"'{name}' is not one of the agents", "move it to the top level")
            rules = self.items(value, f"the rules of '{name}'")
            agents[name] = tuple(self.rule(item, _AGENT_ACTIONS) for item in rules)
        return agents

    def conditions(self, rule: _Entries) -> dict[str, Any]:
        """What narrows a rule."""
        conditions: dict[str, Any] = {"match": self.pattern(self.required(rule, "match"))}
        if "repeat" in rule:
            conditions["repeat"] = self.flag(rule.values["repeat"], "'repeat'")
        if "state" in rule:
            conditions["state"] = self.one_of(rule.values["state"], "state", STATES)
        if "visit" in rule:
            conditions["visit"] = self.integer(rule.values["visit"], "'visit'", 1, math.inf)
        return conditions

    def pattern(self, node: yaml.Node) -> str:
        """A regular expression. One that YAML reads as a number or a truth value is nearly always a slip."""
        if node.tag != f"{TAG}str":
            self.fail(node, "'match' must be a text", "put the regular expression in quotes")
        pattern = self.text(node, "'match'")
        try:
            _compiled(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            problem = f"'match' is not a regular expression ({error})"
            self.fail(node, problem, "correct it; a backslash makes a special character plain")
        return pattern

    def human_rule(self, node: yaml.Node) -> HumanRule:
        """A rule of the human."""
        known = ("match", "verdict", "text", "repeat", "state", "visit")
        rule = self.entries(node, "a rule of 'human'", known)
        if "verdict" not in rule and "text" not in rule:
            self.fail(node, "a rule of 'human' needs 'verdict' or 'text'", "add what the human answers")
        verdict = self.verdict(rule, (*VERDICTS, *CHOICES))
        text = self.text(rule.values["text"], "'text'") if "text" in rule else ""
        if verdict == "revise" and not text.strip():
            where = rule.values.get("text", rule.values["verdict"])
            self.fail(where, "'revise' needs words", "add 'text: …' that says what is to change")
        return HumanRule(**self.conditions(rule), verdict=verdict, text=text)

    def verdict(self, entries: _Entries, known: tuple[str, ...] = VERDICTS) -> str | None:
        """The verdict, if one is given; none is a plain answer. A human's may be a choice that the question lists."""
        node = entries.values.get("verdict")
        if node is None or node.tag == NULL or node.value == "none":
            return None
        return self.one_of(node, "verdict", known)

    def rule(self, node: yaml.Node, actions: Mapping[str, _ActionReader]) -> Rule:
        """A rule of an agent or of the proxy."""
        rule = self.entries(node, "a rule", ("match", "repeat", "state", "visit", "do"))
        conditions = self.conditions(rule)
        do = self.items(self.required(rule, "do"), "'do'")
        return Rule(**conditions, do=tuple(self.action(item, actions) for item in do))

    def action(self, node: yaml.Node, actions: Mapping[str, _ActionReader]) -> Action:
        """One action."""
        entries = self.entries(node, "an action")
        if len(entries.values) != 1:
            self.fail(node, f"an action has one key, not {len(entries.values)}", "write one '- …' for each action")
        [(name, value)] = entries.values.items()
        if name not in actions:
            only_proxy = name in _PROXY_ACTIONS
            problem = f"'{name}' is only for the proxy" if only_proxy else f"unknown action {quoted(name)}"
            remedy = "move it to 'proxy'" if only_proxy else instead(name, actions)
            self.fail(entries.keys[name], problem, remedy)
        return Action(name, actions[name](self, value))

    # Actions

    def fields(self, node: yaml.Node, action: str, *keys: str) -> dict[str, str]:
        """An action's texts, all required; only `text` may be empty."""
        entries = self.entries(node, f"'{action}'", keys)
        given = {key: self.required(entries, key) for key in keys}
        return {
            key: self.text(value, "'text'") if key == "text" else self.filled(value, f"'{key}'")
            for key, value in given.items()
        }

    def write(self, node: yaml.Node) -> dict[str, str]:
        return self.fields(node, "write", "path", "text")

    def shell(self, node: yaml.Node) -> str:
        return self.filled(node, "'shell'")

    def ask(self, node: yaml.Node) -> dict[str, str]:
        return self.fields(node, "ask", "text")

    def assert_artifact(self, node: yaml.Node) -> dict[str, str]:
        return self.fields(node, "assert", "artifact", "text")

    def address(self, entries: _Entries) -> dict[str, str]:
        """Either a recipient or a thread."""
        if "to" in entries and "thread" in entries:
            problem = f"{entries.what} has both 'to' and 'thread'"
            self.fail(entries.keys["thread"], problem, "remove one of them")
        if "to" in entries:
            return {"to": self.agent(entries.values["to"], "'to'")}
        if "thread" not in entries:
            remedy = "add 'to: AGENT' or 'thread: NAME'"
            self.fail(entries.node, f"{entries.what} has neither 'to' nor 'thread'", remedy)
        return {"thread": self.filled(entries.values["thread"], "'thread'")}

    def send(self, node: yaml.Node) -> dict[str, Any]:
        entries = self.entries(node, "'send'", ("to", "as", "thread", "text", "files"))
        value: dict[str, Any] = {**self.address(entries)}
        if "as" in entries:
            if "thread" in value:
                self.fail(entries.keys["as"], "'as' names a new thread, not an old one", "remove it or use 'to'")
            value["as"] = self.thread_name(entries.values["as"])
        if "files" in entries:
            value["files"] = self.paths(entries.values["files"])
        return {**value, "text": self.text(self.required(entries, "text"), "'text'")}

    def paths(self, node: yaml.Node) -> list[str]:
        """The files that go along: any names, since a playbook may try what the tool refuses."""
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, "'files' must be a list", "write files: [notes.md]")
        return [self.filled(each, "a file") for each in node.value]

    def thread_name(self, node: yaml.Node) -> str:
        """A name for a thread: neither the dispatcher's nor like one of the protocol's own ids."""
        name = self.filled(node, "'as'")
        if name == DISPATCHER or ":" in name:
            self.fail(node, f"{quoted(name)} can't name a thread", f"choose one without ':', not '{DISPATCHER}'")
        return name

    def close(self, node: yaml.Node) -> dict[str, str]:
        return self.address(self.entries(node, "'close'", ("to", "thread")))

    def mapping(self, node: yaml.Node) -> Any:
        """Any mapping: a playbook may try what the tool refuses."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, "this must be a mapping", "write {key: value, …}")
        return self.json(node)

    def note(self, node: yaml.Node) -> Any:
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, "'note' must be a mapping", "write {key: value, …}")
        return self.json(node)

    def status(self, node: yaml.Node) -> Any:
        return self.json(node) if isinstance(node, yaml.MappingNode) else {"status": self.text(node, "'status'")}

    def outcome(self, node: yaml.Node) -> Any:
        """Any mapping, and any text: a playbook may try what a broken record does."""
        return self.json(node) if isinstance(node, yaml.MappingNode) else self.text(node, "'outcome'")

    def sleep(self, node: yaml.Node) -> int | float:
        return self.number(node, "'sleep'", 0, MAX_SLEEP)

    def crash(self, node: yaml.Node) -> int:
        signals = signal.valid_signals()
        number = self.integer(node, "'crash'", min(signals), max(signals))
        if number not in signals:
            self.fail(node, f"{number} is not a signal here", "use one like 9 (KILL) or 15 (TERM)")
        return number

    def say(self, node: yaml.Node) -> str:
        return self.text(node, "'say'")

    def usage(self, node: yaml.Node) -> dict[str, int | float]:
        entries = self.entries(node, "'usage'", USAGE)
        return {name: self.number(value, f"'{name}'", 0, MAX_USED) for name, value in entries.values.items()}

    def ask_human(self, node: yaml.Node) -> str | dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            return self.text(node, "'ask_human'")
        entries = self.entries(node, "'ask_human'", ("text", "found", "would", "confidence", "reason"))
        self.required(entries, "text")
        words = (key for key in ("text", "found", "would", "reason") if key in entries)
        value: dict[str, Any] = {key: self.text(entries.values[key], f"'{key}'") for key in words}
        return value | self.confidence(entries)

    def confidence(self, entries: _Entries) -> dict[str, Any]:
        """How sure the proxy is, if it says so."""
        node = entries.values.get("confidence")
        return {} if node is None else {"confidence": self.number(node, "'confidence'", 0, 1)}

    def predict(self, node: yaml.Node) -> dict[str, Any]:
        entries = self.entries(node, "'predict'", ("verdict", "confidence"))
        verdict = self.verdict(entries)
        return {**({} if verdict is None else {"verdict": verdict}), **self.confidence(entries)}

    def answer(self, node: yaml.Node) -> dict[str, Any]:
        if isinstance(node, yaml.ScalarNode):
            return {"text": self.text(node, "'answer'")}
        entries = self.entries(node, "'answer'", ("verdict", "text", "confidence", "reason"))
        if "verdict" not in entries and "text" not in entries:
            self.fail(node, "'answer' needs 'verdict' or 'text'", "add one")
        value: dict[str, Any] = {"text": self.text(entries.values["text"], "'text'") if "text" in entries else ""}
        verdict = self.verdict(entries, (*VERDICTS, *CHOICES))
        if verdict is not None:
            value["choice" if verdict in CHOICES else "verdict"] = verdict
        if "reason" in entries:
            value["reason"] = self.text(entries.values["reason"], "'reason'")
        return value | self.confidence(entries)


_ActionReader = Callable[[_Reader, yaml.Node], Any]

_AGENT_ACTIONS: Mapping[str, _ActionReader] = {
    "write": _Reader.write,
    "shell": _Reader.shell,
    "send": _Reader.send,
    "close": _Reader.close,
    "ask": _Reader.ask,
    "assert": _Reader.assert_artifact,
    "note": _Reader.note,
    "status": _Reader.status,
    "verdict": _Reader.mapping,
    "resolve": _Reader.mapping,
    "outcome": _Reader.outcome,
    "sleep": _Reader.sleep,
    "crash": _Reader.crash,
    "say": _Reader.say,
    "usage": _Reader.usage,
}
_PROXY_ACTIONS: Mapping[str, _ActionReader] = {
    **_AGENT_ACTIONS,
    "ask_human": _Reader.ask_human,
    "answer": _Reader.answer,
    "predict": _Reader.predict,
}
