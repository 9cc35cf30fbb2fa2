"""The protocol's tools as Claude Code is offered them. Every byte here is in every request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parley.base.options import JUDGEMENTS

SERVER = "p"


def _text(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_STRING: dict[str, Any] = {"type": "string"}
_FILES: dict[str, Any] = {
    "type": "array",
    "items": _STRING,
    "description": "with `to`: paths to copy",
}
_VERDICT: dict[str, Any] = {
    "type": "string",
    "enum": ["approve", "revise", "backtrack intent", "backtrack plan", "withdraw"],
}
_SURE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}

TOOLS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "Send": (
        "`to` a role opens a conversation, `thread` goes on with one. It leaves when your turn ends.",
        _text("text", to=_STRING, thread=_STRING, text=_STRING, files=_FILES),
    ),
    "CloseConversation": (
        "End a conversation that you opened; merges its tree into yours.",
        _text("thread", thread=_STRING),
    ),
    "AskQuestion": (
        "Ask the human, or with `assert` have an artifact approved. Ends your turn.",
        _text(
            "text",
            text=_STRING,
            kind={"type": "string", "enum": ["question", "assert"]},
            artifact=_STRING,
        ),
    ),
    "Answer": (
        "Answer the question.",
        _text(
            "text",
            verdict=_VERDICT,
            choice={"type": "string", "description": "one that the question lists"},
            text={"type": "string", "description": "your answer; beside the human's words only your remarks"},
            reason={"type": "string", "description": "what you saw that settles it"},
            confidence=_SURE,
        ),
    ),
    "AskHuman": (
        "Put the question to the human, with what you found and what you would say.",
        _text(
            "text",
            text=_STRING,
            found=_STRING,
            would={"type": "string", "description": "your verdict; for a plain question your words"},
            confidence=_SURE,
            reason=_STRING,
        ),
    ),
    "Predict": (
        "Say what you expect of the human, before you open any file. It reaches no agent.",
        _text("confidence", verdict=_VERDICT, confidence=_SURE),
    ),
    "Note": (
        "Note an assumption or an uncertainty; with note_id, resolve or escalate one, or mend a pending one.",
        _text(
            description=_STRING,
            context=_STRING,
            category={
                "type": "string",
                "description": (
                    "technology, architecture, security, requirements, conflicting_guidance, scope: escalate; "
                    "code_consistency, obvious_bug, implementation_detail, documentation: may be resolved"
                ),
            },
            note_id=_STRING,
            status={"type": "string", "enum": ["open", "resolved", "escalated", "withdrawn"]},
            resolution=_STRING,
            escalation_reason=_STRING,
        ),
    ),
    "Status": (
        "Say how you stand when your turn ends.",
        _text(
            "status",
            status={
                "type": "string",
                "enum": ["completion_drive_review", "ready_for_verification", "blocked"],
            },
        ),
    ),
    "Verdict": (
        "Say what you found of the work that you verify.",
        _text(
            "verdict",
            verdict={"type": "string", "enum": list(JUDGEMENTS)},
            findings={"type": "array", "items": {"type": "string"}},
            criteria={
                "type": "array",
                "items": _text("to", "met", to=_STRING, met={"type": "boolean"}, evidence=_STRING),
            },
        ),
    ),
    "Resolve": (
        "Answer a blocked agent's note, or route it to the solution architect with a task.",
        _text(
            "agent",
            "note_id",
            agent=_STRING,
            note_id=_STRING,
            answer=_STRING,
            source={"type": "string", "enum": ["user", "solution_architect", "planning"]},
            route={"type": "string", "enum": ["solution_architect"]},
            task=_STRING,
            same_as=_STRING,
        ),
    ),
}


def described(name: str, tools: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """A tool's description and schema; an unknown tool takes any object.

    `tools` are all that the instance has: one that can't open conversations can't assert artifacts either.
    """
    if name == "AskQuestion" and tools and "Send" not in tools:
        return "Ask the human. Ends your turn; the answer comes next.", _text("text", text=_STRING)
    return TOOLS.get(name, (f"{name}, of the protocol.", {"type": "object"}))
