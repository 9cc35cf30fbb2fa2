"""What is wider here than Parley's own defaults, each with who says so: the user's settings, the place's, the command.

`parley doctor` and the start of each job name it, so that nobody works behind a weaker boundary without being told.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from parley import config
from parley.adapters.notices.post import kind_of
from parley.adapters.roles import RoleFile
from parley.faces.cli.desk import Place, own_settings
from parley.faces.cli.notices import addresses
from parley.faces.cli.trust import Layers, asking_roles
from parley.output import NET
from parley.text import printable
from parley.widening import Wish, widenings

COMMAND = "the command line"
ALLOWED = "allowed with `parley trust`"
# Values that may hold secrets: the user knows them, and a screen need not.
_SECRET = ("environment", "route", "headers")


class Widening(NamedTuple):
    """One thing that is wider than the default, and who says so."""

    setting: str
    value: str
    source: str

    def __str__(self) -> str:
        value = f" = {self.value}" if self.value else ""
        return printable(f"{self.setting}{value} ({self.source})")


def of_settings(place: Place, layers: Layers, given: config.Settings | None = None) -> list[Widening]:
    """What the settings widen, with `given` as the command line has made them; and where notices go."""
    steps = [
        ("", config.Settings()),
        (str(own_settings()), layers.own),
        (f"{config.FILE}, {ALLOWED}", layers.given),
        (COMMAND, given or layers.given),
    ]
    found = [{*widenings(config.Settings(), replace(settings, notify=None))} for _, settings in steps]
    wishes = widenings(config.Settings(), replace(steps[-1][1], notify=None))
    told = [_told(wish, _source(wish, found, [name for name, _ in steps])) for wish in wishes]
    return [*told, *of_notices(place, layers.given)]


def _source(wish: Wish, found: Sequence[set[Wish]], names: Sequence[str]) -> str:
    """The first of the last steps in a row that all ask for it."""
    at = len(found) - 1
    while at > 1 and wish in found[at - 1]:
        at -= 1
    return names[at]


def _told(wish: Wish, source: str) -> Widening:
    table, _, key = wish.name.rpartition(" ")
    hidden = table.startswith("[agents.") and any(word in (*table.strip("[]").split("."), key) for word in _SECRET)
    return Widening(wish.name, "" if hidden else wish.value, source)


def of_notices(place: Place, settings: config.Settings) -> list[Widening]:
    """Where words of a job are sent."""
    try:
        found, origin = addresses(place, settings)
    except config.ConfigError:
        return []  # it is told of, and nothing is sent
    source = f"{config.FILE}, {ALLOWED}" if origin == str(place.root / config.FILE) else origin
    return [Widening("[notify] to", ", ".join(map(kind_of, found.to)), source)] if found.to else []


def of_roles(root: Path, roles: Mapping[str, RoleFile], settings: config.Settings) -> list[Widening]:
    """What the place's roles widen."""
    return [
        Widening(wish.name, "" if wish.name.endswith("role") else wish.value, ALLOWED)
        for asked in asking_roles(root, roles, settings)
        for wish in asked.wishes
    ]


def of_command(words: argparse.Namespace) -> list[Widening]:
    """What the command line says besides settings."""
    return [Widening("--yes answers every question for you", "", COMMAND)] if getattr(words, "yes", False) else []


def tell(found: Iterable[Widening]) -> None:
    """Name each, on a line of its own, beside the output."""
    for one in found:
        NET.show(line := f"parley: in force: {one}")
        print(line, file=sys.stderr)
