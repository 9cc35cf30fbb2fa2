"""The fuzzer finds what it is for: each defect that a channel once had is put back, and whole jobs show it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parley.base.documents.node import node_of
from parley.base.json_codec import JSON
from parley.engine import owned_job, protocol_messages
from parley.engine.turn import calls, finish, progress
from parley.features.budgets import arithmetic
from parley.workspaces import outcome_record
from parley.workspaces.home import sweep
from tests.fuzz.hostile_strategies import Made, Turn, nested
from tests.fuzz.test_jobs import play

Plant = Callable[[pytest.MonkeyPatch], object]


def careless_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owned_job, "mended", str)
    patch.setattr(owned_job, "_json", lambda value: JSON.encode(value).decode())  # without its way out
    patch.setattr(finish, "fit", lambda text, most: text)
    patch.setattr(protocol_messages, "bounded", lambda text, most: text)


def careless_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol_messages, "name_text", str)
    careless_rows(patch)


def careless_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(finish, "bounded", lambda event: event)
    patch.setattr(progress, "text_in", lambda text, most: text)
    careless_rows(patch)


def careless_arguments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "check_value", lambda *given, **bounds: None)


def careless_outcomes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcome_record, "read_json", lambda text, file, deepest: node_of(json.loads(text), file))
    careless_rows(patch)


def uncounted_money(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arithmetic, "MOST_COUNTED", 10**40)


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
