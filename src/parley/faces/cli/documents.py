"""Jobs as documents: what `--json` prints. The keys are documented in docs/cli.md and stay."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from parley.adapters.files import JobFiles
from parley.adapters.glance import Glimpse
from parley.adapters.worktrees import Worktrees
from parley.engine import records
from parley.engine.attention import exits_of
from parley.engine.budgets import remedies, standing, total
from parley.engine.exits import situations
from parley.engine.holds import waits
from parley.engine.interventions import interventions
from parley.engine.projections import Past, Present, Thread, lasted, past, tree, with_progress
from parley.engine.signs import alarms, stalls
from parley.faces.cli.bus import ShownStore, bus
from parley.faces.cli.delivered import delivered
from parley.faces.cli.desk import Place
from parley.faces.cli.listing import FINISHED, group_of
from parley.ports import JobRow, Store


def listing(place: Place) -> list[dict[str, Any]]:
    """Every job."""
    with bus(place) as store:
        return [listed(store, row, JobFiles(place.home)) for row in store.jobs()]


def glimpses(place: Place) -> list[Glimpse]:
    """Every job as plain `parley ls` shows it, by way of the store."""
    with bus(place) as store:
        return [_glimpse(store, Present(store, row.job)) for row in store.jobs()]


def _glimpse(store: Store, present: Present) -> Glimpse:
    row = present.row
    given = [each for each in store.inputs(row.job) if each.kind == "answer"] if row.needs_human else []
    answered = sum(store.authentic(each) is not False for each in given)
    waiting = row.needs_human - answered
    held = (len(stalls(present.soup)), alarms(present.soup), tuple(wait.cause for _, wait in waits(present.soup)))
    return Glimpse(row.job, row.request, row.updated, row.state, row.backtracks, waiting, row.held, *held)


def listed(store: Store, row: JobRow, files: JobFiles) -> dict[str, Any]:
    """A job as `parley ls` lists it: from its row, its molecules and its streams' ends, without reading its past."""
    present = Present(store, row.job)
    ended = sum(turn.status == "ended" for turn in store.turns(row.job))
    spent = total(present.loaded.spent)
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
        "state": row.state,
        "phase": present.phase,
        "status": FINISHED.get(row.state) or group_of(_glimpse(store, present), owned=owned),
        "visit": row.visit,
        "backtracks": row.backtracks,
        "needs_human": row.needs_human - (0 if owned else alarms(present.soup)),
        "stalled": len(stalls(present.soup)) if owned else 0,
        "waits": waiting_of(present),
        "paused": present.paused,
        "owned": owned,
        "agent": row.agent,
        "decider": row.decider,
        "created": row.created,
        "updated": row.updated,
        "seconds": round(lasted(present, files, time.time()), 3),
    }


def waiting_of(present: Present) -> list[dict[str, Any]]:
    """Who of a job waits for its provider, for what, and until when."""
    found = waits(present.soup) if present.owned else ()
    return [{"agent": wait.agent, "thread": thread, **wait.document()} for thread, wait in found]


def job_document(store: Store, present: Present, files: JobFiles, root: Path) -> dict[str, Any]:
    """All about a job at the user's folder."""
    behind = past(store, present.job)
    record = present.record
    transaction = present.loaded.transaction
    settings: dict[str, Any] = json.loads(present.row.settings)
    return {
        **_head(store, present, files),
        "threads": [thread.document() for _, thread in everyone(present, behind, files)],
        "model": next(iter(ran_by(behind)), "") or settings.get("model") or settings.get("usual_model") or None,
        "models": behind.models,
        "cost": behind.usage,
        "budget": [line.document() for line in standing(store, present.loaded, time.time())],
        "turns_lost": behind.lost,
        "refused": behind.refused,
        "answers": behind.answers,
        "steps": transaction.steps if transaction else 0,
        "messages": transaction.messages if transaction else 0,
        "history": records.state_document(record)["history"] if record else [],
        "questions": [asked.document() for asked in present.questions()],
        "widenings": settings.get("widenings", []),
        "policies": dict(zip(("intent", "plan", "execute"), settings["policies"], strict=True)),
        "result": str(files.home(present.job) / "work"),
        "folder": str(files.home(present.job)),
        "delivery": deliver(store, present, files, root),
        "abandoned": _abandoned(present, behind, files),
        "unfinished": behind.unfinished,
        "interventions": [one.document() for one in interventions(store, present.job)],
        "situations": [situation.document() for situation in situations(present)],
        "exits": exits(present, files),
    }


def ran_by(behind: Past) -> list[str]:
    """The models that answered a job's agents, the one of most agents first."""
    counted = Counter(behind.models.values())
    return [model for model, _ in counted.most_common()]


def _abandoned(present: Present, behind: Past, files: JobFiles) -> list[dict[str, Any]]:
    """The turns that interventions have cut short, each with the refs that hold what it had written."""
    if not behind.abandoned:
        return []
    kept = lost_refs(files.home(present.job).parents[1], present.job)
    return [{**cut.document(), "refs": kept.get(cut.turn, [])} for cut in behind.abandoned]


def lost_refs(home: Path, job: str) -> dict[str, list[str]]:
    """The refs that hold what lost and abandoned turns had written, by turn."""
    history = Worktrees(home).history(job)
    found: dict[str, list[str]] = {}
    for ref in history.refs(f"refs/parley/lost/{job}") if history.exists else ():
        found.setdefault(ref.rpartition("/")[2].partition("-")[0], []).append(ref)
    return found


def deliver(store: Store, present: Present, files: JobFiles, root: Path) -> dict[str, Any] | None:
    """What the job hands over to the user's folder; None while it is not done."""
    if present.row.state != "DONE":
        return None
    home = files.home(present.job)
    redact = store.secrets.redact if isinstance(store, ShownStore) else str
    document = delivered(store, Worktrees(home.parents[1], root), present.job, home / "work", redact)
    return document if has_files(files, present.job) else {**document, "commands": []}


def has_files(files: JobFiles, job: str) -> bool:
    """Whether there is anything to look at: a job has its files until `parley gc` frees them."""
    return Worktrees(files.home(job).parents[1]).history(job).exists


def everyone(present: Present, behind: Past, files: JobFiles) -> list[tuple[int, Thread]]:
    """The whole dispatch tree, each with its depth; those at work with what they last did."""
    return tree([with_progress(present, thread, files) for thread in present.threads()], behind.ended)


def exits(present: Present, files: JobFiles) -> list[str]:
    """What can be done with the job now, as commands. A live job always has some."""
    job, live = present.job, present.row.state not in FINISHED
    if not live:
        looks = ("diff", "merge") if present.row.state == "DONE" else ("diff",)
        proofs = ("audit", "export", "log")
        return [f"parley {name} {job}" for name in (*(looks if has_files(files, job) else ()), *proofs)]
    found = [way.command for asked in present.questions() for way in exits_of(asked)]
    spent = present.spent()
    found += [remedies(job, line)[0] for line in spent]
    if present.paused or not (spent or present.owned):
        found.append(f"parley resume {job}")
    if not present.paused:
        found.append(f"parley pause {job}")
    return [*found, f'parley intervene {job} "TEXT"', f"parley withdraw {job}"]
