"""An instance's system prompt, and what the runner adds to a message."""

from __future__ import annotations

from collections.abc import Callable

from parley.base.quoting import quoted
from parley.ports.turns import Order
from parley.roles.role_snapshot import OrderedRole, from_text

NOTES = "CLAUDE.md"
NOTES_LIMIT = 20_000  # bytes of the user's own notes
SCRATCH_LIMIT = 8_000  # bytes of it that are shown again after a compaction
WARN = 0.70
COMPACT = 0.78

RolePrompt = Callable[[Order], str]


def bare_prompt(order: Order) -> str:
    """The role's own prompt and nothing else."""
    return from_text(order.role).prompt


def system_prompt(order: Order, role: OrderedRole, compose: RolePrompt) -> str:
    """All that an instance knows before its first message: who it is, its role, and the user's notes."""
    parts = [f"You are {order.agent}.", compose(order).strip(), project_notes(role)]
    return "\n\n".join(part for part in parts if part)


def project_notes(role: OrderedRole) -> str:
    """The user's notes, as the order carries them. Those in the workspace may be an agent's: they are not read."""
    text = role.notes.encode("utf-8", "replace")
    if not text.strip():
        return ""
    kept = text[:NOTES_LIMIT].decode("utf-8", "ignore").rstrip()
    rest = f"\n(cut here; the rest is in {NOTES})" if len(text) > NOTES_LIMIT else ""
    return f"# Project notes ({NOTES})\n{kept}{rest}"


def composed(
    message: str,
    home: str,
    *,
    interrupted: str = "",
    context: float = 0.0,
    compacted: str | None = None,
    lost: bool = False,
) -> str:
    """A message with the runner's additions after it: its beginning stays the protocol's."""
    scratch = f"{home}/scratch.md"
    parts = [message]
    if lost:
        parts.append("(Your earlier conversation could not be restored: look at the files before you go on.)")
    if interrupted:
        parts.append(f"(You were interrupted while you worked on this:)\n{interrupted}")
    if compacted is not None:
        parts.append(
            f"(Your conversation was summarized. Your file {scratch} holds:)\n{quoted(compacted) or '(nothing)'}"
        )
    elif context >= WARN:
        parts.append(
            f"(Your context is {context:.0%} full and will be summarized soon: save what must not be lost in {scratch})"
        )
    return "\n\n".join(parts)


def wrap_up(limit_seconds: float) -> str:
    """What the agent is told when its turn has reached its time limit."""
    return (
        f"Your turn has reached its time limit of {limit_seconds:g} s and is ended soon. Finish now: leave your files"
        " so that you can go on from them later, start nothing new, and end your turn with a short report of what is"
        " done and what is left."
    )
