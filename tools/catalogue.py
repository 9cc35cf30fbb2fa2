"""The protocol as a page shows it: diagrams and tables made from the code's own tables.

A page holds prose and, between `<!-- generated: NAME -->` and `<!-- end -->`, what `fill` puts there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from parley.protocol.rules import RULES
from parley.protocol.states import LIVE, TERMINAL, TRANSITIONS, State, available_actions, is_backtrack
from parley.roles.skill_anatomy import EDGES, ENDS, STEPS
from parley.verify.invariants import ELSEWHERE, INVARIANTS
from parley.verify.laws import LAWS, LIFE

BLOCK = re.compile(r"(<!-- generated: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)

SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "§5": "conversations",
        "§7": "escalation",
        "§8": "intervention",
        "§9": "withdrawal",
    }
)
"""What the parts of the protocol are about; dispatch, §6, is in the conditions of [send] and [spark]."""


def states() -> str:
    """The state machine, as a Mermaid diagram."""
    lines = ["stateDiagram-v2", "    direction LR", f"    [*] --> {State.INTENT}"]
    lines += [f"    {source} --> {target} : {action}" for source in LIVE for action, target in _edges(source)]
    lines += [f"    {state} --> [*]" for state in TERMINAL]
    return _mermaid(lines)


def _edges(source: State) -> Iterable[tuple[str, State]]:
    return ((str(action), target) for action, target in TRANSITIONS[source].items())


def actions() -> str:
    """Every action of every live state, with where it leads and who emits it."""
    rows = [
        (state, f"`{action}`", TRANSITIONS[state][action], who, "yes" if is_backtrack(state, action) else "")
        for state in LIVE
        for action, who in available_actions(state)
    ]
    return _table(("in", "action", "leads to", "emitted by", "backtrack"), rows)


def anatomy() -> str:
    """What a phase skill goes through, as a Mermaid diagram; the steps at which the human is engaged stand out."""
    lines = ["flowchart TB"]
    lines += [f"    {step}([{step}])" if step in ("START", *ENDS) else f"    {step}[{step}]" for step in STEPS]
    lines += [f"    {source} -->|{when}| {target}" for (source, target), when in EDGES.items()]
    return _mermaid([*lines, "    classDef human fill:#ea580c,color:#fff", "    class ASK,ASSERT human"])


def lifecycle() -> str:
    """What an instance is, turn by turn, as a Mermaid diagram; each arrow is a rule."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for rule, (old, new) in LIFE.items():
        arrows.setdefault((old.__name__, new.__name__ if new is not None else "[*]"), []).append(rule)
    lines = ["stateDiagram-v2", "    [*] --> Idle : open, spark, ask, send-ask"]
    lines += [f"    {old} --> {new} : {', '.join(rules)}" for (old, new), rules in arrows.items()]
    return _mermaid(lines)


def rules() -> str:
    """Every rule: its name, the part of the protocol it belongs to, how it reads, what it remembers, when it fires."""
    rows = [(f"`{rule.name}`", _part(rule.section), rule.shape, rule.besides, rule.when) for rule in RULES.values()]
    return _table(("rule", "part", "reaction", "besides", "when"), rows)


def _part(section: str) -> str:
    return f"{SECTIONS[section]} ({section})" if section in SECTIONS else section


def invariants() -> str:
    """What every soup keeps, and where more of it is checked than a soup can show."""
    rows = [(f"`{name}`", _words(check), ELSEWHERE.get(name, "")) for name, check in INVARIANTS.items()]
    return _table(("name", "what it says of every soup", "what else is checked under its name"), rows)


def laws() -> str:
    """What every step keeps."""
    return _explained(LAWS)


def _explained(functions: Mapping[str, Callable[..., Any]]) -> str:
    return _table(("name", "what it says"), [(f"`{name}`", _words(function)) for name, function in functions.items()])


def _words(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip()


def _mermaid(lines: Iterable[str]) -> str:
    return "\n".join(("```mermaid", *lines, "```"))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


BLOCKS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {block.__name__: block for block in (states, actions, anatomy, lifecycle, rules, invariants, laws)}
)


def fill(text: str) -> str:
    """The page with every generated block made anew. A block of an unknown name is an error."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{BLOCKS[found[2]]()}\n\n{found[3]}", text)
