"""Puts jobs on a home's bus that no process owns yet: `parley resume` then runs them all.

Run in the coordinator's folder, with its environment. It prints how many there are.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from parley.cli.common import place_of
from parley.cli.machine.trust import layers_of
from parley.cli.open_bus import RedactedStore
from parley.cli.starting.run import new_row, snapshot_of
from parley.machine.clock import RandomIds
from parley.ports.turns import SCRIPTED
from parley.runners.scripted.playbook import parse

GATES = 6  # turns of a job whose three gates are approved at once
ROUND = 2  # turns of a worker's task: its own, and its lead's that hears of it


def playbook(turns: int, sleep: float) -> str:
    """A job of so many turns: three gates, and as many tasks for one coder as it takes. Each turn sleeps first."""
    rounds = max(1, (turns - GATES) // ROUND)

    def rule(match: str, *acts: dict[str, Any], state: str = "") -> dict[str, Any]:
        pause: list[dict[str, Any]] = [{"sleep": sleep}] if sleep else []
        return {"match": match, **({"state": state} if state else {}), "do": [*pause, *acts]}

    def asks(match: str, artifact: str, *before: dict[str, Any]) -> dict[str, Any]:
        return rule(match, *before, _write(artifact), {"assert": {"artifact": artifact, "text": "right?"}})

    def approved(state: str, outcome: str) -> dict[str, Any]:
        ending = {"outcome": {"outcome": f"APPROVED_{outcome}", "reason": "good"}}
        return rule(r"\[ANSWER approve\]", ending, state=state)

    tasks = [{"send": {"to": "coder", "as": "c", "text": "task 1."}}]
    tasks += [{"send": {"thread": "c", "text": f"task {number}."}} for number in range(2, rounds + 1)]
    execute = [rule(r"\[EXECUTE\]", tasks[0])]
    execute += [rule(rf"done {number}\.", task) for number, task in enumerate(tasks[1:], 1)]
    execute += [asks(rf"done {rounds}\.", "WORK_SUMMARY.md", {"close": {"thread": "c"}})]
    coder = [
        rule(rf"task {number}\.", _write(f"part{number}.txt"), {"say": f"done {number}."})
        for number in range(1, rounds + 1)
    ]
    agents = {
        "intent-lead": [asks(r"\[INTENT\]", "INTENT.md"), approved("INTENT", "INTENT")],
        "project-lead": [
            *(asks(r"\[PLAN\]", "PLAN.md"), approved("PLAN", "PLAN")),
            *(*execute, approved("EXECUTE", "WORK")),
        ],
        "coder": coder,
    }
    human = [{"match": ".", "repeat": True, "verdict": "approve", "text": "yes"}]
    return json.dumps({"agents": agents, "human": human})


def _write(path: str) -> dict[str, Any]:
    return {"write": {"path": path, "text": path}}


def main() -> int:
    """Put them there."""
    parser = argparse.ArgumentParser(prog="bench.cluster_jobs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--sleep", type=float, default=0.0)
    given = parser.parse_args()
    place = place_of(None)
    settings, played = layers_of(place).given, parse(playbook(given.turns, given.sleep), "the bench")
    snapshot, ids = snapshot_of(place.root, settings, played), RandomIds()
    store = RedactedStore(place, settings.durability)
    try:
        for number in range(given.jobs):
            store.create(new_row(ids.new(), f"job {number}", SCRIPTED, snapshot))
    finally:
        store.close()
    print(given.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
