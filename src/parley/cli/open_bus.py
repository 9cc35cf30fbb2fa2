"""Opens the bus of a home for a command, and finds jobs and threads by shortened ids."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from msgspec.structs import replace

from parley.base.documents.node import DocumentError
from parley.base.output import OUTPUT_SECRETS
from parley.base.wording import near
from parley.bus.forwarding_store import ForwardingStore
from parley.bus.rows import InputRow, JobRow, Loaded, MessageRow, StepRow
from parley.bus.sqlite import safe_open
from parley.bus.store import HomeStore
from parley.cli import BAD_USE, FAILED, CommandError, ctrl_c, home_bus
from parley.cli.common import Workplace, hide_home_from_git
from parley.features.secrets import row_redaction
from parley.features.secrets.fresh_secrets import FreshSecrets, SecretSources
from parley.machine.disk_reserve import DiskReserve
from parley.protocol.molecules import thread_name
from parley.settings import load
from parley.settings.schema import FILE

_KEPT_SETTINGS = 64  # of as many jobs
_SHOWN = 8  # candidates for an ambiguous id


class RedactedStore(ForwardingStore):
    """The bus without secrets, for people to read. Nothing is run or verified from it."""

    def __init__(self, place: Workplace, durability: str = "full", secrets: FreshSecrets | None = None) -> None:
        super().__init__(home_bus.open_store(place.home, durability=durability))
        self.secrets = secrets or known_secrets(place)
        # A job's settings never change, hold all its roles, and are read with every look at the job.
        self._settings = lru_cache(_KEPT_SETTINGS)(lambda text, version: row_redaction.words(text, self.secrets))
        OUTPUT_SECRETS.look(lambda: self.secrets.sparing(str(place.root), str(place.home)))

    def load(self, job: str) -> Loaded:
        """The job, with its request and the reasons in its records redacted."""
        found = super().load(job)
        molecules = {
            slot: row_redaction.words(body, self.secrets) if slot.startswith("record ") else body
            for slot, body in found.molecules.items()
        }
        return replace(found, row=self._row(found.row), molecules=molecules)

    def jobs(self) -> list[JobRow]:
        """Every job."""
        return [self._row(row) for row in super().jobs()]

    def _row(self, row: JobRow) -> JobRow:
        settings = self._settings(row.settings, self.secrets.version)
        return replace(row, request=self.secrets.redact(row.request), settings=settings)

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""
        return (row_redaction.step_row(row, self.secrets) for row in super().steps(job, after))

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""
        return (row_redaction.message_row(row, self.secrets) for row in super().messages(job, after))

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""
        return row_redaction.message_row(super().message(job, number), self.secrets)

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """The job's inputs, in order."""
        return [row_redaction.input_row(row, self.secrets) for row in super().inputs(job, waiting=waiting)]

    def waiting(self, jobs: Collection[str]) -> list[InputRow]:
        """The inputs of some jobs that no transaction has taken yet."""
        return [row_redaction.input_row(row, self.secrets) for row in super().waiting(jobs)]

    def authentic(self, row: InputRow) -> bool | None:
        """Whether an input is signed: checked on the row with its secrets."""
        true = next((each for each in super().inputs(row.job, waiting=False) if each.number == row.number), row)
        return super().authentic(true)


def known_secrets(place: Workplace) -> FreshSecrets:
    """The secrets of this machine and this repository, as they are whenever something is hidden."""

    def copied() -> Iterable[str]:
        try:
            return load.read(place.root).workspace.copy  # the user's own settings do not have it
        except DocumentError:
            return ()  # the code that needs the settings reports what is wrong with them

    return FreshSecrets(SecretSources(place.root, os.environ, copied, place.root / FILE).now)


def refuse_foreign_home(place: Workplace) -> None:
    """Refuse a home that is not this user's own."""
    try:
        safe_open.admit(place.home)
    except safe_open.KeyRefused as refused:
        raise CommandError(str(refused), FAILED) from refused


@contextmanager
def open_bus(place: Workplace, durability: str = "full", *, unredacted: bool = False) -> Iterator[HomeStore]:
    """The bus of an existing home, redacted; `unredacted` for the audit and the engine."""
    if not home_bus.exists(place.home):
        raise CommandError(f"there is no job in {place.home} yet; start one with `parley run`")
    refuse_foreign_home(place)  # before anything there is touched
    DiskReserve(place.home).ease()
    store: HomeStore = (
        home_bus.open_store(place.home, durability=durability) if unredacted else RedactedStore(place, durability)
    )
    try:
        hide_home_from_git(place.home)
        yield store
    finally:
        store.close()


# ---- ids -----------------------------------------------------------------------------------------


def find_job(rows: Iterable[JobRow], given: str) -> JobRow:
    """The job that an id, or the beginning of one, names."""
    by_id = {row.job: row for row in rows}
    found = by_id[pick(given.removeprefix("job:"), by_id, "job", "`parley ls` lists them")]
    ctrl_c.set_interrupted_hint(lambda: f"see how {found.job} stands with: parley show {found.job}")
    return found


def pick(given: str, known: Iterable[str], what: str, remedy: str) -> str:
    """The one known id that begins with `given`."""
    names = set(known)
    found = sorted(name for name in names if name.startswith(given)) if given else []
    if given in found:
        return given
    if not found:
        meant = near(given, names)
        raise CommandError(
            f"there is no {what} {given!r}; {f'did you mean {meant}? ' if meant else ''}{remedy}", BAD_USE
        )
    if len(found) > 1:
        some = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise CommandError(f"{given!r} matches several {what}s: {some}; give more of its id", BAD_USE)
    return found[0]


def pick_thread(given: str, known: Iterable[str], job: str) -> str:
    """The one known thread with this name, with or without its kind."""
    names = set(known)
    if given in names:
        return given
    short = {thread_name(name): name for name in names}
    candidates = {name for name in names if name.startswith(given)}
    candidates |= {name for rest, name in short.items() if rest.startswith(given)}
    if not given or not candidates:
        meant = near(given, [*names, *short])
        hint = f"did you mean {meant}? " if meant else ""
        raise CommandError(f"there is no thread {given!r}; {hint}`parley tree {job}` lists them")
    if len(candidates) > 1:
        raise CommandError(f"{given!r} matches several: {', '.join(sorted(candidates)[:_SHOWN])}; give more of its id")
    return next(iter(candidates))
