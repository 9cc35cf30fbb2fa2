"""The protocol's tools as an agent sees them: names, descriptions and JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from parley.base.options import JUDGEMENTS, NAMES

CATEGORIES = (
    "technology", "architecture", "security", "requirements", "conflicting_guidance", "scope",
    "code_consistency", "obvious_bug", "implementation_detail", "documentation",
)  # fmt: skip
CLAIMS = ("completion_drive_review", "ready_for_verification", "blocked")
# The protocol's rulings: this module runs inside cages, where the protocol's own imports are missing.
VERDICTS = ("approve", "revise", "backtrack intent", "backtrack plan", "withdraw")


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _takes(required: tuple[str, ...], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _of(words: tuple[str, ...], description: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words), "description": description}


_SURE: Mapping[str, Any] = {"type": "number", "minimum": 0, "maximum": 1, "description": "how sure you are"}
_SEND = """\
Send a message when your turn ends. Give `to` (a role of your team) to open a new conversation, or `thread` to go on \
with one; `thread: dispatcher` answers your dispatcher. What comes back is the message of a later turn."""
_ASK = """\
Ask the human or their proxy. Your turn ends with it, and the answer is your next message. With `kind: assert` you \
put an artifact forward for approval."""

# name -> description, schema
TOOLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Send": (
        _SEND,
        _takes(
            ("text",),
            to=_text("the role to dispatch; opens a conversation"),
            thread=_text("the conversation to go on with, or `dispatcher`"),
            text=_text("all that the recipient needs to know; name files instead of quoting them"),
            files={
                "type": "array",
                "items": {"type": "string"},
                "description": "with `to`: paths in your workspace that are copied along, ignored files too",
            },
        ),
    ),
    "CloseConversation": (
        "Close a conversation that you opened, when its work is done: what was changed there is merged into your tree.",
        _takes(("thread",), thread=_text("the conversation to close")),
    ),
    "AskQuestion": (
        _ASK,
        _takes(
            ("text",),
            text=_text("the question, with what is needed to answer it"),
            kind={"type": "string", "enum": ["question", "assert"], "description": "`assert` asks for a verdict"},
            artifact=_text("with `assert`: the file that is put forward, e.g. PLAN.md"),
        ),
    ),
    "AskHuman": (
        "Put the question that you were given to the human, whose answer reaches the asker word for word.",
        _takes(
            ("text",),
            text=_text("what the human should know and decide"),
            found=_text("what you found when you looked"),
            would=_text("the verdict that you would give; for a plain question your words"),
            confidence=_SURE,
            reason=_text("why you would say so"),
        ),
    ),
    "Answer": (
        "Answer the question that you were given.",
        _takes(
            ("text",),
            text=_text("your answer; beside the human's words only your remarks"),
            verdict={"type": "string", "enum": list(VERDICTS), "description": "for an artifact that was put forward"},
            choice=_of(NAMES, "what the question lists as a choice, in the verdict's place"),
            confidence=_SURE,
            reason=_text("what you saw that settles it"),
        ),
    ),
    "Predict": (
        "Say which verdict you expect of the human, before you open any file. It reaches no agent.",
        _takes(
            ("confidence",),
            verdict={"type": "string", "enum": list(VERDICTS), "description": "none for a plain question"},
            confidence=_SURE,
        ),
    ),
    "Note": (
        "Note what you assume or are unsure of; with `note_id`, resolve or escalate a note, or mend a pending one.",
        _takes(
            (),
            description=_text("what you assume or are unsure of"),
            context=_text("what you were doing when it came up"),
            category=_of(CATEGORIES, "the first six must be escalated; leave it out when in doubt"),
            note_id=_text("the note to change"),
            status=_of(
                ("open", "resolved", "escalated", "withdrawn"),
                "a new note is open; only a pending one can be withdrawn",
            ),
            resolution=_text("how it was settled, with the evidence"),
            escalation_reason=_text("why others have to answer it"),
        ),
    ),
    "Status": (
        "Say how you will stand when your turn ends.",
        _takes(("status",), status=_of(CLAIMS, "what you claim")),
    ),
    "Verdict": (
        "Say what you found of the work that you were given to verify.",
        _takes(
            ("verdict",),
            verdict=_of(JUDGEMENTS, "`blocked`: it has to be decided above you"),
            findings={"type": "array", "items": {"type": "string"}, "description": "what has to be mended, one by one"},
            criteria={
                "type": "array",
                "items": _takes(
                    ("to", "met"),
                    to=_text("the agent that it is handed to"),
                    met={"type": "boolean"},
                    evidence=_text("what shows it"),
                ),
                "description": "each checkpoint that your message lists, judged",
            },
        ),
    ),
    "Resolve": (
        "Answer a note of a blocked agent, or route it to the solution architect.",
        _takes(
            ("agent", "note_id"),
            agent=_text("whose note it is"),
            note_id=_text("which note"),
            answer=_text("what holds; the agent goes on with it"),
            source=_of(("user", "solution_architect", "planning"), "where the answer comes from"),
            route=_of(("solution_architect",), "instead of an answer: who is to work it out"),
            task=_text("with `route`: what is to be decided"),
            same_as=_text("an earlier note of the agent's that asked the same in other words, and was answered"),
        ),
    ),
}


def offered(names: Iterable[str]) -> list[dict[str, Any]]:
    """Those of an agent's tools that can be called from a cage, as MCP lists them."""
    return [
        {"name": name, "description": TOOLS[name][0], "inputSchema": TOOLS[name][1]} for name in names if name in TOOLS
    ]
