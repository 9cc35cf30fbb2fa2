"""`parley inbox`: what needs the human, in all jobs of one home or every home; or one need in full."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from parley.base.json_codec import Unreadable
from parley.bus.rows import BusError, JobRow
from parley.bus.store import HomeStore
from parley.cli import FAILED, OK, home_bus
from parley.cli.common import HOME, HOME_VARIABLE, Workplace, account_name, columns, one_line, place_of, print_json
from parley.cli.looking.json_documents import waiting_of
from parley.cli.looking.need_texts import file_of, lines
from parley.cli.open_bus import RedactedStore, open_bus, pick
from parley.cli.shared_home import job_files, workspaces
from parley.cli.user_homes import known
from parley.engine.values.hold_causes import Wait
from parley.views.job_view import DAMAGE, TERMINAL, Present, is_seen_owned
from parley.views.questions.gate_view import GateExhibit, exhibit
from parley.views.questions.last_reviewed import last_seen
from parley.views.questions.needs import GATE, UNREADABLE, Need, needs
from parley.workspaces import JobWorkspaces


@dataclass(frozen=True, slots=True)
class HomeInbox:
    """What needs the human in one home."""

    place: Workplace
    store: HomeStore | None = None
    rows: Sequence[JobRow] = ()
    found: Sequence[Need] = ()
    problem: str = ""
    waits: Sequence[dict[str, Any]] = ()  # who waits for a provider; the human need not act

    @property
    def trees(self) -> JobWorkspaces:
        """The home's workspaces."""
        return workspaces(self.place.home, self.place.root)

    def exhibit(self, need: Need, *, whole: bool) -> GateExhibit:
        """What a gate is about."""
        if self.store is None:
            return GateExhibit()
        redact: Callable[[str], str] = self.store.secrets.redact if isinstance(self.store, RedactedStore) else str
        try:
            return exhibit(self.store, self.trees, need, redact, whole=whole)
        except DAMAGE:
            return GateExhibit()

    def seen(self, need: Need) -> GateExhibit:
        """Of what a gate is about, only which version the user last saw: that takes no git."""
        try:
            found = last_seen(self.store, need.asked) if self.store and need.asked and need.kind == GATE else None
        except DAMAGE:
            found = None
        return GateExhibit(seen=found)


def run(words: argparse.Namespace) -> int:
    """List what needs the human, grouped by job, the oldest first."""
    here = place_of(words.repo)
    places = [here, *(place for place in known() if place.home != here.home)] if words.everywhere else [here]
    with ExitStack() as stack:
        trays = [_tray(stack, place, far=place != here) for place in places]
        if words.id:
            trays = _named(trays, words.id)
        if words.json:
            documents = [_document(tray, whole=bool(words.id)) for tray in trays]
            print_json({"homes": documents} if words.everywhere else documents[0])
        else:
            _print(trays, whole=bool(words.id))
    return FAILED if any(tray.problem for tray in trays) else OK


def _tray(stack: ExitStack, place: Workplace, *, far: bool) -> HomeInbox:
    """Read a home. One elsewhere that can't be read does not hide the others."""
    try:
        if not home_bus.exists(place.home):
            return HomeInbox(place)
        store = stack.enter_context(open_bus(place))
        rows = store.jobs()
        found = needs(store, job_files(place.home), rows)
        unreadable = {need.job for need in found if need.kind == UNREADABLE}
        waits = [
            {"job": row.job, **wait}
            for row in rows
            if row.state not in TERMINAL and row.job not in unreadable and is_seen_owned(store, row.job)
            for wait in waiting_of(Present(store, row.job))
        ]
    except (BusError, Unreadable) as error:
        if not far:
            raise
        return HomeInbox(place, problem=str(error))
    return HomeInbox(place, store, rows, [_from_here(need, place) for need in found] if far else found, waits=waits)


def _from_here(need: Need, place: Workplace) -> Need:
    """A need of another home, with commands that work from here."""
    plain = place.home == place.root / HOME and HOME_VARIABLE not in os.environ
    before = "" if plain else f"{HOME_VARIABLE}={shlex.quote(str(place.home))} "
    after = f" --repo {shlex.quote(str(place.root))}"
    return replace(need, exits=tuple(replace(way, command=f"{before}{way.command}{after}") for way in need.exits))


def _named(trays: list[HomeInbox], given: str) -> list[HomeInbox]:
    """What an id names: one need, or all of a job's."""
    given = given.removeprefix("escalation:").removeprefix("job:")
    by_id = {need.id: (tray, need) for tray in trays for need in tray.found}
    jobs = {row.job: tray for tray in trays for row in tray.rows if given and row.job.startswith(given)}
    if len(jobs) == 1 and not any(name.startswith(given) and need.job not in jobs for name, (_, need) in by_id.items()):
        ((job, tray),) = jobs.items()
        of_job = [need for need in tray.found if need.job == job]
        return [replace(tray, found=of_job, waits=[wait for wait in tray.waits if wait["job"] == job])]
    tray, need = by_id[pick(given, by_id, "entry of the inbox", "`parley inbox` lists them")]
    return [replace(tray, found=[need], waits=())]


def _document(tray: HomeInbox, *, whole: bool) -> dict[str, Any]:
    documents = []
    for need in tray.found:
        file = str(file_of(tray.trees, need.asked)) if need.asked and need.artifact else None
        shown = tray.exhibit(need, whole=True) if whole else tray.seen(need)
        documents.append({**need.document(), "file": file, **shown.document(whole=whole)})
    questions = [
        {**need.asked.document(), "file": document["file"], "answers": [way.command for way in need.exits]}
        for need, document in zip(tray.found, documents, strict=True)
        if need.asked is not None
    ]
    return {"home": str(tray.place.home), "needs": documents, "questions": questions, "waits": list(tray.waits)}


def _print(trays: list[HomeInbox], *, whole: bool) -> None:
    shown = [tray for tray in trays if tray.found or tray.problem]
    if not shown:
        print("nothing waits for you")
    for wait in (wait for tray in trays for wait in tray.waits):
        told = Wait(wait["until"], wait["agent"], "", wait["reason"]).words(time.time())
        print(one_line(f"job {wait['job']}: {wait['agent']} {told}", columns()))
    for number, tray in enumerate(shown):
        if number:
            print()
        if len(trays) > 1:
            print(f"in {tray.place.root}{f': {tray.problem}' if tray.problem else ''}")
        _print_tray(tray, whole=whole)


def _print_tray(tray: HomeInbox, *, whole: bool) -> None:
    requests, who = {row.job: row.request for row in tray.rows}, account_name()
    order = {job: number for number, job in enumerate(dict.fromkeys(need.job for need in tray.found))}
    for job, group in groupby(sorted(tray.found, key=lambda need: order[need.job]), key=lambda need: need.job):
        if order[job]:
            print()
        print(one_line(f"job {job}: {requests[job]}", columns()))
        for need in group:
            print()
            for line in lines(need, tray.exhibit(need, whole=whole), tray.trees, who, whole=whole):
                print(line)
