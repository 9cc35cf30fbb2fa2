"""Names on the bus: where the derived table keeps a molecule and what is known beside it, and a message's number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from parley.core.states import Record
from parley.core.terms import (
    PROXY,
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Crashed,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    Parent,
    Proxy,
    Run,
    Send,
    Tally,
    Verdict,
    thread_kind,
)

HANDLE = "handle"
TREE = "tree"
ROLE = "role "
FLOW = "flow "
DESIGN = "design "
RIDERS = "riders "
SENT = "sent "
CLONE = "clone "
ADVICE = "advice "
BESIDE = (HANDLE, TREE, ROLE, FLOW, DESIGN, RIDERS, CLONE, SENT, ADVICE)  # how the slots begin that hold no molecule
_PLAYED_PROXY = f"{HANDLE} {PROXY} *"


def slot(m: Any) -> str:
    """Where the derived table keeps a molecule: what there can be one of has one slot."""
    kind = type(m)
    if kind is Idle or kind is Run or kind is Send or kind is AskQuestion:
        return f"life {m.agent} {m.thread}"
    if kind is Mailbox:
        return f"mail {m.agent} {m.thread}"
    if kind is Parent:
        return f"edge {m.child}"
    if kind is Proxy or kind is AskHuman:
        return f"question {m.id}"
    if kind is Interrupt:
        return f"interrupt {m.thread} {m.message}"
    if kind is Hold:
        return f"hold {m.cause}" if thread_kind(m.thread) == "job" else f"hold {m.thread} {m.cause}"
    if kind is Record:
        return f"record {m.id}"
    if kind is Assertion or kind is Verdict:
        return f"{kind.__name__.lower()} {m.record} {m.artifact}"
    if kind is Charter:
        return "charter"
    if kind is Crashed or kind is Tally:
        return f"{kind.__name__.lower()} {m.agent} {m.thread}"
    return f"{kind.__name__.lower()} {m.thread}"


def handle_slot(agent: str, thread: str) -> str:
    """Where an instance's session handle is kept."""
    return f"{HANDLE} {agent} {thread}"


def handle_of(kept: Mapping[str, str], agent: str, thread: str) -> str:
    """The session handle that an instance goes on from; a played proxy has one memory in a job, not one a question."""
    return kept.get(handle_slot(agent, thread)) or (kept.get(_PLAYED_PROXY, "") if agent == PROXY else "")


def handle_after(kept: Mapping[str, str], agent: str, thread: str, handle: str) -> tuple[str, str]:
    """Where a turn's handle is to be kept, and as what."""
    played = json.loads(handle) if agent == PROXY and '"opened"' in handle else {}
    if not isinstance(played, dict) or "opened" not in played:
        return handle_slot(agent, thread), handle
    # questions are dealt with side by side: what each turn used up stays used up
    before = json.loads(kept.get(_PLAYED_PROXY) or "{}")
    for name in ("used", "fatal"):
        if both := {*before.get(name, []), *played.get(name, [])}:
            played[name] = sorted(both)
    return _PLAYED_PROXY, json.dumps(played)


def advice_slot(agent: str, thread: str) -> str:
    """Where it is kept what the human says to a lead that is to try again, until a turn of it has ended well."""
    return f"{ADVICE}{agent} {thread}"


def tree_slot(workspace: str) -> str:
    """Where the tree that a workspace had at its last turn's end is kept."""
    return f"{TREE} {workspace}"


def clone_slot(thread: str) -> str:
    """Where it is kept what the proxy on an escalation's thread reads."""
    return f"{CLONE}{thread}"


def sent_slot(workspace: str) -> str:
    """Where it is kept which files came along with the task of whoever works in a workspace."""
    return f"{SENT}{workspace}"


def number_of(message: str) -> int:
    """A message's number on the bus: `m17` is the seventeenth."""
    return int(message[1:])
