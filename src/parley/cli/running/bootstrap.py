"""Builds the engine with its stores, runners and workspaces, runs jobs with a view, and reports their end."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from parley.actions.drive import Rest, RestReason, View, drive
from parley.assembly import make_engine
from parley.base.documents.node import DocumentError
from parley.base.redaction import Secrets
from parley.base.text import safe_lines
from parley.bus.attendant import attendant_stopped, attended
from parley.bus.store import HomeStore
from parley.cli import FAILED, OK, WAITING, WITHDRAWN, CommandError, ctrl_c, home_bus
from parley.cli.common import Workplace, make_home, on_terminal, own_settings, print_json, safe, time_text
from parley.cli.looking.json_documents import deliver, job_document
from parley.cli.looking.need_texts import file_of
from parley.cli.machine.boundary_trial import boundary_at
from parley.cli.machine.notify import notices_of
from parley.cli.machine.wider_settings import Widening
from parley.cli.open_bus import RedactedStore, known_secrets
from parley.cli.results.delivered import lines
from parley.cli.running.job_runners import runners
from parley.cli.running.setup_command import SetUpCommand
from parley.cli.shared_home import decisions, engine_parts, job_files, workspaces
from parley.cli.typed_commands import typed
from parley.cli.user_homes import own_folders, remember
from parley.engine.inputs import is_given_up
from parley.engine.loop import Engine
from parley.engine.world import World
from parley.features.budgets.arithmetic import BudgetLine, raising
from parley.features.telemetry.destination import NotSendable, destination
from parley.machine.clock import RandomIds, SystemClock
from parley.machine.disk_reserve import DiskReserve
from parley.machine.faults import FaultLog
from parley.machine.job_files import JobFiles
from parley.machine.process_tags import MARK, gits_mark
from parley.machine.stop_signals import Stopped, stop_like_ctrl_c
from parley.ports.workspaces import WorkspaceError
from parley.runners.local_turns import LocalTurns
from parley.sandbox import Boundary
from parley.settings import load
from parley.settings.schema import Settings
from parley.tui.plain_lines import PlainView, SilentView
from parley.views.history.interventions import ASKED, UNDELIVERED, interventions, named
from parley.views.job_view import Asked, Present, past
from parley.views.questions.needs import exits_of
from parley.workspaces import JobWorkspaces

if TYPE_CHECKING:  # most processes send none, and run turns here
    from parley.features.telemetry.export_thread import TelemetryThread
    from parley.hosts.placed_turns import PlacedTurns

GOING_TRIES, GOING_SECONDS = 10, 0.05
SHOWN = 4  # jobs that are named
LEFT_BEHIND = 12  # pieces of work that an ended job left out, the newest, and as many interventions
_CUT_SHORT = (RestReason.UNCONFINED, RestReason.BROKEN)  # the job was interrupted, and its record does not say why
STATE_CODES = {"DONE": OK, "FAILURE": FAILED, "WITHDRAWN": WITHDRAWN}


@contextmanager
def engine_of(place: Workplace, settings: Settings) -> Iterator[Engine]:
    """An engine at a place. When it is closed, no process of a turn is left."""
    reserve = DiskReserve(place.home)
    reserve.ease()
    make_home(place)
    reserve.keep()
    remember(place)
    with ExitStack() as held:  # everything opened is closed, even where the next step fails
        held.enter_context(stop_like_ctrl_c())
        bus = home_bus.open_store(place.home, durability=settings.durability, relieve=reserve.relieve)
        held.callback(bus.close)
        last = held.enter_context(ExitStack())  # closed when no process of a turn is left
        memory = held.enter_context(closing(decisions(place.home)))
        boundary = held.enter_context(closing(boundary_at(place, settings.boundary)))
        turns = held.enter_context(closing(_turns(place, settings, boundary, bus)))
        bus.call_on_notice(turns.wake)
        secrets = known_secrets(place)
        store, files, trees = engine_parts(
            place,
            bus,
            settings,
            reserve.relieve,
            last,
            title=lambda job: secrets.redact(bus.load(job).row.request),  # it names a branch of the user's
            hand_over=boundary.hand_over,
            set_up=SetUpCommand(boundary, settings, place.home),
            mark=lambda job: {MARK: gits_mark(job)},
            given_up=partial(is_given_up, bus),
            private=own_folders(),
        )
        notices, faults = notices_of(place, settings), FaultLog(files.home(""))
        telemetry = _telemetry(place, settings, files, faults, secrets)
        if telemetry is not None:
            held.enter_context(closing(telemetry))
        try:
            world = World(
                store=store,
                turns=turns,
                workspace=trees,
                files=files,
                clock=SystemClock(),
                ids=RandomIds(),
                secrets=secrets,
                decisions=memory,
                notices=notices,
                telemetry=telemetry,
                faults=faults,
            )
            yield make_engine(world)
        except Exception as error:
            _refuse_gone(store, patient=isinstance(error, OSError | WorkspaceError))
            raise


def _telemetry(
    place: Workplace, settings: Settings, files: JobFiles, faults: FaultLog, secrets: Secrets
) -> TelemetryThread | None:
    """What tells operators of jobs, where the user asks for it. No job stops for what keeps it from being sent."""
    try:
        to = destination(settings.telemetry, os.environ)
        if to is None:
            return None
        # imported only where it is on, and OpenTelemetry itself only by its thread
        import_module("parley.features.telemetry.collector").refuse_missing()
    except NotSendable as error:
        print(f"parley: {error}; until then none is sent", file=sys.stderr)
        return None
    thread = import_module("parley.features.telemetry.export_thread")
    found: TelemetryThread = thread.telemetry_thread(
        to,
        lambda: home_bus.open_store(place.home, durability=settings.durability),
        files.home(""),
        faults,
        secrets.redact,
    )
    return found


def withdrawing_settings() -> Settings:
    """What a job is given up with: no settings but those that say where its turns run. It must always work."""
    try:
        return Settings(hosts=load.read_own(own_settings(), notify=False).hosts)
    except DocumentError:
        return Settings()


def _turns(place: Workplace, settings: Settings, boundary: Boundary, store: HomeStore) -> LocalTurns | PlacedTurns:
    """What carries turns out: this machine, or other hosts where the bus is on a server and Temporal is named."""
    key = home_bus.on_server(place.home) if settings.hosts.temporal else None
    if key is None:
        return LocalTurns(runners(place, settings, boundary), settings.parallel)
    address = home_bus.address_of(key.server)
    try:
        make = import_module("parley.cli.running.placed").placed_turns  # few homes need what it imports
    except ModuleNotFoundError as missing:
        raise CommandError(
            f"turns run on other hosts ([hosts] temporal), and {missing.name} is missing: install Parley with its "
            "extra `temporal`"
        ) from missing
    report = partial(print, "parley:", file=sys.stderr)
    placed: PlacedTurns = make(place, settings, boundary, key, address, lambda line: report(safe(line)))
    placed.forget_all_but(store.unfinished())
    return placed


def _refuse_gone(store: HomeStore, *, patient: bool) -> None:
    """Refuse where the home was deleted: that explains other failures. `patient`: it may be being deleted just now."""
    for _ in range(GOING_TRIES if patient else 1):
        store.check()
        time.sleep(GOING_SECONDS)


def run_jobs(
    engine: Engine,
    place: Workplace,
    jobs: Sequence[str],
    words: argparse.Namespace,
    *,
    stay: bool = False,
    leave: bool = False,
    beside: View | None = None,
    widened: Sequence[Widening] = (),
) -> int:
    """Run jobs with the fitting view; returns the exit code. `beside` is called along with the view.

    `leave`: leave a job that another process owns to the engine of `parley serve`, where that runs.
    """
    ctrl_c.set_interrupted_hint(lambda: under_way(place, jobs))
    looking = RedactedStore(place)  # a store of its own: the engine sees its inputs as another process's
    paged = getattr(words, "page", False)  # the demo on the page: the terminal says where to look
    screen = not words.json and not stay and not paged and len(jobs) == 1 and on_terminal()
    try:
        if screen:
            # imported only when needed: the other views do not need rich
            context = import_module("parley.cli.looking.repository_contexts").context_of(place)
            hands_off = "the demo answers by itself; Ctrl-C ends it" if beside is not None else ""
            with closing(context), import_module("parley.tui").RunView(context, jobs[0], hands_off=hands_off) as view:
                ends = drive(engine, jobs, CompositeView(view, beside), stay=True)
        else:
            quiet = SilentView() if words.json else PlainView(looking, jobs, afresh=words.command == "run")
            both, taken = CompositeView(quiet, beside), partial(_attended, place) if leave else _never
            ends = drive(engine, jobs, both, stay=stay or beside is not None, attended=taken)
        if any(rest.how in _CUT_SHORT for rest in ends.values()):
            _refuse_gone(looking, patient=True)
        return report(looking, place, ends, words, widened)
    except KeyboardInterrupt as stop:
        print(f"parley: {ctrl_c.interrupted_line()}", file=sys.stderr)
        return stop.code if isinstance(stop, Stopped) else ctrl_c.CODE
    finally:
        looking.close()


def _attended(place: Workplace) -> bool:
    return attended(place.home) and not attendant_stopped(place.home)


def _never() -> bool:
    return False


class CompositeView:
    """Two views: forwards `show()` to each."""

    def __init__(self, first: View, second: View | None) -> None:
        self._views = [first, second] if second is not None else [first]

    def show(self) -> None:
        """Show both."""
        for view in self._views:
            view.show()


def under_way(place: Workplace, jobs: Sequence[str]) -> str:
    """How to go on with jobs that this process leaves; jobs that never began are skipped."""
    states = {seen.job: seen.state for seen in home_bus.glance(place.home) if seen.job in jobs}
    live = [job for job, state in states.items() if state not in STATE_CODES]
    if not live:
        ended = len(jobs) == 1 and states
        return f"{jobs[0]} has ended: {typed(f'parley show {jobs[0]}', place)}" if ended else ""
    if len(live) == 1:
        return f"go on with: {resume_command(live[0], place)}"
    some = f"{', '.join(live[:SHOWN])}{', …' if len(live) > SHOWN else ''}"
    return f"go on with {some}: {typed('parley resume', place)}"


def resume_command(job: str, place: Workplace) -> str:
    """How to go on with a job."""
    return typed(f"parley resume {job}", place)


# ---- how it ended --------------------------------------------------------------------------------


def report(
    store: HomeStore,
    place: Workplace,
    ends: dict[str, Rest],
    words: argparse.Namespace,
    widened: Sequence[Widening] = (),
) -> int:
    """Print the jobs' states; returns the exit code of the worst."""
    presents = [Present(store, job) for job in ends]
    files = job_files(place.home)
    for present in presents:
        if present.row.state == "DONE":
            put_as_branch(place, present.job)
    if words.json:
        in_force = {"widenings": [one._asdict() for one in widened]}
        documents = [
            job_document(store, present, files, deliver(store, present, files, place.root)) | in_force
            for present in presents
        ]
        print_json(documents[0] if len(documents) == 1 else {"jobs": documents})
    else:
        for present in presents:
            _tell(store, present, ends[present.job].how, place)
    for job, rest in ends.items():
        if rest.how in _CUT_SHORT:
            print(
                f"parley: {job} is interrupted: {rest.why}; then go on with: {resume_command(job, place)}",
                file=sys.stderr,
            )
    codes = [_code(present.row.state, ends[present.job].how) for present in presents]
    return max(codes, key=(OK, WITHDRAWN, WAITING, FAILED).index)


def attended_line(job: str) -> str:
    """That no process of its own is needed for a job."""
    return f"the engine of `parley serve` works on {job}"


def _code(state: str, how: RestReason) -> int:
    if how is RestReason.ATTENDED:
        return OK
    return FAILED if how in _CUT_SHORT else STATE_CODES.get(state, WAITING)


def _tell(store: HomeStore, present: Present, how: RestReason, place: Workplace) -> None:
    job, row = present.job, present.row
    if how is RestReason.ATTENDED:
        print(attended_line(job))
    elif how is RestReason.PAUSED:
        print(f"{job} is paused; go on with: {resume_command(job, place)}")
    elif how in _CUT_SHORT:
        return  # it is reported as an error
    elif how is RestReason.WAITING:
        for asked in present.questions():
            print_question(asked, place)
        print_spent(present, place)
        if not present.unpaid:
            print(f"then go on with: {resume_command(job, place)}")
    else:
        reason = present.record.history[-1].reason if present.record and present.record.history else ""
        print(f"{job} {row.state}{f': {safe(reason)}' if reason else ''}")
        if (found := deliver(store, present, job_files(place.home), place.root)) is not None:
            print(f"the result: {result_of(place, job)}")
            for line in lines(found, place):
                print(line)
        for line in left_behind(store, job, typed(f"parley show {job}", place)):
            print(safe(line))


def left_behind(store: HomeStore, job: str, all_of_it: str) -> list[str]:
    """What an ended job lacks: work that was left out, and interventions that no agent read."""
    out = [f"left out: {one.work.words()}" for one in past(store, job).unfinished]
    unheard = [one for one in interventions(store, job) if one.status in (ASKED, UNDELIVERED)]
    said = [f"{named(one)}: {one.words(time_text)}" for one in unheard]
    shown = [*out[-LEFT_BEHIND:], *said[-LEFT_BEHIND:]]
    more = len(out) + len(said) - len(shown)
    return [*shown, f"and {more} more; see all of it with: {all_of_it}"] if more else shown


def print_spent(present: Present, place: Workplace) -> None:
    """The budgets that hold a job, and what can be done about it."""
    if spent := present.spent():
        print(spent_words(present.job, spent, place))


def spent_words(job: str, spent: Sequence[BudgetLine], place: Workplace) -> str:
    """The line about a job that is held by budgets, with the commands to go on."""
    more, giving_up = (typed(command, place) for command in (raising(job, spent[0]), f"parley withdraw {job}"))
    said = "; ".join(line.words() for line in spent)
    return f"{job} is held, its budget is spent: {said}; raise it: {more}, or give the job up: {giving_up}"


def put_as_branch(place: Workplace, job: str) -> None:
    """Put a job's result into the user's repository as a branch. It can be repeated, and done later."""
    try:
        workspaces(place.home, place.root, redact=known_secrets(place).redact).deliver(job)
    except WorkspaceError as error:
        print(f"parley: {job} is done, but its branch could not be made: {error}", file=sys.stderr)


def result_of(place: Workplace, job: str) -> str:
    """Where a job's work lies."""
    return str(JobWorkspaces(place.home).path(job, f"job:{job}"))


def print_question(asked: Asked, place: Workplace) -> None:
    """A question, and how to answer it."""
    print(f"{asked.asker} asks you ({asked.state}, question {asked.id}):")
    for line in safe_lines(asked.body).splitlines():
        print(f"  > {line}".rstrip())  # an agent's text must not look like a command
    if asked.artifact:
        print(f"  file: {file_of(JobWorkspaces(place.home), asked)}")
    if asked.stat:
        print(f"  {asked.stat.words()}")
        for line in asked.stat.warning_lines():
            print(f"  {line}")
        print(f"  see the change: parley diff {asked.job}")
    for way in exits_of(asked):
        print(f"  {typed(way.command, place)}")
    print(f"  (--withdraw gives up {asked.stake})")
