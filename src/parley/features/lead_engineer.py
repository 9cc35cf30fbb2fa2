"""The lead engineer's skill: a lead follows it where the words of the request call for one.

The lead has the skill at hand in any case and takes it up where it applies. Code says it where the words are plain, so
that it does not depend on a model's attention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from parley.base.text import cut
from parley.engine.hooks import Feature, Guest
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.stages import Start
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Begins
from parley.protocol.molecules import Record
from parley.protocol.states import State
from parley.roles.skill_anatomy import PLANNING

SKILL = "persona-lead-engineer"

_DOCUMENT = re.compile(
    r"https?://[^\s)>\]\"']+|(?<![\w/.-])[\w./~-]*\w\.(?:md|rst|txt|adoc|pdf|docx?|odt|html?|tex|org)\b", re.IGNORECASE
)
_MANY = (
    r"(?:several|multiple|many|various|both|all(?: of)?(?: the| these| those)?|these|the following"
    r"|two|three|four|five|six|\d+)"
)
_SOURCES = re.compile(
    rf"\b{_MANY}\s+(?:\w+\s+){{0,2}}"
    r"(?:documents|docs|specs|specifications|tickets|issues|designs|briefs|papers|sources|rfcs|adrs|prds)\b",
    re.IGNORECASE,
)
_DIVIDE = re.compile(
    r"\b(?:decompos\w*|delegat\w+|break\w*\s+(?:\w+\s+){0,4}(?:down|up|apart)|(?:split|divid)\w*\s+(?:\w+\s+){0,5}"
    r"(?:into|among|between|across)|(?:hand|parcel|farm)\w*\s+(?:\w+\s+){0,3}out|sub-?tasks|sub-?agents|multi-?agent"
    r"|(?:several|multiple|many|parallel|two|three|four|five|\d+)\s+(?:\w+\s+)?agents|team of agents"
    r"|work(?:ing)?\s+(?:\w+\s+){0,2}(?:in parallel|side by side))\b",
    re.IGNORECASE,
)
_MERGE = re.compile(
    r"\b(?:merg|integrat|combin|reconcil|bring|put)\w*\b[^.\n]{0,80}?"
    r"\b(?:branches|worktrees|forks|pull requests|PRs|lines of work|parallel (?:work|changes|efforts))\b",
    re.IGNORECASE,
)
_TOGETHER = re.compile(
    r"\b(?:merge|integrate|combine|reconcile)\s+(?:the\s+)?\S+\s+and\s+(?:the\s+)?\S+\s+branch", re.IGNORECASE
)
_SHOWN = 3


@lru_cache(maxsize=64)  # asked at every turn of a lead, and a request stays as it is
def calls_for(request: str) -> str:
    """Why a request calls for a lead engineer, in a few words; empty if its words do not say so."""
    documents = list(dict.fromkeys(found.rstrip(".,;") for found in _DOCUMENT.findall(request)))
    if len(documents) > 1:
        more = f" and {len(documents) - _SHOWN} more" if len(documents) > _SHOWN else ""
        return f"the request brings several source documents: {', '.join(documents[:_SHOWN])}{more}"
    for pattern, why in (
        (_SOURCES, "the request brings several source documents"),
        (_MERGE, "the request asks to merge parallel branches"),
        (_TOGETHER, "the request asks to merge parallel branches"),
        (_DIVIDE, "the request asks to decompose and delegate"),
    ):
        found = pattern.search(request)
        if found:
            return f"{why} ({cut(' '.join(found[0].split()), 80)!r})"
    return ""


def called_for(record: Record, request: str) -> str:
    """Why a state calls for a lead engineer, by the request and by what brought the job here; empty: it does not."""
    if record.state not in (State.PLAN, State.EXECUTE):
        return ""
    return calls_for("\n".join((request, *(entry.reason for entry in record.history[-1:]))))


class LeadEngineer(Feature):
    """Gives a lead the skill of a lead engineer where the request calls for one."""

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """Every job's leads are looked at."""
        return (LeadEngineerGuest(),)


class LeadEngineerGuest(Guest):
    """The skill of one job's leads."""

    def prepare_lead(self, job: OwnedJob, start: Start) -> None:
        """Add the skill, and say so when a visit begins."""
        record = start.record
        why = called_for(record, job.row.request)
        if not why:
            return
        start.skills.append(SKILL)
        if record.state is State.PLAN:
            start.skills.append(PLANNING)
        if isinstance(message_meta.read(start.message), Begins):
            start.remarks.append(f"(Your skill {SKILL} comes first: {why}.)")
