"""The bus of a home, and ids that may be shortened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from parley.adapters.sqlite import SqliteStore
from parley.faces.cli import BAD_USE, Trouble
from parley.faces.cli.desk import Place, shield
from parley.ports import JobRow

_SHOWN = 8  # candidates for an ambiguous id


@contextmanager
def bus(place: Place, durability: str = "full") -> Iterator[SqliteStore]:
    """The bus of an existing home."""
    if not SqliteStore.exists(place.home):
        raise Trouble(f"there is no job in {place.home} yet; start one with `parley run`")
    shield(place.home)
    store = SqliteStore(place.home, durability=durability)
    try:
        yield store
    finally:
        store.close()


# ---- ids -----------------------------------------------------------------------------------------


def find_job(rows: Iterable[JobRow], given: str) -> JobRow:
    """The job that an id, or the beginning of one, names."""
    by_id = {row.job: row for row in rows}
    return by_id[pick(given.removeprefix("job:"), by_id, "job", "`parley ls` lists them")]


def pick(given: str, known: Iterable[str], what: str, remedy: str) -> str:
    """The one known id that begins so."""
    found = sorted({name for name in known if name.startswith(given)}) if given else []
    if given in found:
        return given
    if not found:
        raise Trouble(f"there is no {what} {given!r}; {remedy}", BAD_USE)
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
    return pick_one(given, candidates, job)


def pick_one(given: str, candidates: set[str], job: str) -> str:
    """The only candidate."""
    if not given or not candidates:
        raise Trouble(f"there is no thread {given!r}; `parley tree {job}` lists them")
    if len(candidates) > 1:
        raise Trouble(f"{given!r} may be any of: {', '.join(sorted(candidates)[:_SHOWN])}; give more of its id")
    return next(iter(candidates))
