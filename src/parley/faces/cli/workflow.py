"""`parley workflow`: begin the files of a workflow, check them, and show where its agents stand."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parley import config
from parley.adapters.roles import gather, to_json
from parley.adapters.worktrees import Worktrees
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.desk import Place, columns, one_line, place_of, print_json, safe
from parley.faces.cli.orchestra import make, read_tree, root_of, summary_text
from parley.faces.cli.restore import run_restore
from parley.workflow.beginning import begin
from parley.workflow.drafts import read_drafts
from parley.workflow.notes import unsettled
from parley.workflow.plan import read_plan
from parley.workflow.session import read_session
from parley.workflow.status_file import DONE, read_status
from parley.workflow.structure import check_structure
from parley.workflow.summary import read_summary
from parley.workflow.terms import FOLDER, PLAN, SHARED_STATUS, Finding, Status, session_of
from parley.workflow.times import moment

LONGEST_LINE = 2_000


def run(words: argparse.Namespace) -> int:
    """Carry out one of its actions."""
    actions: dict[str, tuple[int, Callable[[argparse.Namespace], int]]] = {
        "init": (1, _init),
        "check": (1, _check),
        "status": (1, _status),
        "restore": (3, _restore),
    }
    if words.action not in actions:
        raise Trouble(f"there is no `parley workflow {words.action}`; use one of: {', '.join(actions)}")
    most, act = actions[words.action]
    if len(words.what) > most:
        raise Trouble(f"{words.what[most]!r} is one word too many; see `parley workflow --help`")
    for option, action in (("dir", "init"), ("replace", "restore")):
        if getattr(words, option) and words.action != action:
            raise Trouble(f"--{option} goes with {action} only; see `parley workflow --help`")
    return act(words)


def _restore(words: argparse.Namespace) -> int:
    """Make an archived session the current one again."""
    if len(words.what) < 3:  # noqa: PLR2004 - the three words that it names
        raise Trouble("name the place, the agent and its archive: `parley workflow restore PLACE AGENT SESSION`")
    where, agent, session = words.what
    return run_restore(where, agent, session, repo=words.repo, replacing=words.replace, json=words.json)


# ---- init ----------------------------------------------------------------------------------------


def _init(words: argparse.Namespace) -> int:
    """Make the structure from a conversation summary."""
    if not words.what:
        raise Trouble("name the conversation summary: `parley workflow init SUMMARY.md`")
    given = Path(words.what[0])
    folder = Path(words.dir) if words.dir is not None else place_of(words.repo).root
    if not folder.is_dir():
        raise Trouble(f"{folder}: there is no such folder; make it, or name another --dir")
    text = summary_text(given)
    summary, findings = read_summary(text, str(given))
    if summary is None:
        return _tell(findings, str(given), words)
    kept = folder / PLAN
    plan = None
    if kept.exists():
        plan, findings = read_plan(summary_text(kept))
        if plan is None or findings:
            raise Trouble(f"{kept} is there already and can't be used: {findings[0]}")
    made = make(folder, begin(summary, text, plan))
    if words.json:
        print_json({"task": summary.task, "folder": str(folder / FOLDER), "made": made})
        return OK
    for path in made:
        print(f"made {folder / path}")
    rest = "fill in what it names" if plan is None else "write what the agents' instructions lack"
    print(f"next: {rest}, then `parley workflow check {folder}`")
    return OK


# ---- check ---------------------------------------------------------------------------------------


def _check(words: argparse.Namespace) -> int:
    """Check every file, and the design."""
    place = place_of(words.repo)
    root, where = _root(place, _first(words))
    files, findings = read_tree(root)
    roles = [to_json(role) for role in gather(place.root, config.read(place.root)).values()]
    found = dict.fromkeys((*findings, *check_structure(files), *read_drafts(files, roles)[1]))
    return _tell(list(found), where, words, len(files))


def _tell(findings: list[Finding], where: str, words: argparse.Namespace, files: int = 1) -> int:
    """Print each finding on a line, and how many there are."""
    if words.json:
        print_json(
            {"place": where, "files": files, "count": len(findings), "findings": [asdict(one) for one in findings]}
        )
    else:
        for finding in findings:
            print(one_line(str(finding), LONGEST_LINE))
        checked = f"{files} file{'' if files == 1 else 's'} of {where}"
        print(
            f"{len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'} in {one_line(checked, LONGEST_LINE)}"
        )
    return FAILED if findings else OK


def _first(words: argparse.Namespace) -> str:
    return str(words.what[0]) if words.what else ""


def _root(place: Place, what: str) -> tuple[Path, str]:
    """The root of the tree that a word means: a folder, or a job; and what it is called."""
    folder = Path(what) if what else place.root
    if folder.is_dir():
        root = root_of(folder.resolve())
        if root is None:
            remedy = "make one with `parley workflow init SUMMARY.md`, or name a folder or a job that has one"
            raise Trouble(f"{folder}: there is no {FOLDER}/ in it; {remedy}")
        return root, str(folder)
    if "/" in what or what.endswith(".md"):
        raise Trouble(f"{what}: there is no such folder; name one that holds {FOLDER}/, or a job")
    with bus(place) as store:
        job = find_job(store.jobs(), what).job
    root = Worktrees(place.home, place.root).path(job, "")
    if root_of(root) is None:
        raise Trouble(f"job {job} has no workflow; `parley show {job}` tells what it does")
    return root, f"job {job}"


# ---- status --------------------------------------------------------------------------------------


def _status(words: argparse.Namespace) -> int:
    """Show where every agent stands."""
    root, where = _root(place_of(words.repo), _first(words))
    document = {"place": where, **_from_files(root)}
    if words.json:
        print_json(document)
    else:
        _print(document)
    return OK


def _from_files(root: Path) -> dict[str, Any]:
    """A workflow as its files tell it."""
    files, _ = read_tree(root)
    if SHARED_STATUS not in files:
        raise Trouble(f"{root / SHARED_STATUS} is not there; `parley workflow check {root}` tells what else is missing")
    shared, findings = read_status(files[SHARED_STATUS])
    if shared is None:
        raise Trouble(f"{findings[0]}; `parley workflow check {root}` tells all", FAILED)
    plan = read_plan(files.get(PLAN, ""))[0]
    agents = []
    for name, entry in shared.agents.items():
        session = read_session(files[session_of(name)], name)[0] if session_of(name) in files else None
        agents.append(
            {
                "name": name,
                "status": str(entry.status),
                "notes": entry.notes,
                "unresolved": entry.unresolved,
                "version": entry.version,
                "verifier": plan.workers[name].verifier if plan and name in plan.workers else "",
                "dependencies": list(entry.dependencies),
                "last_update": None if entry.last_update is None else moment(entry.last_update),
                "unsettled": [
                    {"note_id": note.note_id, "status": str(note.status), "category": str(note.category),
                     "description": note.description}
                    for note in unsettled(session)
                ],
            }
        )  # fmt: skip
    return {
        "task": shared.task_id,
        "status": shared.status,
        "gate": shared.gate,
        "agents": agents,
        "verification": [
            {"name": name, "status": str(check.status), "agents": list(check.agents)}
            for name, check in shared.verification.items()
        ],
    }


def _print(document: dict[str, Any]) -> None:
    gate = document["gate"]
    print(f"{document['task']}: {document['status']}, overall_completion_drive_gate {gate}  ({document['place']})")
    rows = [("agent", "status", "notes", "version", "verifier", "waits for", "last update")]
    standing = {agent["name"]: agent["status"] for agent in document["agents"]}
    for agent in document["agents"]:
        left = f" ({agent['unresolved']} unresolved)" if agent["unresolved"] else ""
        waits = [name for name in agent["dependencies"] if standing.get(name) not in DONE]
        version = str(agent["version"] or "-")
        rows.append(
            (
                agent["name"],
                agent["status"],
                f"{agent['notes']}{left}",
                version,
                agent["verifier"] or "-",
                ", ".join(waits) if agent["status"] == Status.PENDING and waits else "-",
                agent["last_update"] or "-",
            )
        )
    if not document["agents"]:
        print("no agents yet: the plan names none")
        return
    _table(rows)
    print()
    _table([("verifier", "status", "agents")] + [
        (check["name"], check["status"], ", ".join(check["agents"]) or "-") for check in document["verification"]
    ])  # fmt: skip
    for agent in document["agents"]:
        if agent.get("reason"):
            print(one_line(f"{agent['name']} is {agent['status']}: {agent['reason']}", LONGEST_LINE))
        for note in agent["unsettled"]:
            about = f" ({note['category']})" if note["category"] else ""
            head = f"{agent['name']} {note['note_id']} {note['status']}{about}: "
            print(one_line(head + note["description"], max(columns(), 60)))


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print(safe(line.rstrip()))
