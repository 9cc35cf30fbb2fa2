"""The human's request for a workflow, with the design files of theirs that its plan begins from.

It is part of a job's settings from the job's start: later changes of the files have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from parley.workflow.design.binding import is_covered
from parley.workflow.files.plan import read_plan
from parley.workflow.files.summary import Summary, read_summary
from parley.workflow.model.terms import FOLDER, PLAN

SUMMARY = f"{FOLDER}/conversation_summary_"


@dataclass(frozen=True, slots=True)
class Activation:
    """The human's request: the files of a design, by path from a tree's root; perhaps none."""

    files: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # where they were found, for people

    @property
    def has_plan(self) -> bool:
        """Whether a plan is among them: then the design begins as their draft."""
        return PLAN in self.files

    @property
    def summaries(self) -> list[str]:
        """The conversation summaries among them."""
        return sorted(path for path in self.files if path.startswith(SUMMARY))

    @property
    def words(self) -> str:
        """A short description for people."""
        if self.has_plan:
            plan, _ = read_plan(self.files[PLAN])
            return f"a plan of yours{f' ({plan.task})' if plan and plan.task else ''}"
        names = [path.removeprefix(SUMMARY).removesuffix(".md") for path in self.summaries]
        return f"a conversation summary of yours ({', '.join(names)})" if names else "nothing of yours"

    def objective(self) -> str:
        """The goal, in the human's own words; empty where they do not state one."""
        for path in self.summaries:
            summary = self.summary(path)
            if summary is not None:
                return summary.goal
        plan = read_plan(self.files[PLAN])[0] if self.has_plan else None
        return plan.goal.strip() if plan else ""

    def summary(self, path: str) -> Summary | None:
        """One of the summaries, read."""
        return read_summary(self.files[path], path)[0]


class DesignSettings(Struct, frozen=True):
    """What a job's settings say of a design of the human's."""

    activation: Activation | None = None

    @property
    def covered(self) -> Activation | None:
        """The activation, with those files alone that a design covers; None where the human has activated nothing."""
        if self.activation is None:
            return None
        files = {path: text for path, text in self.activation.files.items() if is_covered(path)}
        return Activation(files, self.activation.source)
