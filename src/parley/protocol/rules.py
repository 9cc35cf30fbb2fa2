"""All rules by name, and what can be done with them: see what a firing would do, find all that may fire, fire one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from parley.protocol import conversation, escalation, intervention, lifecycle, withdrawal
from parley.protocol.errors import Disabled, Refused
from parley.protocol.molecules import HUMAN, PROXY, Interrupt, Molecule, Origin, Proxy, Question, Role, Surface
from parley.protocol.rule import (
    Answer,
    Asking,
    Broadcast,
    Choice,
    Ending,
    Enrolment,
    Firing,
    Menu,
    Opening,
    Passage,
    Reaction,
    Rule,
    RuleSet,
)
from parley.protocol.soup import Soup

__all__ = [
    "RULES",
    "Answer",
    "Asking",
    "Broadcast",
    "Choice",
    "Ending",
    "Enrolment",
    "Firing",
    "Menu",
    "Opening",
    "Passage",
    "Reaction",
    "Rule",
    "RuleSet",
    "anything",
    "apply",
    "enabled",
    "react",
]

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for module in (conversation, escalation, intervention, withdrawal, lifecycle)
        for rule in module.RULES
    }
)


def _answer(proxy: Molecule | None) -> Answer:
    if not isinstance(proxy, Proxy):
        return Answer("answer", PROXY)
    return Answer("answer", HUMAN if proxy.heard else PROXY, proxy.said, proxy.words)


def anything(rule: str, soup: Soup, molecule: Molecule | None) -> Iterable[Choice]:
    """The plainest choice for each rule that needs one: the menu where none is given."""
    match rule:
        case "send-step":
            return (Broadcast(()),)
        case "ask-step":
            return (Asking((Question(f"q{len(soup)}", "?"),)),)
        case "wake" | "wake-int" | "interrupt":
            return ("turn",)
        case "human-reply":
            return (Answer("reply", HUMAN),)
        case "respond":
            return (_answer(molecule),)
        case "escalate" | "dead-letter" | "give-up" | "pending" | "observe" | "merge" | "hold" | "relay":
            return (rule,)
        case "recover" | "strike":
            return ("engine", "agent") if rule == "recover" else ("pending", "violation")
        case "withdraw":
            return (Ending(Origin.WITHDRAWAL, "withdrawn"),)
        case "intervene":
            return (Interrupt(molecule.thread, "redirect"),) if isinstance(molecule, Surface) else ()
        case "enrol":
            return (Enrolment((Role(f"role{len(soup)}"),)),)
        case "open" | "transition" | "term-record":
            return ()
        case _:
            return (None,)


def react(soup: Soup, firing: Firing, rules: RuleSet = RULES) -> Reaction:
    """What a firing would do. Raises Disabled or Refused where it can't."""
    return rules[firing.rule].react(soup, firing)


def enabled(soup: Soup, rules: RuleSet = RULES, menu: Menu = anything) -> list[Firing]:
    """Every firing that is possible in the soup, for what the menu offers to choose."""
    return [firing for rule in rules.values() for firing in rule.sites(soup, menu) if _fires(soup, firing, rules)]


def _fires(soup: Soup, firing: Firing, rules: RuleSet) -> bool:
    try:
        react(soup, firing, rules)
    except (Disabled, Refused):
        return False
    return True


def apply(soup: Soup, firing: Firing, rules: RuleSet = RULES) -> Soup:
    """The soup after a firing."""
    reaction = react(soup, firing, rules)
    return soup.after(reaction.consumed, reaction.produced)
