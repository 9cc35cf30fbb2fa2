"""`parley workflow`: begin the files of a workflow, check them, and show where its agents stand."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from parley import config
from parley.adapters.roles import gather, to_json
from parley.adapters.worktrees import Worktrees
from parley.engine.audit import Report
from parley.engine.held import Held
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.activating import INIT, at_hand, is_path, objective, read_given
from parley.faces.cli.audit import audited
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.desk import Place, one_line, place_of, print_json
from parley.faces.cli.orchestra import make, read_tree, root_of, shown, summary_text
from parley.faces.cli.restore import run_restore
from parley.faces.cli.standings import from_files, on_the_bus, show
from parley.faces.cli.start import begin as begin_job
from parley.ports import JobRow
from parley.wording import advice, count
from parley.workflow.beginning import begin
from parley.workflow.design import check_design
from parley.workflow.drafts import read_drafts
from parley.workflow.plan import read_plan
from parley.workflow.structure import check_structure
from parley.workflow.summary import read_summary
from parley.workflow.terms import FOLDER, PLAN, Finding, agent_at

LONGEST_LINE = 2_000
STARTING = ("agent", "playbook", "model", "policy", "budget", "yes", "detach")  # the options of `run`


def run(words: argparse.Namespace) -> int:
    """Carry out one of its actions."""
    actions: dict[str, tuple[int, Callable[[argparse.Namespace], int]]] = {
        "init": (1, _init),
        "check": (1, _check),
        "status": (1, _status),
        "restore": (3, _restore),
        "run": (2, _start),
    }
    if words.action not in actions:
        raise Trouble(f"there is no `parley workflow {words.action}`; {advice(words.action, actions)}")
    most, act = actions[words.action]
    if len(words.what) > most:
        raise Trouble(f"{words.what[most]!r} is one word too many; see `parley workflow --help`")
    for option, action in (("dir", "init"), ("replace", "restore"), *((name, "run") for name in STARTING)):
        if getattr(words, option, None) and words.action != action:
            raise Trouble(f"--{option} goes with {action} only; see `parley workflow --help`")
    return act(words)


# ---- run -----------------------------------------------------------------------------------------


def _start(words: argparse.Namespace) -> int:
    """Start a job whose plan begins from a design at hand: `run`, with the word for it already said."""
    first, *rest = words.what or ("",)
    words.workflow = words.request = None
    if first and (rest or is_path(first)):
        words.workflow, words.request = first, next(iter(rest), None)
    elif first:
        words.request = first
    place = place_of(words.repo)
    given = read_given(Path(words.workflow)) if words.workflow is not None else at_hand(place)
    if given is None:
        raise Trouble(f"{shown(place.root / FOLDER)} holds no plan and no conversation summary; {INIT}")
    return begin_job(words, place, words.request if words.request is not None else objective(given), given)


def _restore(words: argparse.Namespace) -> int:
    """Make an archived session the current one again."""
    if len(words.what) < 3:  # noqa: PLR2004 - the three words that it names
        raise Trouble("name the place, the agent and its archive: `parley workflow restore PLACE AGENT SESSION`")
    where, agent, session = words.what
    return run_restore(where, agent, session, repo=words.repo, replacing=words.replace, json=words.json)


# ---- init ----------------------------------------------------------------------------------------


def _init(words: argparse.Namespace) -> int:
    """Make the structure from a conversation summary."""
    folder = Path(words.dir) if words.dir is not None else place_of(words.repo).root
    if not folder.is_dir():
        raise Trouble(f"{folder}: there is no such folder; make it, or name another --dir")
    given = Path(words.what[0]) if words.what else _own_summary(folder)
    text = summary_text(given)
    summary, findings = read_summary(text, str(given))
    if summary is None:
        return _tell(findings, str(given), words)
    kept = folder / PLAN
    plan = None
    if kept.exists():
        plan, findings = read_plan(summary_text(kept))
        if plan is None:
            raise Trouble(f"{kept} is there already and can't be used: {findings[0]}")
    made, there = make(folder, begin(summary, text, plan))
    there = sorted([*there, *([PLAN] if plan is not None else [])])
    if words.json:
        print_json({"task": summary.task, "folder": str(folder / FOLDER), "made": made, "kept": there})
        return OK
    for path in made:
        print(f"made {shown(folder / path)}")
    for path in there:
        print(f"kept {shown(folder / path)}")
    rest = "write what the agents' instructions lack" if plan is not None and plan.workers else "fill in what it names"
    print(f"next: {rest}, then `parley workflow check {shown(folder)}`")
    print(f"`parley workflow run {shown(folder)}` starts a job from it; the architect mends what it lacks")
    return OK


def _own_summary(folder: Path) -> Path:
    """The summary that the structure has already, where the user names none."""
    found = sorted((folder / FOLDER).glob("conversation_summary_*.md")) if root_of(folder) is not None else []
    if len(found) != 1:
        raise Trouble("name the conversation summary: `parley workflow init SUMMARY.md`")
    return found[0]


# ---- check ---------------------------------------------------------------------------------------


def _check(words: argparse.Namespace) -> int:
    """Check every file, and the design; of a job also whether each file is what the bus says."""
    place = place_of(words.repo)
    found = _place(place, _first(words))
    if found.job is not None:
        with bus(place, true=True) as store:
            report = audited(store, place, found.job.job)
        if report.files is None or not (report.files.compared or report.files.remarks):
            raise Trouble(f"job {found.job.job} has no workflow; `parley show {found.job.job}` tells what it does")
        held, differing = report.files, _differing(report)
    else:
        held, differing = Held(), []
    files, findings = read_tree(found.root) if root_of(found.root) is not None else ({}, [])
    if files:
        roles = _roles(place, found.job)
        names = frozenset(str(role["name"]) for role in roles)
        findings += check_structure(files)
        findings += check_design(files, names, lambda path: os.path.lexists(found.root / path))
        findings += read_drafts(files, roles)[1]
    return _tell(list(dict.fromkeys((*differing, *findings))), found.name, words, len(files), held)


def _differing(report: Report) -> list[Finding]:
    """What the audit of a job says of its files; and of its record, where that does not hold."""
    remedy = "look into it with `parley audit`"
    found = [Finding("the bus", 0, "", "record", str(one), remedy) for one in report.findings]
    odd = report.files.odd if report.files is not None else ()
    put_back = "take the change back: only the bus counts, and nothing is read from this file"
    return found + [Finding(one.file, one.line, agent_at(one.file), "differs", one.what, put_back) for one in odd]


def _tell(
    findings: list[Finding], where: str, words: argparse.Namespace, files: int = 1, held: Held | None = None
) -> int:
    """Print each finding on a line, and how many there are."""
    told = held or Held()
    if words.json:
        listed = [asdict(one) for one in findings]
        more = {"remarks": told.remarks, "behind": told.behind}
        print_json({"place": where, "files": files, "count": len(findings), "findings": listed, **more})
    else:
        for finding in findings:
            print(one_line(str(finding), LONGEST_LINE))
        for remark in (*told.remarks, *told.behind):
            print(one_line(f"note: {remark}", LONGEST_LINE))
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


@dataclass(frozen=True, slots=True)
class Found:
    """What a word of the user's means: the root of a tree, what it is called, and the job, if it is one."""

    root: Path
    name: str
    job: JobRow | None = None


def _place(place: Place, what: str) -> Found:
    """The tree that a word means, a folder's or a job's."""
    folder = Path(what) if what else place.root
    if folder.is_dir():
        root = root_of(folder.resolve())
        if root is None:
            remedy = "make one with `parley workflow init SUMMARY.md`, or name a folder or a job that has one"
            raise Trouble(f"{folder}: there is no {FOLDER}/ in it; {remedy}")
        return Found(root, shown(folder))
    if "/" in what or what.endswith(".md"):
        raise Trouble(f"{what}: there is no such folder; name one that holds {FOLDER}/, or a job")
    with bus(place) as store:
        row = find_job(store.jobs(), what)
    return Found(Worktrees(place.home, place.root).path(row.job, f"job:{row.job}"), f"job {row.job}", row)


# ---- status --------------------------------------------------------------------------------------


def _status(words: argparse.Namespace) -> int:
    """Show where every agent stands: of a job as the bus has it, of a folder as its files do."""
    place = place_of(words.repo)
    what = _first(words)
    found = None if what and Path(what).is_dir() else on_the_bus(place, what)
    if found is None:
        meant = _place(place, what)
        if root_of(meant.root) is None:
            raise Trouble(f"{meant.name} has no workflow; `parley show {what}` tells what it does")
        found = {"place": meant.name, **from_files(meant.root)}
    if words.json:
        print_json(found)
    else:
        show(found)
    return OK
