"""`parley trust`: allow what a repository's own parley.toml asks for beyond what a repository may.

A file that came with a clone was written by others. What it says of policies, limits and roles harms no one; what would
widen the boundary, run a program of its choice with the user's key, show the user's files to agents, send what a job
says elsewhere, or spend more than the user allows, waits for the user's word. That word is about the very content: a
changed file is to be allowed anew, and is shown beside what was allowed before.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parley import config
from parley.adapters.worktrees.source import find_source
from parley.faces.cli import OK, WAITING, Trouble
from parley.faces.cli.desk import Place, agrees, can_ask, own_settings, place_of, print_json, safe

# Tables, and the settings in them that a repository may not decide; none named: the whole table.
WIDENING: Mapping[str, tuple[str, ...]] = {
    "boundary": ("accept", "readable", "hosts", "exempt"),
    "agents": (),
    "claude": ("path", "subscription"),
    "workspace": ("copy",),
    "notify": ("to",),
}


class Wish(NamedTuple):
    """One setting that only the user may allow."""

    name: str  # `[boundary] hosts`
    value: str  # as TOML has it, near enough

    def __str__(self) -> str:
        return _line(f"{self.name} = {self.value}")


def settings_of(place: Place) -> config.Settings:
    """The settings of a place, over the user's own, unless they ask for what the user has not allowed."""
    settings = config.read(place.root, own_settings())
    if asked := unallowed(place):
        raise Trouble(
            f"{config.FILE} came with this repository and asks for {', '.join(asked)}; see what it asks for, and "
            "allow it, with `parley trust`"
        )
    return settings


def unallowed(place: Place) -> list[str]:
    """What the settings ask for that only the user may allow, and has not."""
    content = _content(place)
    asked = widening(content, _limits())
    if not asked or not _came_along(place) or _digest(content) in {known["digest"] for known in _book()}:
        return []
    return _names(asked)


def _names(asked: list[Wish]) -> list[str]:
    return list(dict.fromkeys(wish.name for wish in asked))


def widening(content: bytes, limits: config.BudgetSettings | None = None) -> list[Wish]:
    """The settings of a file that are more than a repository may decide. `limits` are the user's own."""
    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return []  # reading the settings tells what is wrong
    found: list[Wish] = []
    for table, keys in WIDENING.items():
        given: Any = document.get(table)
        if not isinstance(given, dict):
            continue
        if keys:
            found += [Wish(f"[{table}] {key}", _text(given[key])) for key in keys if key in given]
        else:
            found += _whole(table, given)
    return [*found, *_costly(document.get("budget"), limits or config.BudgetSettings())]


def _whole(name: str, table: Mapping[str, Any]) -> Iterator[Wish]:
    """Every setting of a table and of the tables in it."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _whole(f"{name}.{key}", value)
        else:
            yield Wish(f"[{name}] {key}", _text(value))


def _costly(budget: Any, own: config.BudgetSettings) -> Iterator[Wish]:
    """The budgets that allow more than the user's own do."""
    for scope, mine in (("job", own.of_job(costs=True)), ("day", own.of_day())):
        given = budget.get(scope) if isinstance(budget, dict) else None
        for what, value in given.items() if isinstance(given, dict) else ():
            try:
                amount = config.budget_amount(what, value, "") if what in config.JOB_BUDGETS else 0.0
            except config.ConfigError:
                continue  # reading the settings tells what is wrong
            if amount > mine.get(what, math.inf):
                yield Wish(f"[budget.{scope}] {what}", _text(value))


def _line(text: str) -> str:
    """A text that stays on its line and commands no terminal: a repository may have put anything into it."""
    return safe(text).replace("\n", "?")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def run(words: argparse.Namespace) -> int:
    """Show what the settings ask for as they are now, and allow it if the user says so."""
    place = place_of(words.repo)
    config.read(place.root)
    content = _content(place)
    asked = widening(content, _limits())
    known = _book()
    new = bool(asked) and _digest(content) not in {one["digest"] for one in known}
    before: dict[str, Any] = {}
    if new:
        before = next((one["values"] for one in reversed(known) if one["root"] == str(place.root)), before)
    if not words.json:
        _show(place, asked, before, new=new)
    if new:
        if not words.yes and not can_ask():
            raise Trouble("nothing is allowed yet, with no terminal to ask on; allow it: parley trust --yes", WAITING)
        if not words.yes and not agrees("Allow this?"):
            print("nothing is allowed; jobs do not start here until it is, or until parley.toml asks for less")
            return WAITING
        _write(place, content, asked)
    if words.json:
        values = [{"name": wish.name, "value": wish.value} for wish in asked]
        print_json({"allowed": _names(asked), "values": values})
    elif new:
        print(f"allowed: {', '.join(_names(asked))}")
    return OK


def _show(place: Place, asked: list[Wish], before: Mapping[str, Any], *, new: bool) -> None:
    """What is asked for, each with its value, and with what was allowed in its place before."""
    if not asked:
        print(f"{config.FILE} asks for nothing that has to be allowed")
        return
    state = "what only you may allow" if new else "this, which you have allowed"
    print(f"{place.root / config.FILE} asks for {state}:")
    for wish in asked:
        old = before.get(wish.name)
        change = "" if not before else "  (new)" if old is None else "" if old == wish.value else f"  (before: {old})"
        print(f"  {wish}{_line(change)}")
    for name in before.keys() - {wish.name for wish in asked}:
        print(_line(f"  {name}: not asked for any more  (before: {before[name]})"))


def _content(place: Place) -> bytes:
    path = place.root / config.FILE
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def _limits() -> config.BudgetSettings:
    """The user's own budgets; the defaults, where their file can't be read: reading the settings tells that."""
    try:
        return config.read_own(own_settings()).budget
    except config.ConfigError:
        return config.BudgetSettings()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _came_along(place: Place) -> bool:
    """Whether the file is part of what is checked out. One that is not committed is the user's own."""
    source = find_source(place.root)
    if source is None:
        return False
    words = ("rev-parse", "--verify", "--quiet", f"HEAD:{config.FILE}")
    return source.git.run(*words, fine=(0, 1, 128)).returncode == 0


# ---- what was allowed: one JSON document a line ---------------------------------------------------


def _book_file() -> Path:
    return own_settings().with_name("trusted.jsonl")


def _book() -> list[dict[str, Any]]:
    """What was allowed so far. A line that can't be read allows nothing."""
    try:
        lines = _book_file().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        try:
            known = json.loads(line)
        except (ValueError, RecursionError):
            continue
        shape = {"digest": str, "root": str, "values": dict}
        if isinstance(known, dict) and all(isinstance(known.get(key), kind) for key, kind in shape.items()):
            found.append(known)
    return found


def _write(place: Place, content: bytes, asked: list[Wish]) -> None:
    path = _book_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = {"digest": _digest(content), "root": str(place.root), "values": {wish.name: wish.value for wish in asked}}
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as book:
        book.write(f"{json.dumps(line)}\n")
