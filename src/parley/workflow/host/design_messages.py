"""What leads, doers and the human are told of a workflow's design."""

from __future__ import annotations

from collections.abc import Sequence

from parley.base.wording import count
from parley.engine.protocol_messages import excerpt, listed
from parley.ports.workspaces import Merge
from parley.protocol.molecules import Record
from parley.protocol.states import State
from parley.workflow.design.activation import Activation
from parley.workflow.model.terms import Finding

FINDINGS = 100  # of a design check, in one message
SUMMARY_QUOTED = 8000  # characters of a conversation summary
_QUOTED = "What the human has settled so far, in"
DRAFT = "The plan below orchestration/ is the changed one, not the one in force: `git show` is all that it changes."


def activated(record: Record, given: Activation) -> str:
    """What a lead is told where the human has activated the workflow architect; what they gave along is their own."""
    if record.state is State.INTENT:
        said = [f"{_QUOTED} {path}:\n\n{_beginning(given.files[path])}" for path in given.summaries]
        return "\n\n".join(("The human wants this designed as a workflow of several agents, in PLAN.", *said))
    if record.state is not State.PLAN:
        return ""
    begins = ""
    if given.files:
        what = "plan" if given.has_plan else "conversation summary"
        begins = f" The group begins with the human's own {what} ({listed(sorted(given.files))}), which is in its tree."
    return (
        "The human has activated the workflow architect: this plan has to be a workflow. Send what is wanted to"
        f" architecture-group.{begins} PLAN.md can't be asserted, and APPROVED_PLAN does not count, without a design."
    )


def _beginning(text: str) -> str:
    return text if len(text) <= SUMMARY_QUOTED else f"{text[:SUMMARY_QUOTED]}… ({len(text)} characters in all)"


def own_design(changed: Sequence[str] | None) -> str:
    """How a design compares with the one that the human gave; None: they gave none."""
    if changed is None:
        return ""
    if not changed:
        return "It is the design that you gave, word for word."
    return f"It is not as you gave it: {listed(list(changed))} differ{'s' if len(changed) == 1 else ''}."


def gaps(findings: Sequence[Finding]) -> str:
    """What the design check found, for the agent that is to have it mended."""
    many = len(findings)
    listed = "\n".join(f"- {excerpt(str(finding), 600)}" for finding in findings[:FINDINGS])
    more = f"\n(and {many - FINDINGS} more)" if many > FINDINGS else ""
    return f"the design of the workflow has {count(many, 'gap')}:\n{listed}{more}"


def verified(said: bool) -> str:
    """Whether a design verifier has looked at the very design that is asserted."""
    who = (
        "A design verifier has approved this very design" if said else "No design verifier has approved it as it is now"
    )
    return f"The design check found no gap. {who}. It lies in orchestration/, beside PLAN.md."


def used(turns: int, micros: int) -> str:
    """What a job has used up so far, for the human who may let it use more."""
    money = f" and ${micros / 1e6:.2f}" if micros else ""
    return f"So far the job has used {count(turns, 'turn')}{money}."


def unclear() -> str:
    """Why no work counts yet."""
    return (
        "the workflow of the approved plan is not through: its overall_completion_drive_gate is blocked."
        " Send to workflow-executor, or answer what it waits for, and wait for its [WORKFLOW complete]"
    )


def apart(merge: Merge) -> str:
    """What a doer is told whose tree does not go together with what is merged by now."""
    return (
        f"[APART] What is merged by now and your tree both changed {listed([c.path for c in merge.conflicts])}. Your"
        " tree stays as it is; both are brought together when yours is merged, and proved for both sides. Go on."
    )
