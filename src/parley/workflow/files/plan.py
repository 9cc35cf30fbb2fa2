"""The workflow coordination plan: YAML front matter that the executor follows, then prose for people.

Reading reports errors of the file itself: types, keys, words and names. The design check in `design` judges whether the
design holds together.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from parley.base.documents.front_matter import FENCE, split
from parley.base.documents.node import DocumentError, Node, Place, Scalar, is_null
from parley.base.documents.reader import Fields
from parley.base.text import cut
from parley.workflow.files.reading.finding_reader import finding_of
from parley.workflow.files.reading.plan_reader import PlanReader, tree
from parley.workflow.model.grammar import LONGEST_SLUG, NAME_FORM, SLUG_FORM, is_name, is_slug
from parley.workflow.model.terms import (
    ARCHITECT,
    EXECUTOR,
    FOLDER,
    GROUP,
    INTEGRATOR,
    PLAN,
    PROVER,
    Acceptance,
    Checkpoint,
    Finding,
    Plan,
    Remedy,
    Task,
    Worker,
)

# Names that the protocol's own agents have.
TAKEN = frozenset(
    {"human", "proxy", "orchestrator", "dispatcher", "project-lead", EXECUTOR, GROUP, ARCHITECT, INTEGRATOR, PROVER}
)

_KEYS = ("task", "goal", "stages", "agents", "checkpoints", "escalation")
_WORKER_KEYS = (
    "role",
    "task",
    "task_id",
    "depends_on",
    "verifier",
    "inputs",
    "outputs",
    "owns",
    "forbids",
    "objective",
    "boundaries",
    "deliverable",
    "acceptance",
    "time_limit_seconds",
    "stall_seconds",
    "on_stall",
)
_CHECKPOINT_KEYS = ("from", "to", "by", "criteria", "on_failure")
_OF_WORKERS = ("agent_instructions.md", "completion_drive", "task_output", "verification")


def read_plan(text: str) -> tuple[Plan | None, list[Finding]]:
    """The plan of a file, and all that is wrong with the file.

    A plan with findings holds what could be read, so that a check can report everything at once; it must not be run.
    None: nothing could be read.
    """
    plan, findings = _read(text)
    return plan, list(findings)


@lru_cache(maxsize=8)  # the executor reads the same plan again and again
def _read(text: str) -> tuple[Plan | None, tuple[Finding, ...]]:
    reader = PlanReader()
    try:
        return _Reading(reader).plan(tree(text, PLAN), text), tuple(reader.findings)
    except DocumentError as error:
        return None, (*reader.findings, finding_of(error, rule="front-matter"))


class _Escalation(NamedTuple):
    """Who helps the blocked, and where the user comes in."""

    words: str
    user: str = ""


class _Reading:
    def __init__(self, reader: PlanReader) -> None:
        self.reader = reader
        self.names: frozenset[str] = frozenset()

    def plan(self, node: Node, text: str) -> Plan | None:
        reader = self.reader
        top = reader.fields(node, "the front matter", _KEYS, optional=True)
        for key in ("task", "goal", "stages", "agents"):
            if key not in top:
                problem = f"the front matter has no {key!r}"
                reader.report(DocumentError(Place(PLAN, 1, 1), problem, f"add `{key}: …`", "missing-key"))
        workers = self.workers(top.get("agents"))
        task = reader.text(top.get("task"), "task", default="")
        if "task" in top and not is_slug(task):
            reader.wrong(top["task"], f"task is {cut(task, LONGEST_SLUG)!r}", f"write {SLUG_FORM}")
        goal = reader.text(top.get("goal"), "goal", default="")
        if "goal" in top and not goal.strip():
            reader.wrong(top["goal"], "goal is empty", "say in one line what is to be reached")
        escalation = self.escalation(top.get("escalation"))
        return Plan(
            task=task,
            goal=goal,
            workers=workers,
            stages=self.stages(top.get("stages")),
            checkpoints=self.checkpoints(top.get("checkpoints")),
            escalation=escalation.words,
            text=text,
            user_point=escalation.user,
        )

    def workers(self, node: Node) -> dict[str, Worker]:
        fields = self.reader.fields(node, "agents", optional=True)
        self.names = frozenset(fields)
        found: dict[str, Worker] = {}
        for name, key in fields.keys.items():
            if not is_name(name):
                problem = f"{cut(name, 70)!r} can't be an agent's name"
                self.reader.wrong(key, problem, f"write {NAME_FORM}", "wrong-name")
            elif name in TAKEN:
                problem = f"{name} is a part of the protocol itself"
                self.reader.about(name).wrong(key, problem, "give this agent another name", "wrong-name")
            else:
                found[name] = self.worker(name, fields[name], key.place.line)
        return found

    def worker(self, name: str, node: Node, line: int) -> Worker:
        reader = self.reader.about(name)
        fields = reader.fields(node, f"agent {name}", _WORKER_KEYS, optional=True)

        def text(key: str) -> str:
            return reader.text(fields.get(key), key, default="")

        def texts(key: str) -> tuple[str, ...]:
            return reader.texts(fields.get(key), key)

        def word(key: str, known: type[StrEnum], default: str) -> str:
            return reader.choice(fields.get(key), key, tuple(known), default=default)

        def seconds(key: str) -> float:
            return 0.0 if is_null(fields.get(key)) else reader.seconds(fields[key], key)

        return Worker(
            name=name,
            task=Task(word("task", Task, Task.DOER)),
            role=text("role") or name,
            task_id=text("task_id"),
            depends_on=texts("depends_on"),
            verifier=text("verifier"),
            inputs=self.paths(reader, fields, "inputs"),
            outputs=self.paths(reader, fields, "outputs"),
            owns=tuple(map(self.rooted, texts("owns"))),
            forbids=tuple(map(self.rooted, texts("forbids"))),
            objective=text("objective"),
            boundaries=text("boundaries"),
            deliverable=text("deliverable"),
            acceptance=self.acceptance(reader, fields.get("acceptance")),
            time_limit_seconds=seconds("time_limit_seconds"),
            stall_seconds=seconds("stall_seconds"),
            on_stall=Remedy(word("on_stall", Remedy, Remedy.ESCALATE)),
            line=line,
        )

    def paths(self, reader: PlanReader, fields: Fields, key: str) -> tuple[str, ...]:
        """Files of the tree. What leads out of it, or can't be a path, is found."""
        found = reader.listed(fields.get(key), key)
        for path, item in found.items():
            if path.startswith(("/", "~")) or ".." in path.split("/") or "\\" in path or not path.isprintable():
                problem = f"{key}: {cut(path, 70)!r} is not a path in the tree"
                reader.wrong(item, problem, "write it from the tree's root, as in docs/api.md", "wrong-path")
        return tuple(map(self.rooted, found))

    def rooted(self, path: str) -> str:
        """A path from the tree's root; `agents/…` means the workers' folders there."""
        path = path.removeprefix("./")
        top, _, rest = path.partition("/")
        agent, _, inside = rest.partition("/")
        meant = agent in self.names or inside.split("/")[0] in _OF_WORKERS
        return f"{FOLDER}/{path}" if top == "agents" and meant else path

    def acceptance(self, reader: PlanReader, node: Node) -> Acceptance:
        """The bar: a mapping with words and commands, or the words alone."""
        if isinstance(node, Scalar):
            return Acceptance(reader.text(node, "acceptance", default=""))
        fields = reader.fields(node, "acceptance", ("text", "commands"))
        return Acceptance(
            reader.text(fields.get("text"), "acceptance text", default=""),
            reader.texts(fields.get("commands"), "acceptance commands"),
        )

    def escalation(self, node: Node) -> _Escalation:
        """What the plan says of it: words alone, or a mapping with two keys."""
        if isinstance(node, Scalar):
            return _Escalation(self.reader.text(node, "escalation", default=""))
        fields = self.reader.fields(node, "escalation", ("text", "user"))
        return _Escalation(
            words=self.reader.text(fields.get("text"), "escalation text", default=""),
            user=self.reader.text(fields.get("user"), "escalation user", default=""),
        )

    def stages(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """The order. One name alone is a stage too."""
        found: list[tuple[str, ...]] = []
        for item in self.reader.items(node, "stages", optional=True):
            if isinstance(item, Scalar) and (name := self.reader.text(item, "a stage", default="")):
                found.append((name,))
            elif names := self.reader.texts(item, "a stage"):
                found.append(names)
            else:
                self.reader.wrong(item, "a stage is empty", "name its agents, or remove it")
        return tuple(found)

    def checkpoints(self, node: Node) -> tuple[Checkpoint, ...]:
        found = []
        for item in self.reader.items(node, "checkpoints", optional=True):
            fields = self.reader.fields(item, "a checkpoint", _CHECKPOINT_KEYS, optional=True)
            texts = {key: self.reader.text(fields[key], f"{key} of a checkpoint", default="") for key in fields}
            for key in ("from", "to", "by", "criteria"):
                if not texts.get(key, "").strip():
                    remedy = "write {from: one, to: another, by: a_verifier, criteria: …}"
                    self.reader.wrong(item, f"a checkpoint has no {key!r}", remedy, "missing-key")
            giver, taker, by, criteria, on_failure = (texts.get(key, "") for key in _CHECKPOINT_KEYS)
            found.append(
                Checkpoint(
                    giver=giver, taker=taker, by=by, criteria=criteria, on_failure=on_failure, line=item.place.line
                )
            )
        return tuple(found)


# ---- writing -------------------------------------------------------------------------------------


def render_plan(plan: Plan) -> str:
    """The plan's file: its front matter anew, and the prose that it had, or one made from the plan."""
    matter: dict[str, Any] = {
        "task": plan.task,
        "goal": plan.goal,
        "stages": [_Row(stage) for stage in plan.stages],
        "agents": {name: _worker(worker) for name, worker in plan.workers.items()},
    }
    if plan.checkpoints:
        matter["checkpoints"] = [_checkpoint(checkpoint) for checkpoint in plan.checkpoints]
    if plan.user_point:
        matter["escalation"] = {"text": plan.escalation, "user": plan.user_point}
    elif plan.escalation:
        matter["escalation"] = plan.escalation
    dumped = yaml.dump(matter, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100)
    try:
        prose = split(plan.text, PLAN).prose
    except DocumentError:
        prose = f"\n{_prose(plan)}"
    return f"{FENCE}\n{dumped}{FENCE}\n{prose}"


class _Row(list[str]):
    """A list that stands on one line."""


class _Dumper(yaml.SafeDumper):
    """Writes rows on one line and texts of several lines as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None
    if not text.replace("\n", "").isprintable() or text[:1].isspace():
        style = '"'  # PyYAML loses some of what is not printable in any other style
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _row_node(dumper: yaml.SafeDumper, row: _Row) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", list(row), flow_style=True)


_Dumper.add_representer(str, _text_node)
_Dumper.add_representer(_Row, _row_node)


def _worker(worker: Worker) -> dict[str, Any]:
    """A worker as the file has it: what is said of it, without what goes without saying."""
    acceptance = {"text": worker.acceptance.text, "commands": list(worker.acceptance.commands)}
    every: dict[str, Any] = {
        "task": str(worker.task) if worker.task is not Task.DOER else "",
        "role": worker.role if worker.role != worker.name else "",
        "task_id": worker.task_id,
        "depends_on": _Row(worker.depends_on),
        "verifier": worker.verifier,
        "inputs": list(worker.inputs),
        "outputs": list(worker.outputs),
        "owns": _Row(worker.owns),
        "forbids": _Row(worker.forbids),
        "objective": worker.objective,
        "boundaries": worker.boundaries,
        "deliverable": worker.deliverable,
        "acceptance": {key: value for key, value in acceptance.items() if value},
        "time_limit_seconds": _whole(worker.time_limit_seconds),
        "stall_seconds": _whole(worker.stall_seconds),
        "on_stall": str(worker.on_stall) if worker.on_stall is not Remedy.ESCALATE else "",
    }
    return {key: value for key, value in every.items() if value}


def _checkpoint(checkpoint: Checkpoint) -> dict[str, str]:
    given = (checkpoint.giver, checkpoint.taker, checkpoint.by, checkpoint.criteria, checkpoint.on_failure)
    return {key: value for key, value in zip(_CHECKPOINT_KEYS, given, strict=True) if value}


def _whole(seconds: float) -> float | int:
    return int(seconds) if seconds == int(seconds) else seconds


def _prose(plan: Plan) -> str:
    """The plan in words, for who reads it without YAML."""
    lines = [f"# Workflow: {_line(plan.task)}", "", _line(plan.goal), "", "## Agents", ""]
    for worker in plan.workers.values():
        after = f" after {', '.join(worker.depends_on)}" if worker.depends_on else ""
        about = f": {_line(worker.objective)}" if worker.objective.strip() else ""
        lines.append(f"- {worker.name} ({worker.task}, works as {_line(worker.role)}){after}{about}")
    lines += ["", "## Order", ""]
    lines += [f"{number}. {', together with '.join(stage)}" for number, stage in enumerate(plan.stages, 1)]
    if plan.checkpoints:
        lines += ["", "## Checkpoints", ""]
        lines += [
            f"- {each.giver} to {each.taker}, looked at by {each.by}: {_line(each.criteria)}"
            for each in plan.checkpoints
        ]
    if plan.escalation.strip():
        lines += ["", "## Escalation", "", _line(plan.escalation), _line(plan.user_point)]
    return "\n".join((*lines, ""))


def _line(text: str) -> str:
    return " ".join(text.split())
