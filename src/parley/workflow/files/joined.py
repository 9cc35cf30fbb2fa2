"""The agents that joined a workflow after its plan was approved, as the plan's file lists them.

The list stands at the end of `workflow_coordination_plan.md`. It is written from the bus and is no part of the plan: an
approval covers the file without it. Only what has its very form is taken for it, so nothing else can hide there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from parley.workflow.model.terms import Joined
from parley.workflow.model.times import moment

_HEAD = (
    "\n## Joined later\n\n"
    "Not in the plan as it was approved. This list is written from the job's bus; an edit here changes nothing.\n\n"
)
_NAME = r"[a-z0-9]+(?:[_-][a-z0-9]+)*"
_WHY = rf"to verify {_NAME}|to decide what (?:{_NAME} asked in note_\d+(?:, )?)+"
_LINE = rf"- `{_NAME}` \({_NAME}\), since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ: (?:{_WHY})\n"
_LIST = re.compile(rf"{re.escape(_HEAD)}(?:{_LINE})+\Z")


def with_joined(plan: str, joined: Sequence[Joined]) -> str:
    """The plan's file: the plan, and who joined later."""
    lines = "".join(f"- `{one.name}` ({one.role}), since {moment(one.time)}: {one.why}\n" for one in joined)
    return f"{plan}{_HEAD}{lines}" if lines else plan


def without_joined(text: str) -> str:
    """The plan of a file: what was approved, without the list."""
    return _LIST.sub("", text)
