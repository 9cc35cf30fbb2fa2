"""The architecture group: an agent of the soup whose turns are this code and take no time.

What the lead wants designed goes to the workflow architect. A design that it hands in is checked by code; gaps go back
to it. A design without gaps is laid before the design verifier, and what that finds goes back as well. What both have
found good lies in the group's tree, and comes into the lead's when the lead closes the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from parley.base.json_codec import decode, encode
from parley.base.quoting import below
from parley.base.wording import count
from parley.engine import protocol_messages
from parley.engine.agents.code_agent import CodeAgent
from parley.engine.values.message_meta import Failed, Intervened, Stalled
from parley.ports.workspaces import WorkspaceError
from parley.protocol.conversation import free_slots
from parley.protocol.molecules import Deliver, Payload, Surface
from parley.protocol.states import State
from parley.roles.role_snapshot import TOOLS, RoleSnapshot
from parley.settings.schema import WorkflowSettings
from parley.workflow.design.activation import Activation, DesignSettings
from parley.workflow.design.drafts import read_drafts
from parley.workflow.design.outline import is_complex, levels, outline
from parley.workflow.files.plan import read_plan
from parley.workflow.host import design_messages, worker_reports
from parley.workflow.host.design_gates import VERIFIED, Design, design_in, design_slot, findings, take_over
from parley.workflow.host.role_traits import TRAITS
from parley.workflow.model.code_steps import DesignStanding, GroupStep
from parley.workflow.model.terms import ARCHITECT, DESIGN_REPORT, DESIGN_VERIFIER, PLAN, Plan

HELPERS = ("instruction-writer", "file-structure-designer", "checkpoint-designer")
ROUNDS = 3  # how often a design goes back to its architect before the lead hears of it
REMINDERS = 2  # of a verifier that gives no verdict
AGAIN = "Send to the architecture group again to have it tried anew, or close the conversation."
WANTED = 4000  # characters of what the lead asked for
COMPLEX = {"complex_agents": 5, "complex_levels": 3}


class ArchitectureGroup(CodeAgent):
    """One turn of the architecture group."""

    def run(self) -> None:
        """Deal with the message: of the lead, of the architect, of the verifier, or about one of these."""
        kept = self.job.kept.get(design_slot(self.thread))
        self.standing = decode(kept, DesignStanding) if kept else DesignStanding()
        self.tree = self.blueprint = ""
        above = self.dispatcher()
        try:
            if isinstance(self.meta, Failed | Stalled):
                self.end_with(self.troubled(self.meta))
            elif isinstance(self.meta, Intervened) or (above is not None and self.row.sender_thread == above.thread):
                self.end_with(self.commissioned())
            elif self.row.sender_thread == self.standing.architect and self.place_of(self.standing.architect):
                self.end_with(self.designed())
            elif self.row.sender_thread == self.standing.verifier and self.place_of(self.standing.verifier):
                self.end_with(self.judged())
            else:  # the end of one of them, under a mark that the lead does not take for its own
                self.end_with(self.report(below(protocol_messages.fit(f"[DESIGN failed] {self.row.body}\n{AGAIN}"))))
        except WorkspaceError as trouble:
            self.end_with(self.report(below(f"[DESIGN failed] The design can't be worked with: {trouble}")))

    def end_with(self, payloads: Sequence[Payload]) -> None:
        """End the turn; what the group knows goes with the step."""
        self.job.keep(design_slot(self.thread), encode(self.standing))
        if self.blueprint:
            self.job.keep(VERIFIED, self.blueprint)
        left = GroupStep(design=self.standing, verified=self.blueprint)
        self.end(payloads, extra=self.extra(tree=self.tree, left=left))

    # ---- whom it works with ------------------------------------------------------------------

    def joined(self, names: Sequence[str], thread: str = "", agent: str = "") -> None:
        """See to it that roles are in a team: the group's own, or the architect's."""
        surface = self.job.soup.need(Surface, thread or self.thread, agent or self.agent)
        missing = [name for name in names if name not in surface.team]
        if missing:
            self.enrol([self.role(name) for name in missing], surface.agent, surface.thread)

    def role(self, name: str) -> RoleSnapshot:
        """A role in full, as it joins a team: it has none itself, so that it leads no subteam."""
        bus = TRAITS[name].tools if name in TRAITS else TOOLS
        return replace(self.job.role(name), team=(), members={}, bus=bus)

    def to_architect(self, body: str, *, asks: bool = False) -> list[Payload]:
        """A message to the architect: to the one at work, or to a new one. `asks`: it holds what the lead asked for."""
        self.joined((ARCHITECT, DESIGN_VERIFIER))
        if not self.place_of(self.standing.architect):
            self.standing = replace(self.standing, architect=self.open(), delegated=False)
            if not asks:  # it has not heard what the others heard
                body = f"{body}\n\nWhat the lead asked for: {self.standing.wanted}"
        return [self.letter(ARCHITECT, self.standing.architect, below(protocol_messages.fit(body)))]

    def place_of(self, thread: str) -> str:
        """The workspace of one that it speaks with; none if that one is gone."""
        there = self.job.soup.get(Surface, thread) if thread and not self.job.soup.dying(thread) else None
        return there.workspace if there is not None else ""

    def without_verifier(self) -> list[Payload]:
        """End the conversation with the verifier: each round has a new one, which knows nothing of the last."""
        thread, self.standing = self.standing.verifier, replace(self.standing, verifier="", reminders=0)
        return [self.close(thread)] if self.place_of(thread) else []

    def without_architect(self) -> list[Payload]:
        """End the conversation with the architect."""
        thread, self.standing = self.standing.architect, replace(self.standing, architect="")
        return [self.close(thread)] if self.place_of(thread) else []

    @property
    def settings(self) -> WorkflowSettings:
        """The job's settings of workflows."""
        return self.job.settings_of(worker_reports.WorkflowPart).workflow

    # ---- what the messages lead to -----------------------------------------------------------

    def commissioned(self) -> list[Payload]:
        """The lead wants something designed, or has more to say of it."""
        first = not self.standing.wanted
        wanted = protocol_messages.excerpt(self.row.body, WANTED)
        self.standing = replace(self.standing, checks=0, rounds=0, ready=False, wanted=wanted)
        ended = self.without_verifier()
        given = self.job.settings_of(DesignSettings).covered
        if not first or given is None or not self.take_draft(given):
            return [*ended, *self.to_architect(f"[DESIGN] {self.row.body}", asks=True)]
        return [*ended, *(self.drafted() if given.has_plan else self.summed_up(given))]

    def take_draft(self, given: Activation) -> bool:
        """Lay what the human gave into the group's tree; not over a design that an earlier visit has come to."""
        own, record = self.own(), self.job.record
        there = self.world.workspace.read(self.job.id, own, PLAN) is not None
        if not given.files or (there and record.visits(State.PLAN) > 1):
            return False
        self.world.workspace.write(self.job.id, own, dict(given.files))
        self.tree = self.keep_tree()
        return True

    def summed_up(self, given: Activation) -> list[Payload]:
        """The architect begins with the human's own summary."""
        said = f"The human's own summary is {', '.join(given.summaries)}: read it first. What it decides holds."
        return self.to_architect(f"[DESIGN] {self.row.body}\n\n{said}", asks=True)

    def drafted(self) -> list[Payload]:
        """The human's own plan is the draft: one without a gap goes to the verifier, any other to the architect."""
        design = design_in(self.world, self.job.id, self.own())
        found = findings(self.job, design) if design is not None else []
        if design is not None and not found:
            self.joined((ARCHITECT, DESIGN_VERIFIER))
            self.standing = replace(self.standing, verifier=self.open())
            said = "nothing: this is the human's own design, as they gave it"
            return [self.letter(DESIGN_VERIFIER, self.standing.verifier, _to_verify(said))]
        return self.to_architect(
            f"[DESIGN] {self.row.body}\n\nThe human's own plan lies in orchestration/, and is your draft: keep what it"
            " decides, and mend each gap.\n"
            f"The draft has gaps:\n{_listed([str(finding) for finding in found])}",
            asks=True,
        )

    def troubled(self, told: Failed | Stalled) -> list[Payload]:
        """An agent of the group could not go on, or shows no sign of life: the lead decides what becomes of it."""
        ended: list[Payload] = []
        failed = isinstance(told, Failed)
        if failed and told.thread == self.standing.architect:
            ended = self.without_architect()
        elif failed and told.thread == self.standing.verifier:
            ended = self.without_verifier()
        mark = "[DESIGN failed]" if failed else "[DESIGN stalled]"
        return [*ended, *self.report(below(protocol_messages.fit(f"{mark} {self.row.body}\n{AGAIN}")))]

    def designed(self) -> list[Payload]:
        """The architect has handed in a design."""
        place = self.place_of(self.standing.architect)
        design = design_in(self.world, self.job.id, place)
        if design is None:
            return self.back([f"there is no {PLAN}, or it is no file that can be read"])
        plan, _ = read_plan(design.files[PLAN])
        if plan is not None and not self.standing.delegated and self.is_complex(plan):
            return self.delegate(plan)
        found = findings(self.job, design)
        if found:
            return self.back([str(finding) for finding in found])
        own = self.own()
        take_over(self.world, self.job.id, place, own)
        self.tree = self.keep_tree()
        ended = self.without_verifier()
        if not ended and free_slots(self.job.soup, self.thread) <= 0:
            ended = self.without_architect()  # its design is in the group's tree: another one can go on from there
        self.standing = replace(self.standing, verifier=self.open())
        return [*ended, self.letter(DESIGN_VERIFIER, self.standing.verifier, _to_verify(self.row.body))]

    def own(self) -> str:
        """The group's own workspace, made if it is not there yet."""
        above = self.dispatcher()
        self.world.workspace.prepare(self.job.id, self.workspace, above.workspace if above else "")
        return self.workspace

    def is_complex(self, plan: Plan) -> bool:
        """Whether the architect is to have help."""
        return is_complex(plan, self.settings.complex_agents, self.settings.complex_levels)

    def delegate(self, plan: Plan) -> list[Payload]:
        """The workflow is complex: the architect gets helpers, and is told so."""
        self.joined(HELPERS, self.standing.architect, ARCHITECT)
        self.standing = replace(self.standing, delegated=True)
        return self.to_architect(
            f"[DELEGATE] The workflow is complex: {count(len(plan.doers), 'doer')},"
            f" {count(levels(plan), 'level')} of dependency."
            f" Your team has {', '.join(HELPERS)} now. Let them write what each is there for, close their"
            " conversations, make one design of it, and hand it in again."
        )

    def back(self, gaps: Sequence[str]) -> list[Payload]:
        """The check found gaps: back to the architect, a few times, then up to the lead."""
        listed = _listed(gaps)
        self.standing = replace(self.standing, checks=self.standing.checks + 1)
        if self.standing.checks > self.settings.rounds:
            return self.up(
                f"the design check still finds gaps after {count(self.standing.checks - 1, 'round')}", listed
            )
        mark = f"[CHECK {self.standing.checks} of {self.settings.rounds}]"
        return self.to_architect(f"{mark} The design has gaps. Mend each, and hand it in again.\n{listed}")

    def up(self, why: str, listed: str) -> list[Payload]:
        """The lead hears that a design does not come to an end by itself."""
        remedy = "Send what the architect is to do instead, ask the human, or close the conversation."
        self.standing = replace(self.standing, checks=0, rounds=0)
        return [*self.report(below(protocol_messages.fit(f"[DESIGN gaps] {why}. {remedy}\n{listed}")))]

    def judged(self) -> list[Payload]:
        """The verifier has spoken."""
        said = worker_reports.read(self.meta).judgement
        verdict, found = said.verdict, said.findings
        place = self.place_of(self.standing.verifier)
        if not verdict and self.standing.reminders < REMINDERS:
            self.standing = replace(self.standing, reminders=self.standing.reminders + 1)
            words = "[VERDICT] You gave none. Call Verdict with verified, or with rejected and your findings."
            return [self.letter(DESIGN_VERIFIER, self.standing.verifier, words)]
        report = self.world.workspace.read(self.job.id, place, DESIGN_REPORT)
        if report is None or not report.strip():
            report = _report(verdict or "none", found, self.row.body)
        own = self.own()
        self.world.workspace.write(self.job.id, own, {DESIGN_REPORT: report})
        self.tree = self.keep_tree()
        ended = self.without_verifier()
        if verdict == "verified":
            return [*ended, *self.approved(own)]
        self.standing = replace(self.standing, rounds=self.standing.rounds + 1)
        listed = _listed(
            found or [f"the design verifier gave no verdict that counts: {protocol_messages.excerpt(self.row.body)}"]
        )
        if self.standing.rounds > self.settings.rounds:
            why = f"the design verifier still finds gaps after {count(self.standing.rounds - 1, 'round')}"
            return [*ended, *self.up(why, listed)]
        mark = f"[GAPS {self.standing.rounds} of {self.settings.rounds}]"
        body = (
            f"{mark} The design verifier says {verdict or 'nothing that counts'}. Mend each gap, and hand it in again."
        )
        return [*ended, *self.to_architect(f"{body}\n{listed}\n\nIts report:\n{report}")]

    def approved(self, own: str) -> list[Deliver]:
        """Check and verifier have found it good: the lead hears what there is, and what the human has to know."""
        design = design_in(self.world, self.job.id, own)
        if design is None:
            return self.report(f"[DESIGN failed] {PLAN} is gone from the group's tree.")
        self.blueprint = design.blueprint
        self.standing = replace(self.standing, ready=True)
        used = design_messages.used(self.job.used.turns, self.job.used.micros)
        return self.report(below(protocol_messages.fit(_ready(self.job.settings.roles, design, self.thread, used))))


def _listed(lines: Sequence[str]) -> str:
    more = len(lines) - design_messages.FINDINGS
    shown = [f"- {protocol_messages.excerpt(line, 600)}" for line in lines[: design_messages.FINDINGS]]
    return "\n".join([*shown, *([f"(and {more} more)"] if more > 0 else [])])


def _to_verify(said: str) -> str:
    return (
        f"[VERIFY] Read {PLAN} and every agent_instructions.md below orchestration/agents/ against INTENT.md. The"
        " design check by code found no gap: look for what code can't see."
        f" Write your report to {DESIGN_REPORT}, and end with Verdict: verified, or rejected with each gap as a"
        f" finding.\n\nThe architect says: {protocol_messages.excerpt(said, 4000)}"
    )


def _report(verdict: str, found: Sequence[str], said: str) -> str:
    gaps = [f"- {' '.join(finding.split())}" for finding in found] or ["None."]
    words = " ".join(said.split())
    return "\n".join(["# Design verification", "", f"Verdict: {verdict}", "", words, "", "## Gaps", "", *gaps, ""])


def _ready(roles: Sequence[RoleSnapshot], design: Design, thread: str, used: str) -> str:
    plan, _ = read_plan(design.files[PLAN])
    drafts, _ = read_drafts(design.files, roles)
    lines = outline(plan, drafts) if plan else []
    head = "[DESIGN ready] The design check found no gap, and the design verifier has approved the design."
    remedy = (
        f"Close {thread}: that brings orchestration/ into your tree. Then say in PLAN.md how the workflow serves the"
        " intent, and assert it. The approval covers the plan, the instructions and the new roles."
    )
    return "\n".join([head, *lines, used, remedy])
