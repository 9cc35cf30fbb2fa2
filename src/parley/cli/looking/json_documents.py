"""Jobs as JSON documents, as `--json` prints them. The keys are documented in docs/cli.md and stay."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from parley.bus.glimpses import Glimpse
from parley.bus.rows import JobRow, sum_of
from parley.bus.store import Store
from parley.cli.common import Workplace
from parley.cli.job_filters import FINISHED, chosen
from parley.cli.looking.ls import group_of
from parley.cli.open_bus import RedactedStore, open_bus
from parley.cli.results.delivered import Delivered, delivered
from parley.cli.shared_home import job_files, workspaces
from parley.engine.files import job_records
from parley.engine.values import job_settings
from parley.engine.values.hold_causes import alarms, stalls, waits
from parley.features import former_job
from parley.features.budgets.arithmetic import raising, standing
from parley.features.former_job import FormerJob
from parley.machine.job_files import JobFiles
from parley.ports.workspaces import WorkspaceError
from parley.protocol.soup import Soup
from parley.views.history.interventions import interventions
from parley.views.job_view import (
    DAMAGE,
    JobHistory,
    Present,
    Thread,
    damage_words,
    is_seen_owned,
    lasted,
    located,
    past,
    tree,
    with_progress,
)
from parley.views.questions.needs import exits_of
from parley.views.questions.next_actions import situations
from parley.views.turn_hosts import lost_hosts


def listing(place: Workplace, words: argparse.Namespace) -> list[dict[str, Any]]:
    """Every job that the filters choose."""
    with open_bus(place) as store:
        return [listed_or_damaged(store, row, job_files(place.home)) for row in chosen_rows(store, words)]


def listed_or_damaged(store: Store, row: JobRow, files: JobFiles) -> dict[str, Any]:
    """A job as `parley ls` lists it; of one that can't be read, what its row says."""
    try:
        return listed(store, row, files)
    except DAMAGE as error:
        return {
            "id": row.job,
            "request": row.request,
            "state": row.state,
            "status": status_of(store, row),
            "created": row.created,
            "updated": row.updated,
            "problem": f"{damage_words(row.job)} ({error})",
        }


def chosen_rows(store: Store, words: argparse.Namespace) -> list[JobRow]:
    """The rows of the jobs that the filters choose, oldest first."""
    return chosen(words, store.jobs(), time.time(), lambda row: status_of(store, row))


def status_of(store: Store, row: JobRow) -> str:
    """Where a job stands, as `parley ls` lists it."""
    if row.state in FINISHED:
        return FINISHED[row.state]
    return group_of(_glimpse(store, row, _soup(store, row)), owned=is_seen_owned(store, row.job))


def glimpses(place: Workplace) -> list[Glimpse]:
    """Every job as plain `parley ls` shows it, read through the store."""
    with open_bus(place) as store:
        return [_glimpse(store, row, _soup(store, row)) for row in store.jobs()]


def _soup(store: Store, row: JobRow) -> Soup:
    """The molecules of a job; none of one that can't be read, which does not hide the others."""
    try:
        return Present(store, row.job).soup
    except DAMAGE:
        return Soup()


def _glimpse(store: Store, row: JobRow, soup: Soup) -> Glimpse:
    given = [each for each in store.inputs(row.job) if each.kind == "answer"] if row.needs_human else []
    answered = sum(store.authentic(each) is not False for each in given)
    return Glimpse(
        job=row.job,
        request=row.request,
        updated=row.updated,
        state=row.state,
        backtracks=row.backtracks,
        waiting=row.needs_human - answered,
        held=row.held,
        stalled=len(stalls(soup)),
        alarms=alarms(soup),
        waits=tuple(wait.text for _, wait in waits(soup)),
        decider=row.decider,
        created=row.created,
    )


def listed(store: Store, row: JobRow, files: JobFiles) -> dict[str, Any]:
    """A job as `parley ls` lists it: from its row, its molecules and the ends of its streams, not its history."""
    present = Present(store, row.job)
    ended = sum(turn.status == "ended" for turn in store.turns(row.job))
    spent = sum_of((present.loaded.spent or {}).values())
    return {
        **_head(store, present, files),
        "threads": [with_progress(present, thread, files).document() for thread in present.threads()],
        "cost": {"turns": ended, "tokens": spent.tokens, "cost_usd": spent.micros / 1e6},
    }


def _head(store: Store, present: Present, files: JobFiles) -> dict[str, Any]:
    row, owned = present.row, present.owned
    return {
        "id": row.job,
        "request": row.request,
        "continues": former_job.listed_id(row),
        "state": row.state,
        "phase": present.phase,
        "status": FINISHED.get(row.state) or group_of(_glimpse(store, row, present.soup), owned=owned),
        "visit": row.visit,
        "backtracks": row.backtracks,
        "needs_human": row.needs_human - (0 if owned else alarms(present.soup)),
        "stalled": len(stalls(present.soup)) if owned else 0,
        "waits": waiting_of(present),
        "paused": present.paused,
        "owned": owned,
        "agent": row.agent,
        "decider": row.decider,
        "people": present.people.document(),
        "created": row.created,
        "updated": row.updated,
        "seconds": round(lasted(present, files, time.time()), 3),
    }


def waiting_of(present: Present) -> list[dict[str, Any]]:
    """Who of a job waits for its provider, for what, and until when."""
    found = waits(present.soup) if present.owned else ()
    return [{"agent": wait.agent, "thread": thread, **wait.document()} for thread, wait in found]


class ShownSettings(Struct, frozen=True, kw_only=True):
    """What of a job's settings is shown."""

    policies: tuple[str, str, str]
    model: str = ""
    usual_model: str = ""
    widenings: tuple[dict[str, str], ...] = ()
    continues: FormerJob | None = None


def job_document(store: Store, present: Present, files: JobFiles, found: Delivered | None) -> dict[str, Any]:
    """All about a job, with what it has delivered."""
    behind = past(store, present.job)
    record = present.record
    transaction = present.loaded.transaction
    settings = job_settings.read(present.row, ShownSettings)
    return {
        **_head(store, present, files),
        "former": settings.continues.words if settings.continues is not None else None,
        "threads": [thread.document() for _, thread in everyone(present, behind, files)],
        "model": next(iter(ran_by(behind)), "") or settings.model or settings.usual_model or None,
        "models": behind.models,
        "cost": behind.usage,
        "budget": [line.document() for line in standing(store, present.loaded, time.time())],
        "turns_lost": behind.lost,
        "hosts": behind.hosts.turns,
        "lost_hosts": [one.document() for one in lost_hosts(store, present.job)],
        "refused": behind.refused,
        "answers": behind.answers,
        "steps": transaction.steps if transaction else 0,
        "messages": transaction.messages if transaction else 0,
        "history": job_records.state_document(record)["history"] if record else [],
        "questions": [asked.document() for asked in present.questions()],
        "widenings": list(settings.widenings),
        "policies": dict(zip(("intent", "plan", "execute"), settings.policies, strict=True)),
        "result": str(files.home(present.job) / "work"),
        "folder": str(files.home(present.job)),
        "delivery": found.document() if found is not None else None,
        "abandoned": _abandoned(present, behind, files),
        "unfinished": [one.document() for one in behind.unfinished],
        "interventions": [one.document() for one in interventions(store, present.job)],
        "situations": [situation.document() for situation in situations(present)],
        "exits": [*answers(present), *actions(present, files, found)],
    }


def ran_by(behind: JobHistory) -> list[str]:
    """The models that answered a job's agents, the one of most agents first."""
    counted = Counter(behind.models.values())
    return [model for model, _ in counted.most_common()]


def _abandoned(present: Present, behind: JobHistory, files: JobFiles) -> list[dict[str, Any]]:
    """The turns that interventions have interrupted, each with the refs that hold what it had written."""
    if not behind.abandoned:
        return []
    kept = lost_refs(files.home(present.job).parents[1], present.job)
    return [{**cut.document(), "refs": kept.get(cut.turn, [])} for cut in behind.abandoned]


def lost_refs(home: Path, job: str) -> dict[str, list[str]]:
    """The refs that hold what lost and abandoned turns had written, by turn."""
    found: dict[str, list[str]] = {}
    try:
        repository = workspaces(home).repository(job)
    except WorkspaceError:  # they are on a git remote that is out of reach
        return found
    for ref in repository.refs(f"refs/parley/lost/{job}") if repository.exists else ():
        found.setdefault(ref.rpartition("/")[2].partition("-")[0], []).append(ref)
    return found


def deliver(store: Store, present: Present, files: JobFiles, root: Path) -> Delivered | None:
    """What the job delivers; None while it is not done."""
    if present.row.state != "DONE":
        return None
    home = files.home(present.job)
    redact = store.secrets.redact if isinstance(store, RedactedStore) else str
    trees = workspaces(home.parents[1], root)
    found = delivered(store, trees, present.job, home / "work", redact)
    try:
        if not has_files(files, present.job):
            return replace(found, commands=())
        if trees.is_merged(present.job):
            return replace(found, merged=True).without("merge", "pr")
        return found if trees.has_remote() else found.without("pr")
    except WorkspaceError:  # the repository is gone, or can't be read or brought here
        return found.without("pr")


def has_files(files: JobFiles, job: str) -> bool:
    """Whether there is anything to look at: a job has its files until `parley gc` deletes them."""
    return workspaces(files.home(job).parents[1]).repository(job).exists


def everyone(present: Present, behind: JobHistory, files: JobFiles) -> list[tuple[int, Thread]]:
    """The whole dispatch tree, each with its depth; those at work with what they last did."""
    found = tree([with_progress(present, thread, files) for thread in present.threads()], behind.ended)
    return [(depth, located(thread, behind.hosts)) for depth, thread in found]


def answers(present: Present) -> list[str]:
    """The commands that answer what a live job asks."""
    return [way.command for asked in present.questions() for way in exits_of(asked)]


def actions(present: Present, files: JobFiles, found: Delivered | None) -> list[str]:
    """What else can be done with the job now, as commands. There is always something."""
    job, live = present.job, present.row.state not in FINISHED
    if not live:
        looks = [f"parley {name} {job}" for name in ("diff", "continue")] if has_files(files, job) else []
        proofs = [f"parley {name} {job}" for name in ("audit", "export", "log")]
        return [*([one.command for one in found.commands] if found is not None else looks), *proofs]
    spent = present.spent()
    ways = [raising(job, line) for line in spent]
    if present.paused or not (spent or present.owned):
        ways.append(f"parley resume {job}")
    if not present.paused:
        ways.append(f"parley pause {job}")
    return [*ways, f'parley intervene {job} "TEXT"', f"parley withdraw {job}"]
