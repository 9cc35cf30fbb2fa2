"""Formats what a finished job delivers: changes, cost, assumptions, next commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from parley.base import unportable
from parley.base.obeyed import Obeyed, foremost
from parley.base.wording import count
from parley.bus.store import Store
from parley.cli.common import Workplace, one_line
from parley.cli.typed_commands import typed
from parley.ports.workspaces import Change, Workspace
from parley.views.job_result import Delivery, delivery

SHOWN = 20  # files that are named
COMMANDS = {
    "diff {job}": "look at it",
    "merge {job}": "merge it",
    "pr {job}": "or open a pull request",
    "continue {job}": "go on from it",
}
WITHOUT_CHANGES = {"diff {job} --all": "read what it wrote about its work", "continue {job}": "go on from it"}
_TOKENS = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_read_tokens": "from the cache",
    "cache_creation_tokens": "to the cache",
}


class NextCommand(NamedTuple):
    """What can be done with a delivery."""

    words: str
    command: str
    verb: str  # of the command


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a job has delivered, and what can be done with it."""

    delivery: Delivery
    commands: tuple[NextCommand, ...]
    merged: bool = False  # whether what the user has checked out has it

    def without(self, *verbs: str) -> Delivered:
        """The same without some of the commands."""
        return replace(self, commands=tuple(one for one in self.commands if one.verb not in verbs))

    def document(self) -> dict[str, Any]:
        """As `--json` gives it."""
        return {**self.delivery.document(), "merged": self.merged, "commands": [one.command for one in self.commands]}


def delivered(store: Store, workspace: Workspace, job: str, work: Path, redact: Callable[[str], str]) -> Delivered:
    """The delivery, with the next commands."""
    found = delivery(store, workspace, job, work, redact)
    known = COMMANDS if found.changes else WITHOUT_CHANGES
    commands = (
        NextCommand(words, f"parley {line.format(job=job)}", line.partition(" ")[0]) for line, words in known.items()
    )
    return Delivered(found, tuple(commands))


def lines(found: Delivered, place: Workplace) -> list[str]:
    """The delivery as people read it."""
    told: list[str] = []
    changes = found.delivery.changes
    if changes:
        told.append("what changed")
        told += [f"  {one_line(change.path, 60):<60} {change.words}" for change in changes[:SHOWN]]
        if len(changes) > SHOWN:
            told.append(f"  … and {len(changes) - SHOWN} more")
        added, removed = count(found.delivery.added, "line"), found.delivery.removed
        told.append(f"  {count(len(changes), 'file')}, {added} added, {removed} removed")
        if found.merged:
            told.append("  it is merged: what you have checked out has it")
    elif found.commands:  # else its files are deleted
        told.append("no file changed")
    told += obeyed_lines([Obeyed(one.path, one.obeyed) for one in changes if one.obeyed])
    told += unportable_lines(changes)
    told += ["what it cost", f"  {cost_words(found.delivery.cost)}"]
    if found.delivery.assumptions:
        told.append("what was assumed")
        told += [f"  - {one_line(text, 300)}" for text in found.delivery.assumptions]
    return [*told, *(f"{one.words}: {typed(one.command, place)}" for one in found.commands)]


def obeyed_lines(found: Sequence[Obeyed], *, whole: bool = False) -> list[str]:
    """The changed files that tools run or obey, with the tools; empty where there are none."""
    if not found:
        return []
    shown = foremost(found, len(found) if whole else SHOWN)
    told = [f"  {one_line(one.path, 100)}: {one_line(one.by, 100)}" for one in shown]
    more = [f"  … and {len(found) - len(told)} more"] if len(found) > len(told) else []
    return ["what tools on this machine run or obey", *told, *more]


def unportable_lines(changes: Sequence[Change]) -> list[str]:
    """The changed names that trouble other systems, on one line; empty where there are none."""
    said = unportable.words({one.path: one.unportable for one in changes if one.unportable})
    return [said] if said else []


def cost_words(cost: Mapping[str, float]) -> str:
    """What turns used, the most asked for first."""
    left = dict(cost)
    turns, money = left.pop("turns", 0), left.pop("cost_usd", None)
    left.pop("context_used", None)  # how full it was, not usage
    tokens = {words: left.pop(name) for name, words in _TOKENS.items() if name in left}
    parts = [count(turns, "turn")]
    if any(tokens.values()):
        parts.append(f"tokens {', '.join(f'{value:,.0f} {words}' for words, value in tokens.items() if value)}")
    if money is not None:
        parts.append(f"{money:.2f} USD")
    return "; ".join([*parts, *(f"{value:g} {name.replace('_', ' ')}" for name, value in left.items())])
