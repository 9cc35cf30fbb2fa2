"""The files below `orchestration/` in a job's tree, held against the bus.

What the protocol writes there follows from the bus to the byte. What agents leave there beside it is in the tree that
the bus names for the job's workspace. So every file has one content that it may have. The folder and the last commit
of the job's branch are compared with it, and each file that is another, too many or missing is reported.

The files are written after their commit. While a job goes on, or where a crash came in between, one of them may say
what it had to say earlier: that is no finding, but it is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parley.base.text import lenient
from parley.ports.workspaces import FOLDER_VIEW, TIP_VIEW, UNKEPT, Papers
from parley.protocol.gates import companion_of
from parley.workflow.design.binding import is_covered
from parley.workflow.files.archive import ARCHIVIST, LOG, is_archive, read_log, render_log
from parley.workflow.host.design_gates import design_of
from parley.workflow.host.orchestration_files import files_of, left_over, put_away, shelve
from parley.workflow.model.ending import RUNS
from parley.workflow.model.events import Event, apply
from parley.workflow.model.flow import Entity, EntityKind, Flow
from parley.workflow.model.flow_slots import entities
from parley.workflow.model.terms import (
    DESIGN_REPORT,
    FOLDER,
    PLAN,
    SHARED_STATUS,
    TASK_ORCHESTRATION,
    agent_at,
    home_of,
    instructions_of,
    session_of,
    task_base_of,
)

SHOWN = 100  # characters of a line
BEFORE = 30  # of them before the first that differs
OF_THE_FILES = ("failed", "restored", "rebuilt")  # what happened to files, and not on the bus
PLACES = {FOLDER_VIEW: "", TIP_VIEW: "as committed, "}


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step of an executor let happen, and the tree of the job's workspace that the bus named then."""

    transaction: int
    thread: str
    events: Sequence[Event]
    tree: str


@dataclass(frozen=True, slots=True)
class Drafted:
    """A changed plan that was asserted: the tree that the step names with it, and what a verdict is bound to."""

    step: int
    tree: str
    digest: str


@dataclass(frozen=True, slots=True)
class Stood:
    """How a job stood when its files were looked at."""

    batches: Sequence[Batch] = ()
    current: str = ""  # the executor's thread of the workflow in force
    tree: str = ""  # of the job's workspace, as the bus names it
    since: int = 0  # the transaction up to which the files are written, as the anchor has it
    going: bool = False  # it has not ended: its workspace may just have been put back to that tree
    in_use: bool = False  # an agent is at work in the job's workspace, or was when its owner died or the job ended
    drafts: Sequence[Drafted] = ()


@dataclass(frozen=True, slots=True)
class Odd:
    """A file that is not what the bus says: where it differs first, and how."""

    file: str
    line: int
    how: str
    where: str = ""  # words of PLACES; empty: in the folder

    @property
    def what(self) -> str:
        """How and where it differs."""
        return f"{self.where}{self.how}"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.what}"

    def document(self) -> dict[str, Any]:
        """It as a JSON-able value."""
        return {"file": self.file, "line": self.line, "what": self.what}


@dataclass(slots=True)
class FilesReport:
    """What came of comparing a job's files with its bus."""

    compared: int = 0
    odd: list[Odd] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)  # files that say what was so earlier, and are still to be written
    remarks: list[str] = field(default_factory=list)  # what could not be compared, and why

    def document(self) -> dict[str, Any]:
        """It as a JSON-able value."""
        return {
            "compared": self.compared,
            "findings": [one.document() for one in self.odd],
            "behind": list(self.behind),
            "remarks": list(self.remarks),
        }


class Sheets:
    """Files in memory, as the protocol would have written them: over those that were there when it began."""

    def __init__(self, papers: Papers, tree: str) -> None:
        self._papers, self._tree = papers, tree
        self._before = {path for path in papers.listed(tree) or () if is_protocols(path)} if tree else set[str]()
        self._texts: dict[str, str | None] = {}
        self._passed: dict[str, list[str | None]] = {}  # what each file said before it was written again

    def read(self, path: str) -> str | None:
        """What an ordinary file holds."""
        if path in self._texts:
            return self._texts[path]
        data = self._papers.data(self._tree, path) if path in self._before else None
        return None if data is None else lenient(data)

    def write(self, files: Mapping[str, str | None]) -> None:
        """Put files, None: take them away."""
        for path in files.keys() & self._texts.keys():
            self._passed.setdefault(path, []).append(self._texts[path])
        self._texts.update(files)

    def passed(self, path: str) -> list[str | None]:
        """What a file says on the way: sessions are put away in several steps, and a crash may come between two."""
        return self._passed.get(path, [])

    def listing(self, folder: str) -> tuple[str, ...]:
        """The files below a folder."""
        there = self._before | {path for path, text in self._texts.items() if text is not None}
        gone = {path for path, text in self._texts.items() if text is None}
        return tuple(sorted(path for path in there - gone if path.startswith(f"{folder}/")))

    def knows(self, path: str) -> bool:
        """Whether the protocol has written a file, or taken it away."""
        return path in self._texts

    def names(self) -> dict[str, str]:
        """What each of them is known by."""
        before = self._papers.listed(self._tree) or {} if self._tree else {}
        found = {path: before[path] for path in self._before if path not in self._texts}
        made = {path: as_file(text) for path, text in self._texts.items() if text is not None}
        return found | {path: self._papers.name(data) for path, data in made.items()}


def as_file(text: str) -> bytes:
    """A text as a file holds it."""
    return text.encode("utf-8", "replace")


def is_protocols(path: str) -> bool:
    """Whether only the protocol writes a file of this name while a workflow runs."""
    if path in (SHARED_STATUS, TASK_ORCHESTRATION) or path.startswith(f"{RUNS}/"):
        return True
    agent = agent_at(path)
    if not agent:
        return False
    inside = path.removeprefix(f"{home_of(agent)}/")
    if agent == ARCHIVIST:
        return inside != "agent_instructions.md"
    return path == task_base_of(agent) or inside.startswith(("completion_drive/", "verification/"))


def _is_designs(path: str) -> bool:
    """Whether a file is the design's while no workflow is in force."""
    return is_covered(path) or path in (SHARED_STATUS, DESIGN_REPORT)


# ---- what the bus says ---------------------------------------------------------------------------


def written(stood: Stood, papers: Papers) -> Sheets:
    """Every file that the protocol has written by now."""
    flows: dict[str, Flow] = {}
    for batch in stood.batches:
        flow = flows.setdefault(batch.thread, Flow(batch.thread))
        for event in batch.events:
            apply(flow, event)
    sheets = Sheets(papers, stood.batches[0].tree if stood.batches else "")
    for flow in flows.values():
        if flow.thread != stood.current:
            put_away(sheets, flow)
            continue
        sheets.write(files_of(flow, set(entities(flow))))
        sheets.write(left_over(flow, sheets.listing(f"{FOLDER}/agents")))
        shelve(sheets, flow)
    return sheets


def _due(stood: Stood, papers: Papers, sheets: Sheets) -> dict[str, str]:
    """What every file below orchestration/ is known by: the protocol's from the bus, all else from its tree."""
    names = sheets.names()
    if not stood.current:  # its workflow's plan is void, and a design may be made anew
        names = {path: name for path, name in names.items() if not _is_designs(path)}
    begun = bool(stood.batches)
    kept = papers.listed(stood.tree) or {} if stood.tree else {}
    own = {
        path: name
        for path, name in kept.items()
        if not (begun and is_protocols(path)) or (not stood.current and _is_designs(path))
    }
    instructions = instructions_of(ARCHIVIST)
    if instructions in own:
        names.pop(instructions, None)  # it was there before, and nothing overwrites it
    return own | names


def _earlier(stood: Stood, paths: Iterable[str]) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    """What some files said after each change of a workflow, with its transaction."""
    wanted = set(paths)
    agents = {agent for path in wanted if (agent := agent_at(path))}
    flows: dict[str, Flow] = {}
    for batch in stood.batches:
        flow = flows.setdefault(batch.thread, Flow(batch.thread))
        for event in batch.events:
            apply(flow, event)
        entities_of = {Entity(EntityKind.PLAN), *(Entity(EntityKind.AGENT, agent) for agent in agents)}
        files = files_of(flow, entities_of)
        yield batch.transaction, {path: files.get(path) for path in wanted}


# ---- comparing -----------------------------------------------------------------------------------


def compare(stood: Stood, papers: Papers) -> FilesReport:
    """Hold the job's folder, and its branch, against what the bus says."""
    held = FilesReport()
    views = {view: there for view in PLACES if (there := papers.listed(view)) is not None}
    if not views:
        if stood.batches:
            held.remarks.append("the job's files are gone (`parley gc` frees them): none was compared")
        return held
    _hold_drafts(held, stood.drafts, papers)
    if stood.tree and papers.listed(stood.tree) is None:
        lost = f"tree {stood.tree[:12]}, which the bus names, is not in snapshots.git"
        held.remarks.append(f"{lost}: no file was compared")
        return held
    sheets = written(stood, papers)
    due = _due(stood, papers, sheets)
    if FOLDER_VIEW not in views:
        held.remarks.append("the job's folder is gone: only what is committed was compared")
    if stood.in_use:
        when = "is at work in the job's tree" if stood.going else "was at work in the job's tree when the job ended"
        held.remarks.append(f"an agent {when}: only the protocol's own files were compared")
    for view, there in views.items():
        _hold(held, stood, papers, sheets, due, view, there)
    held.compared = len({*due, *(path for there in views.values() for path in there)})
    if FOLDER_VIEW in views and TIP_VIEW in views:
        _once(held)
    return held


@dataclass(frozen=True, slots=True)
class _Tree:
    """The files of a tree, as a design is read from them."""

    papers: Papers
    tree: str

    def read(self, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file holds."""
        data = self.papers.data(self.tree, path)
        return None if data is None or len(data) > most else lenient(data)

    def listing(self, folder: str) -> tuple[str, ...]:
        """Those files below a folder that an approval covers."""
        below = [path for path in sorted(self.papers.listed(self.tree) or ()) if path.startswith(f"{folder}/")]
        return tuple(path for path in below if is_covered(path) and self.papers.data(self.tree, path) is not None)


def _hold_drafts(held: FilesReport, drafts: Sequence[Drafted], papers: Papers) -> None:
    """Each changed plan that was asserted is, in the tree that its approver was shown, what its verdict is about."""
    for one in drafts:
        if papers.listed(one.tree) is None:
            lost = f"tree {one.tree[:12]}, which step {one.step} names"
            held.remarks.append(f"{lost}, is not in snapshots.git: the plan that it puts forward was not compared")
            continue
        design = design_of(_Tree(papers, one.tree))
        if design is None or design.blueprint != companion_of(one.digest):
            what = f"as step {one.step} puts it forward, in tree {one.tree[:12]}, it is not what the verdict is about"
            held.odd.append(Odd(PLAN, 0, what))


def _once(held: FilesReport) -> None:
    """What differs in the same way in the folder and in the branch is reported once."""
    folder = {one for one in held.odd if not one.where}
    held.odd = [one for one in held.odd if not one.where or replace(one, where="") not in folder]
    held.behind = list(dict.fromkeys(held.behind))


def _hold(
    held: FilesReport, stood: Stood, papers: Papers, sheets: Sheets, due: Mapping[str, str], view: str,
    there: Mapping[str, str],
) -> None:  # fmt: skip
    differing = [path for path in sorted({*due, *there}) if due.get(path) != there.get(path)]
    if stood.in_use:  # what an agent writes in its turn does not count before the turn ends
        fixed = is_protocols if view == FOLDER_VIEW else sheets.knows
        differing = [path for path in differing if stood.batches and fixed(path)]
    late = _behind(stood, papers, sheets, view, differing)
    for path in differing:
        if path in late:
            when = f"after transaction {late[path]}" if late[path] else "before the workflow began"
            held.behind.append(f"{path} is as it was {when}")
            continue
        odd = _odd(stood, papers, sheets, due, view, there, path)
        if odd is not None:
            held.odd.append(replace(odd, where=PLACES[view]))


def _behind(stood: Stood, papers: Papers, sheets: Sheets, view: str, differing: Sequence[str]) -> dict[str, int]:
    """The files that say what they had to say earlier, with the last transaction after which they had to.

    That is none of those that its owner has written already, as the anchor tells; but all of it where an agent is at
    work there, and where the workspace may just have been put back to the tree that the bus names.
    """
    found: dict[str, int] = {}
    changes = [batch.transaction for batch in stood.batches]
    since = 0 if stood.in_use else max((number for number in changes if number <= stood.since), default=0)
    if not differing or not changes or (since == changes[-1] and not stood.going):
        return found
    there, now = {path: papers.data(view, path) for path in differing}, papers.listed(view) or {}
    back = papers.listed(stood.tree) or {} if stood.tree and stood.going else {}
    first = stood.batches[0].tree
    before = papers.listed(first) or {} if first else {}

    def may_be(path: str, transaction: int) -> bool:
        return transaction >= since or (stood.going and now.get(path) == back.get(path))

    for path in differing:
        if is_protocols(path) and before.get(path) == now.get(path) and may_be(path, 0):
            found[path] = 0
    for path in differing if since < changes[-1] else ():
        if any(text is not None and there[path] == as_file(text) for text in sheets.passed(path)):
            found[path] = since
    for transaction, files in _earlier(stood, differing):
        for path, text in files.items():
            if there[path] == (None if text is None else as_file(text)) and may_be(path, transaction):
                found[path] = transaction
    return found


def _odd(
    stood: Stood, papers: Papers, sheets: Sheets, due: Mapping[str, str], view: str, there: Mapping[str, str],
    path: str,
) -> Odd | None:  # fmt: skip
    if path not in there:
        return Odd(path, 0, "it is missing; the bus says that it is there")
    data = papers.data(view, path)
    if path not in due:
        if there[path] == UNKEPT or is_restored(sheets, path, data):
            return None
        told = "the bus has no such file" if stood.batches and is_protocols(path) else "it is in no tree of the bus"
        return Odd(path, 0, f"{told}; it was put there by another hand")
    if data is None:
        return Odd(path, 0, "it is no ordinary file; the bus says that it is one")
    says = sheets.read(path)
    wanted = as_file(says) if says is not None else papers.data(stood.tree, path) or b""
    if path == LOG and _is_longer_log(data, wanted):
        return None
    if data == wanted:
        return Odd(path, 0, "its mode was changed; the bus has an ordinary file that is no program")
    return _differs(path, data, wanted)


def _differs(path: str, data: bytes, wanted: bytes) -> Odd:
    """The first line that differs, and what it says in the file and on the bus."""
    here, there = (text.decode("utf-8", "backslashreplace").split("\n") for text in (data, wanted))
    for number, (one, other) in enumerate(zip(here, there, strict=False), 1):
        if one != other:
            shorter = min(len(one), len(other))
            at = next((place for place in range(shorter) if one[place] != other[place]), shorter)
            told = f"the file says {_part(one, at)}; the bus says {_part(other, at)}"
            return Odd(path, number, f"{_section(there[: number - 1])}{told}")
    number = min(len(here), len(there))
    if len(here) > len(there):
        return Odd(path, number + 1, f"the file goes on with {_part(here[number], 0)}; the bus says nothing more")
    return Odd(path, number, f"the file ends here; the bus goes on with {_part(there[number], 0)}")


def _section(above: Sequence[str]) -> str:
    """The heading that a line of a page stands under."""
    title = next((line.lstrip("#").strip() for line in reversed(above) if line.startswith("#")), "")
    return f"{title}: " if title else ""


def _part(line: str, at: int) -> str:
    """A part of a line, with what differs in it."""
    start = max(0, at - BEFORE)
    part = line[start : start + SHOWN].strip()
    return f'"{"…" if start else ""}{part}{"…" if start + SHOWN < len(line) else ""}"' if part else "an empty line"


# ---- what a person did with `parley workflow restore` --------------------------------------------


def is_restored(sheets: Sheets, path: str, data: bytes | None) -> bool:
    """Whether a file is an agent's session that was brought back from its archive."""
    agent = agent_at(path)
    if data is None or not agent or path != session_of(agent):
        return False
    archives = (one for one in sheets.listing(path.rpartition("/")[0]) if is_archive(one))
    return any(as_file(sheets.read(one) or "") == data for one in archives)


def _is_longer_log(data: bytes, wanted: bytes) -> bool:
    """Whether a log says all that the bus says, and besides it only what happened to the files themselves."""
    here, there = (read_log(text.decode("utf-8", "replace"))[0] for text in (data, wanted))
    if here is None or there is None or as_file(render_log(here)) != data:
        return False
    rest, restored = list(there), False
    for entry in here:
        if rest and entry == rest[0]:
            rest.pop(0)
        elif entry.action not in OF_THE_FILES and not (restored and entry.action == "archived"):
            return False
        restored = restored or entry.action == "restored"
    return not rest
