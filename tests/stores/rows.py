"""Rows as the tests of the stores need them, short to write."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from parley.bus.rows import (
    Commit,
    EndedTurn,
    InputRow,
    JobProgress,
    JobRow,
    Loaded,
    MessageRow,
    StepRow,
    TakenInput,
    TransactionRow,
    TurnRow,
)
from parley.bus.store import Store


def job(name: str = "j1", **fields: Any) -> JobRow:
    values: dict[str, Any] = {
        "job": name, "request": "do it", "decider": "ann", "created": 1.0, "updated": 1.0, "state": "INTENT",
        "visit": 1, "backtracks": 0, "needs_human": 0, "held": 0, "agent": "scripted", "settings": "{}",
    }  # fmt: skip
    return JobRow(**{**values, **fields})


def step(number: int, txn: int = 1, **fields: Any) -> StepRow:
    values: dict[str, Any] = {
        "number": number, "transaction": txn, "rule": "wake", "who": "engine", "time": 2.5,
        "at": '{"a": "lead"}', "choice": "{}", "consumed": '["Idle"]', "produced": '["Run"]',
        "extra": "",
    }  # fmt: skip
    return StepRow(**{**values, **fields})


def message(number: int, txn: int = 1, **fields: Any) -> MessageRow:
    values: dict[str, Any] = {
        "number": number, "transaction": txn, "sender": "lead", "sender_thread": "state:j1/1",
        "agent": "coder", "thread": "dispatch:1", "seq": number, "key": f"key{number}",
        "time": 2.5, "body": f"text {number}", "meta": "",
    }  # fmt: skip
    return MessageRow(**{**values, **fields})


def turn(name: str, epoch: int = 1, **fields: Any) -> TurnRow:
    values: dict[str, Any] = {
        "turn": name, "agent": "coder", "thread": "dispatch:1", "message": "text", "epoch": epoch,
        "host": "here", "status": "submitted", "started": 3.5,
    }  # fmt: skip
    return TurnRow(**{**values, **fields})


def transaction(number: int, epoch: int = 1) -> TransactionRow:
    return TransactionRow(
        number=number,
        time=2.5,
        epoch=epoch,
        steps=number * 2,
        messages=number,
        head=f"head{number}",
        digests=f"digests{number}",
    )


def commit(
    number: int = 1,
    epoch: int = 1,
    name: str = "j1",
    *,
    steps: Sequence[StepRow] = (),
    messages: Sequence[MessageRow] = (),
    molecules: Mapping[str, str | None] | None = None,
    started: Sequence[TurnRow] = (),
    ended: Sequence[EndedTurn] = (),
    taken: Sequence[TakenInput] = (),
    progress: JobProgress | None = None,
) -> Commit:
    return Commit(
        job=name,
        epoch=epoch,
        transaction=transaction(number, epoch),
        steps=steps,
        messages=messages,
        molecules=molecules or {},
        started=started,
        ended=ended,
        taken=taken,
        progress=progress,
    )


def change(**fields: Any) -> JobProgress:
    values: dict[str, Any] = {
        "updated": 2.0, "state": "INTENT", "visit": 1, "backtracks": 0, "needs_human": 0, "held": 0,
    }  # fmt: skip
    return JobProgress(**{**values, **fields})


def end(turn: str, epoch: int, status: str) -> EndedTurn:
    return EndedTurn(turn=turn, epoch=epoch, status=status)


def take(number: int, note: str) -> TakenInput:
    return TakenInput(number=number, note=note)


def everything(store: Store) -> list[tuple[Loaded, list[Any], list[InputRow], list[InputRow]]]:
    """All that can be seen of a bus."""
    found = []
    for row in store.jobs():
        rows = [
            *store.transactions(row.job), *store.steps(row.job),
            *store.messages(row.job), *store.turns(row.job),
        ]  # fmt: skip
        waiting, given = (
            [replace(each, signature="") for each in store.inputs(row.job, waiting=waiting)]  # each bus has its key
            for waiting in (True, False)
        )
        found.append((store.load(row.job), rows, waiting, given))
    return found
