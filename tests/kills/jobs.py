"""The jobs that are killed: each ends in one way, whatever happens on the way."""

from __future__ import annotations

from typing import Any

Rules = list[dict[str, Any]]


def gate(state: str, artifact: str) -> Rules:
    """Write an artifact, have it approved, and say so."""
    outcome = "APPROVED_WORK" if state == "EXECUTE" else f"APPROVED_{state}"
    return [
        {
            "match": rf"^\[{state}\]",
            "state": state,
            "repeat": True,
            "do": [write(artifact, state), asserting(artifact)],
        },
        approve(state, outcome),
    ]


def approve(state: str, outcome: str) -> dict[str, Any]:
    """The last word of a state."""
    return {"match": r"^\[ANSWER approve\]", "state": state, "repeat": True, "do": [ends(outcome)]}


def write(path: str, text: str) -> dict[str, Any]:
    """A file."""
    return {"write": {"path": path, "text": f"{text}\n"}}


def asserting(artifact: str) -> dict[str, Any]:
    """A gate."""
    return {"assert": {"artifact": artifact, "text": "is it right?"}}


def ends(outcome: str) -> dict[str, Any]:
    """An outcome record."""
    return {"outcome": {"outcome": outcome, "reason": "so it was said"}}


def yes(*more: dict[str, Any]) -> Rules:
    """A human who approves what is left."""
    return [*more, {"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]


FRONT: Rules = gate("INTENT", "INTENT.md")
PLAN: Rules = gate("PLAN", "PLAN.md")
SUMMARY = [write("WORK_SUMMARY.md", "all is done"), asserting("WORK_SUMMARY.md")]
DONE = approve("EXECUTE", "APPROVED_WORK")


def workers(*names: str) -> dict[str, Rules]:
    """Each writes a file and says so."""
    return {
        name: [{"match": "please", "do": [{"sleep": 0.05}, write(f"{name}.txt", name), {"say": f"done {name}"}]}]
        for name in names
    }


JOBS: dict[str, dict[str, Any]] = {
    "plain": {
        "human": yes(),
        "agents": {"intent-lead": FRONT, "project-lead": PLAN + gate("EXECUTE", "WORK_SUMMARY.md")},
    },
    "appending": {  # a turn that is run twice must not leave its traces twice
        "human": yes(),
        "agents": {
            "intent-lead": FRONT,
            "project-lead": [
                *PLAN,
                {
                    "match": r"^\[EXECUTE\]",
                    "do": [
                        {"shell": "echo one >> log.txt"},
                        {"sleep": 0.1},
                        {"shell": "echo two >> log.txt"},
                        *SUMMARY,
                    ],
                },
                DONE,
            ],
        },
    },
    "parallel": {
        "human": yes(),
        "agents": {
            "intent-lead": FRONT,
            "project-lead": [
                *PLAN,
                {
                    "match": r"^\[EXECUTE\]",
                    "do": [{"send": {"to": to, "text": "please"}} for to in ("coder", "tester", "writer")],
                },
                {"match": "done", "do": []},  # whichever comes first: the order is not given
                {"match": "done", "do": []},
                {"match": "done", "do": [*({"close": {"to": to}} for to in ("coder", "tester", "writer")), *SUMMARY]},
                DONE,
            ],
            **workers("coder", "tester", "writer"),
        },
    },
    "back": {
        "human": yes({"match": "EXECUTE", "state": "EXECUTE", "verdict": "backtrack plan", "text": "plan it anew"}),
        "agents": {
            "intent-lead": FRONT,
            "project-lead": [
                *PLAN,
                {"match": "backtrack plan", "do": [ends("REPLAN")]},
                *gate("EXECUTE", "WORK_SUMMARY.md"),
            ],
        },
    },
    "nested": {
        "human": yes(),
        "agents": {
            "intent-lead": FRONT,
            "project-lead": [
                *PLAN,
                {"match": r"^\[EXECUTE\]", "do": [{"send": {"to": "squad", "text": "please"}}]},
                {"match": "done squad", "do": [{"close": {"to": "squad"}}, *SUMMARY]},
                DONE,
            ],
            "squad": [
                {"match": "please", "do": [{"send": {"to": "helper", "text": "please"}}]},
                {"match": "done helper", "do": [{"say": "done squad"}]},
            ],
            **workers("helper"),
        },
    },
    "given up": {
        "human": yes({"match": "PLAN", "state": "PLAN", "verdict": "withdraw", "text": "not worth it"}),
        "agents": {
            "intent-lead": FRONT,
            "project-lead": [*PLAN, {"match": r"^\[WITHDRAW\]", "do": [ends("WITHDRAW")]}],
        },
    },
    "hopeless": {"policy": "never", "human": [], "agents": {"intent-lead": []}},
}
