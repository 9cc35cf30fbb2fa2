"""`parley workflow`: begins the files of a workflow, checks them, and shows its agents' statuses."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import asdict

from parley.audit.audit import AuditReport
from parley.base.wording import advice, count
from parley.bus.rows import JobRow
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, one_line, place_of, print_json
from parley.cli.looking.audit_command import audited
from parley.cli.open_bus import find_job, open_bus
from parley.cli.starting.request_text import RequestText, checked
from parley.cli.starting.run import begin as begin_job
from parley.cli.starting.users_design import INIT, at_hand, is_path, objective, read_given
from parley.cli.workflow.restore import run_restore
from parley.cli.workflow.standings import from_files, on_the_bus, show
from parley.cli.workflow.workflow_folder import make, read_tree, root_of, shown, summary_text
from parley.engine.values import job_settings
from parley.engine.values.job_settings import Crew
from parley.roles import RoleSnapshot, gather, snapshot_of
from parley.settings import load
from parley.workflow.design.design_check import check_design
from parley.workflow.design.drafts import read_drafts
from parley.workflow.files.beginning import begin
from parley.workflow.files.plan import read_plan
from parley.workflow.files.structure import check_structure
from parley.workflow.files.summary import read_summary
from parley.workflow.host.files_audit import FilesReport
from parley.workflow.model.terms import FOLDER, PLAN, Finding, agent_at
from parley.workspaces import JobWorkspaces

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
        raise CommandError(f"there is no `parley workflow {words.action}`; {advice(words.action, actions)}")
    most, act = actions[words.action]
    if len(words.what) > most:
        raise CommandError(f"{words.what[most]!r} is one word too many; see `parley workflow --help`")
    for option, action in (("dir", "init"), ("replace", "restore"), *((name, "run") for name in STARTING)):
        if getattr(words, option, None) and words.action != action:
            raise CommandError(f"--{option} goes with {action} only; see `parley workflow --help`")
    return act(words)


# ---- run -----------------------------------------------------------------------------------------


def _start(words: argparse.Namespace) -> int:
    """Start a job whose plan begins from a design: like `parley run --workflow`."""
    first, *rest = words.what or ("",)
    words.workflow = words.request = None
    if first and (rest or is_path(first)):
        words.workflow, words.request = first, next(iter(rest), None)
    elif first:
        words.request = first
    place = place_of(words.repo)
    given = read_given(Path(words.workflow)) if words.workflow is not None else at_hand(place)
    if given is None:
        raise CommandError(f"{shown(place.root / FOLDER)} holds no plan and no conversation summary; {INIT}")
    request = checked(words.request) if words.request is not None else objective(given)
    return begin_job(words, place, RequestText(request), given)


def _restore(words: argparse.Namespace) -> int:
    """Make an archived session the current one again."""
    if len(words.what) < 3:  # noqa: PLR2004 - the three words that it names
        raise CommandError("name the place, the agent and its archive: `parley workflow restore PLACE AGENT SESSION`")
    where, agent, session = words.what
    return run_restore(where, agent, session, repo=words.repo, replacing=words.replace, json=words.json)


# ---- init ----------------------------------------------------------------------------------------


def _init(words: argparse.Namespace) -> int:
    """Make the structure from a conversation summary."""
    folder = Path(words.dir) if words.dir is not None else place_of(words.repo).root
    if not folder.is_dir():
        raise CommandError(f"{folder}: there is no such folder; make it, or name another --dir")
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
            raise CommandError(f"{kept} is there already and can't be used: {findings[0]}")
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
    print(f"`parley workflow run {shown(folder)}` starts a job from it; the architect adds what it lacks")
    return OK


def _own_summary(folder: Path) -> Path:
    """The summary in the folder, where the user names none."""
    found = sorted((folder / FOLDER).glob("conversation_summary_*.md")) if root_of(folder) is not None else []
    if len(found) != 1:
        raise CommandError("name the conversation summary: `parley workflow init SUMMARY.md`")
    return found[0]


# ---- check ---------------------------------------------------------------------------------------


def _check(words: argparse.Namespace) -> int:
    """Check every file and the design; for a job also whether each file is as the bus says."""
    place = place_of(words.repo)
    found = _place(place, _first(words))
    if found.job is not None:
        with open_bus(place, unredacted=True) as store:
            report = audited(store, place, found.job.job)
        if report.files is None or not (report.files.compared or report.files.remarks):
            raise CommandError(f"job {found.job.job} has no workflow; `parley show {found.job.job}` tells what it does")
        held, differing = report.files, _differing(report)
    else:
        held, differing = FilesReport(), []
    files, findings = read_tree(found.root) if root_of(found.root) is not None else ({}, [])
    if files:
        roles = _roles(place, found.job)
        names = frozenset(role.name for role in roles)
        findings += check_structure(files)
        findings += check_design(files, names, lambda path: os.path.lexists(found.root / path))
        findings += read_drafts(files, roles)[1]
    return _tell(list(dict.fromkeys((*differing, *findings))), found.name, words, len(files), held)


def _differing(report: AuditReport) -> list[Finding]:
    """The audit's findings about a job's files, and about its record where that is not sound."""
    remedy = "look into it with `parley audit`"
    found = [
        Finding(file="the bus", line=0, agent="", rule="record", text=str(one), remedy=remedy)
        for one in report.findings
    ]
    odd = report.files.odd if report.files is not None else ()
    put_back = "undo the change: only the bus counts, and nothing is read from this file"
    return found + [
        Finding(file=one.file, line=one.line, agent=agent_at(one.file), rule="differs", text=one.what, remedy=put_back)
        for one in odd
    ]


def _tell(
    findings: list[Finding], where: str, words: argparse.Namespace, files: int = 1, held: FilesReport | None = None
) -> int:
    """Print each finding on a line, and how many there are."""
    told = held or FilesReport()
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


def _roles(place: Workplace, job: JobRow | None) -> tuple[RoleSnapshot, ...]:
    """The roles of a job, or of a job that would start now."""
    if job is None:
        return tuple(snapshot_of(role) for role in gather(place.root, load.read(place.root)).values())
    return job_settings.read(job, Crew).roles


@dataclass(frozen=True, slots=True)
class WorkflowPlace:
    """A workflow that the user named: the root of its tree, its name, and the job, if it is one."""

    root: Path
    name: str
    job: JobRow | None = None


def _place(place: Workplace, what: str) -> WorkflowPlace:
    """The workflow that a word names: a folder's or a job's."""
    folder = Path(what) if what else place.root
    if folder.is_dir():
        root = root_of(folder.resolve())
        if root is None:
            remedy = "make one with `parley workflow init SUMMARY.md`, or name a folder or a job that has one"
            raise CommandError(f"{folder}: there is no {FOLDER}/ in it; {remedy}")
        return WorkflowPlace(root, shown(folder))
    if "/" in what or what.endswith(".md"):
        raise CommandError(f"{what}: there is no such folder; name one that holds {FOLDER}/, or a job")
    with open_bus(place) as store:
        row = find_job(store.jobs(), what)
    return WorkflowPlace(JobWorkspaces(place.home, place.root).path(row.job, f"job:{row.job}"), f"job {row.job}", row)


# ---- status --------------------------------------------------------------------------------------


def _status(words: argparse.Namespace) -> int:
    """Show every agent's status: of a job from the bus, of a folder from its files."""
    place = place_of(words.repo)
    what = _first(words)
    found = None if what and Path(what).is_dir() else on_the_bus(place, what)
    if found is None:
        meant = _place(place, what)
        if root_of(meant.root) is None:
            raise CommandError(f"{meant.name} has no workflow; `parley show {what}` tells what it does")
        found = {"place": meant.name, **from_files(meant.root)}
    if words.json:
        print_json(found)
    else:
        show(found)
    return OK
