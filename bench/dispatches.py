"""A whole job with turns that take no time: 78 dispatches over three levels, nine kinds of agent."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.conversations import NoWorkspace
from bench.machine import home
from parley.assembly import make_engine
from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.engine.values.job_roles import charter_of
from parley.engine.world import World
from parley.machine.clock import RandomIds, SystemClock
from parley.machine.job_files import JobFiles
from parley.ports.turns import Called, Ended, Order, TurnEvent
from parley.ports.workspaces import Kept, Outcome, Scope
from parley.runners.scripted import scripted_agent

TOP = ("api-team", "data-team", "web-team") * 2  # 6 dispatches, of three kinds
MIDDLE = ("designer", "builder", "checker", "builder")  # 4 of each: 24
BOTTOM = ("typist", "runner", "reader")  # 2 of each: 48, of three kinds in turn

Script = Generator[scripted_agent.Effect, scripted_agent.CallReply, scripted_agent.PlayEnding]


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
        script = scripted_agent.play(
            scripted_agent.PlayOrder(
                agent=order.agent,
                rules=rules,
                message=order.message,
                state=order.state,
                visit=order.visit,
                handle=handle,
                may_ask=order.may_ask,
                kind=order.kind,
                asked=order.asked,
                default="",
            )
        )
        self._scripts[order.job, order.turn] = (order, script)
        self._go_on(order, script, None)

    def _go_on(self, order: Order, script: Script, reply: scripted_agent.CallReply | None) -> None:
        try:
            while True:
                effect = next(script) if reply is None else script.send(reply)
                if isinstance(effect, scripted_agent.Call):
                    self._events.append(
                        Called(
                            job=order.job,
                            turn=order.turn,
                            token=order.token,
                            number=1,
                            tool=effect.tool,
                            arguments=dict(effect.args),
                        )
                    )
                    return
                if isinstance(effect, scripted_agent.Write):
                    self.files[effect.path] = effect.text
                reply = scripted_agent.CallReply(ok=True, text="", data={})
        except StopIteration as stop:
            del self._scripts[order.job, order.turn]
            ending: scripted_agent.PlayEnding = stop.value
            self._events.append(
                Ended(
                    job=order.job,
                    turn=order.turn,
                    epoch=order.epoch,
                    text=ending.text,
                    handle=json.dumps(ending.handle, sort_keys=True),
                )
            )

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Go on with the turn."""
        order, script = self._scripts[job, turn]
        self._go_on(order, script, scripted_agent.CallReply(ok, text, dict(data)))

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
        self.files.pop(scripted_agent.OUTCOME_PATH, None)

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """What a lead wrote."""
        text = self.files.get(scripted_agent.OUTCOME_PATH)
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
    world = World(
        store=SqliteStore(place),
        turns=played,
        workspace=Notebook(files),
        files=JobFiles(place),
        clock=SystemClock(),
        ids=RandomIds(),
    )
    engine = make_engine(world)
    job, now = world.ids.new(), time.time()
    row = JobRow(
        job=job,
        request="build it",
        decider="bench",
        created=now,
        updated=now,
        agent="scripted",
        settings=json.dumps(given),
    )
    begun, cpu = time.perf_counter(), time.process_time()
    live = engine.start(row, charter_of(row))
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
