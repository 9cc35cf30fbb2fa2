"""`parley withdraw` with several jobs or a filter: asks once, then gives them up one by one, past those that fail."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from parley.base.wording import count
from parley.bus.rows import JobRow
from parley.bus.sqlite.urgent_input import leave_withdrawal
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, acting_person, agrees, can_ask, check_text, one_line, place_of, print_json
from parley.cli.error_lines import explain
from parley.cli.job_filters import FINISHED
from parley.cli.looking.json_documents import chosen_rows, status_of
from parley.cli.open_bus import find_job, open_bus
from parley.cli.running.withdraw import on_any_disk, withdraw
from parley.machine import stop_signals

REQUEST_SHOWN = 60  # characters
IDS_SHOWN = 10  # in one line


class _Result(NamedTuple):
    id: str
    state: str
    note: str
    ok: bool


def run(words: argparse.Namespace) -> int:
    """Withdraw the chosen jobs that have not ended."""
    place = place_of(words.repo)
    if words.thread is not None:
        raise CommandError("--thread names a part of one job: give one JOB and no filter")
    reason = check_text(words.text)
    with open_bus(place) as store:
        rows = chosen_rows(store, words)
        going = [(row, status_of(store, row)) for row in rows if row.state not in FINISHED]
    ended = [_ended(row) for row in rows if row.state in FINISHED] if words.jobs else []
    if going and not _agreed(words, going, reason):
        print("nothing is withdrawn")
        return OK
    by = acting_person(words)
    told = {
        row.job: leave_withdrawal(place.home, row.job, by, reason, FINISHED).taken for row, _ in going
    }  # all of them first: their agents go on until then
    done = list(ended)
    for result in ended:
        _tell(words, result)
    for job, left in told.items():
        done.append(_withdraw(place, words, job, left=left))
        _tell(words, done[-1])
    failed = [result for result in done if not result.ok]
    if words.json:
        print_json({"jobs": [result._asdict() for result in done]})
    elif not done:
        print("nothing to withdraw: no unfinished job matches")
    elif failed:
        print(f"{count(len(failed), 'job')} of {len(done)} could not be withdrawn")
    return FAILED if failed else OK


def _agreed(words: argparse.Namespace, going: list[tuple[JobRow, str]], reason: str) -> bool:
    """Show which jobs, and ask the user unless `--yes` is given."""
    what = count(len(going), "job")
    if words.yes:
        return True
    if words.json or not can_ask():
        ids = ", ".join(row.job for row, _ in going[:IDS_SHOWN])
        ids += f" and {len(going) - IDS_SHOWN} more" if len(going) > IDS_SHOWN else ""
        raise CommandError(f"this would withdraw {what}: {ids}; say so with --yes")
    for row, status in going:
        print(f"  {row.job:<10}{row.state:<9}{status:<12} {one_line(row.request, REQUEST_SHOWN)}")
    because = f" (reason: {one_line(reason, REQUEST_SHOWN)})" if reason else ""
    return agrees(f"withdraw {'it' if len(going) == 1 else f'these {what}'}{because}?")


def _ended(row: JobRow) -> _Result:
    return _Result(row.job, row.state, f"{row.job} has ended: {row.state}", ok=row.state == "WITHDRAWN")


def _withdraw(place: Workplace, words: argparse.Namespace, job: str, *, left: bool) -> _Result:
    one = argparse.Namespace(**{**vars(words), "job": job, "left": left})
    notes: list[tuple[str, str]] = []

    def step() -> int:
        with open_bus(place) as store:
            note, code = withdraw(store, place, find_job(store.jobs(), job), one)
            notes.append((store.load(job).row.state, note))
        return code

    try:
        code = on_any_disk(place, one, step)
    except Exception as error:
        if stop_signals.asked():
            raise
        why = str(error) if isinstance(error, CommandError) else explain(error)[0]
        return _Result(job, "", f"{job}: {why}", ok=False)
    state, note = notes[-1]
    return _Result(job, state, note, ok=code == OK)


def _tell(words: argparse.Namespace, result: _Result) -> None:
    if not words.json:
        print(result.note, flush=True)
