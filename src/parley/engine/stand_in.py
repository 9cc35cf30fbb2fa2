"""Whoever stands in for the human: the `human` rules of a playbook, or `--yes`. Recorded as what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from parley.core.terms import AskHuman
from parley.engine import remembering
from parley.engine.live import LiveJob
from parley.engine.reduce import message
from parley.engine.world import World
from parley.options import NAMES
from parley.ports import Duplicate, InputRow

PLAYBOOK, YES = STAND_INS = remembering.STAND_INS
LET_BY = (PLAYBOOK, "human"), (YES, "yes")  # the job's setting that lets each of them answer


def answer_key(asked: AskHuman) -> str:
    """What makes an answer unique: this question, as it was put this time."""
    return f"answer:{asked.id}:{asked.framing}"


def plain_key(key: str) -> str:
    """An answer's key without the number that tells it from one of the same that was refused."""
    return ":".join(key.split(":")[:3])


def used_rules(inputs: Iterable[InputRow]) -> set[int]:
    """Which rules of the playbook's human have spoken already in this job."""
    bodies = (json.loads(row.body) for row in inputs if row.by == PLAYBOOK)
    return {body["rule"] for body in bodies if body.get("rule") is not None}


def speak(live: LiveJob, world: World) -> bool:
    """Answer what waits for the human, where somebody stands in. Whether anything was said."""
    rules = live.settings.get("human")
    if not live.asking or (rules is None and not live.settings.get("yes")):
        return False
    given = world.store.inputs(live.job, waiting=False)
    keys = {row.key for row in given}
    used = used_rules(given)
    spoken = False
    for asked in live.soup.of(AskHuman):
        if answer_key(asked) in keys:
            continue
        reply = _reply(live, world, asked, rules, used)
        if reply is None:
            continue
        by, body = reply
        if body.get("rule") is not None:
            used.add(body["rule"])
        try:
            world.store.put(
                live.job, "answer", answer_key(asked), world.clock.now(), by, json.dumps(body, ensure_ascii=False)
            )
        except Duplicate:
            continue  # the real human was faster
        spoken = True
    return spoken


def _reply(
    live: LiveJob, world: World, asked: AskHuman, rules: list[dict[str, Any]] | None, used: set[int]
) -> tuple[str, dict[str, Any]] | None:
    body: dict[str, Any] = {"question": asked.id, "framing": asked.framing, "ruling": None, "text": "", "rule": None}
    row = message(live, world, asked.framing)
    about = json.loads(row.meta)
    for number, rule in enumerate(rules or ()):
        if number in used and not rule.get("repeat"):
            continue
        if rule.get("state") not in (None, about["state"]) or rule.get("visit") not in (None, about["visit"]):
            continue
        if re.search(rule["match"], row.body):
            said = rule.get("verdict")
            chosen = {"choice": said} if said in NAMES else {"ruling": said}
            return PLAYBOOK, {**body, **chosen, "text": rule.get("text") or "", "rule": number}
    if live.settings.get("yes"):
        return YES, {**body, "ruling": "approve", "text": "yes"}
    return None
