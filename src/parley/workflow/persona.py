"""When a request calls for a lead engineer: what in its words says so.

The lead has the skill at hand in any case and takes it up where it applies. Code says it where the words are plain, so
that it does not depend on a model's attention.
"""

from __future__ import annotations

import re

from parley.text import cut

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
