"""The conversation summary: the talk before a workflow's design, in Markdown with six sections.

`# Conversation Summary: Task Name`, then the sections of `SECTIONS`. Other sections may stand between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import normalize

from parley.base.text import BadText, check, cut
from parley.workflow.files.reading.finding_reader import MOST_FINDINGS
from parley.workflow.model.grammar import LONGEST_SLUG
from parley.workflow.model.terms import FOLDER, Finding

MOST_CHARACTERS = 1_000_000
TITLE = "Conversation Summary"
GOAL = "What We're Trying to Accomplish"
DECISIONS = "Key Decisions Made"
CONSTRAINTS = "Constraints & Assumptions"
QUESTIONS = "Questions Resolved"
OPEN = "Open Items"
DEPENDENCIES = "Dependencies & Integration Points"
SECTIONS = (GOAL, DECISIONS, CONSTRAINTS, QUESTIONS, OPEN, DEPENDENCIES)

_HEADING = re.compile(r" {0,3}(#{1,6})\s(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"(\s*)[-*+]\s+(.*)")
_FIELD = re.compile(r"\**(decision|rationale|alternatives considered|q|a)\**\s*:\**\s*(.*)", re.IGNORECASE | re.DOTALL)
_PLACEHOLDER = re.compile(r"\[[^\]]*\]\.?")
_NOTHING = frozenset({"", "none", "nothing", "n/a", "-"})


@dataclass(frozen=True, slots=True)
class SummaryDecision:
    """What was decided, why, and what was not."""

    what: str
    rationale: str
    alternatives: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A conversation summary."""

    title: str
    goal: str
    decisions: tuple[SummaryDecision, ...] = ()
    constraints: tuple[str, ...] = ()
    questions: tuple[tuple[str, str], ...] = ()
    open_items: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """The task's name as files have it."""
        return slug(self.title)


def slug(title: str) -> str:
    """A name in small letters and digits, with _ between the words; empty if nothing is left of it."""
    plain = normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return "_".join(re.findall(r"[a-z0-9]+", plain))[:LONGEST_SLUG].strip("_")


def summary_of(task: str) -> str:
    """Where the summary of a task stands."""
    return f"{FOLDER}/conversation_summary_{task}.md"


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str


class _Field(NamedTuple):
    """An item `Name: text`: the name in small letters, empty where there is none."""

    number: int
    name: str
    text: str


class _Section(NamedTuple):
    """A section: the line of its heading, and the lines below it."""

    line: int
    lines: list[_Line]


def read_summary(text: str, file: str) -> tuple[Summary | None, list[Finding]]:
    """The summary of a file, or all that is wrong with it, each with its line. `file`: what it is called."""
    reading = _Reading(text, file)
    summary = reading.summary()
    return (None, reading.findings) if reading.findings else (summary, [])


class _Reading:
    def __init__(self, text: str, file: str) -> None:
        self.text = text.removeprefix("\ufeff")
        self.file = file
        self.findings: list[Finding] = []
        self.title = ""
        self.headed = False
        self.sections: dict[str, _Section] = {}

    def find(self, line: int, rule: str, text: str, remedy: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(file=self.file, line=line, agent="", rule=rule, text=text, remedy=remedy))

    def summary(self) -> Summary | None:
        if len(self.text) > MOST_CHARACTERS:
            self.find(0, "too-long", f"the file has {len(self.text)} characters", f"keep it within {MOST_CHARACTERS}")
            return None
        try:
            check(self.text, MOST_CHARACTERS)
        except BadText as wrong:
            self.find(wrong.line, "not-text", str(wrong), wrong.remedy)
            return None
        self.split()
        if not self.headed:
            self.find(1, "missing-title", "there is no title", f"begin with `# {TITLE}: Task Name`")
        elif self.title and not slug(self.title):
            text = f"the task name {cut(self.title, 60)!r} has no letter or digit that a file's name can keep"
            self.find(1, "wrong-title", text, "use some of a to z and 0 to 9 in it")
        for name in SECTIONS:
            if name not in self.sections:
                self.find(0, "missing-section", f"there is no section {name!r}", f"add `## {name}`")
        return Summary(
            title=self.title,
            goal=self.goal(),
            decisions=tuple(self.decisions()),
            constraints=self.items(CONSTRAINTS),
            questions=tuple(self.questions()),
            open_items=self.items(OPEN),
            dependencies=self.items(DEPENDENCIES),
        )

    def split(self) -> None:
        """Find the title and the sections."""
        known = {_key(name): name for name in SECTIONS}
        fence, lines = "", list[_Line]()
        for number, line in enumerate(self.text.split("\n"), 1):
            mark = _FENCE.match(line)
            if mark and fence in ("", mark[1]):
                fence = "" if fence else mark[1]
            heading = None if fence else _HEADING.fullmatch(line.rstrip("\r"))
            title = heading[2].rstrip().rstrip("#").strip() if heading else ""
            if heading and len(heading[1]) == 1:
                self.head(number, title)
                lines = []
            elif heading and len(heading[1]) == 2:  # noqa: PLR2004 - ##
                name, lines = known.get(_key(title), ""), []
                if name in self.sections:
                    self.find(number, "duplicate-section", f"{name!r} stands here for the second time", "join the two")
                elif name:
                    self.sections[name] = _Section(number, lines)
            else:
                lines.append(_Line(number, line.rstrip()))

    def head(self, number: int, text: str) -> None:
        before, colon, name = text.partition(":")
        if _key(before) != _key(TITLE) or not colon or not name.strip() or _PLACEHOLDER.fullmatch(name.strip()):
            problem = f"the title is {cut(text, 60)!r}"
            self.find(number, "wrong-title", problem, f"write `# {TITLE}: Task Name`, with the task's name")
        elif self.title:
            self.find(number, "wrong-title", "this is a second title", "make it a section, with ##")
        else:
            self.title = " ".join(name.split())
        self.headed = True

    def goal(self) -> str:
        section = self.sections.get(GOAL)
        goal = "\n".join(each.text for each in section.lines).strip() if section else ""
        if section and (not goal or _PLACEHOLDER.fullmatch(goal)):
            self.find(section.line, "empty-section", f"{GOAL!r} does not say it", "write the goal in plain language")
        return goal

    def items(self, name: str) -> tuple[str, ...]:
        """The items of a section; none where it says so, or says nothing."""
        return tuple(item.text for item in self.listed(name) if item.text.strip(" .").lower() not in _NOTHING)

    def listed(self, name: str) -> Iterator[_Line]:
        """Each item of a section: the line where it begins, and its text with the lines that go on."""
        found: list[_Line] = []
        for line in self.sections[name].lines if name in self.sections else ():
            begun = _ITEM.fullmatch(line.text)
            if begun:
                found.append(_Line(line.number, begun[2].strip()))
            elif line.text.strip() and found and line.text[:1].isspace():
                found[-1] = _Line(found[-1].number, f"{found[-1].text} {line.text.strip()}")
            elif line.text.strip():
                found.append(_Line(line.number, line.text.strip()))
        for item in found:
            if _PLACEHOLDER.fullmatch(item.text):
                problem = f"{cut(item.text, 60)!r} is what the format says, not what was said"
                self.find(item.number, "placeholder", problem, "write it, or remove the line")
            yield item

    def fields(self, name: str) -> Iterator[_Field]:
        """The items of a section that are `Name: text`."""
        for item in self.listed(name):
            match = _FIELD.fullmatch(item.text)
            text = match[2].strip() if match else item.text
            if match and _PLACEHOLDER.fullmatch(text):
                problem = f"{cut(item.text, 60)!r} is what the format says, not what was said"
                self.find(item.number, "placeholder", problem, "write it, or remove the line")
            yield _Field(item.number, match[1].lower() if match else "", text)

    def decisions(self) -> Iterator[SummaryDecision]:
        rows: list[tuple[int, dict[str, str]]] = []
        for number, name, text in self.fields(DECISIONS):
            if name == "decision":
                rows.append((number, {"decision": text}))
            elif name in ("rationale", "alternatives considered") and rows and name not in rows[-1][1]:
                rows[-1][1][name] = text
            elif text.strip(" .").lower() not in _NOTHING or name:
                told = f"{name}: {text}" if name else text
                problem = f"{cut(told, 60)!r} belongs to no decision"
                self.find(number, "wrong-item", problem, "write `- Decision: …`, below it `  - Rationale: …`")
        for number, row in rows:
            for name in ("decision", "rationale"):
                if not row.get(name):
                    self.find(number, "wrong-item", f"this decision has no {name}", f"add `{name.capitalize()}: …`")
            yield SummaryDecision(row["decision"], row.get("rationale", ""), row.get("alternatives considered", ""))

    def questions(self) -> Iterator[tuple[str, str]]:
        question, asked = "", 0
        for number, name, text in self.fields(QUESTIONS):
            if name == "q":
                if asked:
                    self.find(asked, "wrong-item", "this question has no answer", "add `- A: …` below it")
                question, asked = text, number
            elif name == "a" and asked:
                yield question, text
                asked = 0
            elif name or text.strip(" .").lower() not in _NOTHING:
                problem = f"{cut(text, 60)!r} is no answer to a question"
                self.find(number, "wrong-item", problem, "write `- Q: …`, below it `- A: …`")
        if asked:
            remedy = "add `- A: …` below it, or move it to Open Items"
            self.find(asked, "wrong-item", "this question has no answer", remedy)


def _key(heading: str) -> str:
    """A heading, whichever apostrophe, case or `and` it has."""
    return " ".join(re.findall(r"[a-z]+", heading.lower().replace("&", " and ")))


# ---- writing -------------------------------------------------------------------------------------


def render_summary(summary: Summary) -> str:
    """The file of a summary."""
    decisions = []
    for decision in summary.decisions:
        decisions += [f"- Decision: {_line(decision.what)}", f"  - Rationale: {_line(decision.rationale)}"]
        if decision.alternatives:
            decisions.append(f"  - Alternatives considered: {_line(decision.alternatives)}")
    parts = {
        GOAL: [summary.goal],
        DECISIONS: decisions,
        CONSTRAINTS: [f"- {_line(item)}" for item in summary.constraints],
        QUESTIONS: [line for q, a in summary.questions for line in (f"- Q: {_line(q)}", f"- A: {_line(a)}")],
        OPEN: [f"- {_line(item)}" for item in summary.open_items],
        DEPENDENCIES: [f"- {_line(item)}" for item in summary.dependencies],
    }
    blocks = [f"# {TITLE}: {summary.title}"]
    blocks += ["\n".join((f"## {name}", *(lines or ["- None"]))) for name, lines in parts.items()]
    return "\n\n".join(blocks) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())
