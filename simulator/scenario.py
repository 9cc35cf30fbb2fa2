"""What a run is about: a playbook made by chance, a human with a temper, and how much goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from parley.roles.role_snapshot import RoleSnapshot

Rule = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """One run's script."""

    agents: dict[str, list[Rule]]
    proxy: list[Rule] | None
    stand_in: list[Rule] | None  # the human's own rules, where a playbook plays the human
    teams: dict[str, list[str]]
    policies: tuple[str, str, str]
    rulings: dict[str, float]  # how the human tends to rule
    human: str  # prompt, late, silent
    faults: dict[str, float]
    crashes: tuple[int, ...]  # after how many acts on the world each process dies
    meddling: float  # how often somebody intervenes, pauses or withdraws
    fan_out: int
    says: tuple[str, ...] = ()  # what else the human says now and then
    roles: tuple[RoleSnapshot, ...] = ()  # in full, where they are not just names and teams
    has_workflow: bool = False


def scenario(rng: Random) -> Scenario:
    """A scenario by chance."""
    calm = rng.random() < 0.15  # some runs go as planned, so that plain paths are seen to end as they should
    return Scenario(
        agents={
            "intent-lead": _lead(rng, "INTENT", "INTENT.md"),
            "project-lead": _lead(rng, "PLAN", "PLAN.md") + _execution(rng),
            "coder": _worker(rng, "coder"),
            "tester": _worker(rng, "tester"),
            "squad": _squad(rng),
            "helper": _worker(rng, "helper"),
        },
        proxy=_proxy(rng),
        stand_in=_stand_in(rng),
        teams={"project-lead": ["coder", "tester", "squad"], "squad": ["helper"], "intent-lead": ["coder"]},
        policies=(_policy(rng), _policy(rng), _policy(rng)),
        rulings=_temper(rng),
        human="prompt" if calm else rng.choice(("prompt", "prompt", "late", "silent")),
        faults={}
        if calm
        else {
            "agent dies": rng.choice((0.0, 0.0, 0.05, 0.25)),
            "agent stalls": rng.choice((0.0, 0.0, 0.05)),
            "provider fails": rng.choice((0.0, 0.0, 0.1)),
            "doubled end": 0.1,
            "late call": 0.2,
            "lost lock": rng.choice((0.0, 0.02)),
            "two owners": 0.02,
            "double answer": 0.3,
            "race": rng.choice((0.0, 0.0, 0.05, 0.2)),
        },
        crashes=() if calm else tuple(rng.randrange(1, 60) for _ in range(rng.randrange(6))),
        meddling=0.0 if calm else rng.choice((0.0, 0.05, 0.3)),
        fan_out=rng.choice((1, 2, 3)),
    )


def _policy(rng: Random) -> str:
    return rng.choice(("always",) * 6 + ("when_unsure",) * 3 + ("never",))


def _temper(rng: Random) -> dict[str, float]:
    return rng.choice(
        (
            {"approve": 1.0},
            {"approve": 0.9, "revise": 0.1},
            {"approve": 0.7, "revise": 0.3},
            {"approve": 0.6, "revise": 0.1, "backtrack plan": 0.15, "backtrack intent": 0.15},
            {"approve": 0.7, "revise": 0.15, "withdraw": 0.05, "": 0.1},
        )
    )


def _proxy(rng: Random) -> list[Rule] | None:
    answer = {"answer": {"verdict": rng.choice(("approve", "revise")), "text": "I know", "confidence": 0.8}}
    return rng.choice(
        (
            None,
            None,
            None,
            None,
            [{"match": r"\[QUESTION\]", "repeat": True, "do": [{"ask_human": "please look"}]}],
            [{"match": r"\[QUESTION\]", "repeat": True, "do": [{"ask_human": "please look"}]}],
            [{"match": r"\[QUESTION\]", "repeat": True, "do": [answer]}],
            [{"match": r"\[QUESTION\]", "do": [answer]}, {"match": "HUMAN", "do": [{"crash": 9}]}],
            [{"match": r"\[QUESTION\]", "repeat": True, "do": [{"crash": 9}]}],
        )
    )


def _stand_in(rng: Random) -> list[Rule] | None:
    once = [{"match": ".", "verdict": rng.choice(("revise", "backtrack plan")), "text": "not yet"}]
    yes = [{"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]
    return once + yes if rng.random() < 0.25 else None


def _lead(rng: Random, state: str, artifact: str) -> list[Rule]:
    approve = f"APPROVED_{state}"
    asserts = [{"write": {"path": artifact, "text": f"{artifact} {rng.random()}"}}, _assert(artifact)]
    opening = rng.choice(
        (asserts, asserts, [{"ask": {"text": "which?"}}], [{"ask": {"text": "a?"}}, {"ask": {"text": "b?"}}])
    )
    forged = {
        "outcome": {
            "outcome": rng.choice((approve, "APPROVED_WORK", "NONSENSE", "WITHDRAW")),
            "reason": "mine",
        }
    }
    malformed = {"outcome": "not json"}
    rules: list[Rule] = [{"match": rf"\[{state}\]", "state": state, "repeat": True, "do": opening}]
    if rng.random() < 0.2:
        rules.insert(0, {"match": rf"\[{state}\]", "state": state, "do": [rng.choice((forged, malformed))]})
    if rng.random() < 0.1:
        rules.insert(0, {"match": ".", "state": state, "repeat": True, "do": []})  # it does nothing, ever
    rules += [
        {"match": r"\[ANSWER approve\]", "state": state, "repeat": True, "do": [_outcome(approve)]},
        {
            "match": r"\[ANSWER backtrack intent\]",
            "state": state,
            "repeat": True,
            "do": [_outcome("REALIGN")],
        },
        {"match": r"\[ANSWER backtrack plan\]", "state": state, "repeat": True, "do": [_outcome("REPLAN")]},
        {"match": r"^\[WITHDRAW\]", "state": state, "repeat": True, "do": [_outcome("WITHDRAW")]},
    ]
    rules.append({"match": ".", "state": state, "repeat": True, "do": asserts})
    return rules


def _outcome(action: str) -> Rule:
    return {"outcome": {"outcome": action, "reason": "as it was said"}}


def _assert(artifact: str) -> Rule:
    return {"assert": {"artifact": artifact, "text": f"is {artifact} right?"}}


def _execution(rng: Random) -> list[Rule]:
    workers = rng.sample(["coder", "tester", "squad"], k=rng.randrange(1, 4))
    sends = [{"send": {"to": to, "as": f"c{number}", "text": f"please {to}"}} for number, to in enumerate(workers)]
    finish = [
        {"write": {"path": "WORK_SUMMARY.md", "text": f"work {rng.random()}"}},
        _assert("WORK_SUMMARY.md"),
    ]
    closing = [{"close": {"to": to}} for to in rng.sample(workers, k=rng.randrange(len(workers) + 1))]
    tampering = [{"write": {"path": "PLAN.md", "text": "another plan"}}] if rng.random() < 0.1 else []
    chat = [{"send": {"thread": "c0", "text": "please go on"}}, {"sleep": 4.0}] if rng.random() < 0.4 else []
    return [
        {"match": r"\[EXECUTE\]", "repeat": True, "do": sends},
        *([{"match": "done", "do": chat}] if chat else []),
        {"match": "done", "do": closing + tampering + finish},
        {
            "match": r"\[ANSWER approve\]",
            "state": "EXECUTE",
            "repeat": True,
            "do": [_outcome("APPROVED_WORK")],
        },
        {
            "match": r"\[ANSWER backtrack intent\]",
            "state": "EXECUTE",
            "repeat": True,
            "do": [_outcome("REALIGN")],
        },
        {
            "match": r"\[ANSWER backtrack plan\]",
            "state": "EXECUTE",
            "repeat": True,
            "do": [_outcome("REPLAN")],
        },
        {"match": r"^\[WITHDRAW\]", "state": "EXECUTE", "repeat": True, "do": [_outcome("WITHDRAW")]},
        {"match": ".", "state": "EXECUTE", "repeat": True, "do": finish},
    ]


def _worker(rng: Random, name: str) -> list[Rule]:
    work: list[Rule] = [{"write": {"path": f"{name}.txt", "text": name}}, {"sleep": rng.random()}]
    ends = rng.choice(([{"say": f"done {name}"}], [{"send": {"thread": "dispatcher", "text": f"done {name}"}}]))
    first = rng.choice(
        (
            work + ends,
            work + ends,
            [{"ask": {"text": "how?"}}],
            [{"crash": 9}],
            [{"send": {"to": "coder", "text": "no"}}],
        )
    )
    return [{"match": "please", "repeat": True, "do": first}, {"match": ".", "repeat": True, "do": ends}]


def _squad(rng: Random) -> list[Rule]:
    own = rng.choice(([], [_outcome("WITHDRAW")], [_outcome("APPROVED_INTENT")], [_outcome("REALIGN")]))
    return [
        {"match": "please", "do": [{"send": {"to": "helper", "text": "please help"}}]},
        {"match": "done", "do": [*own, {"say": "done squad"}]},
        {"match": ".", "repeat": True, "do": [{"say": "done squad"}]},
    ]
