"""`parley bus adopt`: adopts a home of the user's own that was moved, copied or restored."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from parley.audit.audit import AuditReport
from parley.base.wording import count
from parley.bus.rows import BusError, InputRow, JobRow
from parley.bus.sqlite import safe_open
from parley.bus.sqlite.quick_read import is_owned
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli import BAD_USE, FAILED, OK, CommandError, home_bus
from parley.cli.common import Workplace, agrees, can_ask, hide_home_from_git, one_line, place_of, print_json, time_text
from parley.cli.looking.audit_command import audited
from parley.cli.user_homes import remember
from parley.engine.values import human_inputs, job_settings
from parley.engine.values.human_inputs import AnswerInput, InterveneInput, NotMergedInput, WithdrawInput
from parley.engine.values.job_settings import STAND_INS, StandIns
from parley.views.job_view import TERMINAL
from parley.workspaces.home.adopted_home import check

_SHOWN = 8  # jobs that are named


def run(words: argparse.Namespace) -> int:
    """Check what is there, show it, ask, and make it this user's here."""
    place = place_of(words.repo)
    if not SqliteStore.exists(place.home):
        raise CommandError(f"there is no bus in {place.home} to adopt; start a job with `parley run`")
    if home_bus.on_server(place.home) is not None:
        return _told(words, place, [], [], "it is yours already, on a server, and nothing was changed")
    if _is_ours(place):
        return _told(words, place, [], [], "it is yours already, and nothing was changed")
    with closing(SqliteStore(place.home, stranger=True)) as store:
        rows = store.jobs()
        _refuse_busy(store, place, rows)
        check(place.home)
        reports = [audited(store, place, row.job) for row in rows]
        _refuse_unsound(reports)
        dropped = store.dropped()
        told = _told_of(store, rows, reports, dropped)
        if not words.json:
            print(f"{place.home}")
            for line in told:
                print(f"  {one_line(line, 200)}")
        if not words.yes and not (not words.json and can_ask()):
            raise CommandError("say that it is yours with `parley bus adopt --yes`; nothing was changed", BAD_USE)
        if not words.yes and not agrees("Is this yours, and shall its jobs go on here?"):
            raise CommandError("nothing was changed", FAILED)
        store.adopt()
    hide_home_from_git(place.home)
    remember(place)
    return _told(words, place, rows, dropped, "it is yours now, with a key of its own")


def _is_ours(place: Workplace) -> bool:
    try:
        if safe_open.admit(place.home) is None:
            return False
        SqliteStore(place.home).close()
    except (safe_open.KeyRefused, BusError):
        return False
    return True


def _refuse_busy(store: SqliteStore, place: Workplace, rows: Sequence[JobRow]) -> None:
    """Refuse while a process has the bus, or the original of a copy, open: it would go on with the old key."""
    homes = {place.home}
    if store.key is not None and os.path.lexists(Path(store.key.home) / store.path.name):
        homes.add(Path(store.key.home))
    for home in homes:
        for row in rows:
            if is_owned(home, row.job):
                remedy = "pause it there and end that process, then try again"
                raise CommandError(f"job {row.job} is at work in {home}; {remedy}", FAILED)


def _refuse_unsound(reports: Sequence[AuditReport]) -> None:
    unsound = [report for report in reports if report.findings]
    if unsound:
        first = unsound[0]
        more = f", and {count(len(unsound) - 1, 'other job')}" if len(unsound) > 1 else ""
        raise CommandError(
            f"the record of job {first.job}{more} does not hold ({one_line(str(first.findings[0]), 200)}); "
            "adopt a copy that is sound, or name another home with PARLEY_HOME",
            FAILED,
        )


def _told_of(
    store: SqliteStore, rows: Sequence[JobRow], reports: Sequence[AuditReport], dropped: Sequence[InputRow]
) -> list[str]:
    """Describe the bus, so that the user can recognize it."""
    some = ", ".join(row.job for row in rows[:_SHOWN]) + (", …" if len(rows) > _SHOWN else "")
    lines = [f"{count(len(rows), 'job')}{f': {some}' if some else ''}; each record is sound"]
    if rows:
        people = sorted({row.decider for row in rows})
        lines.append(
            f"started by {', '.join(people[:_SHOWN])}, last changed {time_text(max(row.updated for row in rows))}"
        )
        lines.append(f"only {' and '.join(people[:_SHOWN])} can answer for them, here too")
    letting = {row.job: job_settings.read(row, StandIns).names() for row in rows if row.state not in TERMINAL}
    for name in STAND_INS:
        let = [job for job, names in letting.items() if name in names]
        if let:
            lines.append(f"{name} stands in for you at the gates of {', '.join(let[:_SHOWN])}")
    if store.key is not None:
        lines.append(f"this machine made it, in {store.key.home}: its inputs are signed with the key that is here")
    else:
        unknown = sum(report.unknown for report in reports)
        lines.append(
            f"this machine does not have its key: the authors of its {count(unknown, 'input')} can't be verified"
        )
    if dropped:
        lines.append(f"{count(len(dropped), 'input')} that no job took yet will be deleted; ask again")
        lines += [f"  {_input(each)}" for each in dropped[:_SHOWN]]
        lines += [f"  and {len(dropped) - _SHOWN} more"] if len(dropped) > _SHOWN else []
    odd = [report.job for report in reports if report.files is not None and report.files.odd]
    if odd:
        lines.append(f"files below orchestration/ differ from the record: {', '.join(odd[:_SHOWN])}")
    return lines


def _input(row: InputRow) -> str:
    """An input that will be deleted, in a few words, so that its user can leave it again."""
    match human_inputs.read_or_none(row):
        case AnswerInput(question=question, ruling=ruling, choice=choice, text=text):
            parts = [question, ruling, choice, text]
        case InterveneInput(text=text):
            parts = [text]
        case WithdrawInput(reason=reason) | NotMergedInput(reason=reason):
            parts = [reason]
        case _:
            parts = []
    said = " ".join(part for part in parts if part)
    return f"{row.kind} of {row.by} for {row.job}{f': {said}' if said else ''}"


def _told(
    words: argparse.Namespace, place: Workplace, rows: Sequence[JobRow], dropped: Sequence[InputRow], what: str
) -> int:
    if words.json:
        gone = [{"job": each.job, "kind": each.kind, "by": each.by, "time": each.time} for each in dropped]
        document: dict[str, Any] = {
            "home": str(place.home),
            "jobs": [row.job for row in rows],
            "what": what,
            "deleted_inputs": gone,
        }
        print_json(document)
    else:
        print(f"{place.home}: {what}")
    return OK
