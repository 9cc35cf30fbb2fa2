"""A workflow by chance: who does what in which order, what they are unsure of, who helps them, and what goes wrong.

It is drawn by a chance of its own, so that a seed without one is what it was before there were any.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from msgspec import structs

from parley.assembly import roles
from parley.roles import shipped, snapshot_of
from parley.workflow.model.terms import (
    PLAN,
    SHARED_STATUS,
    Category,
    Remedy,
    instructions_of,
    output_of,
    round_of,
    session_of,
)
from simulator.scenario import Rule, Scenario

SHARE = 0.04  # of the runs that have a workflow
DISPUTED = 0.2  # of those in which two have the same file, one after another
NAMES = ("db", "api", "web", "docs", "ops")
VERIFIERS = ("judge", "checker")
SHARED = "shared.txt"  # a file that may change hands
NOTES = 6  # that one doer may come to have and its helpers know of
OWN = ("code_consistency", "obvious_bug", "implementation_detail", "documentation")
ABOVE = tuple(category.value for category in Category if category.value and category.value not in OWN)
TECHNICAL = "technology|architecture|security"
ROLES = {name: structs.replace(snapshot_of(role), prompt="") for name, role in shipped().items()}


@dataclass(frozen=True)
class Doer:
    """One who makes something."""

    name: str
    depends_on: tuple[str, ...]
    verifier: str
    commands: tuple[str, ...]
    on_stall: str
    stall_seconds: float


@dataclass(frozen=True)
class Workflow:
    """A plan, and what may become of it."""

    doers: tuple[Doer, ...]
    stages: tuple[tuple[str, ...], ...]

    def text(self, **shared: str) -> str:
        """The plan's file; `owner` has the file that may change hands, `again` has its task changed."""
        owner, again = shared.get("owner"), shared.get("again")
        agents = {
            doer.name: {
                "role": "coder", "task_id": f"make_{doer.name}_{1_727_539_200 + number}",
                "depends_on": list(doer.depends_on), "verifier": doer.verifier,
                "inputs": [output(above) for above in doer.depends_on], "outputs": [output(doer.name)],
                "owns": [f"src/{doer.name}/**", *([SHARED] if doer.name == owner else [])],
                "objective": f"make {doer.name}{' better' if doer.name == again else ''}", "boundaries": "no more",
                "deliverable": doer.name, "on_stall": doer.on_stall,
                **({"stall_seconds": doer.stall_seconds} if doer.stall_seconds else {}),
                "acceptance": {"text": "it is there", "commands": list(doer.commands)},
            }
            for number, doer in enumerate(self.doers)
        }  # fmt: skip
        judges = {doer.name: doer.verifier for doer in self.doers}
        handed = [
            {"from": above, "to": doer.name, "by": judges[above], "criteria": "it is whole", "on_failure": "back"}
            for doer in self.doers
            for above in doer.depends_on
        ]
        looks = {name: {"task": "verifier", "role": "reviewer"} for name in self.verifiers}
        plan = {
            "task": "service", "goal": "a service", "stages": self.stages, "agents": agents | looks,
            "checkpoints": handed, "escalation": "the architect helps; the user answers requirements",
        }  # fmt: skip
        return f"---\n{json.dumps(plan, indent=1)}\n---\n\n# The plan\n"

    @property
    def verifiers(self) -> list[str]:
        """Whoever looks at what another made."""
        return sorted({doer.verifier for doer in self.doers})

    def design(self, **shared: str) -> list[Rule]:
        """What writes the plan, with the instructions of all."""
        made = [_write(PLAN, self.text(**shared))]
        for doer in self.doers:
            read = [f"- Read `{output(above)}`" for above in doer.depends_on] or ["- Nothing."]
            words = [
                f"# {doer.name}", "## Input Requirements", *read, "## Output Requirements",
                f"- Write `{output(doer.name)}` as plain text.", "## Success Criteria",
                "- Its commands end with 0.", "## Completion Drive", "- Note every assumption.",
            ]  # fmt: skip
            made.append(_write(instructions_of(doer.name), "\n".join(words)))
        looks = "Read what each agent made, and give your verdict with what you found."
        return made + [_write(instructions_of(name), f"# {name}\n\n{looks}\n") for name in self.verifiers]


def output(name: str) -> str:
    """What a doer leaves for others."""
    return f"{output_of(name)}/{name}.md"


def has_workflow(seed: int) -> bool:
    """Whether a seed's run has one."""
    return Random(f"has workflow {seed}").random() < SHARE


def is_disputed(seed: int) -> bool:
    """Whether in a seed's workflow two have the same file, one after another."""
    return has_workflow(seed) and Random(f"workflow {seed}").random() < DISPUTED


def with_workflow(seed: int, made: Scenario) -> Scenario:
    """The scenario of a seed, about a workflow instead."""
    rng = Random(f"workflow {seed}")
    disputed = rng.random() < DISPUTED  # the first draw: see `is_disputed`
    flow = _workflow(rng, disputed=disputed)
    calm = not made.faults
    rulings = {"approve": 1.0}, {"approve": 0.9, "revise": 0.05, "": 0.05}, made.rulings
    agents = {
        "intent-lead": _intent(),
        "project-lead": _planning(rng, flow) + _execution(rng),
        "workflow-architect": _architect(rng, flow, disputed=disputed),
        "design-verifier": _design_verifier(rng),
        "prover": _prover(rng, flow),
        "integrator": _integrator(rng),
        "solution_architect": _solver(rng),
        "design_verifier": _judge(rng, ["solution_architect"]),
        **{name: _judge(rng, [doer.name for doer in flow.doers]) for name in flow.verifiers},
        **{doer.name: _doer(rng, doer, flow) for doer in flow.doers},
        **(_rivals(flow) if disputed else {}),
    }
    return replace(
        made,
        agents=agents,
        roles=roles(ROLES, {name: _recipients(rules) for name, rules in agents.items()}),
        stand_in=_stand_in(rng) if made.stand_in is not None else None,
        rulings=rng.choice(rulings[: 1 if disputed else 3]),
        says=rng.choice(((), ("abandon",), ("stop",), ("once more", "abandon"))[: 1 if disputed else 4]),
        crashes=() if calm else tuple(rng.randrange(1, 400) for _ in range(rng.randrange(8))),
        faults={} if calm else made.faults | {"race": rng.choice((0.0, 0.0, 0.03))},
        meddling=0.0 if calm else rng.choice((0.0, 0.0, 0.02, 0.1)),
        fan_out=4 if disputed else rng.choice((1, 2, 3, 3, 4)),
        policies=rng.choice((("always",) * 3, made.policies)),
        has_workflow=True,
    )


def _recipients(rules: Iterable[Rule]) -> frozenset[str]:
    return frozenset(action["send"]["to"] for rule in rules for action in rule["do"] if "send" in action)


# ---- the plan ------------------------------------------------------------------------------------


def _workflow(rng: Random, *, disputed: bool) -> Workflow:
    names = NAMES[: rng.randrange(2, 6)]
    above = {name: rng.sample(names[:at], k=min(at, rng.choice((0, 0, 1, 1, 2)))) for at, name in enumerate(names)}
    if disputed:
        above[names[1]] = []  # the first two work side by side
    verifiers = VERIFIERS[: rng.randrange(1, 3)]
    doers = [
        Doer(
            name=name,
            depends_on=tuple(sorted(above[name])),
            verifier=rng.choice(verifiers),
            commands=(f"test -f src/{name}/{name}.txt",) if rng.random() < 0.7 else (),
            on_stall=rng.choice(list(Remedy)).value,
            stall_seconds=rng.choice((0.0, 0.0, 12.0)),
        )
        for name in names
    ]
    return Workflow(tuple(doers), _stages(rng, names, above, (1.0,) if disputed else (0.0, 0.5, 1.0)))


def _stages(
    rng: Random, names: Sequence[str], above: Mapping[str, Sequence[str]], widths: Sequence[float]
) -> tuple[tuple[str, ...], ...]:
    """As wide as the dependencies allow, one after another, or anything between."""
    wide = rng.choice(widths)
    level: dict[str, int] = {}
    for name in names:
        earliest = max((level[other] + 1 for other in above[name]), default=0)
        last = max(level.values(), default=-1)
        level[name] = earliest if rng.random() < wide else max(earliest, last + 1)
    stages = [tuple(name for name in names if level[name] == number) for number in range(max(level.values()) + 1)]
    return tuple(stage for stage in stages if stage)


# ---- leads ---------------------------------------------------------------------------------------


def _intent() -> list[Rule]:
    asserts = [_write("INTENT.md", "the intent"), _assert("INTENT.md")]
    return [
        *_revised("INTENT.md", "INTENT"),
        {"match": r"^\[ANSWER approve\]", "repeat": True, "do": [_outcome("APPROVED_INTENT")]},
        {"match": r"^\[WITHDRAW\]", "repeat": True, "do": [_outcome("WITHDRAW")]},
        {"match": ".", "repeat": True, "do": asserts},
    ]


def _revised(artifact: str, state: str) -> list[Rule]:
    """What was sent back has to be another one when it is asserted again."""
    return [
        {
            "match": r"^\[ANSWER revise\]",
            "state": state,
            "do": [_write(artifact, f"{number} better"), _assert(artifact)],
        }
        for number in range(1, 4)
    ]


def _planning(rng: Random, flow: Workflow) -> list[Rule]:
    first = flow.doers[0].name
    put = [_write("PLAN.md", "the plan"), *flow.design(owner=first), _assert("PLAN.md")]
    rules: list[Rule] = []
    if rng.random() < 0.4:
        rules += [
            {"match": r"^\[PLAN\]", "do": [_send("architecture-group", "a service", "group")]},
            {"match": r"^\[DESIGN ready\]", "do": [{"close": {"thread": "group"}}]},
            {"match": r"^\[MERGE clean\]", "do": [_write("PLAN.md", "the plan"), _assert("PLAN.md")]},
            {"match": r"^\[DESIGN", "do": [{"close": {"thread": "group"}}, *put]},
        ]
    rules += [
        {"match": r"^\[ANSWER approve\]", "do": [_outcome("APPROVED_PLAN")]},
        {"match": r"^\[ANSWER backtrack intent\]", "do": [_outcome("REALIGN")]},
        {"match": r"^\[WITHDRAW\]", "do": [_outcome("WITHDRAW")]},
        {"match": ".", "do": put},
    ]
    return _revised("PLAN.md", "PLAN") + [{**rule, "repeat": True, "state": "PLAN"} for rule in rules]


def _execution(rng: Random) -> list[Rule]:
    begins: list[Rule] = [_send("workflow-executor", "run it", "w")]
    summed = _write("WORK_SUMMARY.md", "the work\n\n## Assumptions\n\n- it is wanted\n")
    hasty = [summed, _assert("WORK_SUMMARY.md"), *([_outcome("APPROVED_WORK")] if rng.random() < 0.5 else [])]
    forged = [_write(SHARED_STATUS, json.dumps({"overall_completion_drive_gate": "clear"}))]
    begins += rng.choice(([], [], [], [], hasty, forged))
    closes: Rule = {"close": {"thread": "w"}}
    both = [summed, _assert("PLAN.md"), _assert("WORK_SUMMARY.md")]
    after_a_stop = rng.choice(([_outcome("REPLAN")], [closes, *both], [closes, *begins], [_outcome("WITHDRAW")]))
    lost = rng.choice((begins, [_outcome("REPLAN")], both))
    rules: list[Rule] = [
        {"match": r"^\[EXECUTE\]", "repeat": True, "do": begins},
        {"match": r"^\[WORKFLOW complete\]", "repeat": True, "do": [closes, summed, _assert("PLAN.md")]},
        {"match": r"^\[WORKFLOW stopped\]", "repeat": True, "do": after_a_stop},
        {"match": r"^\[WORKFLOW refused\]", "repeat": True, "do": [_outcome("REPLAN")]},
        {"match": r"^\[WORKFLOW\]", "repeat": True, "do": []},
        {"match": r"^\[ANSWER approve\]", "do": [_assert("WORK_SUMMARY.md")]},
        {"match": r"^\[ANSWER approve\]", "repeat": True, "do": [_outcome("APPROVED_WORK")]},
        {"match": r"^\[ANSWER backtrack plan\]", "repeat": True, "do": [_outcome("REPLAN")]},
        {"match": r"^\[ANSWER backtrack intent\]", "repeat": True, "do": [_outcome("REALIGN")]},
        {"match": r"^\[WITHDRAW\]", "repeat": True, "do": [_outcome("WITHDRAW")]},
        {"match": r"^\[(INTERVENE|STALLED|MERGE)", "repeat": True, "do": []},
        {"match": r"^\[FAILED\]", "do": lost},
        {"match": ".", "repeat": True, "do": both},
    ]
    return _revised("WORK_SUMMARY.md", "EXECUTE") + [{**rule, "state": "EXECUTE"} for rule in rules]


# ---- doers ---------------------------------------------------------------------------------------


def _doer(rng: Random, doer: Doer, flow: Workflow) -> list[Rule]:
    name = doer.name
    made = [_write(f"src/{name}/{name}.txt", f"by {name}"), _write(output(name), f"by {name}"), {"say": "made"}]
    mended = [_write(f"src/{name}/{name}.txt", f"by {name}, mended"), _write(SHARED, f"by {name}"), {"say": "mended"}]
    asks = [_asked(rng, name, number) for number in range(rng.choice((0, 0, 1, 1, 2)))]
    first = asks + (_mischief(rng, doer, flow) if rng.random() < 0.4 else [])
    if rng.random() < 0.5:
        first.append(_write(SHARED, f"by {name}"))
    again = (
        [{"match": r"(?s)^\[ANSWERS\](?!.*note_00[3-9])", "do": [_asked(rng, name, 9), *mended]}]
        if rng.random() < 0.3
        else []
    )
    careless = rng.random() < 0.1  # it leaves its notes as they are
    return [
        {"match": r"^\[TASK\]", "do": first + made},
        *again,
        *([] if careless else _settling()),
        {"match": r"^\[REVIEW\]", "repeat": True, "do": [{"say": "looked"}]},
        {"match": ".", "repeat": True, "do": mended},
    ]


def _rivals(flow: Workflow) -> dict[str, list[Rule]]:
    """Two who get each other's file: each writes it while it is theirs, and the first has it back in the end."""
    first, second = (doer.name for doer in flow.doers[:2])
    needs = {"description": "who has the shared file?", "context": "at work", "category": "scope"}
    up: Rule = {"note": {**needs, "status": "escalated", "escalation_reason": "it changes hands"}}
    slow: Rule = {"sleep": 7.0}
    made = [
        [_write(f"src/{name}/{name}.txt", f"by {name}"), _write(output(name), f"by {name}")] for name in (first, second)
    ]
    mine, theirs = (_write(SHARED, f"by {name}") for name in (first, second))
    return {
        first: [
            {"match": r"^\[TASK\]", "do": [mine, *made[0], up]},
            {"match": r"(?s)^\[ANSWERS\].*note_001", "repeat": True, "do": [slow, slow]},
            {"match": r"^\[REVIEW\](?!.*note_002)", "do": [slow, slow, up]},
            {"match": r"^\[MERGE", "repeat": True, "do": [mine]},
            {"match": ".", "repeat": True, "do": [{"say": "so"}]},
        ],
        second: [
            {"match": r"^\[TASK\]", "do": [*made[1], up]},
            {"match": ".", "repeat": True, "do": [theirs]},
        ],
    }


def _asked(rng: Random, name: str, number: int) -> Rule:
    category = rng.choice((*OWN, *ABOVE, ""))
    note: dict[str, str] = {
        "description": f"{name} is unsure of {number}: {category or 'something'}",
        "context": "at work",
    }
    if category:
        note["category"] = category
    status = rng.choice(("open", "escalated")) if category not in OWN else rng.choice(("open", "resolved", "escalated"))
    if status == "resolved":
        note |= {"status": status, "resolution": f"{name} looked {number}"}
    elif status == "escalated":
        note |= {"status": status, "escalation_reason": "it is not mine"}
    return {"note": note}


def _settling() -> list[Rule]:
    """What a doer does about notes that it left open: one in each turn."""
    rules: list[Rule] = []
    for number in range(1, NOTES + 1):
        note = f"note_{number:03}"
        up = {"note_id": note, "status": "escalated", "escalation_reason": "not mine to say"}
        settled = {"note_id": note, "status": "resolved", "resolution": "it is so"}
        own = "|".join(OWN)
        rules += [
            {"match": rf"(?s)^\[REVIEW\].*{note} \[open, ({own})\]", "repeat": True, "do": [{"note": settled}]},
            {"match": rf"(?s)^\[REVIEW\].*{note} \[open", "repeat": True, "do": [{"note": up}]},
        ]
    return rules


def _mischief(rng: Random, doer: Doer, flow: Workflow) -> list[Rule]:
    """What a doer does that it should not, or can't help."""
    name = doer.name
    other = rng.choice([each.name for each in flow.doers])
    entry = {"agents": {name: {"status": rng.choice(("verified", "ready_for_verification", "nonsense"))}}}
    return rng.choice(
        (
            [_write(f"src/{other}/{other}.txt", f"by {name}")],
            [{"shell": f"put src/{other}/{other}.txt by {name}"}, {"shell": f"put top.txt by {name}"}],
            [{"shell": f"put {output(other)} by {name}"}, {"shell": f"put {PLAN} by {name}"}],
            [_write(session_of(name), rng.choice(("{", "[]", json.dumps({"task_id": "x", "notes": 3}))))],
            [_write(SHARED_STATUS, json.dumps(entry))],
            [{"shell": f"put {round_of(name, 1)} " + json.dumps({"verdict": "verified", "findings": []})}],
            [{"status": {"status": rng.choice(("blocked", "ready_for_verification", "completion_drive_review"))}}],
            [{"verdict": {"verdict": "verified", "findings": []}}],
            [{"sleep": 25.0}],
            [{"sleep": 25.0}],
            [{"crash": 9}],
        )
    )


# ---- those who look and help ---------------------------------------------------------------------


def _wonders(rng: Random, name: str) -> list[Rule]:
    """A verifier that notes something about a doer the first time it looks; most settle what they may."""
    good: Rule = {"verdict": {"verdict": "verified", "findings": []}}
    unfit: Rule = {"note": {"description": f"{name} is unclear", "context": "it looks", "category": "nonsense"}}
    first = rng.choice((_asked(rng, f"the verifier of {name}", 1), _asked(rng, f"the verifier of {name}", 2), unfit))
    told = rf"(?s)^\[VERIFY\] {name}: your verdict does not count.*"
    settled: Rule = {"note": {"note_id": "note_001", "status": "resolved", "resolution": "it is so"}}
    settling: Rule = {"match": rf"{told}note_001 \[open, ({'|'.join(OWN)})\]", "repeat": True, "do": [settled, good]}
    looks: Rule = {"match": rf"(?s)^\[VERIFY\] {name}, round 1\.(?!.*(Yours so far|pending_))", "do": [first, good]}
    return [looks, *([settling] if rng.random() < 0.8 else [])]


def _judge(rng: Random, names: Iterable[str]) -> list[Rule]:
    rules: list[Rule] = []
    for name in names:
        if rng.random() < 0.2:
            rules += _wonders(rng, name)
        for number in range(1, rng.choice((1, 1, 2, 3, 4))):
            found = {"findings": [f"{name} is too short {number}"]}
            said = rng.choice(
                (
                    [{"verdict": {"verdict": "rejected", **found}}],
                    [{"verdict": {"verdict": "rejected", **found}}],
                    [_write(round_of(name, number), json.dumps({"verdict": "rejected", **found}))],
                    [{"verdict": {"verdict": "blocked", **found}}],
                    [{"say": "hm"}],
                )
            )
            rules.append({"match": rf"^\[VERIFY\] {name}, round {number}\.", "repeat": True, "do": said})
    return [*rules, {"match": ".", "repeat": True, "do": [{"verdict": {"verdict": "verified", "findings": []}}]}]


def _prover(rng: Random, flow: Workflow) -> list[Rule]:
    names = [doer.name for doer in flow.doers]
    rules: list[Rule] = [{"match": ".", "repeat": True, "do": [{"say": _proofs(flow, 0)}]}]
    if rng.random() < 0.4:
        name = rng.choice(names)
        which = rng.choice((f"{name}, round 1", f"{name}, merge [123]", "[a-z_]*, merge [12]"))
        does = rng.choice(([{"say": _proofs(flow, 1)}], [{"say": "nothing"}]))
        rules.insert(0, {"match": rf'"{which}"', "repeat": True, "do": does})
    return rules


def _proofs(flow: Workflow, code: int) -> str:
    commands = [command for doer in flow.doers for command in doer.commands]
    return json.dumps({"proofs": [{"command": one, "code": code, "output": "", "seconds": 0.1} for one in commands]})


def _integrator(rng: Random) -> list[Rule]:
    settled = [_write(SHARED, "by integrator"), {"say": "settled"}]
    return [{"match": ".", "repeat": True, "do": rng.choice((settled, settled, settled, [{"say": "?"}]))}]


def _solver(rng: Random) -> list[Rule]:
    decided = [_write(f"{output_of('solution_architect')}/decisions.md", "by solution_architect"), {"say": "decided"}]
    unsure = [_asked(rng, "solution_architect", 0)] if rng.random() < 0.3 else []
    return [
        {"match": r"^\[TASK\]", "do": unsure + decided},
        *_settling(),
        {"match": ".", "repeat": True, "do": decided},
    ]


def _design_verifier(rng: Random) -> list[Rule]:
    rejects = {"verdict": {"verdict": "rejected", "findings": ["nobody tests it"]}}
    good = {"verdict": {"verdict": "verified", "findings": []}}
    first = rng.choice((good, good, good, rejects, {"say": "fine"}))
    return [{"match": r"^\[VERIFY\](?!.*mended)", "do": [first]}, {"match": ".", "repeat": True, "do": [good]}]


def _architect(rng: Random, flow: Workflow, *, disputed: bool) -> list[Rule]:
    names = [*(doer.name for doer in flow.doers), "solution_architect"]
    first = flow.doers[0].name
    whole = flow.design(owner=first)
    gaps = [_write(PLAN, flow.text(owner=first).replace('"verifier": "', '"verifier": "no'))]
    rules: list[Rule] = [
        {"match": r"^\[DESIGN\]", "state": "PLAN", "repeat": True, "do": rng.choice((whole, whole, gaps))},
        {"match": ".", "state": "PLAN", "repeat": True, "do": [*whole, {"say": "mended"}]},
        {"match": r"^\[ANSWER revise\]", "repeat": True, "do": [_write(PLAN, flow.text(owner=first))]},
        {"match": r"^\[DESIGN gaps\]", "repeat": True, "do": whole},
    ]
    marked = r"(?s)^\[(ESCALATION|LOOP|STALLED)\] {} "
    if rng.random() < 0.2:
        rules.append({"match": marked.format(rng.choice(names)), "do": [{"say": "hm"}]})
    changes = _changes(rng, flow) if rng.random() < 0.4 else []
    if rng.random() < 0.1:
        changes.insert(0, gaps)
    if disputed:
        changes = [flow.design(owner=flow.doers[1].name), *([whole] if rng.random() < 0.6 else [])]
    source = rng.choice(("user", "solution_architect"))
    rules.append({"match": r"^\[ANSWER", "repeat": True, "do": _answers(names, "user")})
    for name in names:
        told = marked.format(name)
        planned = _answers([name], "planning")
        decided: list[Rule] = [{"ask": {"text": "which?"}}] if source == "user" else _routes([name])
        if not disputed or name == first:
            rules += [{"match": rf"{told}.*note_00[12] ", "do": [*change, *planned]} for change in changes]
        rules += [
            {"match": rf"{told}.*solution architect's answers", "repeat": True, "do": [
                *_answers([name], "solution_architect"), {"ask": {"text": "and the rest?"}}]},
            {"match": rf"{told}.*\[escalated, requirements\]", "repeat": True, "do": [
                *planned, {"ask": {"text": "what is required?"}}]},
            {"match": rf"^\[LOOP\] {name} ", "repeat": True, "do": [{"ask": {"text": "what holds?"}}]},
            {"match": rf"{told}.*\[escalated, ({TECHNICAL})\]", "repeat": True, "do": [*planned, *decided]},
            {"match": told, "repeat": True, "do": planned},
        ]  # fmt: skip
    return [*rules, {"match": ".", "repeat": True, "do": []}]


def _changes(rng: Random, flow: Workflow) -> list[list[Rule]]:
    """Plans that the architect makes of the first one, one after another."""
    names = [doer.name for doer in flow.doers]
    second = rng.choice(names[1:])
    again = rng.choice(names)
    return rng.choice(
        (
            [flow.design(owner=second), flow.design(owner=names[0])],
            [flow.design(owner=second), flow.design(owner=names[0])],
            [flow.design(owner=second)],
            [flow.design(owner=names[0], again=again)],
            [flow.design(again=again), flow.design(owner=second)],
        )
    )


def _answers(names: Iterable[str], source: str) -> list[Rule]:
    return [
        {
            "resolve": {
                "agent": name,
                "note_id": f"note_{number:03}",
                "answer": f"so it is with {name}",
                "source": source,
            }
        }
        for name in names
        for number in range(1, NOTES + 1)
    ]


def _routes(names: Iterable[str]) -> list[Rule]:
    return [
        {"resolve": {"agent": name, "note_id": f"note_{number:03}", "route": "solution_architect", "task": "decide"}}
        for name in names
        for number in range(1, NOTES + 1)
    ]


def _stand_in(rng: Random) -> list[Rule]:
    trouble = r"has failed|no sign of life|has not answered"
    said = rng.choice(("once more", "abandon", "stop"))
    plan: list[Rule] = [{"match": "changed the workflow's plan", "verdict": "revise", "text": "not so"}]
    return [
        {"match": trouble, "text": said},
        *(plan if rng.random() < 0.3 else []),
        {"match": ".", "verdict": "approve", "text": "yes", "repeat": True},
    ]


def _write(path: str, text: str) -> Rule:
    return {"write": {"path": path, "text": text}}


def _assert(artifact: str) -> Rule:
    return {"assert": {"artifact": artifact, "text": f"is {artifact} right?"}}


def _outcome(action: str) -> Rule:
    return {"outcome": {"outcome": action, "reason": "as it was said"}}


def _send(to: str, text: str, name: str) -> Rule:
    return {"send": {"to": to, "text": text, "as": name}}
