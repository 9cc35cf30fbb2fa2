"""Checks every file below orchestration/: its place, its name and its format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from parley.base.text import cut
from parley.workflow.files.agreement import contradictions
from parley.workflow.files.archive import INDEX, LOG, is_archive, read_index, read_log, restorable
from parley.workflow.files.plan import read_plan
from parley.workflow.files.rounds import read_round
from parley.workflow.files.session import read_session
from parley.workflow.files.status_file import CLEAR, read_status
from parley.workflow.files.summary import read_summary
from parley.workflow.model.ending import RUNS
from parley.workflow.model.grammar import NAME_FORM, is_name
from parley.workflow.model.notes import refuse_ready, unsettled
from parley.workflow.model.terms import FOLDER, PLAN, SHARED_STATUS, TASK_ORCHESTRATION, Finding, Session, session_of
from parley.workflow.paths.disjointness import disjoint

OUTPUT = "task_output"
_AGENTS = f"{FOLDER}/agents/"
_SUMMARY = re.compile(rf"{FOLDER}/conversation_summary_[a-z0-9_-]+\.md")
_RUN = re.compile(rf"{RUNS}/run_[1-9][0-9]*/(?!runs/)")
_ROUND = re.compile(r"round_([1-9][0-9]{0,5})\.json")
_CONTRACT = "## Parent contract"


def check_structure(files: Mapping[str, str]) -> list[Finding]:
    """All that is wrong with the files, one by one and with each other. `files`: by path from the tree's root."""
    found = [finding for path, text in sorted(files.items()) for finding in _file(path, text)]
    return [*found, *_together(files), *contradictions(files), *_shelved(files)]


def is_output(path: str) -> bool:
    """Whether a file is an agent's output, which may be anything."""
    parts = path.removeprefix(_AGENTS).split("/")
    return path.startswith(_AGENTS) and len(parts) > 2 and parts[1] == OUTPUT  # noqa: PLR2004 - below the folder


def _file(path: str, text: str) -> list[Finding]:
    readers: dict[str, Callable[[str], list[Finding]]] = {
        PLAN: lambda text: read_plan(text)[1],
        SHARED_STATUS: lambda text: read_status(text)[1],
        TASK_ORCHESTRATION: disjoint,
        INDEX: lambda text: read_index(text)[1],
        LOG: lambda text: read_log(text)[1],
    }
    if path in readers:
        return readers[path](text)
    if path.startswith(f"{FOLDER}/conversation_summary_"):
        if not _SUMMARY.fullmatch(path):
            return [_misplaced(path, "", "name it conversation_summary_taskname.md, in small letters")]
        return read_summary(text, path)[1]
    if path.startswith(_AGENTS):
        return _of_agent(path, text)
    if inner := _RUN.match(path):  # what an earlier run left, each file as it was
        return [replace(finding, file=path) for finding in _file(f"{FOLDER}/{path[inner.end() :]}", text)]
    if path.endswith(".json"):
        return [_misplaced(path, "", f"remove it; the only JSON here is {SHARED_STATUS}")]
    return []


def _of_agent(path: str, text: str) -> list[Finding]:
    agent, _, name = path.removeprefix(_AGENTS).partition("/")
    if not name:
        return [_misplaced(path, "", "agents/ holds a folder for each agent, and no files")]
    if not is_name(agent):
        remedy = f"name the folder as the plan names its agent: {NAME_FORM}"
        return [
            Finding(
                file=path,
                line=0,
                agent="",
                rule="wrong-name",
                text=f"{cut(agent, 70)!r} can't be an agent's name",
                remedy=remedy,
            )
        ]
    folder, _, file = name.rpartition("/")
    if path == session_of(agent):
        return read_session(text, agent)[1]
    if folder == "completion_drive":
        if not is_archive(path):
            remedy = "a session is session_current.json, an archived one session_YYYYMMDD_HHMMSS_taskname.json"
            return [_misplaced(path, agent, remedy)]
        return [replace(finding, file=path) for finding in read_session(text, agent)[1]]
    if folder == "verification":
        number = _ROUND.fullmatch(file)
        if not number:
            return [_misplaced(path, agent, "a round of verification is round_1.json, round_2.json, …")]
        return read_round(text, agent, int(number[1]))[1]
    if name == "task-base.md" and not text.lstrip().startswith(_CONTRACT):
        remedy = f"begin it with `{_CONTRACT}`"
        return [
            Finding(
                file=path,
                line=1,
                agent=agent,
                rule="missing-contract",
                text="it does not begin with the contract",
                remedy=remedy,
            )
        ]
    if name == "agent_instructions.md" and not text.strip():
        return [
            Finding(
                file=path,
                line=0,
                agent=agent,
                rule="empty-instructions",
                text="it is empty",
                remedy="write what the agent is to do",
            )
        ]
    if folder != OUTPUT and not folder.startswith(f"{OUTPUT}/") and name.endswith(".json"):
        return [_misplaced(path, agent, f"put it into {OUTPUT}/, or remove it")]
    return []


def _misplaced(path: str, agent: str, remedy: str) -> Finding:
    return Finding(
        file=path, line=0, agent=agent, rule="unknown-file", text="it is no file of the structure", remedy=remedy
    )


def _together(files: Mapping[str, str]) -> Iterator[Finding]:
    """What shared_status.json says of notes, held against the sessions; the task's name, held against the plan."""
    shared = read_status(files[SHARED_STATUS])[0] if SHARED_STATUS in files else None
    plan = read_plan(files[PLAN])[0] if PLAN in files else None
    sessions: dict[str, Session] = {}
    for path, text in files.items():
        agent = path.removeprefix(_AGENTS).partition("/")[0]
        if is_name(agent) and path == session_of(agent):
            session = read_session(text, agent)[0]
            if session is not None:
                sessions[agent] = session
    for agent, session in sessions.items():
        worker = plan.workers.get(agent) if plan else None
        if worker is not None and worker.task_id and worker.task_id != session.task_id:
            text = f"task_id is {session.task_id}, but the plan says {worker.task_id}"
            yield Finding(
                file=session_of(agent), line=0, agent=agent, rule="disagrees", text=text, remedy="make them the same"
            )
    if shared is None:
        return
    for agent, entry in shared.agents.items():
        session = sessions.get(agent)
        counts = (len(session.notes), len(unsettled(session))) if session else (0, 0)
        names = ("completion_drive_notes_count", "unresolved_notes")
        for name, said, count in zip(names, (entry.notes, entry.unresolved), counts, strict=True):
            if session is not None and said != count:
                text = f"agents.{agent}.{name} is {said}, but its session has {count}"
                yield Finding(
                    file=SHARED_STATUS,
                    line=0,
                    agent=agent,
                    rule="disagrees",
                    text=text,
                    remedy="count the notes of its session_current.json",
                )
    left = sorted(agent for agent, session in sessions.items() if refuse_ready(session))
    if shared.gate == CLEAR and left and not any(entry.unresolved for entry in shared.agents.values()):
        text = f"overall_completion_drive_gate is {CLEAR}, but notes of {', '.join(left)} are unresolved"
        yield Finding(
            file=SHARED_STATUS,
            line=0,
            agent="",
            rule="disagrees",
            text=text,
            remedy="it must be blocked until all are resolved",
        )


def _shelved(files: Mapping[str, str]) -> Iterator[Finding]:
    """Archives are there, and are what their index says."""
    entries = read_index(files[INDEX])[0] if INDEX in files else None
    for entry in entries or ():
        if entry.file not in files:
            text = f"{entry.file} is indexed, but it is not there"
            yield Finding(
                file=INDEX,
                line=0,
                agent=entry.agent,
                rule="missing-archive",
                text=text,
                remedy="bring it back, or remove the entry",
            )
        else:
            _, findings = restorable(files[entry.file], entry, entry.file)
            yield from (finding for finding in findings if finding.rule == "changed-archive")
