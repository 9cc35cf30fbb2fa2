"""The workflow coordination plan: YAML front matter that the executor follows, then prose for people.

Reading finds what is wrong with the file as such: its types, keys, words and names. Whether the design holds together
is another question, which `design` answers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml

from parley.text import cut
from parley.workflow.grammar import LONGEST_SLUG, NAME_FORM, SLUG_FORM, is_name, is_slug
from parley.workflow.matter import FENCE, Broken, Reader, line_of, split, tree
from parley.workflow.terms import (
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

LONGEST_SECONDS = 1e9
# Names that somebody of the protocol has already.
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

    A plan with findings is what could be made out of it, for a check that wants to tell all at once; it is not to be
    run. None: nothing could be made out.
    """
    plan, findings = _read(text)
    return plan, list(findings)


@lru_cache(maxsize=8)  # the executor reads the same plan again and again
def _read(text: str) -> tuple[Plan | None, tuple[Finding, ...]]:
    reader = Reader(PLAN)
    try:
        node, _ = tree(text, PLAN)
        return _Reading(reader).plan(node, text), tuple(reader.findings)
    except Broken as broken:
        return None, (*reader.findings, Finding(PLAN, broken.line, "", "front-matter", str(broken), broken.remedy))


class _Reading:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.names: frozenset[str] = frozenset()

    def plan(self, node: yaml.Node | None, text: str) -> Plan | None:
        reader = self.reader
        entries = reader.entries(node, "the front matter", known=_KEYS)
        for key in ("task", "goal", "stages", "agents"):
            if key not in entries:
                reader.tell(1, "", "missing-key", f"the front matter has no {key!r}", f"add `{key}: …`")
        values = {key: value for key, (_, value) in entries.items()}
        workers = self.workers(values.get("agents"))
        task = reader.text(values.get("task"), "task")
        if "task" in values and not is_slug(task):
            reader.find(values["task"], "", "wrong-value", f"task is {cut(task, LONGEST_SLUG)!r}", f"write {SLUG_FORM}")
        goal = reader.text(values.get("goal"), "goal")
        if "goal" in values and not goal.strip():
            reader.find(values["goal"], "", "wrong-value", "goal is empty", "say in one line what is to be reached")
        return Plan(
            task,
            goal,
            workers,
            self.stages(values.get("stages")),
            self.checkpoints(values.get("checkpoints")),
            *self.escalation(values.get("escalation"), text),
        )

    def workers(self, node: yaml.Node | None) -> dict[str, Worker]:
        entries = self.reader.entries(node, "agents")
        self.names = frozenset(entries)
        found: dict[str, Worker] = {}
        for name, (key, value) in entries.items():
            if not is_name(name):
                self.reader.find(
                    key, "", "wrong-name", f"{cut(name, 70)!r} can't be an agent's name", f"write {NAME_FORM}"
                )
            elif name in TAKEN:
                remedy = "give this agent another name"
                self.reader.find(key, name, "wrong-name", f"{name} is a part of the protocol itself", remedy)
            else:
                found[name] = self.worker(name, value, line_of(key))
        return found

    def worker(self, name: str, node: yaml.Node, line: int) -> Worker:
        reader = self.reader
        entries = reader.entries(node, f"agent {name}", name, _WORKER_KEYS)
        values = {key: value for key, (_, value) in entries.items()}

        def text(key: str) -> str:
            return reader.text(values.get(key), key, name)

        def seconds(key: str) -> float:
            return reader.seconds(values.get(key), key, name, LONGEST_SECONDS)

        return Worker(
            name,
            Task(reader.word(values.get("task"), "task", name, tuple(Task), Task.DOER)),
            text("role") or name,
            text("task_id"),
            reader.texts(values.get("depends_on"), "depends_on", name),
            text("verifier"),
            self.paths(values.get("inputs"), "inputs", name),
            self.paths(values.get("outputs"), "outputs", name),
            self.patterns(values.get("owns"), "owns", name),
            self.patterns(values.get("forbids"), "forbids", name),
            text("objective"),
            text("boundaries"),
            text("deliverable"),
            self.acceptance(values.get("acceptance"), name),
            seconds("time_limit_seconds"),
            seconds("stall_seconds"),
            Remedy(reader.word(values.get("on_stall"), "on_stall", name, tuple(Remedy), Remedy.ESCALATE)),
            line,
        )

    def patterns(self, node: yaml.Node | None, key: str, name: str) -> tuple[str, ...]:
        return tuple(self.rooted(path) for path in self.reader.texts(node, key, name))

    def paths(self, node: yaml.Node | None, key: str, name: str) -> tuple[str, ...]:
        """Files of the tree. What leads out of it, or can't be a path, is found."""
        found = self.reader.listed(node, key, name)
        for path, item in found.items():
            if path.startswith(("/", "~")) or ".." in path.split("/") or "\\" in path or not path.isprintable():
                text = f"{key}: {cut(path, 70)!r} is not a path in the tree"
                self.reader.find(item, name, "wrong-path", text, "write it from the tree's root, as in docs/api.md")
        return tuple(map(self.rooted, found))

    def rooted(self, path: str) -> str:
        """A path from the tree's root; `agents/…` means the workers' folders there."""
        path = path.removeprefix("./")
        top, _, rest = path.partition("/")
        agent, _, inside = rest.partition("/")
        meant = agent in self.names or inside.split("/")[0] in _OF_WORKERS
        return f"{FOLDER}/{path}" if top == "agents" and meant else path

    def acceptance(self, node: yaml.Node | None, name: str) -> Acceptance:
        """The bar: a mapping with words and commands, or the words alone."""
        if isinstance(node, yaml.ScalarNode):
            return Acceptance(self.reader.text(node, "acceptance", name))
        entries = self.reader.entries(node, "acceptance", name, ("text", "commands"))
        values = {key: value for key, (_, value) in entries.items()}
        return Acceptance(
            self.reader.text(values.get("text"), "acceptance text", name),
            self.reader.texts(values.get("commands"), "acceptance commands", name),
        )

    def escalation(self, node: yaml.Node | None, text: str) -> tuple[str, str, str]:
        """Who helps the blocked, the whole text, where the user comes in: words alone, or a mapping with two keys."""
        if node is None or isinstance(node, yaml.ScalarNode):
            return self.reader.text(node, "escalation"), text, ""
        entries = self.reader.entries(node, "escalation", known=("text", "user"))
        values = {key: self.reader.text(value, f"escalation {key}") for key, (_, value) in entries.items()}
        return values.get("text", ""), text, values.get("user", "")

    def stages(self, node: yaml.Node | None) -> tuple[tuple[str, ...], ...]:
        """The order. One name alone is a stage too."""
        found: list[tuple[str, ...]] = []
        for item in self.reader.items(node, "stages"):
            if isinstance(item, yaml.ScalarNode) and (name := self.reader.text(item, "a stage")):
                found.append((name,))
            elif names := self.reader.texts(item, "a stage"):
                found.append(names)
            else:
                self.reader.find(item, "", "wrong-value", "a stage is empty", "name its agents, or remove it")
        return tuple(found)

    def checkpoints(self, node: yaml.Node | None) -> tuple[Checkpoint, ...]:
        found = []
        for item in self.reader.items(node, "checkpoints"):
            entries = self.reader.entries(item, "a checkpoint", known=_CHECKPOINT_KEYS)
            texts = {key: self.reader.text(value, f"{key} of a checkpoint") for key, (_, value) in entries.items()}
            for key in ("from", "to", "by", "criteria"):
                if not texts.get(key, "").strip():
                    remedy = "write {from: one, to: another, by: a_verifier, criteria: …}"
                    self.reader.find(item, "", "missing-key", f"a checkpoint has no {key!r}", remedy)
            giver, taker, by, criteria, on_failure = (texts.get(key, "") for key in _CHECKPOINT_KEYS)
            found.append(Checkpoint(giver, taker, by, criteria, on_failure, line_of(item)))
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
        _, prose = split(plan.text)
    except Broken:
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
