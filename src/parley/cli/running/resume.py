"""`parley resume`: goes on with interrupted or paused jobs, and raises budgets."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from parley.actions.drive import can_go_on
from parley.actions.leave import leave
from parley.audit.audit import read_anchor
from parley.bus.rows import JobRow
from parley.bus.store import HomeStore, Store
from parley.cli import FAILED, OK, WAITING, CommandError
from parley.cli.common import Workplace, acting_person, place_of, print_json
from parley.cli.leave_input import put_and_wait
from parley.cli.looking.audit_command import state_text, unsound
from parley.cli.machine.boundary_trial import preflight
from parley.cli.machine.readiness import require
from parley.cli.machine.trust import Layers, layers_of
from parley.cli.machine.wider_settings import of_settings, tell
from parley.cli.open_bus import find_job, open_bus
from parley.cli.running.bootstrap import (
    STATE_CODES,
    attended_line,
    engine_of,
    put_as_branch,
    run_jobs,
    spent_words,
    withdrawing_settings,
)
from parley.cli.running.hand_over import hand_over
from parley.cli.running.job_runners import check, with_runners
from parley.engine.turn.start import day_of
from parley.engine.values import job_settings
from parley.engine.values.human_inputs import ResumeInput, is_in_vain, note_words
from parley.engine.values.job_settings import Crew
from parley.engine.values.permissions import objection
from parley.features.budgets.arithmetic import SLOT, BudgetPart, Purse, standing
from parley.machine.clock import RandomIds
from parley.roles.role_snapshot import RoleSnapshot
from parley.settings.option_words import budget_amount, budget_words
from parley.settings.schema import Settings
from parley.views.job_view import TERMINAL, Present


def run(words: argparse.Namespace) -> int:
    """Go on."""
    place = place_of(words.repo)
    raised = _raised(words)
    with open_bus(place) as store:
        rows = store.jobs()
        finish_ended_jobs(store, place, rows)
        if words.job is None:
            idle = [row for row in rows if row.state not in TERMINAL and not store.owner_lives(row.job)]
            sound = _sound(place, [row.job for row in idle])
            jobs = [row.job for row in idle if row.job in sound and (not row.held or can_go_on(store, row.job))]
            if not jobs:
                return _nothing(words, [row.job for row in rows if row.held and row.state not in TERMINAL])
            layers = ready(place, [row for row in rows if row.job in jobs])
        else:
            row = find_job(rows, words.job)
            if row.state in TERMINAL:
                _say(words, row, f"{row.job} has ended: {row.state}")
                return STATE_CODES[row.state]
            jobs = [row.job]
            lives = store.owner_lives(row.job)
            if not lives:
                _sound(place, jobs)
            present = Present(store, row.job)
            if raised:
                _check_raise(present, raised, acting_person(words))
            elif spent := present.spent():
                raise CommandError(spent_words(row.job, spent, place), WAITING)
            settled = None if lives else ready(place, [row])  # before a pause ends or a budget is raised
            if (present.paused or raised) and (note := _release(store, row, raised, acting_person(words))):
                _say(words, row, f"{row.job} goes on" if note == "resumed" else f"{row.job}: {note}")
                return OK
            layers = settled or ready(place, [row])
            offered = present.loaded.epoch == 0  # to the attendant, by the command that made the job
            if words.background and not lives and not offered and hand_over(place.home, store, row.job):
                print(attended_line(row.job))
                return OK
            if lives and not words.json:
                print(f"another process works on {row.job}; this one takes over if that process ends")
    widened = of_settings(place, layers)
    if not words.json:  # else the document has it
        tell(widened)
    with engine_of(place, layers.given) as engine:  # the settings that were checked, even if the file has changed
        return run_jobs(engine, place, jobs, words, stay=words.background, leave=words.background, widened=widened)


def ready(place: Workplace, rows: Iterable[JobRow]) -> Layers:
    """Refuse in one line what the jobs lack here, before they change; returns the settings to go on with."""
    require(place)
    layers = layers_of(place)
    for row in rows:
        check(roles_of(row), layers.given, place)
    preflight(layers.given.boundary, place)
    return layers


def _sound(place: Workplace, jobs: list[str]) -> list[str]:
    """The jobs whose records are sound; the others are reported, and stop none.

    Inputs are signed; but a program that can write to the file could write what follows from one: an approval, a
    message of the human's, less that was spent.
    """
    if not jobs:
        return []
    settings = layers_of(place).given
    with open_bus(place, unredacted=True) as store:
        told = {job: unsound_line(store, place, job, settings) for job in jobs}
    sound = [job for job in jobs if not told[job]]
    lines = [line for line in told.values() if line]
    if not sound:
        raise CommandError(lines[0], FAILED)
    for line in lines:
        print(f"parley: {line}", file=sys.stderr)
    return sound


def unsound_line(store: Store, place: Workplace, job: str, settings: Settings) -> str:
    """Why a job's record is not sound, and what to do; empty where it is sound."""
    line = unsound(store, place, job, whole=settings.durability == "full")
    return f"{line}, or give it up with `parley withdraw {job}`" if line else ""


def finish_ended_jobs(store: HomeStore, place: Workplace, rows: Iterable[JobRow]) -> None:
    """Finish the effects of jobs whose owner crashed right after they ended."""
    ended = [row for row in rows if row.state in TERMINAL and not store.owner_lives(row.job)]
    behind = [row for row in ended if _is_behind(store, place, row.job)]
    if behind:
        with open_bus(place, unredacted=True) as unredacted:  # a forged end does not count
            behind = [row for row in behind if not unsound(unredacted, place, row.job)]
    if not behind:
        return
    with engine_of(place, withdrawing_settings()) as engine:
        for row in behind:
            engine.make_good(row.job)
            if row.state == "DONE":
                put_as_branch(place, row.job)


def _is_behind(store: HomeStore, place: Workplace, job: str) -> bool:
    """Whether the job's state file is behind the bus."""
    last = store.load(job).transaction
    anchor = read_anchor(state_text(place, job))
    return last is not None and (anchor or {}).get("transaction") != last.number


def roles_of(row: JobRow) -> tuple[RoleSnapshot, ...]:
    """The roles of a job, each with its runner."""
    return with_runners(job_settings.read(row, Crew).roles, row.agent, ())


# ---- budgets -------------------------------------------------------------------------------------


def _raised(words: argparse.Namespace) -> dict[str, str]:
    """The budgets to raise, as an input has them."""
    found: dict[str, str] = {}
    for (what, scope), word in budget_words(",".join(words.budget)).items() if words.budget else ():
        budget_amount(what, word.removeprefix("+"), f"--budget {what}={word}")
        found[what if scope == "job" else f"{scope}.{what}"] = word
    if found and words.job is None:
        raise CommandError("name the job whose budget is to be raised: parley resume JOB --budget …")
    return found


def _check_raise(present: Present, raised: dict[str, str], by: str) -> None:
    if why := objection(present.people, by, ResumeInput(raised=raised)):
        raise CommandError(f"{present.job}: {why}")
    purse = Purse.of(job_settings.read(present.row, BudgetPart), present.loaded.molecules.get(SLOT, ""))
    try:
        purse.lift(raised, day_of(time.time()))
    except ValueError as error:
        raise CommandError(f"{present.job}: {error}") from error
    for line in standing(present.store, present.loaded, time.time()):
        limit = purse.limit(line.what, line.scope, day_of(time.time()))
        option = line.what if line.scope == "job" else f"{line.scope}.{line.what}"
        if option in raised and line.what != "parallel" and limit is not None and limit <= line.used:
            raise CommandError(
                f"{present.job} has used {line.used:g} {line.what} already; name more than that: {option}=…"
            )


def _release(store: HomeStore, row: JobRow, raised: dict[str, str], by: str) -> str:
    """End a pause, raise a budget. Where another process owns the job: returns its note."""
    key = f"resume:{RandomIds().new()}"
    given = ResumeInput(raised=raised, day=day_of(time.time())) if raised else ResumeInput()
    if not store.owner_lives(row.job):
        leave(store, row.job, key, given, by=by)
        return ""
    taken = put_and_wait(store, row.job, key, given, by=by)
    if taken is None:
        raise CommandError(
            f"the owner of {row.job} does not answer; the request is kept, and `parley show {row.job}` shows more", 1
        )
    if is_in_vain(taken):
        raise CommandError(f"{row.job}: {note_words(taken)}", FAILED)
    return note_words(taken)


def _nothing(words: argparse.Namespace, paused: list[str]) -> int:
    if words.json:
        print_json({"jobs": []})
    elif paused:
        print(f"nothing was interrupted; these are held, name one to go on: parley resume {' | '.join(paused)}")
    else:
        print("nothing was interrupted; `parley ls` lists the jobs")
    return OK


def _say(words: argparse.Namespace, row: JobRow, text: str) -> None:
    print_json({"id": row.job, "state": row.state, "note": text}) if words.json else print(text)
