"""The section of WORK_SUMMARY.md that tells every assumption of a workflow: how it was settled, and by whom."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parley.workflow.cells import code, table
from parley.workflow.terms import Category, Note, NoteStatus, Session

TITLE = "Assumptions"
HEAD = ("Agent", "Note", "About", "What was assumed or uncertain", "How it was settled", "By whom")
WRITTEN = "Every note of the workflow's agents, written from the job's bus; what you write here is replaced."
NONE = "No agent made an assumption."
_LEVEL = 2
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s)")
_BY = {
    "agent_self": "the agent itself",
    "workflow_executor": "the architecture group, through the executor",
    "user": "the user",
}


def render_assumptions(sessions: Iterable[tuple[str, Session]]) -> str:
    """The section, from the sessions of all agents: (agent, session), an agent more than once if it had several."""
    rows = [_row(agent, note) for agent, session in sessions for note in session.notes]
    listed = ["", *table(HEAD, rows)] if rows else ["", NONE]
    return "\n".join([f"## {TITLE}", "", WRITTEN, *listed]) + "\n"


def with_assumptions(summary: str, section: str) -> str:
    """A work summary with this section: in the place of what stands there under its heading, or at the end."""
    lines, fence = _lines(summary)
    kept: list[str] = []
    inside = placed = False
    for line, level, title in lines:
        if 0 < level <= _LEVEL:
            inside = level == _LEVEL and title == TITLE
            if inside and not placed:
                placed = True
                kept.extend([*section.rstrip("\n").split("\n"), ""])
        if not inside:
            kept.append(line)
    text = "\n".join(kept).rstrip("\n")
    if placed:
        return f"{text}\n"
    above = f"{text}\n{fence}" if fence else text  # or the section would be a part of the block
    return f"{above}\n\n{section}" if above else section


def _lines(text: str) -> tuple[list[tuple[str, int, str]], str]:
    """Each line with the level and title of the heading that it is, 0 for none; and the fence of a block left open."""
    found = []
    fence = ""
    for line in text.split("\n"):
        level, title = 0, ""
        mark = _FENCE.fullmatch(line)
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if closes else fence
        elif mark is not None and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        elif heading := _HEADING.match(line):
            level, title = len(heading[1]), _title(line[heading.end() :].strip())
        found.append((line, level, title))
    return found, fence


def _title(text: str) -> str:
    """A heading's text without the marks that may close it."""
    bare = text.rstrip("#")
    return bare.rstrip() if bare != bare.rstrip() else text


def _row(agent: str, note: Note) -> tuple[str, ...]:
    about = str(note.category) if note.category is not Category.UNKNOWN else "not said"
    return (code(agent), code(note.note_id), about, code(note.description), _how(note), _who(note))


def _how(note: Note) -> str:
    asked = f"asked because {code(note.escalation_reason)}<br>" if note.escalation_reason else ""
    if note.status is NoteStatus.RESOLVED:
        return f"{asked}{code(note.resolution or '')}"
    return f"{asked}**not settled**: the note is {note.status}"


def _who(note: Note) -> str:
    if note.status is not NoteStatus.RESOLVED:
        return "nobody yet"
    return _BY.get(note.resolved_by or "", code(note.resolved_by or ""))
