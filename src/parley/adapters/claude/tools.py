"""The protocol's tools, as Claude Code is offered them. Each byte here is in every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SERVER = "p"


def _text(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_STRING: dict[str, Any] = {"type": "string"}

TOOLS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "Send": (
        "Send a message: `to` a role opens a conversation, `thread` goes on with one. Say what is needed, name files.",
        _text("text", to=_STRING, thread=_STRING, text=_STRING),
    ),
    "CloseConversation": ("End a conversation that you opened.", _text("thread", thread=_STRING)),
    "AskQuestion": (
        "Ask, or with kind `assert` have an artifact approved. Your turn ends; the answer is your next message.",
        _text(
            "text",
            text=_STRING,
            kind={"type": "string", "enum": ["question", "assert"]},
            artifact={"type": "string", "description": "the file, for assert"},
        ),
    ),
    "Answer": (
        "Answer the question.",
        _text(
            "text",
            verdict={
                "type": "string",
                "enum": ["approve", "revise", "backtrack intent", "backtrack plan", "withdraw"],
            },
            text=_STRING,
            confidence={"type": "number", "minimum": 0, "maximum": 1},
        ),
    ),
    "AskHuman": ("Put the question to the human.", _text("text", text=_STRING)),
    "Note": ("Record a note.", {"type": "object"}),
}


def described(name: str) -> tuple[str, dict[str, Any]]:
    """A tool's description and schema; one that is not known here takes any object."""
    return TOOLS.get(name, (f"{name}, of the protocol.", {"type": "object"}))
