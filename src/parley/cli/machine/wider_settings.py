"""Lists what is wider here than Parley's defaults, and its source: the user's settings, the place's, the command line.

`parley doctor` and the start of each job show it, so that no user works behind a weaker boundary without knowing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from parley.base.documents.node import DocumentError
from parley.base.output import OUTPUT_SECRETS
from parley.base.text import printable
from parley.cli.common import Workplace, own_settings
from parley.cli.machine.notify import addresses
from parley.cli.machine.trust import Layers, asking_roles
from parley.features.notices.post import kind_of
from parley.roles import RoleFile
from parley.settings.schema import FILE, Settings
from parley.settings.widening import Wish, widenings

COMMAND = "the command line"
ALLOWED = "allowed with `parley trust`"


class Widening(NamedTuple):
    """One setting that is wider than the default, and its source."""

    setting: str
    value: str
    source: str

    def __str__(self) -> str:
        value = f" = {self.value}" if self.value else ""
        return printable(f"{self.setting}{value} ({self.source})")


def of_settings(place: Workplace, layers: Layers, given: Settings | None = None) -> list[Widening]:
    """What the settings widen, with `given` as changed by the command line; and where notices go."""
    steps = [
        ("", Settings()),
        (str(own_settings()), layers.own),
        (f"{FILE}, {ALLOWED}", layers.given),
        (COMMAND, given or layers.given),
    ]
    found = [{*widenings(Settings(), structs.replace(settings, notify=None))} for _, settings in steps]
    wishes = widenings(Settings(), structs.replace(steps[-1][1], notify=None))
    told = [_told(wish, _source(wish, found, [name for name, _ in steps])) for wish in wishes]
    return [*told, *of_notices(place, layers.given)]


def _source(wish: Wish, found: Sequence[set[Wish]], names: Sequence[str]) -> str:
    """The first of the last consecutive layers that all ask for it."""
    at = len(found) - 1
    while at > 1 and wish in found[at - 1]:
        at -= 1
    return names[at]


def _told(wish: Wish, source: str) -> Widening:
    return Widening(wish.name, "" if wish.private else wish.value, source)


def of_notices(place: Workplace, settings: Settings) -> list[Widening]:
    """Where a job's notices are sent."""
    try:
        found, origin = addresses(place, settings)
    except DocumentError:
        return []  # reported elsewhere, and nothing is sent
    source = f"{FILE}, {ALLOWED}" if origin == str(place.root / FILE) else origin
    return [Widening("[notify] to", ", ".join(map(kind_of, found.to)), source)] if found.to else []


def of_roles(root: Path, roles: Mapping[str, RoleFile], settings: Settings) -> list[Widening]:
    """What the place's roles widen."""
    return [_told(wish, ALLOWED) for asked in asking_roles(root, roles, settings) for wish in asked.wishes]


def of_command(words: argparse.Namespace) -> list[Widening]:
    """What the command line widens besides settings."""
    return [Widening("--yes answers every question for you", "", COMMAND)] if getattr(words, "yes", False) else []


def tell(found: Iterable[Widening]) -> None:
    """Print each on a line of its own, on standard error."""
    for one in found:
        OUTPUT_SECRETS.show(line := f"parley: in force: {one}")
        print(line, file=sys.stderr)
