"""`parley run`: start a job and see it through."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parley import config
from parley.adapters import roles as role_files
from parley.adapters.decisions import SqliteDecisions
from parley.adapters.decisions import place as memory_of
from parley.adapters.files import JobFiles
from parley.adapters.glance import is_owned
from parley.adapters.playbook import Playbook, load
from parley.adapters.roles.files import lies_in
from parley.adapters.sqlite import SqliteStore
from parley.adapters.system import RandomIds
from parley.adapters.worktrees import Worktrees
from parley.core.terms import PROXY
from parley.decisions import MemoryTrouble
from parley.engine.remembering import will_be_used
from parley.engine.roster import charter_of, roles
from parley.faces import interrupt
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.activating import asked_for, noticed
from parley.faces.cli.bus import ShownStore
from parley.faces.cli.cast import refuse_unknown
from parley.faces.cli.desk import Place, check_text, make_home, me, one_line, place_of, print_json, safe
from parley.faces.cli.documents import listed
from parley.faces.cli.in_force import of_command, of_roles, of_settings, tell
from parley.faces.cli.ready import require
from parley.faces.cli.runners import SCRIPTED, announced, assign, check, choose, reports_cost, usual_model
from parley.faces.cli.trial import preflight
from parley.faces.cli.trust import layers_of, refuse_roles
from parley.faces.cli.typed import typed
from parley.faces.cli.workshop import again, conduct, engine_of, under_way
from parley.ports import JobRow
from parley.text import mended
from parley.workflow.activation import Activation
from parley.workflow.terms import FOLDER

NOTES, NOTES_LIMIT = "CLAUDE.md", 20_000
ALSO_NOTES = ("AGENTS.md",)  # what notes may be a link to: other programs call theirs so
DETACH_SECONDS = 20.0
LONGEST_LINE = 500  # characters of a warning
POLL_SECONDS = 0.02


def run(words: argparse.Namespace) -> int:
    """Start a job."""
    place = place_of(words.repo)
    return begin(words, place, *asked_for(words, place))


def begin(words: argparse.Namespace, place: Place, request: str, given: Activation | None) -> int:
    """Start a job on a request, with what the user has activated, if they have."""
    check_request(request)
    require(place)
    layers = layers_of(place)
    settings = layers.given
    agent = choose(words.agent, settings, place, playbook=words.playbook is not None)
    for policy in words.policy:
        settings = config.with_policy(settings, policy)
    for budget in words.budget:
        settings = config.with_budget(settings, budget)
    playbook = load(Path(words.playbook)) if words.playbook is not None else Playbook()
    snapshot = snapshot_of(place.root, settings, playbook, agent, yes=words.yes, given=given)
    snapshot["model"] = check_model(words.model, agent)
    check(snapshot["roles"], settings, place)
    preflight(settings.boundary, place)
    gathered = role_files.gather(place.root, settings, playbook.agents)
    widened = [*of_settings(place, layers, settings), *of_roles(place.root, gathered, settings), *of_command(words)]
    snapshot["widenings"] = [one._asdict() for one in widened]
    announce(words, agent, announced(agent, settings, snapshot))
    if not words.json or words.detach:  # else the document has it
        tell(widened)
    tell_of_design(place, given)
    warn_of_uncommitted(place, settings)
    warn_of_notes(place)
    warn_of_roles(place, settings, playbook)
    warn_of_memory(snapshot, agent)
    if words.detach:
        return detach(place, request, agent, words, snapshot, settings)
    with engine_of(place, settings) as engine:
        row = new_row(engine.world.ids.new(), request, agent, snapshot)
        interrupt.tell(lambda: under_way(place, [row.job]))
        engine.start(row, charter_of(row.job, snapshot))
        return conduct(engine, place, [row.job], words, widened=widened)


def announce(words: argparse.Namespace, agent: str, said: str) -> None:
    """Say who does the work, before it starts; beside the output where a program reads that."""
    if not words.json and not words.detach:
        print(safe(said), flush=True)
    elif agent != SCRIPTED:
        print(f"parley: {safe(said)}", file=sys.stderr)


def check_request(request: str) -> str:
    """A request that somebody could work on."""
    if not check_text(request).strip():
        raise Trouble("the request is empty; say in a few words what is to be done")
    return request


def check_model(model: str | None, agent: str) -> str:
    """The model that the command names; empty if it names none."""
    if model is None:
        return ""
    if agent == SCRIPTED:
        raise Trouble("--model names a model, and scripted agents have none; leave it out, or name another --agent")
    if not model.strip() or not model.isprintable() or model.startswith("-"):
        raise Trouble(
            f"--model {one_line(model, 60)!r}: this is no model's name; write one as the agent's program takes it"
        )
    return model.strip()


def tell_of_design(place: Place, given: Activation | None) -> None:
    """Say what a plan begins from; or that a design is there and starts nothing: it may have come with a clone."""
    if given is not None and given.files:
        print(f"parley: the plan begins from {given.source}: {one_line(given.words, 120)}", file=sys.stderr)
    elif given is not None and given.source:
        print(f"parley: {given.source}", file=sys.stderr)
    elif given is None and (found := noticed(place)):
        starts = f"`{typed('parley workflow run', place)}` starts from it"
        print(f"parley: orchestration/ holds {found}; this job leaves it alone; {starts}", file=sys.stderr)


def warn_of_uncommitted(place: Place, settings: config.Settings) -> None:
    """Say that a job starts from the last commit, where that is not all there is."""
    trees = Worktrees(place.home, place.root, settings.workspace)
    found = [path for path in trees.uncommitted() if not path.startswith(f"{FOLDER}/")]  # told of by itself
    if found:
        some = f"{one_line(found[0], 60)}{f' and {len(found) - 1} more' if len(found) > 1 else ''}"
        print(
            f'parley: not committed, so not part of the job: {some} ([workspace] dirty = "include" changes that)',
            file=sys.stderr,
        )


def warn_of_notes(place: Place) -> None:
    """Say that notes are not taken along, where they are a link to what is not written for agents."""
    path = place.root / NOTES
    if path.is_file() and not _is_for_agents(path, place.root):
        where = "to another file" if lies_in(path, place.root) else "outside this folder"
        print(f"parley: {NOTES} leads {where}, so no agent is told of it; put a copy here", file=sys.stderr)


def _is_for_agents(path: Path, root: Path) -> bool:
    """Whether notes are what they are called: a link must not show agents a file that is not committed, as `.env`."""
    real = Path(os.path.realpath(path))
    return real.name in (NOTES, *ALSO_NOTES) and lies_in(path, root)


def warn_of_roles(place: Place, settings: config.Settings, playbook: Playbook) -> None:
    """Say which files among the roles define none, and which tools of the user's roles no agent gets."""
    gathered = role_files.gather(place.root, settings, playbook.agents)
    for line in (*role_files.skipped(place.root), *role_files.lacking_tools(place.root, gathered)):
        print(f"parley: {one_line(line, LONGEST_LINE)}", file=sys.stderr)


def warn_of_memory(snapshot: dict[str, Any], agent: str) -> None:
    """Say that a job has to do without what is remembered, where that can't be read."""
    if not will_be_used(snapshot, agent):
        return
    memory = SqliteDecisions(memory_of(os.environ))
    try:
        memory.count()
    except MemoryTrouble as trouble:
        print(f"parley: {trouble}; the job does without it, and asks you", file=sys.stderr)
    finally:
        memory.close()


def snapshot_of(
    root: Path,
    settings: config.Settings,
    playbook: Playbook,
    agent: str = SCRIPTED,
    *,
    yes: bool = False,
    given: Activation | None = None,
) -> dict[str, Any]:
    """All that a job is to know of its settings, as they are now."""
    gathered = role_files.gather(root, settings, playbook.agents)
    refuse_roles(root, gathered, settings)
    refuse_unknown(playbook, gathered, root, given.files.values() if given else ())
    defined = {name: role_files.to_json(role) for name, role in gathered.items()}
    sends = {agent: playbook.recipients(agent) for agent in playbook.agents}
    document = playbook.to_json()
    crew = roles(defined, sends)
    assign(crew, agent, [*playbook.agents, *([PROXY] if playbook.proxy is not None else [])])
    return {
        "roles": crew,
        "policies": list(settings.policies),
        **{name: getattr(settings, name) for name in config.COUNTS},
        "brief_human": settings.proxy.brief,
        "sending": asdict(settings.sending),
        "time_limit_seconds": settings.time_limit_seconds,
        "stall_seconds": settings.stall_seconds,
        "budget": {
            "job": {"parallel": settings.parallel, **settings.budget.of_job(costs=reports_cost(crew))},
            "day": settings.budget.of_day(),
        },
        "model": "",  # what the command names, for all roles without one of their own
        "usual_model": usual_model(agent, settings),  # what the settings name, to be shown until a turn tells
        "human": document.get("human"),
        "proxy": document.get("proxy"),
        "agents": document["agents"],
        "yes": yes,
        "notes": own_notes(root),
        "memory": {
            "on": settings.proxy.memory,
            "rehearse": settings.proxy.rehearse,
            "false_approval": settings.proxy.false_approval,
            "checked": settings.proxy.checked,
            "fresh_days": settings.proxy.fresh_days,
            "repository": mended(root.name),
        },
        "workflow": asdict(settings.workflow),
        "activation": given.document() if given is not None else None,
    }


def own_notes(root: Path) -> str:
    """The user's CLAUDE.md as it is when a job begins: agents can write one, and are not to instruct each other so."""
    path = root / NOTES
    try:
        if not path.is_file() or not _is_for_agents(path, root):
            return ""
        with path.open(encoding="utf-8", errors="replace") as notes:
            return notes.read(NOTES_LIMIT)
    except OSError:
        return ""


def new_row(job: str, request: str, agent: str, snapshot: dict[str, Any]) -> JobRow:
    """The row of a job that begins now."""
    now = time.time()
    settings = json.dumps(snapshot, ensure_ascii=False)
    return JobRow(job, request, me(), now, now, "INTENT", 1, 0, 0, 0, agent, settings)


# ---- in the background ---------------------------------------------------------------------------


def detach(
    place: Place,
    request: str,
    agent: str,
    words: argparse.Namespace,
    snapshot: dict[str, Any],
    settings: config.Settings,
) -> int:
    """Make the job known, and leave it to a process of its own session; nothing is lost if that fails."""
    make_home(place)
    store = ShownStore(place, settings.durability)
    try:
        row = new_row(RandomIds().new(), request, agent, snapshot)
        interrupt.tell(lambda: _left(place, row.job))
        store.create(row)
        folder = place.home / "jobs" / row.job
        folder.mkdir(parents=True, exist_ok=True)
        if not _begins(store, spawn(place, row.job, folder / "run.log"), row.job):
            remedy = f"see {folder}/run.log, then go on with `{again(row.job, place)}`"
            raise Trouble(f"job {row.job} did not start in the background; {remedy}", FAILED)
        if words.json:
            print_json(listed(store, row, JobFiles(place.home)))
        else:
            print(row.job)
        return OK
    finally:
        store.close()


def _left(place: Place, job: str) -> str:
    """What Ctrl-C leaves of a job that was to go on in the background."""
    if is_owned(place.home, job):
        return f"job {job} goes on in the background: {typed(f'parley show {job}', place)}"
    return under_way(place, [job])


def _begins(store: SqliteStore, process: subprocess.Popen[bytes], job: str) -> bool:
    """Wait until the process has opened the job, or has failed to."""
    deadline = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < deadline:
        if store.load(job).transaction is not None:
            process.returncode = process.poll() or 0  # it goes on by itself: nobody here waits for it
            return True
        if process.poll() is not None:
            return False
        time.sleep(POLL_SECONDS)
    return True  # it is slow, and lives


def spawn(place: Place, job: str, log: Path, *more: str) -> subprocess.Popen[bytes]:
    """A process that goes on when this one, its terminal and its session are gone."""
    with log.open("ab") as output:
        return subprocess.Popen(
            # -P: the folder that it starts in is the user's, and no place to import from
            [sys.executable, "-P", "-m", "parley", "resume", job, "--background", *more],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=place.root,
            env={**os.environ, "PARLEY_HOME": str(place.home)},
        )
