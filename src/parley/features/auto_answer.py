"""Automatic answers in the human's place, recorded as such: by the `human` rules of a playbook, or by `--yes`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parley.base.json_codec import encode
from parley.base.options import NAMES
from parley.bus.rows import Duplicate, InputRow
from parley.engine.hooks import Feature, Guest
from parley.engine.inputs import answer_key
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message
from parley.engine.values import human_inputs, message_meta
from parley.engine.values.human_inputs import AnswerInput
from parley.engine.values.job_settings import PLAYBOOK, YES, StandIns
from parley.engine.values.message_meta import Put
from parley.engine.world import World
from parley.protocol.molecules import AskHuman, Ruling


class AutoAnswer(Feature):
    """Answers for the human where they have let that be done."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """Only a job that lets something stand in for the human."""
        by = job.settings_of(StandIns)
        return (AutoAnswerGuest(self._world),) if by.human is not None or by.yes else ()


class AutoAnswerGuest(Guest):
    """Stands in for the human in one job."""

    def __init__(self, world: World) -> None:
        self._world = world

    def tick(self, job: OwnedJob) -> bool:
        """Answer what is committed, and nothing else: no answer to what a crash may take back."""
        return speak(job, self._world)


def used_rules(inputs: Iterable[InputRow]) -> set[int]:
    """Which rules of the playbook's human have spoken already in this job."""
    given = (human_inputs.read_or_none(row) for row in inputs if row.by == PLAYBOOK)
    return {said.rule for said in given if isinstance(said, AnswerInput) and said.rule is not None}


def speak(job: OwnedJob, world: World) -> bool:
    """Answer what waits for the human. Whether anything was said."""
    if not job.standing.asking:
        return False
    given = world.store.inputs(job.id, waiting=False)
    keys = {row.key for row in given}
    used = used_rules(given)
    spoken = False
    for asked in job.soup.of(AskHuman):
        if answer_key(asked) in keys:
            continue
        reply = _reply(job, world, asked, used)
        if reply is None:
            continue
        if reply.rule is not None:
            used.add(reply.rule)
        by = YES if reply.rule is None else PLAYBOOK
        try:
            world.store.put(job.id, reply.kind, answer_key(asked), world.clock.now(), by, encode(reply))
        except Duplicate:
            continue  # the real human was faster
        spoken = True
    return spoken


def _reply(job: OwnedJob, world: World, asked: AskHuman, used: set[int]) -> AnswerInput | None:
    """What a rule of the playbook's human says to a question, or else --yes."""
    row = message(job, world, asked.framing)
    put, by = message_meta.read_as(Put, row), job.settings_of(StandIns)
    for number, rule in enumerate(by.human or ()):
        if number in used and not rule.repeat:
            continue
        if rule.state not in (None, put.state) or rule.visit not in (None, put.visit):
            continue
        if re.search(rule.match, row.body):
            said, text = rule.verdict or "", rule.text or ""
            choice, ruling = (said, None) if said in NAMES else ("", Ruling(said) if said else None)
            return AnswerInput(
                question=asked.id, framing=asked.framing, ruling=ruling, text=text, choice=choice, rule=number
            )
    if by.yes:
        return AnswerInput(question=asked.id, framing=asked.framing, ruling=Ruling.APPROVE, text="yes")
    return None
