"""Writes the assumptions of a workflow's agents into WORK_SUMMARY.md: how each was settled, and by whom.

The lead's own assumptions under the same heading stay as it wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from parley.workflow.files.reading.markdown_codec import code
from parley.workflow.model.terms import Category, Note, NoteStatus, PlanChange, RestingAnswer, Session

TITLE = "Assumptions"
NOTED = "Noted by the workflow's agents"

_LEVEL, _DEEPEST = 2, 6  # of the heading, if there is none yet; of any heading
_NAMED = re.compile(r"assumptions?\b", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s)")
_BY = {
    "agent_self": "the agent itself",
    "workflow_executor": "the architecture group",
    "user": "the user",
}


def render_assumptions(
    sessions: Iterable[tuple[str, Session]],
    abandoned: Iterable[tuple[str, str]] = (),
    changes: Iterable[PlanChange] = (),
) -> str:
    """All notes, a line each, from the sessions of all agents; an agent may have had several.

    A note says what was decided in the end, followed by answers that were refused with a change of the plan. Abandoned
    agents are listed with the reason, since the human who approves the work has to know.
    """
    refused: dict[tuple[str, int, str], list[str]] = {}
    for change in changes:
        for one in change.answers if change.decision == "refused" else ():
            refused.setdefault((one.agent, one.session, one.note_id), []).append(_refused(change, one))
    items = [
        "".join([_item(agent, note), *refused.get((agent, session.session_start, note.note_id), ())])
        for agent, session in sessions
        for note in session.notes
    ]
    items += [f"- {code(agent)} was **abandoned**, its work is missing: {code(reason)}." for agent, reason in abandoned]
    return "\n".join(items or ["None."])


def with_assumptions(summary: str, noted: str) -> str:
    """A work summary with these lines at the end of its assumptions, in the place of what stood there before."""
    lines, fence = _lines("\n".join(line.text for line in _without(_lines(summary)[0], NOTED)))
    begins = next((at for at, line in enumerate(lines) if line.is_section_of_ours()), None)
    if begins is None:
        above = _stripped([line.text for line in lines])
        above += [fence] if fence else []  # or what follows would be a part of the block
        return _joined(above, [f"{'#' * _LEVEL} {TITLE}", ""], _LEVEL, noted, [])
    level = lines[begins].level
    ends = next((at for at in range(begins + 1, len(lines)) if 0 < lines[at].level <= level), len(lines))
    above = _stripped([line.text for line in lines[:ends]])
    above += [fence] if fence and ends == len(lines) else []
    return _joined(above, [], level, noted, [line.text for line in lines[ends:]])


# ---- the summary ---------------------------------------------------------------------------------


class _Line(NamedTuple):
    """A line, with the level and the title of the heading that it is; 0: it is none."""

    text: str
    level: int = 0
    title: str = ""

    def is_section_of_ours(self) -> bool:
        return 0 < self.level < _DEEPEST and _NAMED.match(self.title) is not None


def _lines(text: str) -> tuple[list[_Line], str]:
    """The lines of a text, and the fence of a block that is left open."""
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
        found.append(_Line(line, level, title))
    return found, fence


def _title(text: str) -> str:
    """A heading's text without the marks that may close it."""
    bare = text.rstrip("#")
    return bare.rstrip() if bare != bare.rstrip() else text


def _without(lines: list[_Line], title: str) -> list[_Line]:
    """The lines but for the sections of this title."""
    kept = []
    inside = 0
    for line in lines:
        if 0 < line.level <= (inside or _DEEPEST):
            inside = line.level if line.title == title else 0
        if not inside:
            kept.append(line)
    return kept


def _stripped(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _joined(above: list[str], heading: list[str], level: int, noted: str, below: list[str]) -> str:
    inner = [*heading, f"{'#' * (level + 1)} {NOTED}", "", noted]
    parts = [*above, *([""] if above else []), *inner, *(["", *below] if below else [""])]
    return "\n".join(parts)


# ---- a note --------------------------------------------------------------------------------------


def _item(agent: str, note: Note) -> str:
    about = f" ({note.category})" if note.category is not Category.UNKNOWN else ""
    asked = f" It was asked because {code(note.escalation_reason)}." if note.escalation_reason else ""
    return f"- {code(agent)} {note.note_id}{about}: {code(note.description)}. {_settled(note)}{asked}"


def _refused(change: PlanChange, answer: RestingAnswer) -> str:
    why = f": {code(change.reason)}" if change.reason else ""
    return f" Before, {code(answer.answer)} was refused by {change.by} with the change of the plan it came with{why}."


def _settled(note: Note) -> str:
    if note.status is not NoteStatus.RESOLVED:
        return f"**Not settled**: it is {note.status}."
    by = _BY.get(note.resolved_by or "", code(note.resolved_by or ""))
    return f"Settled by {by}: {code(note.resolution or '')}."
