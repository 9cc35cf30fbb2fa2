"""The design of a workflow at the gates: as it lies in the job's tree, what an approval covers, what is wrong with it.

Nothing of it is trusted before its check. Once it is approved, only what the bus names counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from parley.base.json_codec import decode
from parley.base.wording import count
from parley.engine.owned_job import OwnedJob
from parley.engine.world import World
from parley.ports.workspaces import Scope, WorkspaceError
from parley.protocol.errors import Refused
from parley.protocol.gates import BLOCKED, CLEAR, standing
from parley.protocol.molecules import MessageKind, Record, Ruling, Surface, Verdict
from parley.protocol.states import State
from parley.roles.phases import PHASES
from parley.roles.role_snapshot import RoleSnapshot
from parley.workflow.design.activation import Activation, DesignSettings
from parley.workflow.design.binding import bound, digest_of, has_workflow, is_covered
from parley.workflow.design.design_check import check_design
from parley.workflow.design.drafts import read_drafts
from parley.workflow.design.outline import outline
from parley.workflow.files.assumptions import render_assumptions, with_assumptions
from parley.workflow.files.joined import with_joined, without_joined
from parley.workflow.files.plan import read_plan
from parley.workflow.host import design_messages
from parley.workflow.host.live_flows import current_flow, flow_of, flows_of_visit
from parley.workflow.model.code_steps import DesignStanding
from parley.workflow.model.ending import RUNS
from parley.workflow.model.terms import DESIGN_REPORT, EXECUTOR, FOLDER, PLAN, ROLES, SHARED_STATUS, Finding

PLAN_MD, WORK_MD = PHASES[State.PLAN].artifact, PHASES[State.EXECUTE].artifact
LONGEST_SUMMARY = 4_000_000
LARGEST_INPUT = 64 << 20
MOST_FILES = 5000  # that are looked at below orchestration/
SUMMARY = f"{FOLDER}/conversation_summary_"
UNREAD = (
    "/task_output/",
    "/completion_drive/session_2",
    f"{RUNS}/",
)  # what workers made, and what was archived: no design


@dataclass(frozen=True, slots=True)
class Design:
    """What lies below orchestration/, with a plan in it."""

    files: Mapping[str, str]
    blueprint: str  # the digest of what an approval covers
    existing: Callable[[str], bool]  # whether the tree that it lies in has a path
    count: int = 0  # how many files there are

    @property
    def covered(self) -> dict[str, str]:
        """The files that an approval covers."""
        plan, _ = read_plan(self.files[PLAN])
        agents = plan.workers if plan else None
        return {path: text for path, text in self.files.items() if is_covered(path, agents)}


class DesignFiles(Protocol):
    """Files that a design is read from."""

    def read(self, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of at most so many bytes holds."""

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a workspace as they lie there now: of one that no agent works in, or for what an agent is told."""

    world: World
    job: str
    name: str

    def read(self, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file holds."""
        return self.world.workspace.read(self.job, self.name, path, most)

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder."""
        return self.world.workspace.listing(self.job, self.name, folder)


@dataclass(frozen=True, slots=True)
class Committed:
    """The files of a tree that was committed: what a gate is about."""

    world: World
    job: str
    tree: str

    def read(self, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file holds."""
        return self.world.workspace.read_committed(self.job, self.tree, path, most)

    def listing(self, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder."""
        return self.world.workspace.list_committed(self.job, self.tree, folder)


def design_in(world: World, job: str, workspace: str, drafted: Mapping[str, str] | None = None) -> Design | None:
    """The design that a workspace holds, or would hold with the files of a draft; None where no workflow is planned."""
    return design_of(Folder(world, job, workspace), drafted)


def design_of(papers: DesignFiles, drafted: Mapping[str, str] | None = None) -> Design | None:
    """The design in some files; None where no workflow is planned."""
    there = papers.listing(FOLDER)
    listed = (*there, *(path for path in drafted or () if path not in there))
    plan_text = papers.read(PLAN)
    if plan_text is None and PLAN not in listed:
        return None
    # a plan that can't be read is one with nothing in it: its check says so
    found: dict[str, str | None] = {PLAN: without_joined(plan_text or ""), **(drafted or {})}
    paths = [path for path in listed if not any(part in path for part in UNREAD)]
    for path in paths[:MOST_FILES]:
        found.setdefault(path, papers.read(path))
    plan, _ = read_plan(found[PLAN] or "")
    agents = plan.workers if plan else None
    covered = {path: text for path, text in found.items() if is_covered(path, agents)}
    files = {path: text for path, text in found.items() if text is not None}
    return Design(files, digest_of(covered), lambda path: _is_there(papers, path), len(paths))


def _is_there(papers: DesignFiles, path: str) -> bool:
    """Whether a tree has a file of this path, or a folder with a file in it."""
    return papers.read(path, LARGEST_INPUT) is not None or bool(papers.listing(path))


def findings(job: OwnedJob, design: Design) -> list[Finding]:
    """All that is wrong with a design, its drafts of roles included."""
    _, wrong = read_drafts(design.files, job.settings.roles)
    known = {role.name for role in job.settings.roles}
    if design.count > MOST_FILES:
        many = f"there are {count(design.count, 'file')} below it, and {MOST_FILES} are looked at"
        wrong.append(
            Finding(
                file=FOLDER,
                line=0,
                agent="",
                rule="too-many-files",
                text=many,
                remedy="remove what does not belong to the workflow",
            )
        )
    for path in design.covered:
        if "\ufffd" in design.files[path]:
            wrong.append(
                Finding(
                    file=path,
                    line=0,
                    agent="",
                    rule="no-text",
                    text="it holds what is no character",
                    remedy="save it as UTF-8",
                )
            )
    wrong.extend(_deaf(job, design))
    return [*check_design(design.files, known, design.existing), *wrong]


def _deaf(job: OwnedJob, design: Design) -> Iterator[Finding]:
    """Agents that bear the name of a role that the executor could not go on with: a job's role keeps what it takes."""
    plan, _ = read_plan(design.files.get(PLAN, ""))
    due = (MessageKind.TASK, MessageKind.MESSAGE)
    for name in plan.workers if plan is not None else ():
        role = job.soup.charter.role(name)
        if role is not None and not set(due) <= set(role.messages):
            problem = f"the role {name} of this job does not take {' and '.join(due)}, which the executor sends"
            yield Finding(
                file=PLAN, line=0, agent=name, rule="deaf-role", text=problem, remedy="give the agent another name"
            )


def roles_with(job: OwnedJob, design: Design) -> dict[str, RoleSnapshot]:
    """The roles that the agents of an approved design may work as: the job's, and those that it drafts."""
    drafts, _ = read_drafts(design.files, job.settings.roles)
    return {**drafts, **{role.name: role for role in job.settings.roles}}


def drafts_beyond(world: World, job: str, workspace: str, approved: str) -> list[str]:
    """The drafts of roles in a workspace that differ from those in the one with the approved design."""
    found = [path for path in world.workspace.listing(job, workspace, ROLES) if is_covered(path)]
    return [
        path
        for path in found
        if world.workspace.read(job, workspace, path) != world.workspace.read(job, approved, path)
    ]


def refuse_undesigned(job: OwnedJob, world: World, record: Record, tree: str) -> None:
    """Where the human has activated the workflow architect, no plan is put before them that it had no part in."""
    if PLAN_MD not in job.soup.charter.companions or record.depth or record.state is not State.PLAN:
        return
    if design_of(Committed(world, job.id, tree)) is None:
        raise Refused(UNDESIGNED)
    if not any(slot.startswith(design_slot("dispatch:")) for slot in job.kept):
        raise Refused(UNASKED)


UNDESIGNED = (
    "the human has activated the workflow architect, and this plan has no workflow; have one designed by"
    " architecture-group, then assert PLAN.md with it"
)
UNASKED = (
    "the human has activated the workflow architect, and it was not asked; send what is wanted to architecture-group,"
    " and assert PLAN.md with the design that it hands in"
)


def refuse_gaps(job: OwnedJob, world: World, tree: str) -> None:
    """No plan is put before the human while its workflow has gaps."""
    design = design_of(Committed(world, job.id, tree))
    if design is not None and (found := findings(job, design)):
        raise Refused(design_messages.gaps(found))


def told_of(job: OwnedJob, world: World, tree: str) -> list[str]:
    """What the human is told of the workflow that a plan brings along."""
    try:
        design = design_of(Committed(world, job.id, tree))
    except WorkspaceError:
        return []
    if design is None or not (lines := told(job, design)):
        return []
    given = job.settings_of(DesignSettings).covered
    own = design_messages.own_design(changed_since(given, design)) if given is not None else ""
    return [
        *lines,
        design_messages.verified(design.blueprint == job.kept.get(VERIFIED, "")),
        *([own] if own else []),
    ]


def changed_since(given: Activation, design: Design) -> list[str] | None:
    """The files of a design that are not as the human gave them, others included; None where they gave no plan."""
    if not given.has_plan:
        return None
    made = design.covered
    return sorted(path for path in {*given.files, *made} if given.files.get(path) != made.get(path))


def told(job: OwnedJob, design: Design) -> list[str]:
    """What a design comes to, also one that lies nowhere yet."""
    plan, _ = read_plan(design.files[PLAN])
    if plan is None:
        return []
    drafts, _ = read_drafts(design.files, job.settings.roles)
    return [*outline(plan, drafts), design_messages.used(job.used.turns, job.used.micros)]


DESIGN = "design "  # how the slots begin that keep designs
VERIFIED = f"{DESIGN}verified"  # where the blueprint is kept that a design verifier has said yes to


def _not_design(path: str) -> str:
    return "" if path.startswith(f"{FOLDER}/") else "who designs a workflow changes nothing else"


TOGETHER = Scope(_not_design, design=True)  # of an architect's helpers, whose parts become one design


def design_slot(thread: str) -> str:
    """Where it is kept how far an architecture group is."""
    return f"{DESIGN}{thread}"


def is_ready(job: OwnedJob, thread: str) -> bool:
    """Whether an architecture group has a design that its check and its verifier have found good."""
    return decode(job.kept.get(design_slot(thread), "{}"), DesignStanding).ready


def take_over(world: World, job: str, source: str, target: str) -> tuple[str, ...]:
    """Bring a design from one workspace into another, and what it no longer has out of it; the paths."""
    there, here = (
        {path for path in world.workspace.listing(job, place, FOLDER) if _is_design(path)} for place in (source, target)
    )
    files: dict[str, str | None] = {path: None for path in here - there if not path.startswith(SUMMARY)}
    for path in sorted(there):
        text = world.workspace.read(job, source, path)
        if text is not None and (path not in here or world.workspace.read(job, target, path) != text):
            files[path] = text
    if files:
        world.workspace.write(job, target, files)
    return tuple(sorted(files))


def _is_design(path: str) -> bool:
    return is_covered(path) or path in (DESIGN_REPORT, SHARED_STATUS)


# ---- while it is carried out ---------------------------------------------------------------------


def in_force(job: OwnedJob, world: World, record: Record, thread: str) -> dict[str, str]:
    """The design that is carried out, for the lead of EXECUTE: as the executor has it, or as the lead found it."""
    if record.state is not State.EXECUTE or not is_approved(record):
        return {}
    below = (job.soup.get(Surface, child) for child in job.soup.children(thread))
    places = [surface.workspace for surface in below if surface is not None and surface.agent == EXECUTOR]
    try:
        found = next((design for place in (*places, job.thread) if (design := design_in(world, job.id, place))), None)
    except WorkspaceError:
        return {}  # nothing is put back; what was changed does not count for all that
    return found.covered if found else {}


def put_back(job: OwnedJob, world: World, approved: Mapping[str, str]) -> tuple[str, ...]:
    """Put the design that is carried out back into the job's tree, over its lead's changes; what was put back."""
    if not approved:
        return ()
    plan, _ = read_plan(approved[PLAN])
    agents = plan.workers if plan else None
    there = [path for path in world.workspace.listing(job.id, job.thread, FOLDER) if is_covered(path, agents)]
    files: dict[str, str | None] = {path: None for path in there if path not in approved}
    flow = current_flow(job)
    due = {**approved, PLAN: with_joined(approved[PLAN], flow.joins if flow is not None else ())}
    now = {path: world.workspace.read(job.id, job.thread, path) for path in due}
    files |= {path: text for path, text in due.items() if now[path] != text}
    if files:
        world.workspace.write(job.id, job.thread, files)
    own = without_joined(now[PLAN] or "")  # the list of those who joined is no part of what is approved
    told = [path for path in sorted(files) if path != PLAN or own != approved[PLAN]]
    return tuple(f"{path}: it is approved, and was put back as it was" for path in told)


# ---- the work gate -------------------------------------------------------------------------------


def is_approved(record: Record) -> bool:
    """Whether the plan that is being carried out has a workflow."""
    return not record.depth and has_workflow(dict(record.approved).get(PLAN_MD, ""))


def refuse_unapproved(job: OwnedJob, world: World, record: Record, tree: str) -> Design:
    """The design that a committed tree holds, if it is the one that was approved."""
    design = design_of(Committed(world, job.id, tree))
    plan = world.workspace.contents(job.id, tree, (PLAN_MD,)).get(PLAN_MD, "")
    live_verdicts = {v.digest for v in job.soup.all(Verdict, record.id) if v.ruling is Ruling.APPROVE}
    approved = {dict(record.approved).get(PLAN_MD, ""), *live_verdicts}
    if design is None or bound(plan, design.blueprint) not in approved:
        changed = f"{PLAN} and what belongs to it are not what was approved with {PLAN_MD}"
        raise Refused(f"{changed}; assert that again, or go back to PLAN")
    return design


def gate_of(job: OwnedJob) -> str:
    """The overall_completion_drive_gate of the workflow under way; blocked while there is none."""
    flow = current_flow(job)
    return flow.gate if flow is not None else BLOCKED


def is_under_way(job: OwnedJob, thread: str) -> bool:
    """Whether a thread is a workflow's whose work is not done: what lies in its tree may not be proved yet."""
    flow = flow_of(job, thread)
    return flow is not None and flow.phase == "running"


def at_the_gate(job: OwnedJob, record: Record) -> dict[str, str]:
    """What an outcome says of the gate, beside the contents of the artifacts."""
    return {standing(PLAN_MD): gate_of(job)} if record.state is State.EXECUTE and is_approved(record) else {}


def refuse_unclear(job: OwnedJob, record: Record) -> None:
    """No work is put before the human while a workflow's gate is blocked."""
    if is_approved(record) and gate_of(job) != CLEAR:
        raise Refused(design_messages.unclear())


def sum_up(job: OwnedJob, world: World, record: Record) -> None:
    """Write every assumption of the workflow into the work's summary, before it is looked at or kept."""
    if record.state is not State.EXECUTE or not is_approved(record):
        return
    summary = world.workspace.read(job.id, job.thread, WORK_MD, LONGEST_SUMMARY)
    if current_flow(job) is None or summary is None:
        return
    flows = flows_of_visit(job, record)
    sessions = [session for flow in flows for session in flow.sessions()]
    abandoned = [agent for flow in flows for agent in flow.abandoned()]
    changes = [change for flow in flows for change in flow.changes]
    whole = with_assumptions(summary, render_assumptions(sessions, abandoned, changes))
    if whole != summary:
        world.workspace.write(job.id, job.thread, {WORK_MD: whole})


def refuse_unfit(job: OwnedJob, world: World, record: Record, tree: str) -> None:
    """No work is put before the human that could not be approved: of another plan, or too early."""
    if is_approved(record):
        refuse_unclear(job, record)
        refuse_unsummed(job, world, record, tree)
        refuse_unapproved(job, world, record, tree)


def refuse_unsummed(job: OwnedJob, world: World, record: Record, tree: str) -> None:
    """A summary that nothing can be written into tells of no assumption."""
    if is_approved(record) and world.workspace.read_committed(job.id, tree, WORK_MD, LONGEST_SUMMARY) is None:
        raise Refused(f"{WORK_MD} is no text of up to {LONGEST_SUMMARY} bytes; write it as a plain UTF-8 file")
