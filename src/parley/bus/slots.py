"""Where the bus keeps what a job's owner goes on from: a slot for each molecule, and for what is known beside them.

A slot is words with a blank between them: the first says what it holds, the others whose it is. A feature has slots of
its own, which begin with its own words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from parley.base.json_codec import Unreadable
from parley.bus.rows import REACH, BusError, Commit
from parley.protocol.molecules import (
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
    Molecule,
    Parent,
    Proxy,
    Record,
    Run,
    Send,
    Surface,
    Tally,
    Terminate,
    Tombstone,
    Verdict,
    thread_kind,
)

# ---- molecules -----------------------------------------------------------------------------------


def _life(m: Idle | Run | Send | AskQuestion) -> str:
    return f"life {m.agent} {m.thread}"


def _question(m: Proxy | AskHuman) -> str:
    return f"question {m.id}"


def _hold(m: Hold) -> str:
    return f"hold {m.cause}" if thread_kind(m.thread) == "job" else f"hold {m.thread} {m.cause}"


# What there can be one of has one slot.
_SLOTS: Mapping[type[Any], Callable[[Any], str]] = {
    Idle: _life,
    Run: _life,
    Send: _life,
    AskQuestion: _life,
    Mailbox: lambda m: f"mail {m.agent} {m.thread}",
    Parent: lambda m: f"edge {m.child}",
    Proxy: _question,
    AskHuman: _question,
    Interrupt: lambda m: f"interrupt {m.thread} {m.message}",
    Terminate: lambda m: f"terminate {m.thread}",
    Charter: lambda _: "charter",
    Surface: lambda m: f"surface {m.thread}",
    Tombstone: lambda m: f"tombstone {m.thread}",
    Hold: _hold,
    Crashed: lambda m: f"crashed {m.agent} {m.thread}",
    Tally: lambda m: f"tally {m.agent} {m.thread}",
    Assertion: lambda m: f"assertion {m.record} {m.artifact}",
    Verdict: lambda m: f"verdict {m.record} {m.artifact}",
    Record: lambda m: f"record {m.id}",
}
_MOLECULES = frozenset({
    "life", "mail", "edge", "question", "interrupt", "terminate", "charter", "surface", "tombstone", "hold", "crashed",
    "tally", "assertion", "verdict", "record",
})  # fmt: skip


def slot(molecule: Molecule) -> str:
    """Where a molecule is kept."""
    return _SLOTS[type(molecule)](molecule)


def holds_molecule(where: str) -> bool:
    """Whether a slot holds a molecule; another holds what is known beside them."""
    return where.partition(" ")[0] in _MOLECULES


# ---- what is known beside the molecules ----------------------------------------------------------

_HANDLE, _RIDERS = "handle", "riders"
_PLAYED_PROXY = f"{_HANDLE} {PROXY} *"


def handle_slot(agent: str, thread: str) -> str:
    """Where an instance's session handle is kept."""
    return f"{_HANDLE} {agent} {thread}"


def holds_handle(where: str) -> bool:
    """Whether a slot holds a session handle."""
    return where.partition(" ")[0] == _HANDLE


def riders_slot(agent: str, thread: str) -> str:
    """Where the merges are kept that an instance is told of with its next message."""
    return f"{_RIDERS} {agent} {thread}"


def rider_of(where: str) -> tuple[str, str] | None:
    """The instance (its agent and its thread) that a slot keeps merges for; None for any other slot."""
    word, _, instance = where.partition(" ")
    agent, _, thread = instance.partition(" ")
    return (agent, thread) if word == _RIDERS else None


def advice_slot(agent: str, thread: str) -> str:
    """Where the human's words to a lead that is to try again are kept, until a turn of it has ended well."""
    return f"advice {agent} {thread}"


def role_slot(agent: str) -> str:
    """Where a role is kept that has joined a team since the job was opened."""
    return f"role {agent}"


def tree_slot(workspace: str) -> str:
    """Where the tree that a workspace had at its last turn's end is kept."""
    return f"tree {workspace}"


def clone_slot(thread: str) -> str:
    """Where it is kept which trees the proxy on an escalation's thread reads."""
    return f"clone {thread}"


def sent_slot(workspace: str) -> str:
    """Where it is kept which files came along with the task of the instance in a workspace."""
    return f"sent {workspace}"


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


def number_of(message: str) -> int:
    """A message's number on the bus: `m17` is the seventeenth. Unreadable if it is the name of none."""
    try:
        number = int(message[1:])
    except ValueError as error:
        raise Unreadable(f"{message!a:.40} is no message") from error
    if not -REACH <= number < REACH:
        raise Unreadable(f"{message!a:.40} is no message")
    return number


def check_numbers(commit: Commit) -> None:
    """Refuse a commit with a number that no row can have."""
    for rows in ((commit.transaction,), commit.steps, commit.messages):
        for row in rows:
            if not -REACH <= row.number < REACH:
                raise BusError(f"a row of job {commit.job} has a number that the bus can't hold; nothing was written")


def turn_number(turn: str) -> int:
    """The number that a turn is named after: t17."""
    number = turn[1:]
    if not number.isdecimal() or turn != f"t{int(number)}" or int(number) >= REACH:
        raise BusError(f"{turn!r:.40} is no turn; nothing was written")
    return int(number)
