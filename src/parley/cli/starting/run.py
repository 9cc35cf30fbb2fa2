"""`parley run`: starts a job and runs it to its end."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from msgspec import structs

from parley import roles as role_files
from parley.assembly import roles
from parley.base.json_codec import encode
from parley.base.text import mended
from parley.bus.rows import JobRow
from parley.bus.store import HomeStore
from parley.cli import FAILED, OK, CommandError, ctrl_c, home_bus
from parley.cli.common import (
    Workplace,
    account_name,
    acting_person,
    make_home,
    one_line,
    person,
    place_of,
    print_json,
    safe,
)
from parley.cli.looking.json_documents import listed
from parley.cli.machine.boundary_trial import preflight
from parley.cli.machine.readiness import require
from parley.cli.machine.trust import layers_of, refuse_roles
from parley.cli.machine.wider_settings import of_command, of_roles, of_settings, tell
from parley.cli.open_bus import RedactedStore
from parley.cli.running.bootstrap import engine_of, resume_command, run_jobs, under_way
from parley.cli.running.hand_over import hand_over
from parley.cli.running.job_runners import (
    announced,
    check,
    choose,
    reports_cost,
    takes_model,
    usual_model,
    with_runners,
)
from parley.cli.running.spawn import spawn
from parley.cli.shared_home import decisions, job_files
from parley.cli.starting.continued import Continued
from parley.cli.starting.job_snapshot import JobSnapshot
from parley.cli.starting.playbook_names import refuse_unknown
from parley.cli.starting.request_text import RequestText
from parley.cli.starting.users_design import asked_for, noticed
from parley.cli.typed_commands import typed
from parley.engine.values.job_roles import charter_of
from parley.features.proxy.remembering import MemorySettings
from parley.machine.clock import RandomIds
from parley.ports.decisions import MemoryTrouble
from parley.ports.turns import SCRIPTED
from parley.protocol.molecules import PROXY
from parley.roles.role_file import lies_in
from parley.runners.scripted.playbook import Playbook, load
from parley.settings.option_words import with_budget, with_policy
from parley.settings.schema import BudgetSettings, JobLimits, Settings
from parley.workflow.design.activation import Activation
from parley.workflow.model.terms import FOLDER
from parley.workspaces import JobWorkspaces

NOTES, NOTES_LIMIT = "CLAUDE.md", 20_000
ALSO_NOTES = ("AGENTS.md",)  # CLAUDE.md may be a link to these: other programs' names for such notes
DETACH_SECONDS = 20.0
LONGEST_MODEL = 200  # characters of a model's name
LONGEST_LINE = 500  # characters of a warning
POLL_SECONDS = 0.02


def run(words: argparse.Namespace) -> int:
    """Start a job."""
    place = place_of(words.repo)
    request, given = asked_for(words, place)
    with request.kept(typed("parley run", place)):
        return begin(words, place, request, given)


def begin(
    words: argparse.Namespace,
    place: Workplace,
    request: RequestText,
    given: Activation | None = None,
    continued: Continued | None = None,
) -> int:
    """Start a job on a request, with the user's own design, if any, or from the result of another job."""
    require(place)
    layers = layers_of(place)
    settings = layers.given
    agent = choose(words.agent, settings, place, playbook=words.playbook is not None)
    for policy in words.policy:
        settings = with_policy(settings, policy)
    for budget in words.budget:
        settings = with_budget(settings, budget)
    by = acting_person(words)
    settings = with_people(settings, words, by)
    playbook = load(Path(words.playbook)) if words.playbook is not None else Playbook()
    snapshot = snapshot_of(place.root, settings, playbook, agent, yes=words.yes, given=given)
    model = check_model(words.model, agent, settings, place)
    check(snapshot.roles, settings, place)
    preflight(settings.boundary, place)
    gathered = role_files.gather(place.root, settings, playbook.agents)
    widened = [*of_settings(place, layers, settings), *of_roles(place.root, gathered, settings), *of_command(words)]
    snapshot = structs.replace(
        snapshot,
        model=model,
        continues=continued.former.kept() if continued is not None else None,
        widenings=tuple(one._asdict() for one in widened),
    )
    announce(words, agent, f"agent: {announced(agent, settings, snapshot, place)}")
    if not words.json or words.detach:  # else the document has it
        tell(widened)
    tell_of_design(place, given)
    if continued is not None:
        print(f"parley: continues {continued.former.job}: {continued.former.words}", file=sys.stderr)
    warn_of_uncommitted(place, settings, apart=continued is not None and continued.result is not None)
    warn_of_notes(place)
    warn_of_roles(place, settings, playbook)
    warn_of_memory(place, snapshot)
    if words.detach:
        row = new_row(RandomIds().new(), request.text, agent, snapshot, by)
        return detach(place, request, row, words, settings=settings, continued=continued)
    with engine_of(place, settings) as engine:
        row = new_row(engine.world.ids.new(), request.text, agent, snapshot, by)
        ctrl_c.set_interrupted_hint(lambda: under_way(place, [row.job]))
        if continued is not None:
            continued.begin_tree(place, settings, row)
        engine.start(row, charter_of(row))
        request.taken()
        return run_jobs(engine, place, [row.job], words, widened=widened)


def with_people(settings: Settings, words: argparse.Namespace, by: str) -> Settings:
    """The settings with the persons whom the command names, over the user's own; who starts the job needs no naming."""
    named = {**settings.people}
    for may, names in (("answer", words.answerer), ("decide", words.decider)):
        named |= {person(name): may for name in names}
    named.pop(by, None)
    return structs.replace(settings, people=named)


def announce(words: argparse.Namespace, agent: str, said: str) -> None:
    """Say which agent does the work, before it starts; on standard error where a program reads the output."""
    if not words.json and not words.detach:
        print(safe(said), flush=True)
    elif agent != SCRIPTED:
        print(f"parley: {safe(said)}", file=sys.stderr)


def check_model(model: str | None, agent: str, settings: Settings, place: Workplace) -> str:
    """The model that the command names; empty if it names none."""
    if model is None:
        return ""
    if agent == SCRIPTED:
        raise CommandError(
            "--model names a model, and scripted agents have none; leave it out, or name another --agent"
        )
    shown = f"--model {one_line(model, 60)!r}"
    name = model.strip()
    if not name or not name.isprintable() or name.startswith("-") or " " in name or len(name) > LONGEST_MODEL:
        raise CommandError(f"{shown}: this is no model's name; write one that the agent's program accepts")
    if not takes_model(agent, settings, place):
        raise CommandError(
            f"{shown}: it would not reach the program: [agents.{agent}] command has no {{model}}; put it there"
        )
    return name


def tell_of_design(place: Workplace, given: Activation | None) -> None:
    """Say what a plan begins from; or that a design was found and is not used, as it may have come with a clone."""
    if given is not None and given.files:
        print(f"parley: the plan begins from {given.source}: {one_line(given.words, 120)}", file=sys.stderr)
    elif given is not None and given.source:
        print(f"parley: {given.source}", file=sys.stderr)
    elif given is None and (found := noticed(place)):
        starts = f"`{typed('parley workflow run', place)}` starts from it"
        print(f"parley: orchestration/ holds {found}; this job leaves it alone; {starts}", file=sys.stderr)


def warn_of_uncommitted(place: Workplace, settings: Settings, *, apart: bool = False) -> None:
    """Warn of uncommitted changes: a job starts from the last commit; `apart`: from another job's result."""
    trees = JobWorkspaces(place.home, place.root, None if apart else settings.workspace)
    found = [path for path in trees.uncommitted() if not path.startswith(f"{FOLDER}/")]  # reported separately
    if found:
        some = f"{one_line(found[0], 60)}{f' and {len(found) - 1} more' if len(found) > 1 else ''}"
        remedy = "" if apart else ' ([workspace] dirty = "include" changes that)'
        print(f"parley: not committed, so not part of the job: {some}{remedy}", file=sys.stderr)


def warn_of_notes(place: Workplace) -> None:
    """Warn that notes are not used, where they are a link to a file that is not written for agents."""
    path = place.root / NOTES
    if path.is_file() and not _is_for_agents(path, place.root):
        where = "to another file" if lies_in(path, place.root) else "outside this folder"
        print(f"parley: {NOTES} leads {where}, so no agent gets it; put a copy here", file=sys.stderr)


def _is_for_agents(path: Path, root: Path) -> bool:
    """Whether notes are really notes: a link must not show agents an uncommitted file such as `.env`."""
    real = Path(os.path.realpath(path))
    return real.name in (NOTES, *ALSO_NOTES) and lies_in(path, root)


def warn_of_roles(place: Workplace, settings: Settings, playbook: Playbook) -> None:
    """Warn of files among the roles that define none, and of tools of the user's roles that no agent gets."""
    gathered = role_files.gather(place.root, settings, playbook.agents)
    for line in (*role_files.skipped(place.root), *role_files.lacking_tools(place.root, gathered)):
        print(f"parley: {one_line(line, LONGEST_LINE)}", file=sys.stderr)


def warn_of_memory(place: Workplace, snapshot: JobSnapshot) -> None:
    """Warn that a job runs without the memory, where that can't be read."""
    played = any(role.name == PROXY and role.runner == SCRIPTED for role in snapshot.roles)
    if not snapshot.memory.used(played=played or snapshot.human is not None):
        return
    memory = decisions(place.home)
    try:
        memory.count()
    except MemoryTrouble as trouble:
        print(f"parley: {trouble}; the job does without it, and asks you", file=sys.stderr)
    finally:
        memory.close()


def snapshot_of(
    root: Path,
    settings: Settings,
    playbook: Playbook,
    agent: str = SCRIPTED,
    *,
    yes: bool = False,
    given: Activation | None = None,
) -> JobSnapshot:
    """A snapshot of the settings for a job."""
    gathered = role_files.gather(root, settings, playbook.agents)
    refuse_roles(root, gathered, settings)
    refuse_unknown(playbook, gathered, root, given.files.values() if given else ())
    defined = {name: role_files.snapshot_of(role) for name, role in gathered.items()}
    sends = {agent: playbook.recipients(agent) for agent in playbook.agents}
    document = playbook.to_json()
    played = [*playbook.agents, *([PROXY] if playbook.proxy is not None else [])]
    crew = with_runners(roles(defined, sends), agent, played)
    return JobSnapshot(
        roles=crew,
        policies=settings.policies,
        **{name: getattr(settings, name) for name in JobLimits.__struct_fields__},
        brief_human=settings.proxy.brief,
        sending=settings.sending,
        time_limit_seconds=settings.time_limit_seconds,
        stall_seconds=settings.stall_seconds,
        budget=BudgetSettings(
            job={"parallel": settings.parallel, **settings.budget.of_job(costs=reports_cost(crew))},
            day=settings.budget.of_day(),
        ),
        usual_model=usual_model(agent, settings),
        human=document.get("human"),
        proxy=document.get("proxy"),
        agents=document["agents"],
        yes=yes,
        notes=own_notes(root),
        memory=MemorySettings(
            on=settings.proxy.memory,
            rehearse=settings.proxy.rehearse,
            false_approval=settings.proxy.false_approval,
            checked=settings.proxy.checked,
            fresh_days=settings.proxy.fresh_days,
            repository=mended(root.name),
        ),
        workflow=settings.workflow,
        activation=given,
        people=dict(settings.people),
    )


def own_notes(root: Path) -> str:
    """The user's CLAUDE.md when a job begins: agents can write one, and must not instruct each other by it."""
    path = root / NOTES
    try:
        if not path.is_file() or not _is_for_agents(path, root):
            return ""
        with path.open(encoding="utf-8", errors="replace") as notes:
            return notes.read(NOTES_LIMIT)
    except OSError:
        return ""


def new_row(job: str, request: str, agent: str, snapshot: JobSnapshot, by: str = "") -> JobRow:
    """The row of a job that begins now, by a person's name; without one, by the account's."""
    now = time.time()
    return JobRow(
        job=job,
        request=request,
        decider=by or account_name(),
        created=now,
        updated=now,
        agent=agent,
        settings=encode(snapshot),
    )


# ---- in the background ---------------------------------------------------------------------------


def detach(
    place: Workplace,
    request: RequestText,
    row: JobRow,
    words: argparse.Namespace,
    *,
    settings: Settings,
    continued: Continued | None,
) -> int:
    """Put the job on the bus, for the attendant or a process of its own; nothing is lost if that does not start."""
    make_home(place)
    store = RedactedStore(place, settings.durability)
    try:
        ctrl_c.set_interrupted_hint(lambda: _left(place, row.job))
        if continued is not None:
            continued.begin_tree(place, settings, row)
        store.create(row)
        request.taken()
        folder = place.home / "jobs" / row.job
        folder.mkdir(parents=True, exist_ok=True)
        taken = hand_over(place.home, store, row.job)
        if not taken and not _begins(store, spawn(place, row.job, folder / "run.log"), row.job):
            remedy = f"see {folder}/run.log, then go on with `{resume_command(row.job, place)}`"
            raise CommandError(f"job {row.job} did not start in the background; {remedy}", FAILED)
        if words.json:
            print_json(listed(store, row, job_files(place.home)))
        else:
            print(row.job)
        return OK
    finally:
        store.close()


def _left(place: Workplace, job: str) -> str:
    """What the user is told of a background job after Ctrl-C."""
    if home_bus.is_owned(place.home, job):
        return f"job {job} goes on in the background: {typed(f'parley show {job}', place)}"
    return under_way(place, [job])


def _begins(store: HomeStore, process: subprocess.Popen[bytes], job: str) -> bool:
    """Wait until the process has opened the job, or has failed."""
    deadline = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < deadline:
        if store.load(job).transaction is not None:
            process.returncode = process.poll() or 0  # it goes on by itself: this process does not wait for it
            return True
        if process.poll() is not None:
            return False
        time.sleep(POLL_SECONDS)
    return True  # slow, but alive
