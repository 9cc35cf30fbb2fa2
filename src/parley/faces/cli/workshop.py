"""What it takes to run jobs here: the engine with its adapters, a view, and the words at the end."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib import import_module

from parley.adapters.decisions import SqliteDecisions
from parley.adapters.decisions import place as memory_of
from parley.adapters.faults import FaultLog
from parley.adapters.files import JobFiles
from parley.adapters.glance import glance
from parley.adapters.marks import MARK, gits_mark
from parley.adapters.reserve import Reserve
from parley.adapters.sqlite import SqliteStore
from parley.adapters.system import RandomIds, SystemClock
from parley.adapters.turns import LocalTurns
from parley.adapters.worktrees import Worktrees
from parley.config import Settings
from parley.engine.attention import exits_of, of_question
from parley.engine.budgets import Line, remedies
from parley.engine.engine import Engine
from parley.engine.inputs import is_given_up
from parley.engine.interventions import ASKED, UNDELIVERED, interventions, named
from parley.engine.projections import Asked, Present, past
from parley.engine.session import Pause, Rest, View, drive
from parley.engine.world import World
from parley.faces import interrupt
from parley.faces.cli import FAILED, OK, WAITING, WITHDRAWN
from parley.faces.cli.bus import ShownStore, known_secrets
from parley.faces.cli.delivered import lines
from parley.faces.cli.desk import Place, clock, make_home, me, print_json, safe
from parley.faces.cli.documents import deliver, job_document
from parley.faces.cli.homes import own_folders, remember
from parley.faces.cli.in_force import Widening
from parley.faces.cli.need import diff_text, file_of, put_forward
from parley.faces.cli.notices import notices_of
from parley.faces.cli.preparing import Preparing
from parley.faces.cli.runners import runners
from parley.faces.cli.stopping import Stopped, tidying
from parley.faces.cli.trial import boundary_at
from parley.faces.cli.typed import typed
from parley.faces.plain import PlainView, SilentView
from parley.ports import WorkspaceError
from parley.text import safe_lines

GOING_TRIES, GOING_SECONDS = 10, 0.05
SHOWN = 4  # jobs that are named
LEFT_BEHIND = 12  # pieces of work that an ended job left out, the newest, and as many interventions
_CUT_SHORT = (Pause.UNCONFINED, Pause.BROKEN)  # the job is interrupted, and its record does not say why
STATE_CODES = {"DONE": OK, "FAILURE": FAILED, "WITHDRAWN": WITHDRAWN}


@contextmanager
def engine_of(place: Place, settings: Settings) -> Iterator[Engine]:
    """An engine at a place. When it is let go of, no process of a turn is left."""
    reserve = Reserve(place.home)
    reserve.ease()
    make_home(place)
    reserve.keep()
    remember(place)
    with ExitStack() as held:  # what was opened is closed, also where the next can't be
        held.enter_context(tidying())
        bus = SqliteStore(place.home, durability=settings.durability, relieve=reserve.relieve)
        store = held.enter_context(closing(bus))
        memory = held.enter_context(closing(SqliteDecisions(memory_of(os.environ))))
        boundary = held.enter_context(closing(boundary_at(place, settings.boundary)))
        turns = held.enter_context(closing(LocalTurns(runners(place, settings, boundary), settings.parallel)))
        files, secrets = JobFiles(place.home, reserve.relieve), known_secrets(place)
        trees = Worktrees(
            place.home,
            place.root,
            settings.workspace,
            title=lambda job: secrets.redact(store.load(job).row.request),  # it becomes a branch of the user's
            hand_over=boundary.hand_over,
            set_up=Preparing(boundary, settings, place.home),
            mark=lambda job: {MARK: gits_mark(job)},
            given_up=partial(is_given_up, store),
            private=own_folders(),
        )
        notices = notices_of(place, settings)
        try:
            faults = FaultLog(files.home(""))
            world = World(store, turns, trees, files, SystemClock(), RandomIds(), secrets, memory, notices, faults)
            yield Engine(world)
        except Exception as error:
            _refuse_gone(store, patient=isinstance(error, OSError | WorkspaceError))
            raise


def _refuse_gone(store: SqliteStore, *, patient: bool) -> None:
    """Where the home is gone, that is the reason for whatever else has failed. `patient`: it may be going just now."""
    for _ in range(GOING_TRIES if patient else 1):
        store.check()
        time.sleep(GOING_SECONDS)


def conduct(
    engine: Engine,
    place: Place,
    jobs: Sequence[str],
    words: argparse.Namespace,
    *,
    stay: bool = False,
    beside: View | None = None,
    widened: Sequence[Widening] = (),
) -> int:
    """See jobs through, with the view that fits; the exit code. `beside` is called along with the view."""
    interrupt.tell(lambda: under_way(place, jobs))
    looking = ShownStore(place)  # of its own: what it writes is seen by the engine as another process's
    screen = not words.json and not stay and len(jobs) == 1 and on_terminal()
    try:
        if screen:
            paths, redact = Worktrees(place.home, place.root), looking.secrets.redact
            files = JobFiles(place.home)
            # a face of its own, imported when it is asked for: the others do without what it draws with
            face = import_module("parley.faces.terminal")
            with face.TerminalView(
                looking,
                files,
                jobs[0],
                me(),
                lambda asked: file_of(paths, asked),
                lambda asked: face.Exhibit(*put_forward(looking, paths, of_question(asked), redact)),
                lambda: diff_text(looking, paths, jobs[0], redact),
                hands_off=beside is not None,
            ) as view:
                ends = drive(engine, jobs, Both(view, beside), stay=True)
        else:
            quiet = SilentView() if words.json else PlainView(looking, jobs, afresh=words.command == "run")
            ends = drive(engine, jobs, Both(quiet, beside), stay=stay or beside is not None)
        if any(rest.how in _CUT_SHORT for rest in ends.values()):
            _refuse_gone(looking, patient=True)
        return report(looking, place, ends, words, widened)
    except KeyboardInterrupt as stop:
        print(f"parley: {interrupt.told()}", file=sys.stderr)
        return stop.code if isinstance(stop, Stopped) else interrupt.CODE
    finally:
        looking.close()


class Both:
    """Two that look on."""

    def __init__(self, first: View, second: View | None) -> None:
        self._views = [first, second] if second is not None else [first]

    def show(self) -> None:
        """Let each look."""
        for view in self._views:
            view.show()


def under_way(place: Place, jobs: Sequence[str]) -> str:
    """How to go on with jobs that this process leaves. A job that is not on the bus has not begun."""
    states = {seen.job: seen.state for seen in glance(place.home) if seen.job in jobs}
    live = [job for job, state in states.items() if state not in STATE_CODES]
    if not live:
        ended = len(jobs) == 1 and states
        return f"{jobs[0]} has ended: {typed(f'parley show {jobs[0]}', place)}" if ended else ""
    if len(live) == 1:
        return f"go on with: {again(live[0], place)}"
    some = f"{', '.join(live[:SHOWN])}{', …' if len(live) > SHOWN else ''}"
    return f"go on with {some}: {typed('parley resume', place)}"


def again(job: str, place: Place) -> str:
    """How to go on with a job."""
    return typed(f"parley resume {job}", place)


def on_terminal() -> bool:
    """Whether somebody can be asked right here."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


# ---- how it ended --------------------------------------------------------------------------------


def report(
    store: SqliteStore,
    place: Place,
    ends: dict[str, Rest],
    words: argparse.Namespace,
    widened: Sequence[Widening] = (),
) -> int:
    """Say how the jobs stand; the exit code of the worst."""
    presents = [Present(store, job) for job in ends]
    files = JobFiles(place.home)
    for present in presents:
        if present.row.state == "DONE":
            put_as_branch(place, present.job)
    if words.json:
        in_force = {"widenings": [one._asdict() for one in widened]}
        documents = [job_document(store, present, files, place.root) | in_force for present in presents]
        print_json(documents[0] if len(documents) == 1 else {"jobs": documents})
    else:
        for present in presents:
            _tell(store, present, ends[present.job].how, place)
    for job, rest in ends.items():
        if rest.how in _CUT_SHORT:
            print(f"parley: {job} is interrupted: {rest.why}; then go on with: {again(job, place)}", file=sys.stderr)
    codes = [_code(present.row.state, ends[present.job].how) for present in presents]
    return max(codes, key=(OK, WITHDRAWN, WAITING, FAILED).index)


def _code(state: str, how: Pause) -> int:
    return FAILED if how in _CUT_SHORT else STATE_CODES.get(state, WAITING)


def _tell(store: SqliteStore, present: Present, how: Pause, place: Place) -> None:
    job, row = present.job, present.row
    if how is Pause.PAUSED:
        print(f"{job} is paused; go on with: {again(job, place)}")
    elif how in _CUT_SHORT:
        return  # it is told as an error
    elif how is Pause.WAITING:
        for asked in present.questions():
            print_question(asked, place)
        print_spent(present, place)
        if not present.unpaid:
            print(f"then go on with: {again(job, place)}")
    else:
        reason = present.record.history[-1].reason if present.record and present.record.history else ""
        print(f"{job} {row.state}{f': {safe(reason)}' if reason else ''}")
        if row.state == "DONE":
            print(f"the result: {result_of(place, job)}")
            for line in lines(deliver(store, present, JobFiles(place.home), place.root) or {}, place):
                print(line)
        for line in left_behind(store, job, typed(f"parley show {job}", place)):
            print(safe(line))


def left_behind(store: SqliteStore, job: str, all_of_it: str) -> list[str]:
    """What an ended job does not have in it: work that was left out, and words of people that no agent has taken up."""
    out = [f"left out: {one['text']}" for one in past(store, job).unfinished]
    unheard = [one for one in interventions(store, job) if one.status in (ASKED, UNDELIVERED)]
    said = [f"{named(one)}: {one.words(clock)}" for one in unheard]
    shown = [*out[-LEFT_BEHIND:], *said[-LEFT_BEHIND:]]
    more = len(out) + len(said) - len(shown)
    return [*shown, f"and {more} more; see all of it with: {all_of_it}"] if more else shown


def print_spent(present: Present, place: Place) -> None:
    """The budgets that hold a job, and what can be done about it."""
    if spent := present.spent():
        print(spent_words(present.job, spent, place))


def spent_words(job: str, spent: Sequence[Line], place: Place) -> str:
    """That a job is held, by which budgets, and the command that goes on with it."""
    raising, giving_up = (typed(command, place) for command in remedies(job, spent[0]))
    said = "; ".join(line.words() for line in spent)
    return f"{job} is held, its budget is spent: {said}; raise it: {raising}, or give the job up: {giving_up}"


def put_as_branch(place: Place, job: str) -> None:
    """Put a job's result into the user's repository as a branch. It can be done again, and later."""
    try:
        Worktrees(place.home, place.root).deliver(job)
    except WorkspaceError as error:
        print(f"parley: {job} is done, but is no branch yet: {error}", file=sys.stderr)


def result_of(place: Place, job: str) -> str:
    """Where a job's work lies."""
    return str(Worktrees(place.home).path(job, f"job:{job}"))


def print_question(asked: Asked, place: Place) -> None:
    """A question, and how to answer it."""
    print(f"{asked.asker} asks you ({asked.state}, question {asked.id}):")
    for line in safe_lines(asked.body).splitlines():
        print(f"  > {line}".rstrip())  # what agents say can't pass for a command
    if asked.artifact:
        print(f"  file: {file_of(Worktrees(place.home), asked)}")
    if asked.stat:
        print(f"  {asked.stat.words()}")
        for line in asked.stat.warning_lines():
            print(f"  {line}")
        print(f"  see the change: parley diff {asked.job}")
    for way in exits_of(asked):
        print(f"  {typed(way.command, place)}")
    print(f"  (--withdraw gives up {asked.stake})")
