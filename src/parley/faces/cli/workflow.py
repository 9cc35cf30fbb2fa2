"""`parley workflow`: begin the files of a workflow, check them, and show where its agents stand."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parley import config
from parley.adapters.roles import gather, to_json
from parley.adapters.worktrees import Worktrees
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.desk import Place, one_line, place_of, print_json
from parley.faces.cli.orchestra import make, read_tree, root_of, shown, summary_text
from parley.faces.cli.restore import run_restore
from parley.faces.cli.standings import from_files, on_the_bus, show
from parley.ports import JobRow
from parley.wording import advice, count
from parley.workflow.beginning import begin
from parley.workflow.design import check_design
from parley.workflow.drafts import read_drafts
from parley.workflow.plan import read_plan
from parley.workflow.structure import check_structure
from parley.workflow.summary import read_summary
from parley.workflow.terms import FOLDER, PLAN, Finding

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
        raise Trouble(f"there is no `parley workflow {words.action}`; {advice(words.action, actions)}")
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
        print(f"made {shown(folder / path)}")
    rest = "fill in what it names" if plan is None else "write what the agents' instructions lack"
    print(f"next: {rest}, then `parley workflow check {shown(folder)}`")
    return OK


# ---- check ---------------------------------------------------------------------------------------


def _check(words: argparse.Namespace) -> int:
    """Check every file, and the design."""
    place = place_of(words.repo)
    root, where, job = _root(place, _first(words))
    files, findings = read_tree(root)
    roles = _roles(place, job)
    names = frozenset(str(role["name"]) for role in roles)
    design = check_design(files, names, lambda path: os.path.lexists(root / path))
    found = dict.fromkeys((*findings, *check_structure(files), *design, *read_drafts(files, roles)[1]))
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
        checked = f"{count(files, 'file')} of {where}"
        print(f"{count(len(findings), 'finding') if findings else 'no findings'} in {one_line(checked, LONGEST_LINE)}")
    return FAILED if findings else OK


def _first(words: argparse.Namespace) -> str:
    return str(words.what[0]) if words.what else ""


def _roles(place: Place, job: JobRow | None) -> list[dict[str, Any]]:
    """The roles that a job has, or that one would have which starts now."""
    if job is None:
        return [to_json(role) for role in gather(place.root, config.read(place.root)).values()]
    return list(json.loads(job.settings).get("roles", ()))


def _root(place: Place, what: str) -> tuple[Path, str, JobRow | None]:
    """The root of the tree that a word means, a folder's or a job's; what it is called; the job, if it is one."""
    folder = Path(what) if what else place.root
    if folder.is_dir():
        root = root_of(folder.resolve())
        if root is None:
            remedy = "make one with `parley workflow init SUMMARY.md`, or name a folder or a job that has one"
            raise Trouble(f"{folder}: there is no {FOLDER}/ in it; {remedy}")
        return root, shown(folder), None
    if "/" in what or what.endswith(".md"):
        raise Trouble(f"{what}: there is no such folder; name one that holds {FOLDER}/, or a job")
    with bus(place) as store:
        row = find_job(store.jobs(), what)
    root = Worktrees(place.home, place.root).path(row.job, f"job:{row.job}")
    if root_of(root) is None:
        raise Trouble(f"job {row.job} has no workflow; `parley show {row.job}` tells what it does")
    return root, f"job {row.job}", row


# ---- status --------------------------------------------------------------------------------------


def _status(words: argparse.Namespace) -> int:
    """Show where every agent stands: of a job as the bus has it, of a folder as its files do."""
    place = place_of(words.repo)
    what = _first(words)
    found = None if what and Path(what).is_dir() else on_the_bus(place, what)
    if found is None:
        root, where, _ = _root(place, what)
        found = {"place": where, **from_files(root)}
    if words.json:
        print_json(found)
    else:
        show(found)
    return OK
