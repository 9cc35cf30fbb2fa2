"""Checks each worker's agent_instructions.md against the plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from parley.workflow.design.blueprint import WORD, Blueprint
from parley.workflow.design.placeholders import lines_unwritten
from parley.workflow.model.terms import FOLDER, Finding, Task, Worker, instructions_of, output_of

# What a doer's instructions have a section about: a marker above it says so in every language, else an English heading.
SECTIONS = {
    "inputs": (re.compile(r"\binputs?\b|\breads?\b|\bdepend|\bsources?\b", re.IGNORECASE), "## Input Requirements"),
    "outputs": (
        re.compile(r"\boutputs?\b|\bdeliver|\bwrites?\b|\bproduces?\b|\bcreates?\b", re.IGNORECASE),
        "## Output Requirements",
    ),
    "success": (
        re.compile(r"\bsuccess\b|\baccept|\bdone\b|\bcriteri|\bverif", re.IGNORECASE),
        "## Success Criteria",
    ),
    "notes": (
        re.compile(r"\bcompletion[ _-]drive\b|\bnotes?\b|\bassum|\bescalat|\buncertain", re.IGNORECASE),
        "## Completion Drive",
    ),
}
ABOUT = {
    "inputs": "what it reads, and from where",
    "outputs": "which files it makes, and where",
    "success": "how it can be seen that it is done",
    "notes": "which assumptions it notes, and which it must escalate",
}
MARKER = re.compile(r"^\s*<!--\s*parley:\s*([\w-]+)\s*-->\s*$", re.IGNORECASE)
_HEADING = re.compile(r" {0,3}(?:#{1,6}\s(.+)|\*\*(.+?)\*\*:?\s*$)")
LABEL = re.compile(r"^\W*([A-Za-z][\w -]{2,40}?)\**:\**\s+\S")  # a line that names what it tells: `Inputs: …`
FEWEST_WORDS = 3
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDER}/)?agents/([\w-]+)/task_output/([\w./-]*[\w-])")
_COMMENT = ("<!--", "-->")
HELPERS = ("solution_architect", "solution_architect_agent", "design_verifier", "archival_agent")  # not of the plan
_NUMBERED = re.compile(r"_[0-9]+$")  # where the plan has their names, they have others


def is_helper(name: str) -> bool:
    """Whether this is the name of a helper, which joins a workflow without being in its plan."""
    return _NUMBERED.sub("", name) in HELPERS


def examine_instructions(design: Blueprint) -> Iterator[Finding]:
    """Each agent's instructions, and instructions without an agent."""
    for worker in design.plan.workers.values():
        file = instructions_of(worker.name)
        if file not in design.files:
            text = f"it has no instructions: {file} is not there"
            yield design.find("missing-instructions", worker, "", text, f"write {file}")
        else:
            yield from _instructions(design, worker, file, design.files[file])
    for path in design.files:
        name = PurePosixPath(path).parent.name
        if path == instructions_of(name) and name not in design.plan.workers and not is_helper(name):
            text = f"these are instructions for {name}, and the plan has no such agent"
            yield Finding(
                file=path,
                line=1,
                agent=name,
                rule="stray-instructions",
                text=text,
                remedy=f"add {name} to the plan, or remove the file",
            )


def _instructions(design: Blueprint, worker: Worker, file: str, text: str) -> Iterator[Finding]:
    def find(rule: str, line: int, problem: str, remedy: str) -> Finding:
        return Finding(file=file, line=line, agent=worker.name, rule=rule, text=problem, remedy=remedy)

    markers: dict[int, str] = {}  # by the number of their lines
    for number, row in enumerate(text.split("\n")):
        if found := MARKER.match(row):
            markers[number] = found[1].lower()
            if markers[number] not in SECTIONS:
                problem, known = f"there is no marker {found[0].strip()!r:.60}", ", ".join(map(marker_of, SECTIONS))
                yield find("unknown-marker", number + 1, problem, f"use one of: {known}")
    text = _without_comments(text)
    lines = text.split("\n")
    prose = [line for line in lines if _title(line) is None]
    if len(WORD.findall(" ".join(prose))) < FEWEST_WORDS:
        yield find(
            "empty-instructions",
            0,
            "its instructions say nothing",
            "write what it is to do, and how it is seen to be done",
        )
        return
    for line, said in lines_unwritten(text).items():
        yield find("placeholder", line, f"something is not written yet: {said!r}", "write it")
    if worker.task is Task.DOER:
        filled, marked = _sections(lines, markers)
        for key, (words, heading) in SECTIONS.items():
            if key not in marked and not any(words.search(title) for title in filled):
                remedy = f"add a section `{heading}`, or one in your language below `{marker_of(key)}`: {ABOUT[key]}"
                yield find(f"instructions-{key}", 0, f"no section says {ABOUT[key]}", remedy)
        for key in ("inputs", "outputs"):
            for path in getattr(worker, key):
                if path not in text and path.removeprefix(f"{FOLDER}/") not in text:
                    problem = f"the plan has {path} among its {key}, and its instructions do not name it"
                    yield find(f"instructions-{key}-path", 0, problem, "name the path as the plan has it")
    yield from _paths(design, worker, file, lines)


def marker_of(key: str) -> str:
    """The comment that stands above a section and says what it is about."""
    return f"<!-- parley:{key} -->"


def _title(line: str) -> str | None:
    """The title of a heading; None where a line is none."""
    found = _HEADING.match(line)
    if found is None:
        return None
    return str(found[2] or found[1].rstrip().rstrip("#").strip() or found[1].strip())


def _without_comments(text: str) -> str:
    """A text without its comments, on as many lines."""
    opens, closes = _COMMENT
    kept: list[str] = []
    at = 0
    while (begin := text.find(opens, at)) >= 0 and (end := text.find(closes, begin + len(opens))) >= 0:
        kept += [text[at:begin], "\n" * text.count("\n", begin, end)]
        at = end + len(closes)
    return "".join([*kept, text[at:]])


def _sections(lines: list[str], markers: Mapping[int, str]) -> tuple[list[str], set[str]]:
    """What the text has parts about: titles of headings with something below them and labels; and what markers say.

    A marker is for the heading that follows it, or for the text, where text follows.
    """
    found: list[str] = []
    marked: set[str] = set()
    above: list[tuple[int, str, str]] = []  # level, title, what the marker above it says
    waiting = ""
    for number, line in enumerate(lines):
        title = _title(line)
        if number in markers:
            waiting = markers[number]
        elif title is not None:
            level = len(line.lstrip()) - len(line.lstrip().lstrip("#")) or 7
            above = [one for one in above if one[0] < level]
            above.append((level, title, waiting))
            waiting = ""
        elif line.strip():
            label = LABEL.match(line)
            titles = [*(title for _, title, _ in above), *([label[1]] if label else [])]
            found.extend(title for title in titles if title not in found)
            marked |= {waiting, *(key for *_, key in above)}
            waiting = ""
    return found, marked


def _paths(design: Blueprint, worker: Worker, file: str, lines: list[str]) -> Iterator[Finding]:
    """The paths of others' outputs that the instructions name are those that the plan has."""
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        for found in PATH.finditer(line):
            maker = found[1]
            path = f"{output_of(maker)}/{found[2]}"
            if path in seen:
                continue
            seen.add(path)
            makers = design.makers_of(path)
            if not makers:
                made = ", ".join(it for it in design.makers if it.startswith(f"{output_of(maker)}/"))
                whose = "is not among its outputs" if maker == worker.name else "no agent makes"
                problem = f"its instructions name {path}, which {whose}"
                other = f"{maker} makes {made}; write the same path here and in the plan"
                remedy = other if made else f"add it to the outputs of {maker}"
                yield Finding(
                    file=file, line=number, agent=worker.name, rule="path-mismatch", text=problem, remedy=remedy
                )
            elif worker.task is Task.DOER and worker.name not in makers and not _declared(worker, path):
                problem, remedy = f"its instructions name {path}, which is not among its inputs", "add it there"
                yield Finding(
                    file=file, line=number, agent=worker.name, rule="undeclared-input", text=problem, remedy=remedy
                )


def _declared(worker: Worker, path: str) -> bool:
    """Whether a path is one of a worker's inputs, or lies below one, or above."""
    inputs = [it.rstrip("/") for it in worker.inputs]
    return any(f"{it}/".startswith(f"{path}/") or f"{path}/".startswith(f"{it}/") for it in inputs)
