"""The workflow executor: an agent of the soup whose turns are this code and take no time.

It carries out what `parley.workflow` decides. Each turn's decisions are the events of the step that ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from parley.core.bounds import counted
from parley.core.conversation import enclosing
from parley.core.errors import Exhausted, Refused
from parley.core.gates import refuse_assert
from parley.core.terms import Deliver, Interrupt, Kind, Mailbox, Payload, Question, Run, Surface, escalation_thread
from parley.engine import designs, flows, reports, texts
from parley.engine.clones import frozen
from parley.engine.code_agent import CodeAgent
from parley.engine.names import ROLE, clone_slot, tree_slot
from parley.engine.records import dumps
from parley.engine.remembering import EXCERPT, in_use
from parley.engine.roster import BUS, TOOLS
from parley.ports import WorkspaceError
from parley.quoting import below
from parley.workflow import checking, deciding, executor, moving, words
from parley.workflow.binding import bound
from parley.workflow.claims import scope_of
from parley.workflow.conduct import Adopt, Ask, Close, Conduct, Enrol, Letter, Merge, Report, Restore
from parley.workflow.deciding import Said
from parley.workflow.flow import Draft, Flow, Illegal, Pending
from parley.workflow.joined import without_joined
from parley.workflow.menus import menu_for
from parley.workflow.plan import read_plan
from parley.workflow.terms import (
    ARCHITECT,
    DESIGN_VERIFIER,
    INTEGRATOR,
    PLAN,
    PROVER,
    Merged,
    Plan,
    Task,
    Worker,
    instructions_of,
)

GAPS = 20  # that are told at once


@dataclass(frozen=True, slots=True)
class Proposal:
    """A changed plan as it is asserted: all of it is read from one tree, which is kept."""

    draft: Draft
    base: str  # the executor's own tree, from which the one with the draft was made
    tree: str  # with the draft in it
    asserted: Question
    more: Mapping[str, Any]  # what the human is told of it


class Executor(CodeAgent):
    """One turn of the workflow executor."""

    proposal: Proposal | None = None  # the assert of a plan that has come changed in this turn

    def run(self) -> None:
        """Deal with the message."""
        flow = flows.flow_of(self.live, self.thread)
        if flow is None:
            self.begin()
            return
        act = self.conduct(flow)
        try:
            self.deal(act)
        except Illegal as problem:  # nobody could go on from here: the next turn would end the same way
            self.halt(act, f"what came does not fit where it stands: {problem}")
            moving.undo_merge(act, "the workflow was stopped")
        self.carry_out(act)

    def conduct(self, flow: Flow) -> Conduct:
        """What this turn decides from."""
        limits, now = reports.limits_of(self.live), int(self.now)
        return Conduct(
            flow, limits, now, self.open, self.workspace, self.kept, self.engaged, assertable=self.assertable
        )

    def kept(self, workspace: str) -> str:
        """The tree that a worker's last turn left."""
        return self.live.kept.get(tree_slot(workspace), "")

    def engaged(self, thread: str) -> bool:
        """Whether a worker is at work, or has something to read."""
        soup = self.live.soup
        mail = soup.get(Mailbox, thread)
        return bool(soup.get(Run, thread) or soup.all(Interrupt, thread) or (mail and mail.queue))

    # ---- what has come -----------------------------------------------------------------------

    def begin(self) -> None:
        """The lead has dispatched it: the plan in its tree is the one to run."""
        above = self.dispatcher()
        self.world.workspace.prepare(self.live.job, self.workspace, above.workspace if above else "")
        text = self.world.workspace.read(self.live.job, self.workspace, PLAN)
        if text is None:
            self.refuse([f"there is no {PLAN}; have the architecture group design the workflow first"])
            return
        text = without_joined(text)  # who joined an earlier run
        plan, findings = read_plan(text)
        if plan is None:
            self.refuse([str(finding) for finding in findings])
            return
        try:
            tree = self.world.workspace.committed(self.live.job, self.workspace)
            designs.refuse_unapproved(self.live, self.world, enclosing(self.live.soup, self.thread), tree)
        except Refused as refused:
            self.refuse([str(refused)])
            return
        act = self.conduct(Flow(self.thread))
        executor.begin(act, text, self.instructions(plan), len(flows.threads(self.live)) + 1)
        self.carry_out(act)

    def instructions(self, plan: Plan) -> list[tuple[str, str]]:
        """What the plan's agents are told, from the tree with the approved design: from now on the bus has it."""
        read = self.world.workspace.read
        found = ((path, read(self.live.job, self.workspace, path)) for path in map(instructions_of, plan.workers))
        return [(path, text) for path, text in found if text is not None]

    def refuse(self, gaps: list[str]) -> None:
        """The plan can't be run."""
        listed = "\n".join(f"- {gap}" for gap in gaps[:GAPS])
        self.end(self.report(below(texts.fit(f"[WORKFLOW refused] the plan can't be run:\n{listed}"))))

    def deal(self, act: Conduct) -> None:
        """Hear whoever has written, or what the protocol tells."""
        meta = self.meta
        if "answer" in meta:
            said = Said(meta.get("choice", ""), meta.get("ruling") or "", meta["text"], meta["author"])
            deciding.answered(act, meta["answer"], said)
        elif "failed" in meta:
            deciding.lost(act, meta["failed"], meta.get("fault", ""))
        elif "stalled" in meta:
            deciding.stalled(act, meta["stalled"], float(meta.get("since", 0)))
        elif meta.get("dead") in act.flow.talks:
            deciding.lost(act, meta["dead"], "it was withdrawn")
        elif self.row.sender_thread in act.flow.talks:
            executor.hear(act, self.row.sender_thread, executor.Left.of(self.row.body, meta))
        elif "intervene" in meta or "intervened" in meta:
            moving.pass_on(act, self.row.body)
        elif "dead" not in meta and "merged" not in meta:
            act.do(Report(f"[WORKFLOW] {words.PHASES[act.flow.phase]}\n{moving.table(act)}"))

    # ---- what is done about it ---------------------------------------------------------------

    def carry_out(self, act: Conduct) -> None:
        """Do all that was decided and whatever follows, and end the turn with it."""
        try:
            tree = self.work(act)
            self.stay_current()
            self.within_bounds(act)
        except Exhausted as bound:
            self.halt(act, f"it goes round in circles: {bound}")
            moving.undo_merge(act, "the workflow was stopped")
            tree = self.work(act)
        except (Refused, WorkspaceError) as trouble:
            self.halt(act, f"its files can't be kept: {trouble}")
            tree = ""
        except Illegal as problem:
            self.halt(act, f"what follows does not fit where it stands: {problem}")
            tree = ""
        payloads: list[Payload] = []
        questions: list[Question] = []
        for action in act.actions:
            match action:
                case Letter(name, thread, body):
                    payloads.append(self.letter(name, thread, words.framed(texts.fit(body))))
                case Close(thread):
                    if self.live.soup.get(Surface, thread) is not None:
                        payloads.append(self.close(thread))
                case Ask(question, body):
                    questions.append(self.put(texts.fit(body), question, act.flow.questions[question]))
                case Report(body):
                    payloads.extend(self.report(below(texts.fit(body))))
                case Enrol(workers):
                    self.enrol_workers(workers)
        flows.keep(self.live, act.flow, act.changed)
        asserted = [question.id for question in questions if question.kind is Kind.ASSERT]
        drafts = dict.fromkeys(asserted, self.proposal.tree) if self.proposal is not None else {}
        self.end(payloads, questions, self.extra(tree=tree, drafts=drafts, flow=act.events))

    def within_bounds(self, act: Conduct) -> None:
        """See that what was decided may be said. Raises Exhausted."""
        letters = [Deliver(one.name, one.thread, "") for one in act.actions if isinstance(one, Letter)]
        asked = [one for one in act.actions if isinstance(one, Ask)]
        plans = {name for name, pending in act.flow.questions.items() if pending.about == "plan" and self.proposal}
        artifacts = [designs.PLAN_MD if one.question in plans else "" for one in asked]
        questions = [
            Question(one.question, "", artifact=name, key="" if name else texts.key_of(texts.fit(one.body)))
            for one, name in zip(asked, artifacts, strict=True)
        ]
        counted(self.live.soup, self.agent, self.thread, letters, questions)

    @staticmethod
    def halt(act: Conduct, why: str) -> None:
        """Stop the workflow; nothing that was to be said or done holds any more."""
        act.actions.clear()
        act.works.clear()
        moving.stop(act, why)

    def work(self, act: Conduct) -> str:
        """Do what is to be done in the trees, and decide what follows; its own tree, if that may have changed."""
        touched = tree_slot(self.workspace) not in self.live.kept
        executor.advance(act)
        while act.works:
            touched = True
            match act.works.pop(0):
                case Merge(agent, workspace):
                    self.merge(act, agent, workspace)
                case Restore(tree, why):
                    self.world.workspace.restore(self.live.job, self.workspace, tree, f"{self.turn}-{why}")
                case Adopt(draft):
                    self.world.workspace.write(self.live.job, self.workspace, files_of(draft))
            if not act.works:
                executor.advance(act)
        return self.keep_tree() if touched else ""

    def merge(self, act: Conduct, agent: str, workspace: str) -> None:
        """Bring a tree into its own: a doer's as far as it owns what it changed, an integrator's whole."""
        job, own = self.live.job, self.workspace
        if agent == INTEGRATOR:
            found = self.world.workspace.merge(job, workspace, own)
            talk = act.flow.talks[workspace]
            checking.settled(act, talk, found.paths, self.world.workspace.unresolved(job, own))
            return
        before = self.keep_tree()
        found = self.world.workspace.merge(job, workspace, own, scope_of(reports.whole_plan(act.flow), agent))
        conflicts = tuple(conflict.path for conflict in found.conflicts)
        merging = act.flow.merging
        number = merging.merged.number if merging else len(act.flow.merges) + 1
        merged = Merged(
            number, agent, act.now, taken=False, commits=found.commits, paths=found.paths, conflicts=conflicts,
            trivial=not conflicts, kept_out=found.kept_out,
        )  # fmt: skip
        checking.brought(act, before, merged)

    # ---- a plan that changes -----------------------------------------------------------------

    def assertable(self, draft: Draft) -> str:
        """Why a changed plan can't be asserted, it was just sent back, say; empty: it can, and `put` does it."""
        try:
            self.proposal = self.propose(draft)
        except (Refused, WorkspaceError) as refused:
            return str(refused)
        return ""

    def propose(self, draft: Draft) -> Proposal:
        """The assert of a changed plan: PLAN.md with the design as it would be then; and what the human is told of it.

        So the one approval that lets it come into force is the one that the work's gate asks for. The draft comes into
        a tree of its own, which is kept: the digest, the proxy's clone and what the human is told are all of that tree,
        and the plan in force stays where it is. Raises Refused and WorkspaceError.
        """
        live, workspace = self.live, self.world.workspace
        base, tree = (
            workspace.committed(live.job, self.workspace),
            workspace.draft(live.job, self.workspace, files_of(draft)),
        )
        design = designs.design_of(designs.Committed(self.world, live.job, tree))
        plan = workspace.contents(live.job, tree, (designs.PLAN_MD,)).get(designs.PLAN_MD, "")
        digest = bound(plan, design.blueprint) if design and plan else ""
        asserted = Question("?", "?", Kind.ASSERT, designs.PLAN_MD, digest)
        refuse_assert(live.soup, enclosing(live.soup, self.thread), self.thread, asserted)
        more: dict[str, Any] = {"workflow": designs.told(live, design) if design else []}
        if in_use(live):
            more["excerpt"] = texts.fit(workspace.beginning(live.job, tree, designs.PLAN_MD, EXCERPT))
        return Proposal(draft, base, tree, asserted, more)

    def stay_current(self) -> None:
        """What the turn has merged since is in the tree that the proxy is shown. Raises Refused and WorkspaceError."""
        made = self.proposal
        if made is not None and self.world.workspace.committed(self.live.job, self.workspace) != made.base:
            self.proposal = self.propose(made.draft)

    def put(self, body: str, identity: str, pending: Pending) -> Question:
        """A question to the human, with what can be chosen; of a changed plan it is an assert."""
        menu = {"menu": menu_for(pending).document()}
        if pending.about == "plan" and self.proposal is not None:
            made = self.proposal
            known = frozen(self.live.soup, self.live.kept, self.agent, self.thread, made.tree)
            self.live.keep(clone_slot(escalation_thread(identity)), known)
            return self.question(body, replace(made.asserted, id=identity), {**made.more, **menu})
        return self.question(body, Question(identity, "?"), menu)

    # ---- who takes part ----------------------------------------------------------------------

    def enrol_workers(self, workers: tuple[Worker, ...]) -> None:
        """Workers join its team under the names that the plan gives them; and those that every workflow needs.

        Whose role or limits a changed plan has made others joins again: it works by them from its next turn on.
        """
        roles = [self.role_of(worker) for worker in workers]
        known = self.live.soup.need(Surface, self.thread, self.agent).team
        roles += [
            {**self.blank(name), **self.live.role(name), "team": [], "bus": list(BUS[name])}
            for name in (ARCHITECT, INTEGRATOR, DESIGN_VERIFIER)
            if name not in known
        ]
        if PROVER not in known:
            roles.append({**self.blank(PROVER), "runner": "proof", "bus": []})
        kept = self.live.kept
        joining = [
            role for role in roles if role["name"] not in known or kept.get(f"{ROLE}{role['name']}") != dumps(role)
        ]
        if joining:
            self.enrol(joining)

    def role_of(self, worker: Worker) -> dict[str, Any]:
        """A worker as a role: what its own role says, under its name, with its limits and its tools."""
        base, own = self.roles().get(worker.role) or self.live.role(worker.role), self.live.role(worker.name)
        bus = ["Note", "Status"] if worker.task is Task.DOER else ["Note", "Verdict"]
        limits = dict(base.get("limits", {}))
        if worker.time_limit_seconds:
            limits["turn_seconds"] = worker.time_limit_seconds
        if worker.stall_seconds:
            limits["stall_seconds"] = worker.stall_seconds
        tools = [tool for tool in base.get("tools", ()) if tool not in TOOLS]
        return {
            **self.blank(worker.name),
            **base,
            "name": worker.name,
            "team": [],
            "members": {},
            "description": worker.objective or base.get("description", ""),
            "tools": [*tools, *bus],
            "runner": own.get("runner") or base.get("runner", ""),
            "limits": limits,
            "bus": bus,
        }

    def roles(self) -> dict[str, dict[str, Any]]:
        """The roles that its agents may work as: the job's, and those that were approved as drafts with the plan."""
        design = designs.design_in(self.world, self.live.job, self.workspace)
        return designs.roles_with(self.live, design) if design is not None else {}

    @staticmethod
    def blank(name: str) -> dict[str, Any]:
        """A role that says nothing."""
        return {
            "name": name, "team": [], "tools": [], "description": "", "prompt": "", "model": "", "runner": "",
            "limits": {}, "members": {}, "bus": [],
        }  # fmt: skip


def files_of(draft: Draft) -> dict[str, str]:
    """What a changed plan writes: the plan, and what each of its agents is told."""
    return {PLAN: draft.plan, **dict(draft.instructions)}
