"""Checks that each path of a design has at most one owner, who is also allowed to use it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

from parley.workflow.design.blueprint import Blueprint
from parley.workflow.model.terms import Finding, Task, Worker, output_of
from parley.workflow.paths.ownership import claim_on_reserved, refuse_write
from parley.workflow.paths.patterns import folders, matches, overlap, problem, samples, spelled

MOST_PATTERNS = 1000  # of all agents together: each is compared with each
MOST_OVERLAPS = 50  # that are told at once


def examine_scopes(design: Blueprint) -> Iterator[Finding]:
    """Owned and forbidden paths: one by one, and pairwise."""
    for worker in design.plan.workers.values():
        yield from _patterns(design, worker)
    patterns = sum(len(worker.owns) for worker in design.plan.doers)
    if patterns > MOST_PATTERNS:
        text = f"the agents own {patterns} patterns together; {MOST_PATTERNS} are the most that can be compared"
        yield design.find("too-many-patterns", None, "agents:", text, "name folders instead of single files")
        return
    overlaps = list(islice(_overlaps(design), MOST_OVERLAPS))
    yield from overlaps
    if not overlaps:  # what two own is told first: with it most of these are mended, too
        yield from islice(_in_the_way(design), MOST_OVERLAPS)


def _patterns(design: Blueprint, worker: Worker) -> Iterator[Finding]:
    for key, patterns in (("owns", worker.owns), ("forbids", worker.forbids)):
        for pattern in patterns:
            wrong = problem(pattern)
            if wrong:
                yield design.find("bad-pattern", worker, pattern, f"{key} {pattern!a} is no pattern", wrong)
    if worker.task is Task.VERIFIER and (worker.owns or worker.outputs):
        text = "it is a verifier, and what a verifier writes is merged nowhere, so it can own and make nothing"
        yield design.find(
            "verifier-makes", worker, "owns" if worker.owns else "outputs", text, "give these paths to a doer"
        )
    for pattern in _sound(worker.owns):
        held = claim_on_reserved(worker.name, pattern)
        if held:
            remedy = f"take it out; what others read goes to {output_of(worker.name)}/, which is its own anyway"
            yield design.find(
                "reserved-path", worker, pattern, f"it owns {pattern}, and {held} belongs to the protocol", remedy
            )
        for forbidden in _sound(worker.forbids):
            if covers(forbidden, pattern):
                text = f"it owns {pattern} and is forbidden {forbidden}, so it could write nothing there"
                yield design.find(
                    "owns-forbidden", worker, pattern, text, "take one of the two out, or make it narrower"
                )
                break
    if worker.task is Task.DOER and not any(map(problem, (*worker.owns, *worker.forbids))):
        for path in worker.outputs:
            refusal = refuse_write(design.plan, worker.name, f"{path}x" if path.endswith("/") else path)
            if refusal:
                text = f"it is to make {path}, which it may not write: {refusal.path} {refusal.why}"
                remedy = f"add it to its owns, or put it into {output_of(worker.name)}/"
                yield design.find("output-not-owned", worker, path, text, remedy)


def _overlaps(design: Blueprint) -> Iterator[Finding]:
    for one, other in combinations(design.plan.doers, 2):
        for mine, theirs in ((mine, theirs) for mine in _sound(one.owns) for theirs in _sound(other.owns)):
            path = overlap(mine, theirs)
            if path is not None:
                shown = path if path.isprintable() else ascii(path)
                text = f"it owns {theirs} and {one.name} owns {mine}: both would own {shown}"
                remedy = f"make one of the patterns narrower, or give {shown} to one of the two"
                yield design.find("overlap", other, theirs, text, remedy)
                break


def _in_the_way(design: Blueprint) -> Iterator[Finding]:
    """Who may write a file where another's pattern spells out a folder that is not there yet."""
    needed: dict[str, list[tuple[Worker, str]]] = {}
    owned: dict[str, list[tuple[Worker, str]]] = {}  # by how a pattern begins: most are told apart by that
    for worker in design.plan.doers:
        for pattern in _sound(worker.owns):
            for folder in folders(pattern):
                needed.setdefault(folder, []).append((worker, pattern))
            for name in {names[0] for names in spelled(pattern)}:
                owned.setdefault(name, []).append((worker, pattern))
    for folder, takers in needed.items():
        for one, mine in (*owned.get("", ()), *owned.get(folder.partition("/")[0], ())):
            other, theirs = next(((it, pattern) for it, pattern in takers if it is not one), (one, ""))
            if not theirs or not matches(mine, folder) or refuse_write(design.plan, one.name, folder):
                continue
            if design.existing is None or not design.existing(folder):
                text = f"it owns {mine} and may make a file {folder}, where {other.name} needs a folder for {theirs}"
                remedy = f"add {folder} to its forbids, make {mine} narrower, or name another folder for {other.name}"
                yield design.find("file-for-folder", one, mine, text, remedy)


def covers(wide: str, narrow: str) -> bool:
    """Whether one pattern takes in the other, as far as paths of every kind that the other means show."""
    return all(matches(wide, path) for path in samples(narrow))


def _sound(patterns: tuple[str, ...]) -> list[str]:
    return [pattern for pattern in patterns if not problem(pattern)]
