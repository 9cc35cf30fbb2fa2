"""The bus of a home, and ids that may be shortened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from parley import config
from parley.adapters import bus_gate
from parley.adapters.reserve import Reserve
from parley.adapters.sqlite import SqliteStore
from parley.engine import discretion
from parley.engine.redaction import Secrets
from parley.engine.vault import secrets_of
from parley.faces import interrupt
from parley.faces.cli import BAD_USE, FAILED, Trouble
from parley.faces.cli.desk import Place, shield
from parley.output import NET
from parley.ports import InputRow, JobRow, Loaded, MessageRow, StepRow
from parley.wording import near

_SHOWN = 8  # candidates for an ambiguous id


class ShownStore(SqliteStore):
    """The bus as people are shown it: without secrets. Nothing is run or proved from it."""

    def __init__(self, place: Place, durability: str = "full") -> None:
        super().__init__(place.home, durability=durability)
        self.secrets = known_secrets(place)
        NET.look(lambda: self.secrets.sparing(str(place.root), str(place.home)))

    def load(self, job: str) -> Loaded:
        """The job, with its request and the reasons in its records redacted."""
        found = super().load(job)
        molecules = {
            slot: discretion.words(body, self.secrets) if slot.startswith("record ") else body
            for slot, body in found.molecules.items()
        }
        return replace(found, row=discretion.job_row(found.row, self.secrets), molecules=molecules)

    def jobs(self) -> list[JobRow]:
        """Every job."""
        return [discretion.job_row(row, self.secrets) for row in super().jobs()]

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""
        return (discretion.step_row(row, self.secrets) for row in super().steps(job, after))

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""
        return (discretion.message_row(row, self.secrets) for row in super().messages(job, after))

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""
        return discretion.message_row(super().message(job, number), self.secrets)

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """The job's inputs, in order."""
        return [discretion.input_row(row, self.secrets) for row in super().inputs(job, waiting=waiting)]

    def authentic(self, row: InputRow) -> bool | None:
        """What was signed is the row with its secrets."""
        true = next((each for each in super().inputs(row.job, waiting=False) if each.number == row.number), row)
        return super().authentic(true)


def known_secrets(place: Place) -> Secrets:
    """What must not be shown of this machine and this repository."""
    try:
        copied = config.read(place.root).workspace.copy  # which the user's own settings do not say
    except config.ConfigError:
        copied = ()  # whoever needs the settings says what is wrong with them
    return secrets_of(place.root, os.environ, copied)


def admitted(place: Place) -> None:
    """Refuse a home that is not this user's own."""
    try:
        bus_gate.admit(place.home)
    except bus_gate.Refused as refused:
        raise Trouble(str(refused), FAILED) from refused


@contextmanager
def bus(place: Place, durability: str = "full", *, true: bool = False) -> Iterator[SqliteStore]:
    """The bus of an existing home, as it may be shown; the true one for whoever proves it."""
    if not SqliteStore.exists(place.home):
        raise Trouble(f"there is no job in {place.home} yet; start one with `parley run`")
    admitted(place)  # before anything there is touched
    Reserve(place.home).ease()
    store = SqliteStore(place.home, durability=durability) if true else ShownStore(place, durability)
    try:
        shield(place.home)
        yield store
    finally:
        store.close()


# ---- ids -----------------------------------------------------------------------------------------


def find_job(rows: Iterable[JobRow], given: str) -> JobRow:
    """The job that an id, or the beginning of one, names."""
    by_id = {row.job: row for row in rows}
    found = by_id[pick(given.removeprefix("job:"), by_id, "job", "`parley ls` lists them")]
    interrupt.tell(lambda: f"see how {found.job} stands with: parley show {found.job}")
    return found


def pick(given: str, known: Iterable[str], what: str, remedy: str) -> str:
    """The one known id that begins so."""
    names = set(known)
    found = sorted(name for name in names if name.startswith(given)) if given else []
    if given in found:
        return given
    if not found:
        meant = near(given, names)
        raise Trouble(f"there is no {what} {given!r}; {f'did you mean {meant}? ' if meant else ''}{remedy}", BAD_USE)
    if len(found) > 1:
        some = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise Trouble(f"{given!r} may be any of several {what}s: {some}; give more of its id", BAD_USE)
    return found[0]


def pick_thread(given: str, known: Iterable[str], job: str) -> str:
    """The one known thread that is called so, with or without its kind."""
    names = set(known)
    if given in names:
        return given
    short = {name.partition(":")[2]: name for name in names}
    candidates = {name for name in names if name.startswith(given)}
    candidates |= {name for rest, name in short.items() if rest.startswith(given)}
    if not given or not candidates:
        meant = near(given, [*names, *short])
        hint = f"did you mean {meant}? " if meant else ""
        raise Trouble(f"there is no thread {given!r}; {hint}`parley tree {job}` lists them")
    if len(candidates) > 1:
        raise Trouble(f"{given!r} may be any of: {', '.join(sorted(candidates)[:_SHOWN])}; give more of its id")
    return next(iter(candidates))
