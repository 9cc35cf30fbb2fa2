"""Puts complete sessions away, and brings them back: copy, sync, index, and only then remove.

Sessions are kept on the bus; the files are made from it. So this is an effect that comes after its commit and may be
done again: what a crash left half done is found and finished, and what is done is left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from parley.base.text import mended
from parley.ports.workspaces import Workspace, WorkspaceError
from parley.workflow.files import archive as archives
from parley.workflow.files.archive import (
    ARCHIVIST,
    INDEX,
    INSTRUCTIONS,
    LOG,
    Archived,
    Logged,
    read_index,
    read_log,
    render_index,
    render_log,
)
from parley.workflow.files.session import read_session, render_session
from parley.workflow.model.terms import FOLDER, Session, instructions_of, session_of

SHOWN = 5  # archives that a refusal names
MOST_BYTES = 32_000_000  # of a session's file


class Shelf(Protocol):
    """Where the files of a workflow lie. A write is synced when it returns, and raises WorkspaceError or OSError."""

    def read(self, path: str) -> str | None:
        """What an ordinary file holds."""

    def write(self, files: Mapping[str, str | None]) -> None:
        """Put files, None: take them away, in this order."""

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a workflow in one workspace of a job."""

    workspace: Workspace
    job: str
    name: str

    def read(self, path: str) -> str | None:
        """What an ordinary file holds."""
        return self.workspace.read(self.job, self.name, path, MOST_BYTES)

    def write(self, files: Mapping[str, str | None]) -> None:
        """Put files, and commit them."""
        self.workspace.write(self.job, self.name, files)

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder."""
        return self.workspace.listing(self.job, self.name, folder)


@dataclass(frozen=True, slots=True)
class Archival:
    """What became of the sessions: which archives they are now, and whose could not be put away, with the reason."""

    done: tuple[Archived, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


class NotRestored(Exception):
    """An archive is not brought back: the text says why and what to do."""


def archive(
    shelf: Shelf,
    task: str,
    sessions: Mapping[str, Session],
    now: int,
    earlier: Sequence[tuple[str, Session]] = (),
    how: Mapping[str, tuple[str, str]] | None = None,
) -> Archival:
    """Put away the sessions of agents that are over, by agent, as the bus has them.

    `earlier` are the sessions that an agent had before this one; they are in no file any more. `how`: the status that
    an agent's session ended with, and why, where it is not complete.

    Call it after the commit that made them complete, and again with the same sessions after a failure or a crash: what
    failed has left its `session_current.json` where it was. From then on, do not write that file again for them.
    """
    done: dict[str, Archived] = {}
    failed: dict[str, str] = {}
    try:
        if shelf.read(instructions_of(ARCHIVIST)) is None:
            shelf.write({instructions_of(ARCHIVIST): INSTRUCTIONS})
        _add(shelf, task, earlier, now)
        _archive(shelf, task, sessions, now, how or {}, done, failed)
    except (WorkspaceError, OSError) as error:
        failed |= {agent: str(error) or type(error).__name__ for agent in sessions if agent not in done}
    if failed:
        _log_failures(shelf, failed, now)
    return Archival(tuple(done.values()), tuple(failed.items()))


def away(shelf: Shelf, task: str, sessions: Mapping[str, Session]) -> set[str]:
    """The agents whose session is archived, indexed and removed already: what lies in its place is another one."""
    books = Books.of(shelf, 0)
    found = set()
    for agent, session in sessions.items():
        copies: dict[str, str] = {}
        entry = books.place(agent, task, session, mended(render_session(session)), copies, 0)
        if not copies and books.last(entry.file) == "removed":
            found.add(agent)
    return found


def _archive(
    shelf: Shelf,
    task: str,
    sessions: Mapping[str, Session],
    now: int,
    how: Mapping[str, tuple[str, str]],
    done: dict[str, Archived],
    failed: dict[str, str],
) -> None:
    books = Books.of(shelf, now)
    copies: dict[str, str] = {}
    entries: dict[str, Archived] = {}
    others: dict[str, str] = {}  # where what lay there instead of the session is kept
    live: set[str] = set()
    for agent, session in sessions.items():
        text = mended(render_session(session))
        if session_of(agent) in books.there:
            live.add(agent)
            found = shelf.read(session_of(agent))
            if found is None:
                failed[agent] = f"{session_of(agent)} can't be read"
                continue
            if found != text:
                others[agent] = archives.found_of(agent, found)
                copies[others[agent]] = found
        entry = books.place(agent, task, session, text, copies, now)
        status, reason = how.get(agent, (archives.COMPLETE, ""))
        entries[agent] = replace(entry, status=status, reason=reason[: archives.MOST_TEXT])
    if copies:
        shelf.write(copies)
    for agent, entry in entries.items():
        written = [path for path in (entry.file, others.get(agent)) if path in copies]
        if any(shelf.read(path) != copies[path] for path in written):
            failed[agent] = f"{written[0]} does not hold what was written there"
    put_away = {agent: entry for agent, entry in entries.items() if agent not in failed}
    for agent, entry in put_away.items():
        books.enter(entry, now)
        if agent in others and not books.last(others[agent]):
            books.log.append(
                Logged(
                    timestamp=now,
                    agent=agent,
                    action="archived",
                    file=others[agent],
                    detail="it lay there, but is not what the bus has",
                )
            )
    books.write()
    if books.indexed() != set(books.index):
        failed |= dict.fromkeys(put_away, f"{INDEX} does not hold what was written there")
        return
    gone: dict[str, str | None] = {session_of(agent): None for agent in put_away if agent in live}
    for agent, entry in put_away.items():
        if agent in live or books.last(entry.file) != "removed":
            books.log.append(
                Logged(
                    timestamp=now,
                    agent=agent,
                    action="removed",
                    file=entry.file,
                    detail="session_current.json is archived here",
                )
            )
    books.write(gone)
    done |= {agent: books.index[entry.file] for agent, entry in put_away.items()}


def _add(shelf: Shelf, task: str, earlier: Sequence[tuple[str, Session]], now: int) -> None:
    """Archive sessions that have no file of their own."""
    if not earlier:
        return
    books = Books.of(shelf, now)
    copies: dict[str, str] = {}
    entries = [books.place(agent, task, one, mended(render_session(one)), copies, now) for agent, one in earlier]
    if copies:
        shelf.write(copies)
    for entry in entries:
        books.enter(entry, now)
    books.write()


def restore(shelf: Shelf, agent: str, wanted: str, now: int, *, replacing: bool = False) -> str:
    """Make an archive an agent's current session again; the archive's path. NotRestored if it is not to be.

    `wanted` is the archive's name or how it begins. A live session is archived first, and only if it may be replaced.
    """
    path = _named(shelf, agent, wanted)
    books = Books.of(shelf, now)
    text = shelf.read(path)
    if text is None:
        raise NotRestored(f"{path} can't be read; is it an ordinary file?")
    session, findings = archives.restorable(text, books.index.get(path), path)
    if session is None:
        raise NotRestored(str(findings[0]))
    current = session_of(agent)
    if current in books.there:
        live = shelf.read(current)
        if live == text:
            return path
        _keep(books, agent, path, live if replacing else None, now)
    books.log.append(
        Logged(timestamp=now, agent=agent, action="restored", file=path, detail="it is session_current.json again")
    )
    books.write({current: text})
    return path


def _named(shelf: Shelf, agent: str, wanted: str) -> str:
    folder = archives.folder_of(agent)
    found = [path for path in shelf.listing(folder) if archives.is_archive(path) and archives.agent_of(path) == agent]
    names = {path.rsplit("/", 1)[1]: path for path in found}
    fitting = [name for name in names if name in {wanted, f"{wanted}.json"}] or [
        name for name in names if wanted and name.startswith(wanted)
    ]
    if len(fitting) == 1:
        return names[fitting[0]]
    there = ", ".join(sorted(fitting or names)[:SHOWN]) or "none"
    which = "several archives" if fitting else "no archive"
    raise NotRestored(f"{agent!r} has {which} named {wanted!r}; name one of those in {folder}: {there}")


def _keep(books: Books, agent: str, path: str, live: str | None, now: int) -> None:
    """Archive a live session before it is replaced."""
    current = session_of(agent)
    if live is None:
        raise NotRestored(f"{current} is a live session; give --replace to archive it and put the other in its place")
    session, findings = read_session(live, agent)
    if session is None:
        raise NotRestored(f"{findings[0]}; it would be lost, so move it away yourself")
    copies: dict[str, str] = {}
    entry = books.place(agent, archives.task_of(path), session, live, copies, now)
    books.shelf.write(copies)
    if books.shelf.read(entry.file) != live:
        raise NotRestored(f"{entry.file} does not hold what was written there; {current} is as it was")
    books.enter(entry, now)
    books.write()


def _log_failures(shelf: Shelf, failed: Mapping[str, str], now: int) -> None:
    """Say in the log what went wrong, once; that this fails too is no reason to fail."""
    with contextlib.suppress(WorkspaceError, OSError):
        books = Books.of(shelf, now)
        for agent, why in failed.items():
            said = [entry for entry in books.log if entry.agent == agent]
            if not said or (said[-1].action, said[-1].detail) != ("failed", why):
                books.log.append(
                    Logged(timestamp=now, agent=agent, action="failed", file=session_of(agent), detail=why)
                )
        text = render_log(books.log)
        if shelf.read(LOG) != text:
            shelf.write({LOG: text})


@dataclass(slots=True)
class Books:
    """The index and the log as they are on a shelf, and as they are to be."""

    shelf: Shelf
    there: frozenset[str]
    index: dict[str, Archived]
    log: list[Logged]

    @staticmethod
    def of(shelf: Shelf, now: int) -> Books:
        """The books of a shelf. What can't be read is made anew: the index from the archives."""
        there = frozenset(shelf.listing(f"{FOLDER}/agents"))
        books = Books(shelf, there, {}, [])
        if LOG in there:
            entries, wrong = read_log(shelf.read(LOG) or "")
            books.log.extend(
                entries
                or [
                    Logged(timestamp=now, agent=ARCHIVIST, action="rebuilt", file=LOG, detail=str(one))
                    for one in wrong[:1]
                ]
            )
        listed, wrong = read_index(shelf.read(INDEX) or "") if INDEX in there else (None, [])
        if listed is None:
            books.find(now)
            books.log.extend(
                Logged(timestamp=now, agent=ARCHIVIST, action="rebuilt", file=INDEX, detail=str(one))
                for one in wrong[:1]
            )
        else:
            books.index.update({entry.file: entry for entry in listed})
        return books

    def find(self, now: int) -> None:
        """Enter the archives that are there and in no index."""
        for path in sorted(self.there):
            text = self.shelf.read(path) if archives.is_archive(path) else None
            session, _ = read_session(text, archives.agent_of(path)) if text is not None else (None, [])
            if text is not None and session is not None:
                self.index[path] = archives.archived(path, archives.task_of(path), session, text, now)

    def place(self, agent: str, task: str, session: Session, text: str, copies: dict[str, str], now: int) -> Archived:
        """The entry for a text: of the archive that holds it already, or of one that is to be written."""
        for number in count(1):
            path = archives.archive_of(agent, task, session.session_start, number)
            if path not in self.there and path not in copies:
                copies[path] = text
            elif (copies[path] if path in copies else self.shelf.read(path)) != text:
                continue
            return archives.archived(path, task, session, text, now)
        raise AssertionError

    def enter(self, entry: Archived, now: int) -> None:
        """Have an archive in the index and in the log."""
        known = self.index.get(entry.file)
        if known is None or replace(known, archived_at=entry.archived_at) != entry:
            self.index[entry.file] = entry
        if self.last(entry.file) not in {"archived", "removed"}:
            ended = f"; it ended as {entry.status}: {entry.reason}" if entry.status != archives.COMPLETE else ""
            told = f"notes: {entry.notes}{ended}"[: archives.MOST_TEXT]
            self.log.append(Logged(timestamp=now, agent=entry.agent, action="archived", file=entry.file, detail=told))

    def last(self, file: str) -> str:
        """What the log says last of an archive."""
        return next((entry.action for entry in reversed(self.log) if entry.file == file), "")

    def indexed(self) -> set[str]:
        """The archives that the index on the shelf has by now."""
        listed, _ = read_index(self.shelf.read(INDEX) or "")
        return {entry.file for entry in listed or ()}

    def write(self, also: Mapping[str, str | None] | None = None) -> None:
        """Put the books where they differ, and these files before them."""
        wanted = {INDEX: render_index(self.index.values()), LOG: render_log(self.log)}
        files = {**(also or {}), **{path: text for path, text in wanted.items() if self.shelf.read(path) != text}}
        if files:
            self.shelf.write(files)
