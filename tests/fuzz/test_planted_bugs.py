"""The fuzzer finds what it is for: each defect that a channel once had is put back, and whole jobs show it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parley.adapters import outcome
from parley.adapters.worktrees import sweep
from parley.engine import budgets, intake, live, texts
from tests.fuzz.hostile import Made, Turn, nested
from tests.fuzz.test_jobs import play

Plant = Callable[[pytest.MonkeyPatch], object]


def careless_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live, "mended", str)
    patch.setattr(texts, "bounded", lambda text, most: text)


def careless_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(texts, "name_text", str)
    careless_rows(patch)


def careless_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(intake, "heard", lambda event: event)
    careless_rows(patch)


def careless_arguments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(intake, "arguments_of", lambda event: event.arguments)


def careless_outcomes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcome, "read_json", lambda data, most: json.loads(data))
    careless_rows(patch)


def uncounted_money(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(budgets, "MOST_COUNTED", 10**40)


def recursive_deletion(patch: pytest.MonkeyPatch) -> None:
    def delete(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            for inner in path.iterdir():
                delete(inner)
            path.rmdir()
        else:
            path.unlink()

    patch.setattr(sweep, "delete", delete)


PLANTED: dict[str, tuple[Plant, Turn]] = {
    "a file's name that is not UTF-8": (careless_names, Turn(made=[Made("file", b"\xff%d", b"x")])),
    "a link's target that is not UTF-8": (careless_names, Turn(made=[Made("link", b"\xff%d", b"x\xff")])),
    "folders that a recursion can't follow": (recursive_deletion, Turn(made=[Made("deep", b"d", 1200)])),
    "half of a pair in the final text": (careless_events, Turn(text="\ud800")),
    "a key of usage that is no text": (careless_events, Turn(usage={"tok\udce9ns": 3})),
    "usage that is no number": (careless_events, Turn(usage={"input_tokens": "many"})),
    "money beyond sixty-four bits": (uncounted_money, Turn(usage={"cost_usd": 1e15})),
    "a note nested deeper than a parser goes": (careless_arguments, Turn(calls=[("Note", {"text": nested(20_000)})])),
    "an outcome record with half of a pair": (
        careless_outcomes,
        Turn(made=[Made("outcome", b"outcome.json", b'{"outcome": "\\ud800", "reason": "x"}')]),
    ),
}


def found(script: list[Turn]) -> str:
    """What a script shows, if anything."""
    try:
        play(script)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the fuzzer is to find
        return repr(error)
    return ""


def numbered(turn: Turn, number: int) -> Turn:
    """The turn with names of its own: a file that was there before is no change."""
    return replace(turn, made=[replace(one, name=one.name.replace(b"%d", b"%d" % number)) for one in turn.made])


@pytest.mark.parametrize("name", PLANTED)
def test_a_defect_that_is_put_back_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, turn = PLANTED[name]
    script = [numbered(turn, number) for number in range(24)]
    plant(monkeypatch)
    assert found(script), f"{name} goes unnoticed"
