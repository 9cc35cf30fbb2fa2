"""What needs the human, as people read it. Nothing that an agent wrote is obeyed by a terminal."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.adapters.worktrees import Worktrees
from parley.core.terms import job_thread
from parley.engine.attention import GATE, Need
from parley.engine.merging import WORK
from parley.engine.projections import Asked, Present
from parley.engine.seen import Seen, last_seen
from parley.faces.cli.desk import clock, columns, lasting
from parley.faces.cli.orchestra import shown
from parley.ports import Store, WorkspaceError
from parley.text import cut, safe_lines
from parley.wording import count

BEGINNING = 8  # lines of an artifact in the list
CHANGED = 16  # lines of what has changed since, there
WORDS = 12  # lines of what is said, there
READ_LIMIT = 256 * 1024  # characters of an artifact, or of what has changed, that are read on a screen
EXITS = 28  # columns of the words before a command
_LABELS = {
    "question": "a question from {who}",
    "gate": "a gate from {who}",
    "failure": "it can't go on",
    "budget": "a spent budget",
    "stall": "{who} is silent",
    "unattended": "nobody works on it",
    "undelivered": "words of yours reached no agent",
}


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What a gate is about: the artifact as it was put forward, and what has changed since the human last saw it."""

    content: str | None = None
    seen: Seen | None = None
    changed: str | None = None  # since it was seen; of the work, from the job's beginning if it never was

    def document(self, *, whole: bool) -> dict[str, Any]:
        """The exhibit as `--json` gives it."""
        said: dict[str, Any] = {"seen": self.seen.document() if self.seen else None}
        return {**said, "content": self.content, "changed": self.changed} if whole else said


def exhibit(store: Store, trees: Worktrees, need: Need, redact: Callable[[str], str], *, whole: bool) -> Exhibit:
    """Look up what a gate is about."""
    asked = need.asked
    if asked is None or need.kind != GATE:
        return Exhibit()
    seen = last_seen(store, asked)
    content = trees.shown(asked.job, asked.artifact, asked.digest)
    work = asked.artifact == WORK
    changed = None
    if seen is not None or work:
        before = seen.digest if seen else ""
        changed = trees.since(asked.job, asked.artifact, before, asked.digest, stat=work and not whole)
    clean = [redact(text) if text is not None else None for text in (content, changed)]
    return Exhibit(clean[0], seen, clean[1])


def put_forward(store: Store, trees: Worktrees, need: Need, redact: Callable[[str], str]) -> tuple[str, str, str]:
    """The same for a screen: the artifact, since when it was last seen, in words, and what has changed since."""
    found = exhibit(store, trees, need, redact, whole=True)
    seen = found.seen
    since = f"{seen.ruling or 'an answer'}, {clock(seen.time)}" if seen else ""
    return cut(found.content or "", READ_LIMIT), since, cut(found.changed or "", READ_LIMIT)


def work_at_gate(store: Store, job: str) -> Asked | None:
    """The question by which a job's work is put forward now: what is shown of the work is of that moment."""
    found = [
        asked
        for asked in Present(store, job).questions()
        if asked.artifact == WORK and asked.workspace == job_thread(job) and not asked.superseded
    ]
    return found[-1] if found else None


def diff_text(store: Store, trees: Worktrees, job: str, redact: Callable[[str], str]) -> str:
    """What a job has changed, for a screen, at a gate as it was put forward; empty while it has no files."""
    if not trees.history(job).exists:
        return ""
    gate = work_at_gate(store, job)
    text = redact(trees.diff(job, gate.digest if gate else "").decode("utf-8", "replace"))
    return text if len(text) <= READ_LIMIT else f"{text[:READ_LIMIT]}\n… the rest: parley diff {job}"


def file_of(paths: Worktrees, asked: Asked) -> Path:
    """Where the artifact that a question is about lies as it was put forward: its asker may go on with its own file.

    Where no copy can be had or made, the asker's own is named: what is printed beside it is from the record.
    """
    live = paths.path(asked.job, asked.workspace) / asked.artifact
    try:
        return paths.put_out(asked.job, asked.id, asked.artifact, asked.digest) or live
    except WorkspaceError:
        return live


def lines(need: Need, found: Exhibit, trees: Worktrees, me: str, *, whole: bool) -> Iterator[str]:
    """A need, with what can be done about it; in full, or as a list has it."""
    since = lasting(time.time() - need.since)
    label = _LABELS.get(need.kind, need.kind).format(who=need.who)
    yield f"  {need.id}  {label}, {since} ago ({need.state})"
    if need.decider and need.decider != me:
        yield f"    only {need.decider}, who started the job, can answer"
    if need.asked is not None and need.asked.superseded:
        yield f"    {need.artifact} was put forward anew since: the verdict on {need.asked.superseded} counts"
    quote = "> " if need.asked is not None else ""  # what agents say can't pass for an exit
    yield from _cut(_wrapped(need.body, f"    {quote}"), WORDS, need, whole=whole)
    yield from _shown(need, found, trees, whole=whole)
    yield ""
    for way in need.exits:
        yield f"    {way.words:<{EXITS}}{way.command}" if len(way.words) < EXITS else f"    {way.words}  {way.command}"


def _shown(need: Need, found: Exhibit, trees: Worktrees, *, whole: bool) -> Iterator[str]:
    if need.asked is None or not need.artifact:
        return
    yield ""
    if found.content is None:
        yield f"    {need.artifact}: {shown(file_of(trees, need.asked))}"
    else:
        length = len(found.content.splitlines())
        yield f"    {need.artifact}, {count(length, 'line')}: {shown(file_of(trees, need.asked))}"
        yield from _cut(_quoted(found.content), BEGINNING, need, whole=whole)
    if need.asked.stat:
        yield ""
        yield f"    {need.asked.stat.short} since the job began: parley diff {need.job}"
        yield from (f"    {line}" for line in need.asked.stat.warning_lines())
    if found.changed is not None:
        yield ""
        yield f"    {_heading(need, found)}"
        nothing = not found.changed.strip()
        yield from _cut(["      nothing"] if nothing else _quoted(found.changed), CHANGED, need, whole=whole)
        if need.artifact == WORK and not whole:
            yield f"    line by line: parley inbox {need.id}"


def _heading(need: Need, found: Exhibit) -> str:
    what = "all files" if need.artifact == WORK else "it"
    if found.seen is None:
        return f"changed in {what} since the job began:"
    said = found.seen.ruling or "an answer"
    return f"changed in {what} since you last saw it ({said}, {clock(found.seen.time)}):"


def _quoted(text: str) -> list[str]:
    return [f"    | {line}".rstrip() for line in safe_lines(text).expandtabs(4).splitlines()]


def _wrapped(text: str, indent: str) -> list[str]:
    width = max(columns(), 40)
    found: list[str] = []
    for line in safe_lines(text).expandtabs(4).splitlines():
        found += textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=indent) or [indent.rstrip()]
    return found


def _cut(told: list[str], most: int, need: Need, *, whole: bool) -> Iterator[str]:
    """The first lines in a list, clipped to the screen; all of them in full."""
    if whole:
        yield from told
        return
    width = max(columns(), 40)
    for line in told[:most]:
        yield line if len(line) <= width else f"{line[: width - 1]}…"
    if len(told) > most:
        yield f"    … {count(len(told) - most, 'more line')}: parley inbox {need.id}"
