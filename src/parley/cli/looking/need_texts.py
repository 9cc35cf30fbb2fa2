"""Formats what needs the human, for people to read; agents' texts are escaped."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parley.base.text import cut, safe_lines
from parley.base.wording import count, duration, joined
from parley.bus.store import Store
from parley.cli.common import columns, time_text
from parley.cli.workflow.workflow_folder import shown
from parley.engine.turn.gate import WORK
from parley.ports.workspaces import WorkspaceError
from parley.protocol.molecules import job_thread
from parley.views.job_view import Asked, Present
from parley.views.questions.gate_view import GateExhibit, exhibit
from parley.views.questions.needs import GateView, Need
from parley.workspaces import JobWorkspaces

BEGINNING = 8  # lines of an artifact in the list
CHANGED = 16  # lines of a diff in the list
WORDS = 12  # lines of a question in the list
READ_LIMIT = 256 * 1024  # characters of an artifact or a diff that are shown on a screen
EXITS = 28  # columns of the text before a command
_LABELS = {
    "question": "a question from {who}",
    "gate": "a gate from {who}",
    "failure": "it can't go on",
    "budget": "a spent budget",
    "stall": "{who} is silent",
    "unattended": "no process works on it",
    "undelivered": "your words reached no agent",
}


def put_forward(store: Store, trees: JobWorkspaces, need: Need, redact: Callable[[str], str]) -> GateView:
    """The same for a screen: the artifact, when it was last seen, and what has changed since."""
    found = exhibit(store, trees, need, redact, whole=True)
    seen = found.seen
    since = f"{seen.ruling or 'an answer'}, {time_text(seen.time)}" if seen else ""
    return GateView(
        content=cut(found.content or "", READ_LIMIT), since=since, changed=cut(found.changed or "", READ_LIMIT)
    )


def work_at_gate(store: Store, job: str) -> Asked | None:
    """The open question that asserts a job's work: the work is shown as of that moment."""
    found = [
        asked
        for asked in Present(store, job).questions()
        if asked.artifact == WORK and asked.workspace == job_thread(job) and not asked.superseded
    ]
    return found[-1] if found else None


def diff_text(store: Store, trees: JobWorkspaces, job: str, redact: Callable[[str], str]) -> str:
    """A job's changes for a screen, at a gate as they were asserted; empty while it has no files."""
    if not trees.repository(job).exists:
        return ""
    gate = work_at_gate(store, job)
    text = redact(trees.diff(job, gate.digest if gate else "").decode("utf-8", "replace"))
    return text if len(text) <= READ_LIMIT else f"{text[:READ_LIMIT]}\n… the rest: parley diff {job}"


def file_of(paths: JobWorkspaces, asked: Asked) -> Path:
    """The file of an artifact as it was asserted: the asker may have changed its own since.

    Where no copy can be made, the asker's own file is named; the text printed beside it is from the record.
    """
    live = paths.path(asked.job, asked.workspace) / asked.artifact
    try:
        return paths.put_out(asked.job, asked.id, asked.artifact, asked.digest) or live
    except WorkspaceError:
        return live


def lines(need: Need, found: GateExhibit, trees: JobWorkspaces, me: str, *, whole: bool) -> Iterator[str]:
    """A need with its next actions; in full, or as in a list."""
    since = duration(time.time() - need.since)
    label = _LABELS.get(need.kind, need.kind).format(who=need.who)
    yield f"  {need.id}  {label}, {since} ago ({need.state})"
    if need.decider and me not in (need.decider, *need.others):
        yield f"    only {joined([f'{need.decider}, who started the job,', *need.others])} can answer"
    if need.asked is not None and need.asked.superseded:
        yield f"    {need.artifact} was asserted again since: the verdict on {need.asked.superseded} counts"
    quote = "> " if need.asked is not None else ""  # an agent's text must not look like a next action
    yield from _cut(_wrapped(need.body, f"    {quote}"), WORDS, need, whole=whole)
    yield from _shown(need, found, trees, whole=whole)
    yield ""
    for way in need.exits:
        yield f"    {way.words:<{EXITS}}{way.command}" if len(way.words) < EXITS else f"    {way.words}  {way.command}"


def _shown(need: Need, found: GateExhibit, trees: JobWorkspaces, *, whole: bool) -> Iterator[str]:
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
        if found.changed is None:
            yield from _cut(_quoted("\n".join(need.asked.stat.lines())), CHANGED, need, whole=whole)
        yield from (f"    {line}" for line in need.asked.stat.warning_lines())
    if found.changed is not None:
        yield ""
        yield f"    {_heading(need, found)}"
        nothing = not found.changed.strip()
        yield from _cut(["      nothing"] if nothing else _quoted(found.changed), CHANGED, need, whole=whole)
        if need.artifact == WORK and not whole:
            yield f"    line by line: parley inbox {need.id}"


def _heading(need: Need, found: GateExhibit) -> str:
    what = "all files" if need.artifact == WORK else "it"
    if found.seen is None:
        return f"changed in {what} since the job began:"
    said = found.seen.ruling or "an answer"
    return f"changed in {what} since you last saw it ({said}, {time_text(found.seen.time)}):"


def _quoted(text: str) -> list[str]:
    return [f"    | {line}".rstrip() for line in safe_lines(text).expandtabs(4).splitlines()]


def _wrapped(text: str, indent: str) -> list[str]:
    width = max(columns(), 40)
    found: list[str] = []
    for line in safe_lines(text).expandtabs(4).splitlines():
        found += textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=indent) or [indent.rstrip()]
    return found


def _cut(told: list[str], most: int, need: Need, *, whole: bool) -> Iterator[str]:
    """The first lines, clipped to the screen, in a list; all lines in full."""
    if whole:
        yield from told
        return
    width = max(columns(), 40)
    for line in told[:most]:
        yield line if len(line) <= width else f"{line[: width - 1]}…"
    if len(told) > most:
        yield f"    … {count(len(told) - most, 'more line')}: parley inbox {need.id}"
