"""A whole job with turns that take no time: 78 dispatches over three levels, nine kinds of agent."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.conversations import NoWorkspace
from bench.machine import home
from parley.adapters import player
from parley.adapters.files import JobFiles
from parley.adapters.sqlite import SqliteStore
from parley.adapters.system import RandomIds, SystemClock
from parley.engine.engine import Engine
from parley.engine.roster import charter_of
from parley.engine.world import World
from parley.ports import Called, Ended, JobRow, Kept, Order, Outcome, Scope, TurnEvent

TOP = ("api-team", "data-team", "web-team") * 2  # 6 dispatches, of three kinds
MIDDLE = ("designer", "builder", "checker", "builder")  # 4 of each: 24
BOTTOM = ("typist", "runner", "reader")  # 2 of each: 48, of three kinds in turn

Script = Generator[player.Effect, player.Reply, player.Ending]


class Played:
    """Turns played in process by the scripted agent's own player, each call answered before the next."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.turns = 0
        self._scripts: dict[tuple[str, str], tuple[Order, Script]] = {}
        self._events: list[TurnEvent] = []

    def hosts(self) -> tuple[str, ...]:
        """Here."""
        return ("local",)

    def submit(self, order: Order) -> None:
        """Begin a turn."""
        self.turns += 1
        rules = None if order.rules == "null" else tuple(json.loads(order.rules))
        handle = json.loads(order.handle) if order.handle else {}
        script = player.play(
            player.Order(order.agent, rules, order.message, order.state, order.visit, handle, order.may_ask, "")
        )
        self._scripts[order.job, order.turn] = (order, script)
        self._go_on(order, script, None)

    def _go_on(self, order: Order, script: Script, reply: player.Reply | None) -> None:
        try:
            while True:
                effect = next(script) if reply is None else script.send(reply)
                if isinstance(effect, player.Call):
                    self._events.append(Called(order.job, order.turn, order.token, 1, effect.tool, dict(effect.args)))
                    return
                if isinstance(effect, player.Write):
                    self.files[effect.path] = effect.text
                reply = player.Reply(ok=True, text="", data={})
        except StopIteration as stop:
            del self._scripts[order.job, order.turn]
            ending: player.Ending = stop.value
            self._events.append(
                Ended(order.job, order.turn, order.epoch, ending.text, json.dumps(ending.handle, sort_keys=True))
            )

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Go on with the turn."""
        order, script = self._scripts[job, turn]
        self._go_on(order, script, player.Reply(ok, text, dict(data)))

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """All that has happened."""
        events, self._events = self._events, []
        return events

    def cancel(self, job: str, turn: str) -> None:
        """Forget it."""
        self._scripts.pop((job, turn), None)

    def reclaim(self, job: str) -> None:
        """Nothing is ever left."""

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """Nothing to close."""


class Notebook(NoWorkspace):
    """The few files that the leads write."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def clear_outcome(self, job: str, name: str) -> None:
        """None is there."""
        self.files.pop(player.OUTCOME_PATH, None)

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """What a lead wrote."""
        text = self.files.get(player.OUTCOME_PATH)
        return Outcome(**json.loads(text)) if text and name.startswith("job:") else None

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """One tree for all."""
        return Kept("tree")

    def contents(self, job: str, tree: str, artifacts: Iterable[str]) -> dict[str, str]:
        """Each by its text."""
        return {artifact: self.files[artifact] for artifact in artifacts if artifact in self.files}


def _gate(state: str, artifact: str) -> list[dict[str, Any]]:
    approved = {"outcome": {"outcome": f"APPROVED_{'WORK' if state == 'EXECUTE' else state}", "reason": "approved"}}
    return [
        {"match": rf"\[{state}\]", "state": state, "do": [_write(artifact), _assert(artifact)]},
        {"match": r"\[ANSWER approve\]", "state": state, "do": [approved]},
    ]


def _write(artifact: str) -> dict[str, Any]:
    return {"write": {"path": artifact, "text": artifact}}


def _assert(artifact: str) -> dict[str, Any]:
    return {"assert": {"artifact": artifact, "text": "is it right?"}}


def _sends(kinds: Iterable[str]) -> list[dict[str, Any]]:
    return [{"send": {"to": kind, "text": "please"}} for kind in kinds]


def _gather(count: int, last: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take so many reports, and do something at the last."""
    return [
        *({"match": "done", "do": [{"note": {"n": n}}]} for n in range(count - 1)),
        {"match": "done", "do": last},
    ]


def playbook() -> dict[str, list[dict[str, Any]]]:
    """Who does what."""
    finish = [_write("WORK_SUMMARY.md"), _assert("WORK_SUMMARY.md")]
    execute = [
        {"match": r"\[EXECUTE\]", "do": _sends(TOP)},
        *_gather(len(TOP), finish),
        {
            "match": r"\[ANSWER approve\]",
            "state": "EXECUTE",
            "do": [{"outcome": {"outcome": "APPROVED_WORK", "reason": "ok"}}],
        },
    ]
    top = [
        {"match": "please", "do": [{"ask": {"text": "how big?"}}]},
        {"match": r"\[ANSWER", "do": _sends(MIDDLE)},
        *_gather(len(MIDDLE), [{"say": "done"}]),
    ]
    agents = {"intent-lead": _gate("INTENT", "INTENT.md"), "project-lead": _gate("PLAN", "PLAN.md") + execute}
    for kind in dict.fromkeys(TOP):
        agents[kind] = top
    for number, kind in enumerate(dict.fromkeys(MIDDLE)):
        pair = [BOTTOM[number % 3], BOTTOM[(number + 1) % 3]]
        agents[kind] = [{"match": "please", "do": _sends(pair)}, *_gather(2, [{"say": "done"}])]
    for kind in BOTTOM:
        agents[kind] = [{"match": "please", "repeat": True, "do": [{"say": "done"}]}]
    return agents


def measure(where: Path) -> dict[str, Any]:
    """Run it."""
    agents = playbook()
    teams = {
        name: sorted({a["send"]["to"] for rule in rules for a in rule["do"] if "send" in a})
        for name, rules in agents.items()
    }
    given = {
        "roles": [{"name": name, "team": team} for name, team in teams.items()],
        "policies": ["always"] * 3,
        "fan_out": 6,
        "crash_budget": 3,
        "retry_budget": 3,
        "yes": True,
        "agents": agents,
    }
    place, files = home(where), dict[str, str]()
    played = Played(files)
    world = World(SqliteStore(place), played, Notebook(files), JobFiles(place), SystemClock(), RandomIds())
    engine = Engine(world)
    job, now = world.ids.new(), time.time()
    row = JobRow(job, "build it", "bench", now, now, "INTENT", 1, 0, 0, 0, "scripted", json.dumps(given))
    begun, cpu = time.perf_counter(), time.process_time()
    live = engine.start(row, charter_of(job, given))
    while live.record.live:
        engine.crank(0.0)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    engine.release(job)
    steps = [step.rule for step in world.store.steps(job)]
    dispatches = steps.count("spark") - live.record.visit + 1
    world.store.close()
    return {
        "what": "a job of three levels",
        "state": str(live.record.state),
        "dispatches": dispatches,
        "kinds": len(agents) - 2,
        "questions": steps.count("respond") - 3,
        "turns": played.turns,
        "steps": len(steps),
        "seconds": wall,
        "cpu_seconds": cpu,
        "ms_a_dispatch": wall / dispatches * 1e3,
    }
