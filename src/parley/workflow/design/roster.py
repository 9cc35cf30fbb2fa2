"""Checks the agents of a design: contract, verifier, role and task id of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from parley.base.text import cut
from parley.workflow.design.blueprint import Blueprint, unclear
from parley.workflow.model.grammar import TASK_ID_FORM, is_task_id
from parley.workflow.model.terms import ARCHITECT, EXECUTOR, GROUP, INTEGRATOR, PROVER, ROLES, Finding, Task, Worker

# How the user may be called where the plan says where the user comes in; a field of its own serves every language.
USER = re.compile(
    r"\b(?:users?|humans?|owner|customer|client|person|people|you|(?:be)?nutzer\w*|anwender\w*|mensch\w*|auftraggeber\w*"
    r"|utilisat(?:eur|rice)s?|usuari[oa]s?|utenti?|usuári[oa]s?|gebruikers?|użytkownik\w*|användare\w*|пользовател\w*)\b"
    r"|用户|用戶|ユーザー|利用者|사용자",
    re.IGNORECASE,
)
# Roles of the protocol itself: no agent of a plan works as one.
PARTS = frozenset(
    {"human", "orchestrator", "proxy", "intent-lead", "project-lead", EXECUTOR, GROUP, ARCHITECT, INTEGRATOR, PROVER}
)


def examine_roster(design: Blueprint) -> Iterator[Finding]:
    """Each worker's contract, verifier, task id and role; then verifiers and drafts without a worker."""
    if not design.plan.doers:
        text = "the plan has no agent that makes anything"
        yield design.find(
            "no-doers", None, "agents:", text, "add one with its contract, or do the work without a workflow"
        )
    ids: dict[str, str] = {}
    for worker in design.plan.workers.values():
        if worker.task is Task.DOER:
            yield from _contract(design, worker)
            yield from _verifier(design, worker)
        elif not any(doer.verifier == worker.name for doer in design.plan.doers):
            text = "it is a verifier, and no doer names it as its own"
            yield design.find(
                "idle-verifier", worker, "", text, f"write `verifier: {worker.name}` at a doer, or remove it"
            )
        yield from _task_id(design, worker, ids)
        yield from _role(design, worker)
    yield from _drafts(design)
    if not design.plan.escalation.strip():
        text = "the plan does not say what happens with an agent that is blocked"
        yield design.find(
            "no-escalation", None, "", text, "add `escalation: who answers what, where the user comes in`"
        )
    elif not design.plan.user_point.strip() and not USER.search(design.plan.escalation):
        text = "escalation does not say where the user comes in"
        remedy = "name what is asked of the user; in any language: `escalation: {text: …, user: …}`"
        yield design.find("no-user-point", None, "escalation:", text, remedy)


def _contract(design: Blueprint, worker: Worker) -> Iterator[Finding]:
    what = {
        "objective": ("its objective", "say what it is to reach"),
        "deliverable": ("its deliverable", "say what it hands over"),
    }
    for key, (name, remedy) in what.items():
        if not getattr(worker, key).strip():
            yield design.find(f"missing-{key}", worker, f"{key}:", f"{name} is missing", f"{remedy}: `{key}: …`")
    if not worker.boundaries.strip() and not worker.forbids:
        text = "its boundaries are missing"
        yield design.find(
            "missing-boundaries", worker, "boundaries:", text, "say what it leaves alone: `boundaries: …`"
        )
    bar = worker.acceptance
    if not bar.text.strip() and not any(command.strip() for command in bar.commands):
        remedy = 'add `acceptance: {text: …, commands: ["…"]}`: what must hold, and the commands that show it'
        yield design.find("missing-acceptance", worker, "acceptance:", "its acceptance bar is missing", remedy)
    elif not bar.commands and (why := unclear(bar.text)):
        text = f"its acceptance bar has no command, and its text {why}"
        yield design.find(
            "unclear-criteria", worker, "acceptance:", text, "add a command, or say what can be seen or counted"
        )
    if not worker.outputs and not worker.owns:
        text = "it has no outputs and owns no paths, so it can leave nothing behind"
        yield design.find(
            "no-output", worker, "", text, "add what it makes to outputs, or the paths that it changes to owns"
        )


def _verifier(design: Blueprint, worker: Worker) -> Iterator[Finding]:
    name = worker.verifier
    other = design.plan.workers.get(name)
    if not name:
        remedy = "add `verifier: …`, and an agent of that name with `task: verifier`"
        yield design.find("missing-verifier", worker, "verifier:", "no agent verifies it", remedy)
    elif name == worker.name:
        yield design.find("self-verification", worker, "verifier:", "it verifies itself", "name another agent")
    elif other is None:
        text = f"its verifier is {name}, and there is no such agent"
        yield design.find(
            "unknown-verifier", worker, "verifier:", text, f"add `{name}: {{task: verifier, role: reviewer}}`"
        )
    elif other.task is not Task.VERIFIER:
        text = f"its verifier is {name}, which is a doer"
        yield design.find("verifier-is-doer", worker, "verifier:", text, "name an agent with `task: verifier`")


def _task_id(design: Blueprint, worker: Worker, ids: dict[str, str]) -> Iterator[Finding]:
    form = f"write {TASK_ID_FORM}"
    given = worker.task_id
    if not given:
        if worker.task is Task.DOER:
            yield design.find("missing-task-id", worker, "task_id:", "it has no task_id", form)
    elif not is_task_id(given):
        yield design.find("malformed-task-id", worker, "task_id:", f"its task_id is {cut(ascii(given), 80)}", form)
    elif given in ids:
        text = f"its task_id {given} is also that of {ids[given]}"
        yield design.find("duplicate-task-id", worker, "task_id:", text, "give each its own")
    else:
        ids[given] = worker.name


def _role(design: Blueprint, worker: Worker) -> Iterator[Finding]:
    draft = f"{ROLES}/{worker.role}.md"
    if worker.role in PARTS:
        text = f"its role {worker.role} has a part of its own in the protocol"
        yield design.find("protocol-role", worker, "role:", text, "choose another role")
    elif worker.role not in design.roles and draft not in design.files:
        text = f"its role {worker.role} does not exist"
        remedy = f"choose one of: {', '.join(sorted(set(design.roles) - PARTS))}; or draft it as {draft}"
        yield design.find("unknown-role", worker, "role:", text, remedy)


def drafts_of(files: Iterable[str]) -> dict[str, str]:
    """The drafts of roles among some paths: their names, and their paths."""
    paths = (PurePosixPath(path) for path in files)
    return {path.stem: str(path) for path in paths if str(path.parent) == ROLES and path.suffix == ".md"}


def _drafts(design: Blueprint) -> Iterator[Finding]:
    """Drafts that no worker uses. `drafts` reports errors inside a draft."""
    wanted = {worker.role for worker in design.plan.workers.values()}
    for name, path in drafts_of(design.files).items():
        if name not in wanted:
            remedy = f"write `role: {name}` at an agent, or remove the draft"
            yield Finding(
                file=path,
                line=1,
                agent=name,
                rule="unused-draft",
                text=f"no agent of the plan works as {name}",
                remedy=remedy,
            )
