"""Another version of Parley beside this one, in the same run: `python -m bench --against CHECKOUT`.

The other checkout is measured by its own bench, with its own Python where `make setup` was run there: as plain Python,
and as compiled code where a folder `.compiled` is in it (earlier versions could be compiled). Raw SQLite is measured
too, as the floor of both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.report import Section
from bench.round_trips import AIMED_AT, FLOORS, OURS, Peer, Say, measure


def forms_of(checkout: Path) -> list[Peer]:
    """The forms that another checkout has."""
    if not (checkout / "bench" / "conversations.py").is_file():
        raise SystemExit(f"{checkout} is no checkout of Parley that can be measured; name one, with its bench")
    own = checkout / ".venv" / "bin" / "python"
    python = own if own.exists() else Path(sys.executable)
    found = {"interpreted": checkout / "src", "compiled": checkout / ".compiled"}
    return [
        Peer(
            name=name,
            drawn=name,
            module="bench.conversations",
            form="alone",
            root=checkout,
            paths=(place, checkout),
            python=python,
        )
        for form, place in found.items()
        if (place / "parley").is_dir() and (name := f"{checkout.name}, {form}")
    ]


def compare(
    checkouts: Sequence[Path], conversations: Sequence[int], rounds: int, seconds: float, where: Path, say: Say
) -> Section:
    """The rates of all, and what this version makes of each: the two measured next to each other."""
    theirs = [form for checkout in checkouts for form in forms_of(checkout.resolve())]
    floors = {(n, floor.name) for n in conversations for floor in FLOORS if (n, floor.name) in AIMED_AT}
    measured = {(n, form.name) for n in conversations for form in theirs} | floors
    rates: dict[tuple[int, str], float] = {}
    ratios: dict[tuple[int, str], float] = {}
    for n in conversations:
        peers = [OURS, *(peer for peer in (*theirs, *FLOORS) if (n, peer.name) in measured)]
        medians, found = measure(peers, where, say, {n: rounds}, measured, seconds)
        rates |= {(n, median["peer"]): median["per_second"] for median in medians}
        ratios |= {(n, peer): ratio for (_, _, peer), ratio in found.items()}
    rows = [
        [name, *(cell for n in conversations for cell in (rates.get((n, name)), ratios.get((n, name))))]
        for name in dict.fromkeys(name for _, name in rates)
    ]
    heads = [head for n in conversations for head in (f"{n:,}", "parley / it")]
    return Section(f"Round trips a second, medians of {rounds} rounds", ["", *heads], rows)
