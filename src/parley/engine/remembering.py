"""What is remembered of a human: each decision, as the bus tells it. Kept after its commit, and again harmlessly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from parley.core.terms import HUMAN, PROXY, thread_kind
from parley.decisions import Decided, Guess, MemoryTrouble
from parley.engine.live import LiveJob
from parley.engine.names import number_of
from parley.engine.texts import own_words
from parley.engine.world import World
from parley.ports import MessageRow

SCRIPTED = "scripted"
PLAYBOOK, YES = STAND_INS = "human (playbook)", "human (--yes)"  # who may stand in for the human
WAITING = 1000  # decisions that wait for a memory that can't be written to
EXCERPT = 2000  # characters of an artifact that are remembered


def settings_of(live: LiveJob) -> dict[str, Any]:
    """What the job's snapshot says of the memory; nothing for a job that began before there was one."""
    return _memory(live.settings)


def is_rehearsed(live: LiveJob) -> bool:
    """Whether a playbook speaks for the proxy or the human, and it was not asked for that this counts."""
    return _rehearsed(live.settings, live.role(PROXY).get("runner") or live.row.agent)


def in_use(live: LiveJob) -> bool:
    """Whether this job's decisions are remembered, and earlier ones recalled."""
    return bool(settings_of(live).get("on")) and not is_rehearsed(live)


def will_be_used(snapshot: Mapping[str, Any], agent: str) -> bool:
    """The same of a job that is about to begin."""
    runner = next((role["runner"] for role in snapshot["roles"] if role["name"] == PROXY), "")
    return bool(_memory(snapshot).get("on")) and not _rehearsed(snapshot, runner or agent)


def _memory(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    given = snapshot.get("memory")
    return given if isinstance(given, dict) else {}


def _rehearsed(snapshot: Mapping[str, Any], runner: str) -> bool:
    played = snapshot.get("human") is not None or runner == SCRIPTED
    return played and not _memory(snapshot).get("rehearse")


# ---- a decision, from the bus --------------------------------------------------------------------


def guess_of(said: Any) -> Guess | None:
    """A guess as a message's meta has it."""
    if not isinstance(said, dict):
        return None
    words = (str(said.get(name) or "") for name in ("verdict", "reason", "text"))
    verdict, reason, text = words
    return Guess(verdict, float(said.get("confidence") or 0.0), reason, text)


def answered(live: LiveJob, asked: MessageRow, answer: MessageRow) -> Decided | None:
    """What the proxy answered by itself: no word of the human's yet, but one that can be corrected."""
    about = json.loads(answer.meta)
    after = guess_of(about.get("would"))
    if after is None or not in_use(live):
        return None
    found = _about(live, asked, about)
    return found and replace(found, time=answer.time, human=live.row.decider, after=after, how="answered")


def replied(live: LiveJob, asked: MessageRow, framing: MessageRow, reply: MessageRow, key: str) -> Decided | None:
    """What the human said to a question that was put to them."""
    about, said = json.loads(framing.meta), json.loads(reply.meta)
    human = said["by"]
    if human == PLAYBOOK:
        human = live.row.decider  # in a rehearsal that is to count
    if human == YES or not in_use(live):
        return None  # nobody looked
    found = _about(live, asked, about)
    if found is None:
        return None
    verdict, after = said["ruling"] or "", guess_of(about.get("would"))
    return replace(
        found,
        time=reply.time,
        human=human,
        framing=key,
        after=after,
        verdict=verdict,
        said=said["text"],
        how=str(about.get("how") or "unsure"),
        agreed=after is not None and after.met_by(verdict, said["text"]),
    )


def _about(live: LiveJob, asked: MessageRow, about: Mapping[str, Any]) -> Decided | None:
    what = json.loads(asked.meta)
    if "state" not in what:
        return None  # a failure dialog, which no proxy frames
    return Decided(
        0.0, "", str(settings_of(live).get("repository") or ""), live.job, what["question"], "", what["state"],
        what["kind"], own_words(asked.body), what["artifact"], what["digest"], what.get("excerpt", ""),
        guess_of(about.get("predicted")),
    )  # fmt: skip


# ---- after the commit ----------------------------------------------------------------------------


def keep(live: LiveJob, world: World) -> None:
    """Remember what was decided. A memory that can't be written to is tried again with what comes next."""
    if not live.decided or world.decisions is None:
        return
    waiting = live.decided[-WAITING:]
    try:
        world.decisions.remember([_discreet(one, world) for one in waiting])
    except MemoryTrouble as trouble:
        live.decided = waiting
        live.forgetful = str(trouble)
    else:
        live.decided, live.forgetful = [], ""


def _discreet(one: Decided, world: World) -> Decided:
    redact = world.secrets.redact

    def guess(said: Guess | None) -> Guess | None:
        return said and replace(said, reason=redact(said.reason), text=redact(said.text))

    return replace(
        one,
        asked=redact(one.asked),
        artifact=redact(one.artifact),
        excerpt=redact(one.excerpt),
        said=redact(one.said),
        before=guess(one.before),
        after=guess(one.after),
    )


def again(live: LiveJob, world: World) -> None:
    """Remember once more what the last commit decided: a crash may have come between the two."""
    if not in_use(live):
        return
    for row in _last(live, world):
        made = _made_of(live, world, row)
        if made is not None:
            live.decided.append(made)


def _made_of(live: LiveJob, world: World, row: MessageRow) -> Decided | None:
    about: dict[str, Any] = json.loads(row.meta) if row.meta else {}
    if (row.sender, row.agent) == (HUMAN, PROXY) and thread_kind(row.thread) == "escalation":
        if not _is_authentic(live, world, row):
            return None
        framing = _message(live, world, str(about.get("framing", "")))
        asked = _message(live, world, json.loads(framing.meta).get("asked", "")) if framing else None
        return replied(live, asked, framing, row, str(about["framing"])) if framing and asked else None
    if row.sender == PROXY and "answer" in about and about.get("author") == PROXY:
        asked = _message(live, world, str(about.get("asked", "")))
        return answered(live, asked, row) if asked else None
    return None


def _is_authentic(live: LiveJob, world: World, row: MessageRow) -> bool:
    """Whether the human's word is known for theirs: on a bus that was taken in, anybody may have written it."""
    given = world.store.inputs(live.job, waiting=False)
    return any(row.key == f"input:{each.number}" and world.store.authentic(each) is True for each in given)


def _message(live: LiveJob, world: World, name: str) -> MessageRow | None:
    return world.store.message(live.job, number_of(name)) if name else None


def _last(live: LiveJob, world: World) -> Iterator[MessageRow]:
    """The messages of the last transaction. How many there are is not kept: look back further and further."""
    back = 16
    while True:
        start = max(0, live.message_count - back)
        rows = list(world.store.messages(live.job, start))
        if not start or (rows and rows[0].transaction < live.transaction):
            yield from (row for row in rows if row.transaction == live.transaction)
            return
        back *= 4
