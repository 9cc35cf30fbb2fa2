"""Archived sessions: their names, their index, and the log of what was archived and restored.

A completed session moves from `session_current.json` to `session_YYYYMMDD_HHMMSS_task.json` beside it. The time is the
session's start, in UTC, so that the name is the same however often the move is retried.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from parley.base.documents.node import Entries, plain
from parley.workflow.files.reading.strict_json import LATEST, JsonFields, read_object, shown, write_json
from parley.workflow.files.session import read_session
from parley.workflow.model.grammar import TASK_ID_FORM, is_task_id
from parley.workflow.model.terms import Finding, Session, Status, home_of, session_of

ARCHIVIST = "archival_agent"  # code, but with a folder of its own like the others
INDEX = f"{home_of(ARCHIVIST)}/archive_index.json"
LOG = f"{home_of(ARCHIVIST)}/cleanup_log.json"
ACTIONS = ("archived", "removed", "failed", "restored", "rebuilt")
INSTRUCTIONS = """\
# archival_agent

Archival is code; no agent has to act. When an agent's session is over, complete or not, its
session_current.json is copied to session_YYYYMMDD_HHMMSS_taskname.json beside it, entered in archive_index.json with
how it ended, and only then removed.
cleanup_log.json tells what was done, and what went wrong.
"""
COMPLETE = str(Status.COMPLETE)
MOST_ENTRIES = 2_000  # of the log; the oldest go first
MOST_TEXT = 10_000

_NAME = re.compile(r"session_\d{8}_\d{6}(?:_([A-Za-z0-9_-]+))?\.json")


@dataclass(frozen=True, slots=True)
class Archived:
    """One archive, as the index has it."""

    file: str
    agent: str
    task: str
    task_id: str
    session_start: int
    archived_at: int
    notes: int
    sha256: str
    status: str  # how the session ended: session_complete, abandoned, failed, stopped
    reason: str


@dataclass(frozen=True, slots=True)
class Logged:
    """One line of the log: what was done with which file, or what went wrong."""

    timestamp: int
    agent: str
    action: str
    file: str
    detail: str = ""


# ---- names ---------------------------------------------------------------------------------------


def archive_of(agent: str, task: str, session_start: int, number: int = 1) -> str:
    """Where a session is archived. `number` counts those that would otherwise have the same name."""
    began = datetime.fromtimestamp(min(max(session_start, 0), LATEST), UTC)
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", task)[:80].strip("_") or "task"
    again = f"_{number}" if number > 1 else ""
    return f"{folder_of(agent)}/session_{began:%Y%m%d_%H%M%S}_{slug}{again}.json"


def found_of(agent: str, text: str) -> str:
    """Where a text is kept that lay in the session's place and is not the session."""
    return f"{home_of(ARCHIVIST)}/found/{agent}-{digest(text)[:12]}.txt"


def folder_of(agent: str) -> str:
    """Where an agent's sessions are, the current one and the archives."""
    return session_of(agent).rsplit("/", 1)[0]


def is_archive(path: str) -> bool:
    """Whether a path is that of an archive, with or without the task's name."""
    folder, _, name = path.rpartition("/")
    return folder == folder_of(agent_of(path)) and _NAME.fullmatch(name) is not None


def agent_of(path: str) -> str:
    """The agent whose session a path is; empty if it is none."""
    parts = path.split("/")
    deep = 5  # orchestration/agents/<name>/completion_drive/<file>
    return parts[2] if len(parts) == deep and path.startswith(folder_of(parts[2])) else ""


def task_of(path: str) -> str:
    """The task that an archive's name tells, as far as the name has one."""
    found = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    return found[1] or "" if found else ""


def archived(
    path: str, task: str, session: Session, text: str, now: int, status: str = COMPLETE, reason: str = ""
) -> Archived:
    """The entry of an archive of this session; `status` is what it ended with, and `reason` why."""
    return Archived(
        file=path,
        agent=agent_of(path),
        task=task,
        task_id=session.task_id,
        session_start=session.session_start,
        archived_at=now,
        notes=len(session.notes),
        sha256=digest(text),
        status=status,
        reason=reason,
    )


def digest(text: str) -> str:
    """The digest that identifies an archive."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


# ---- the two files -------------------------------------------------------------------------------


def render_index(entries: Iterable[Archived]) -> str:
    """The index: one entry for each archive, in the order of their paths."""
    return write_json({"archives": [asdict(entry) for entry in sorted(entries, key=lambda entry: entry.file)]})


def read_index(text: str) -> tuple[tuple[Archived, ...] | None, list[Finding]]:
    """The entries of an index, or all that is wrong with it."""
    found, findings = _rows(text, INDEX, "archives", Archived)
    for row in found:
        if not is_archive(row.file) or agent_of(row.file) != row.agent:
            expected = f"name an archive of {row.agent}, as {archive_of(row.agent, row.task, row.session_start)}"
            findings.append(
                Finding(
                    file=INDEX,
                    line=0,
                    agent=row.agent,
                    rule="wrong-value",
                    text=f"file is {shown(row.file)}",
                    remedy=expected,
                )
            )
        if not is_task_id(row.task_id):
            text, expected = f"task_id is {shown(row.task_id)}", f"it must be {TASK_ID_FORM}"
            findings.append(
                Finding(file=INDEX, line=0, agent=row.agent, rule="wrong-value", text=text, remedy=expected)
            )
    return (None, findings) if findings else (found, [])


def render_log(entries: Sequence[Logged]) -> str:
    """The log, in the order of what happened."""
    return write_json({"entries": [asdict(entry) for entry in entries[-MOST_ENTRIES:]]})


def read_log(text: str) -> tuple[tuple[Logged, ...] | None, list[Finding]]:
    """The entries of a log, or all that is wrong with it."""
    found, findings = _rows(text, LOG, "entries", Logged)
    for row in found:
        if row.action not in ACTIONS:
            expected = f"it must be one of {', '.join(ACTIONS)}"
            findings.append(
                Finding(
                    file=LOG,
                    line=0,
                    agent=row.agent,
                    rule="wrong-value",
                    text=f"action is {shown(row.action)}",
                    remedy=expected,
                )
            )
    return (None, findings) if findings else (found, [])


def restorable(text: str, entry: Archived | None, path: str) -> tuple[Session | None, list[Finding]]:
    """The session of an archive, if it is whole and what the index says."""
    agent = agent_of(path)
    session, findings = read_session(text, agent)
    found = [
        Finding(file=path, line=one.line, agent=agent, rule=one.rule, text=one.text, remedy="restore another archive")
        for one in findings
    ]
    if session is not None and entry is not None and entry.sha256 != digest(text):
        changed = "it is not what was archived: the index has another digest"
        found.append(
            Finding(
                file=path, line=0, agent=agent, rule="changed-archive", text=changed, remedy="bring it back from git"
            )
        )
    return (None, found) if found else (session, [])


_Row = TypeVar("_Row", Archived, Logged)


def _rows(text: str, file: str, key: str, kind: type[_Row]) -> tuple[tuple[_Row, ...], list[Finding]]:
    form = f'{{"{key}": [...]}}'
    top, findings = read_object(text, file, "", form)
    if top is None:
        return (), findings
    if not isinstance(top.values.get(key), list):
        top.find("wrong-value", key, "is not a list", f"it must be {form}")
        return (), findings
    top.only((key,))
    rows = []
    for at, item in enumerate(top.nodes(key)):
        place = f"{key}[{at}]"
        if isinstance(item, Entries):
            rows.append(_row(top.inner(item, place), kind))
        else:
            top.find("wrong-value", place, f"is {shown(plain(item))}", "it must be an object")
    return ((), top.findings) if top.findings else (tuple(rows), [])


def _row(item: JsonFields, kind: type[_Row]) -> _Row:
    names = {one.name: one.type for one in fields(kind)}
    item.only(tuple(names))
    values: dict[str, Any] = {}
    for name, wanted in names.items():
        value = item.values.get(name)
        right = isinstance(value, int) and not isinstance(value, bool) and value >= 0 if wanted == "int" else False
        if wanted == "str":
            right = isinstance(value, str) and len(value) <= MOST_TEXT
        if not right:
            item.wrong(name, "a whole number" if wanted == "int" else "a text")
        values[name] = value
    return kind(**values)
