"""What a finished job hands over, in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley import unportable
from parley.engine.delivery import delivery
from parley.faces.cli import MODULES
from parley.faces.cli.desk import Place, one_line
from parley.faces.cli.typed import typed
from parley.obeyed import Obeyed, foremost
from parley.ports import Store, Workspace
from parley.wording import count

SHOWN = 20  # files that are named
COMMANDS = {"diff": "look at it", "merge": "take it home"}
_TOKENS = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cache_read_tokens": "from the cache",
    "cache_creation_tokens": "to the cache",
}


def delivered(store: Store, workspace: Workspace, job: str, work: Path, redact: Callable[[str], str]) -> dict[str, Any]:
    """The delivery as a document, with the commands that go on from here."""
    commands = [f"parley {command} {job}" for command in COMMANDS if command in MODULES]
    return {**delivery(store, workspace, job, work, redact).document(), "commands": commands}


def lines(document: dict[str, Any], place: Place) -> list[str]:
    """The delivery as people read it."""
    found: list[str] = []
    changes = document["changes"]
    if changes:
        found.append("what changed")
        found += [f"  {one_line(change['path'], 60):<60} {_count(change)}" for change in changes[:SHOWN]]
        if len(changes) > SHOWN:
            found.append(f"  … and {len(changes) - SHOWN} more")
        found.append(
            f"  {count(len(changes), 'file')}, {count(document['added'], 'line')} added, {document['removed']} removed"
        )
    found += obeyed_lines(document["obeyed"])
    found += unportable_lines(document["unportable"])
    found += ["what it cost", f"  {cost_words(document['cost'])}"]
    if document["assumptions"]:
        found.append("what was assumed")
        found += [f"  - {one_line(text, 300)}" for text in document["assumptions"]]
    words = list(COMMANDS.values())
    found += [f"{words[at]}: {typed(command, place)}" for at, command in enumerate(document["commands"])]
    return found


def obeyed_lines(found: list[dict[str, str]], *, whole: bool = False) -> list[str]:
    """The files of a change that tools run or obey, with what does: nothing where there are none."""
    if not found:
        return []
    shown = foremost([Obeyed(one["path"], one["by"]) for one in found], len(found) if whole else SHOWN)
    told = [f"  {one_line(one.path, 100)}: {one_line(one.by, 100)}" for one in shown]
    more = [f"  … and {len(found) - len(told)} more"] if len(found) > len(told) else []
    return ["what tools on this machine run or obey", *told, *more]


def unportable_lines(found: list[dict[str, str]]) -> list[str]:
    """The names of a change that trouble other systems, on one line: nothing where there are none."""
    said = unportable.words({one["path"]: one["why"] for one in found})
    return [said] if said else []


def _count(change: dict[str, Any]) -> str:
    if change["added"] is None or change["removed"] is None:
        return "not text"
    return f"+{change['added']} -{change['removed']}"


def cost_words(cost: dict[str, float]) -> str:
    """What turns used up, in the order in which people ask."""
    left = dict(cost)
    turns, money = left.pop("turns", 0), left.pop("cost_usd", None)
    left.pop("context_used", None)  # how full it was, not what it took
    tokens = {words: left.pop(name) for name, words in _TOKENS.items() if name in left}
    parts = [count(turns, "turn")]
    if any(tokens.values()):
        parts.append(f"tokens {', '.join(f'{value:,.0f} {words}' for words, value in tokens.items() if value)}")
    if money is not None:
        parts.append(f"{money:.2f} USD")
    return "; ".join([*parts, *(f"{value:g} {name.replace('_', ' ')}" for name, value in left.items())])
