"""Checks that a design has no placeholders left in its fields, prose and drafts."""

from __future__ import annotations

from collections.abc import Iterator

from parley.base.documents.front_matter import split
from parley.base.documents.node import DocumentError
from parley.workflow.design.blueprint import Blueprint
from parley.workflow.design.placeholders import SPOKEN, unwritten
from parley.workflow.model.terms import PLAN, ROLES, Finding, Worker

_FIELDS = ("task_id", "role", "objective", "boundaries", "deliverable")
_LISTS = ("depends_on", "inputs", "outputs", "owns", "forbids")
REMEDY = "write it"


def examine_unwritten(design: Blueprint) -> Iterator[Finding]:
    """Every field of the plan, its prose, and the drafts of roles. Instructions are examined where they are read."""
    plan = design.plan
    for words, text in (("goal:", plan.goal), ("escalation:", f"{plan.escalation}\n{plan.user_point}")):
        if said := unwritten(text):
            yield design.find("placeholder", None, words, f"{words[:-1]} is not written yet: {said!r}", REMEDY)
    for worker in plan.workers.values():
        yield from _worker(design, worker)
    for point in plan.checkpoints:  # its criteria are examined with the checkpoint
        if said := unwritten(point.on_failure):
            problem = f"on_failure of the checkpoint from {point.giver} to {point.taker} is not written yet: {said!r}"
            yield Finding(file=PLAN, line=point.line, agent="", rule="placeholder", text=problem, remedy=REMEDY)
    yield from _prose(plan.text)
    for path, text in design.files.items():
        if path.startswith(f"{ROLES}/"):
            yield from _lines(path, text, 0)


def _worker(design: Blueprint, worker: Worker) -> Iterator[Finding]:
    if unwritten(worker.name):
        problem, remedy = f"{worker.name} is the name of the example", "give the agent a name of its own"
        yield design.find("placeholder", worker, "", problem, remedy)
    bar = worker.acceptance
    fields = [(name, str(getattr(worker, name))) for name in _FIELDS]
    fields += [(name, text) for name in _LISTS for text in getattr(worker, name)]
    bars = (bar.text, *bar.commands) if bar.commands else ()  # words alone are examined with the contract
    fields += [("verifier", worker.verifier), *(("acceptance", text) for text in bars)]
    for name, text in fields:
        if text != worker.name and (said := unwritten(text)):
            yield design.find("placeholder", worker, f"{name}:", f"its {name} is not written yet: {said!r}", REMEDY)


def _prose(text: str) -> Iterator[Finding]:
    """The part of a plan that is for people; comments in its front matter are no part of it."""
    try:
        prose = split(text, PLAN).prose
    except DocumentError:
        return  # the reader of the plan says so
    before = text[: len(text) - len(prose)].count("\n") if text.endswith(prose) else 0
    yield from _lines(PLAN, prose, before)


def _lines(file: str, text: str, before: int) -> Iterator[Finding]:
    seen: set[int] = set()
    for found in SPOKEN.finditer(text):
        line = before + text.count("\n", 0, found.start()) + 1
        if line not in seen:
            seen.add(line)
            problem = f"something is not written yet: {' '.join(found[0].split())!r}"
            yield Finding(
                file=file, line=line, agent="", rule="placeholder", text=problem, remedy="write it, or remove the line"
            )
