"""The workflow executor: an agent of the soup whose turns are this code and take no time.

It carries out what `parley.workflow` decides. Each turn's decisions are the events of the step that ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from parley.base.json_codec import encode
from parley.base.quoting import below
from parley.bus.slots import clone_slot, role_slot, tree_slot
from parley.engine import protocol_messages
from parley.engine.agents.code_agent import CodeAgent
from parley.engine.turn.question_clone import clone_text
from parley.engine.turn.stages import Gate
from parley.engine.values.message_meta import (
    Answered,
    Conflicted,
    DeadLetter,
    Failed,
    Intervened,
    PassedOn,
    Stalled,
    TakenAway,
)
from parley.ports.turns import PROOF
from parley.ports.workspaces import WorkspaceError
from parley.protocol.bounds import counted
from parley.protocol.conversation import enclosing
from parley.protocol.errors import Exhausted, Refused
from parley.protocol.gates import refuse_assert
from parley.protocol.molecules import (
    Deliver,
    Interrupt,
    Kind,
    Mailbox,
    Payload,
    Question,
    Run,
    Surface,
    escalation_thread,
)
from parley.roles.role_snapshot import TOOLS, RoleLimits, RoleSnapshot
from parley.workflow.design.binding import bound
from parley.workflow.execution import doer_moves, escalate, executor, executor_messages, verification
from parley.workflow.execution.escalate import HumanAnswer
from parley.workflow.execution.executor_turn import (
    AdoptPlan,
    AskTheHuman,
    CloseConversation,
    EnrolWorkers,
    ExecutorTurn,
    MergeWorkspace,
    ReportToDispatcher,
    RestoreTree,
    SendMessage,
)
from parley.workflow.files.joined import without_joined
from parley.workflow.files.plan import read_plan
from parley.workflow.host import design_gates, design_messages, live_flows, worker_reports
from parley.workflow.host.role_traits import TRAITS
from parley.workflow.model.code_steps import ExecutorStep
from parley.workflow.model.flow import Flow, IllegalEvent, PendingQuestion, PlanDraft
from parley.workflow.model.menus import menu_for
from parley.workflow.model.terms import (
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
from parley.workflow.paths.claims import scope_of

GAPS = 20  # that are told at once


@dataclass(frozen=True, slots=True)
class Proposal:
    """A changed plan as it is asserted: all of it is read from one tree, which is kept."""

    draft: PlanDraft
    base: str  # the executor's own tree, from which the one with the draft was made
    tree: str  # with the draft in it
    asserted: Question
    gate: Gate  # what the human is told of it


class Executor(CodeAgent):
    """One turn of the workflow executor."""

    proposal: Proposal | None = None  # the assert of a plan that has come changed in this turn

    def run(self) -> None:
        """Deal with the message."""
        flow = live_flows.flow_of(self.job, self.thread)
        if flow is None:
            self.begin()
            return
        act = self.conduct(flow)
        try:
            self.deal(act)
        except IllegalEvent as problem:  # no agent could go on from here: the next turn would end the same way
            self.halt(act, f"what came does not fit where it stands: {problem}")
            doer_moves.undo_merge(act, "the workflow was stopped")
        self.carry_out(act)

    def conduct(self, flow: Flow) -> ExecutorTurn:
        """What this turn decides from."""
        limits, now = worker_reports.limits_of(self.job), int(self.now)
        return ExecutorTurn(
            flow=flow,
            limits=limits,
            now=now,
            new=self.open,
            tree=self.workspace,
            kept=self.kept,
            engaged=self.engaged,
            assertable=self.assertable,
        )

    def kept(self, workspace: str) -> str:
        """The tree that a worker's last turn left."""
        return self.job.kept.get(tree_slot(workspace), "")

    def engaged(self, thread: str) -> bool:
        """Whether a worker is at work, or has something to read."""
        soup = self.job.soup
        mail = soup.get(Mailbox, thread)
        return bool(soup.get(Run, thread) or soup.all(Interrupt, thread) or (mail and mail.queue))

    # ---- what has come -----------------------------------------------------------------------

    def begin(self) -> None:
        """The lead has dispatched it: the plan in its tree is the one to run."""
        above = self.dispatcher()
        self.world.workspace.prepare(self.job.id, self.workspace, above.workspace if above else "")
        text = self.world.workspace.read(self.job.id, self.workspace, PLAN)
        if text is None:
            self.refuse([f"there is no {PLAN}; have the architecture group design the workflow first"])
            return
        text = without_joined(text)  # who joined an earlier run
        plan, findings = read_plan(text)
        if plan is None:
            self.refuse([str(finding) for finding in findings])
            return
        try:
            tree = self.world.workspace.committed(self.job.id, self.workspace)
            design_gates.refuse_unapproved(self.job, self.world, enclosing(self.job.soup, self.thread), tree)
        except Refused as refused:
            self.refuse([str(refused)])
            return
        act = self.conduct(Flow(self.thread))
        executor.begin(act, text, self.instructions(plan), len(live_flows.threads(self.job)) + 1)
        self.carry_out(act)

    def instructions(self, plan: Plan) -> list[tuple[str, str]]:
        """What the plan's agents are told, from the tree with the approved design: from now on the bus has it."""
        read = self.world.workspace.read
        found = ((path, read(self.job.id, self.workspace, path)) for path in map(instructions_of, plan.workers))
        return [(path, text) for path, text in found if text is not None]

    def refuse(self, gaps: list[str]) -> None:
        """The plan can't be run."""
        listed = "\n".join(f"- {gap}" for gap in gaps[:GAPS])
        self.end(self.report(below(protocol_messages.fit(f"[WORKFLOW refused] the plan can't be run:\n{listed}"))))

    def deal(self, act: ExecutorTurn) -> None:
        """Take what an agent has written, or what the protocol tells."""
        match self.meta:
            case Answered() as answer:
                said = HumanAnswer(answer.choice, answer.ruling or "", answer.text, answer.author)
                escalate.answered(act, answer.question, said)
            case Failed(thread=thread, fault=fault):
                escalate.lost(act, thread, fault)
            case Stalled(thread=thread, since=since):
                escalate.stalled(act, thread, since)
            case TakenAway(thread=thread) if thread in act.flow.talks:
                escalate.lost(act, thread, "it was withdrawn")
            case left if self.row.sender_thread in act.flow.talks:
                executor.hear(act, self.row.sender_thread, self.row.body, worker_reports.read(left))
            case Intervened() | PassedOn():
                doer_moves.pass_on(act, self.row.body)
            case DeadLetter() | TakenAway() | Conflicted():
                pass
            case _:
                act.do(
                    ReportToDispatcher(
                        f"[WORKFLOW] {executor_messages.PHASES[act.flow.phase]}\n{doer_moves.table(act)}"
                    )
                )

    # ---- what is done about it ---------------------------------------------------------------

    def carry_out(self, act: ExecutorTurn) -> None:
        """Do all that was decided and all that follows, and end the turn with it."""
        try:
            tree = self.work(act)
            self.stay_current()
            self.within_bounds(act)
        except Exhausted as bound:
            self.halt(act, f"it goes round in circles: {bound}")
            doer_moves.undo_merge(act, "the workflow was stopped")
            tree = self.work(act)
        except (Refused, WorkspaceError) as trouble:
            self.halt(act, f"its files can't be kept: {trouble}")
            tree = ""
        except IllegalEvent as problem:
            self.halt(act, f"what follows does not fit where it stands: {problem}")
            tree = ""
        payloads: list[Payload] = []
        questions: list[Question] = []
        for action in act.actions:
            match action:
                case SendMessage(name, thread, body, answers):
                    framed = executor_messages.framed(body, answers)
                    payloads.append(self.letter(name, thread, protocol_messages.fit(framed)))
                case CloseConversation(thread):
                    if self.job.soup.get(Surface, thread) is not None:
                        payloads.append(self.close(thread))
                case AskTheHuman(question, body):
                    questions.append(self.put(protocol_messages.fit(body), question, act.flow.questions[question]))
                case ReportToDispatcher(body):
                    payloads.extend(self.report(below(protocol_messages.fit(body))))
                case EnrolWorkers(workers):
                    self.enrol_workers(workers)
        live_flows.keep(self.job, act.flow, act.changed)
        asserted = [question.id for question in questions if question.kind is Kind.ASSERT]
        drafts = dict.fromkeys(asserted, self.proposal.tree) if self.proposal is not None else {}
        left = ExecutorStep(events=tuple(act.events), drafts=drafts) if act.events or drafts else None
        self.end(payloads, questions, self.extra(tree=tree, left=left))

    def within_bounds(self, act: ExecutorTurn) -> None:
        """See that what was decided may be said. Raises Exhausted."""
        letters = [Deliver(one.name, one.thread, "") for one in act.actions if isinstance(one, SendMessage)]
        asked = [one for one in act.actions if isinstance(one, AskTheHuman)]
        plans = {name for name, pending in act.flow.questions.items() if pending.about == "plan" and self.proposal}
        artifacts = [design_gates.PLAN_MD if one.question in plans else "" for one in asked]
        questions = [
            Question(
                one.question,
                "",
                artifact=name,
                key="" if name else protocol_messages.key_of(protocol_messages.fit(one.body)),
            )
            for one, name in zip(asked, artifacts, strict=True)
        ]
        counted(self.job.soup, self.agent, self.thread, letters, questions)

    @staticmethod
    def halt(act: ExecutorTurn, why: str) -> None:
        """Stop the workflow; nothing that was to be said or done holds any more."""
        act.actions.clear()
        act.works.clear()
        doer_moves.stop(act, why)

    def work(self, act: ExecutorTurn) -> str:
        """Do what is to be done in the trees, and decide what follows; its own tree, if that may have changed."""
        touched = tree_slot(self.workspace) not in self.job.kept
        executor.advance(act)
        while act.works:
            touched = True
            match act.works.pop(0):
                case MergeWorkspace(agent, workspace):
                    self.merge(act, agent, workspace)
                case RestoreTree(tree, why):
                    self.world.workspace.restore(self.job.id, self.workspace, tree, f"{self.turn}-{why}")
                case AdoptPlan(draft):
                    self.world.workspace.write(self.job.id, self.workspace, files_of(draft))
            if not act.works:
                executor.advance(act)
        return self.keep_tree() if touched else ""

    def merge(self, act: ExecutorTurn, agent: str, workspace: str) -> None:
        """Bring a tree into its own: a doer's as far as it owns what it changed, an integrator's whole."""
        job, own = self.job.id, self.workspace
        if agent == INTEGRATOR:
            found = self.world.workspace.merge(job, workspace, own)
            talk = act.flow.talks[workspace]
            verification.settled(act, talk, found.paths, self.world.workspace.unresolved(job, own))
            return
        before = self.keep_tree()
        found = self.world.workspace.merge(job, workspace, own, scope_of(worker_reports.whole_plan(act.flow), agent))
        conflicts = tuple(conflict.path for conflict in found.conflicts)
        merging = act.flow.merging
        number = merging.merged.number if merging else len(act.flow.merges) + 1
        merged = Merged(
            number, agent, act.now, taken=False, commits=found.commits, paths=found.paths, conflicts=conflicts,
            trivial=not conflicts, kept_out=found.kept_out,
        )  # fmt: skip
        verification.brought(act, before, merged)

    # ---- a plan that changes -----------------------------------------------------------------

    def assertable(self, draft: PlanDraft) -> str:
        """Why a changed plan can't be asserted, it was just sent back, say; empty: it can, and `put` does it."""
        try:
            self.proposal = self.propose(draft)
        except (Refused, WorkspaceError) as refused:
            return str(refused)
        return ""

    def propose(self, draft: PlanDraft) -> Proposal:
        """The assert of a changed plan: PLAN.md with the design as it would be then; and what the human is told of it.

        So the one approval that lets it come into force is the one that the work's gate asks for. The draft comes into
        a tree of its own, which is kept: the digest, the proxy's clone and what the human is told are all of that tree,
        and the plan in force stays where it is. Raises Refused and WorkspaceError.
        """
        job, workspace = self.job, self.world.workspace
        base, tree = (
            workspace.committed(job.id, self.workspace),
            workspace.draft(job.id, self.workspace, files_of(draft)),
        )
        design = design_gates.design_of(design_gates.Committed(self.world, job.id, tree))
        plan = workspace.contents(job.id, tree, (design_gates.PLAN_MD,)).get(design_gates.PLAN_MD, "")
        digest = bound(plan, design.blueprint) if design and plan else ""
        asserted = Question(id="?", message="?", kind=Kind.ASSERT, artifact=design_gates.PLAN_MD, digest=digest)
        refuse_assert(job.soup, enclosing(job.soup, self.thread), self.thread, asserted)
        return Proposal(
            draft=draft,
            base=base,
            tree=tree,
            asserted=asserted,
            gate=self.about(tree, design_gates.told(job, design) if design else []),
        )

    def about(self, tree: str, lines: list[str]) -> Gate:
        """What the human and the proxy are told of a changed plan, and what other guests add to it."""
        gate = Gate(
            record=enclosing(self.job.soup, self.thread),
            workspace=self.workspace,
            tree=tree,
            contents={},
            artifact=design_gates.PLAN_MD,
        )
        for hook in self.job.guests.describe_gate:
            hook(self.job, gate)
        gate.outline = tuple(lines)
        return gate

    def stay_current(self) -> None:
        """What the turn has merged since is in the tree that the proxy is shown. Raises Refused and WorkspaceError."""
        made = self.proposal
        if made is not None and self.world.workspace.committed(self.job.id, self.workspace) != made.base:
            self.proposal = self.propose(made.draft)

    def put(self, body: str, identity: str, pending: PendingQuestion) -> Question:
        """A question to the human, with what can be chosen; of a changed plan it is an assert."""
        menu = menu_for(pending)
        if pending.about == "plan" and self.proposal is not None:
            made = self.proposal
            known = clone_text(self.job.soup, self.job.kept, self.job.roles.code, self.agent, self.thread, made.tree)
            self.job.keep(clone_slot(escalation_thread(identity)), known)
            return self.question(body, replace(made.asserted, id=identity), menu, made.gate, design_messages.DRAFT)
        return self.question(body, Question(identity, "?"), menu)

    # ---- who takes part ----------------------------------------------------------------------

    def enrol_workers(self, workers: tuple[Worker, ...]) -> None:
        """Workers join its team under the names that the plan gives them; and those that every workflow needs.

        Whose role or limits a changed plan has made others joins again: it works by them from its next turn on.
        """
        roles = [self.role_of(worker) for worker in workers]
        known = self.job.soup.need(Surface, self.thread, self.agent).team
        roles += [
            replace(self.job.role(name), team=(), bus=TRAITS[name].tools)
            for name in (ARCHITECT, INTEGRATOR, DESIGN_VERIFIER)
            if name not in known
        ]
        if PROVER not in known:
            roles.append(RoleSnapshot(name=PROVER, runner=PROOF, bus=(), traits=TRAITS[PROVER]))
        kept = self.job.kept
        joining = [role for role in roles if role.name not in known or kept.get(role_slot(role.name)) != encode(role)]
        if joining:
            self.enrol(joining)

    def role_of(self, worker: Worker) -> RoleSnapshot:
        """A worker as a role: what its own role says, under its name, with its limits and its tools."""
        base, own = self.roles().get(worker.role) or self.job.role(worker.role), self.job.role(worker.name)
        bus = ("Note", "Status") if worker.task is Task.DOER else ("Note", "Verdict")
        limits = RoleLimits(
            turn_seconds=worker.time_limit_seconds or base.limits.turn_seconds,
            stall_seconds=worker.stall_seconds or base.limits.stall_seconds,
        )
        return replace(
            base,
            name=worker.name,
            team=(),
            members={},
            description=worker.objective or base.description,
            tools=(*(tool for tool in base.tools if tool not in TOOLS), *bus),
            runner=own.runner or base.runner,
            limits=limits,
            bus=bus,
        )

    def roles(self) -> dict[str, RoleSnapshot]:
        """The roles that its agents may work as: the job's, and those that were approved as drafts with the plan."""
        design = design_gates.design_in(self.world, self.job.id, self.workspace)
        return design_gates.roles_with(self.job, design) if design is not None else {}


def files_of(draft: PlanDraft) -> dict[str, str]:
    """What a changed plan writes: the plan, and what each of its agents is told."""
    return {PLAN: draft.plan, **dict(draft.instructions)}
