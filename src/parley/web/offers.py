"""What a visitor can do with a job right now: only what makes sense, and only what they may."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from parley.engine.values.people import May
from parley.features.budgets.arithmetic import PARALLEL, BudgetLine, standing
from parley.views.job_view import TERMINAL, Present
from parley.views.repository_context import JobContext
from parley.web.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One button: it opens a dialog that asks, or goes to another page."""

    name: str  # what it is in addresses
    label: str
    key: str
    does: str  # in the list of keys
    look: str = ""  # primary, danger
    page: bool = False  # whether it is a page of its own, and no dialog


TELL = Offer(name="tell", label="Tell the team", key="s", does="tell the team something")
PAUSE = Offer(name="pause", label="Pause", key="z", does="pause the job")
GO_ON = Offer(name="go-on", label="Go on", key="z", does="let the job go on", look="primary")
RAISE = Offer(name="raise", label="Raise the budget", key="b", does="raise a budget")
RAISE_SPENT = replace(RAISE, look="primary")  # the job waits for it
NAME = Offer(name="name", label="People", key="g", does="say who else answers or decides")
WITHDRAW = Offer(name="withdraw", label="Withdraw", key="x", does="give the job up", look="danger")
MERGE = Offer(name="merge", label="Merge", key="m", does="merge the result into the checkout", look="primary")
PULL_REQUEST = Offer(name="pull-request", label="Pull request", key="P", does="push the result, open a pull request")
FOLLOW_UP = Offer(name="follow-up", label="Follow up", key="C", does="start a job from the result", page=True)


LABELS = {one.name: one.label for one in (TELL, PAUSE, GO_ON, RAISE, NAME, WITHDRAW, MERGE, PULL_REQUEST, FOLLOW_UP)}


def raisable(present: Present) -> list[BudgetLine]:
    """The budgets that can be raised: those that hold the job, or else all that it has, spent or not."""
    lines = standing(present.store, present.loaded, time.time())
    return present.spent() or [line for line in lines if line.what != PARALLEL]


def offers(visit: Visit, at: JobContext, present: Present) -> list[Offer]:
    """What the visitor is offered."""
    may = visit.may(at, present)
    if present.row.state in TERMINAL:
        return _after_the_end(visit, at, present, may)
    found = []
    if may >= May.ANSWER:
        found.append(TELL)
        held = present.unpaid
        if not held and (present.paused or not present.owned):
            found.append(GO_ON)
        elif not held:
            found.append(PAUSE)
    if may >= May.DECIDE:
        if present.spent():
            found.insert(0, RAISE_SPENT)
        elif raisable(present):
            found.append(RAISE)
        if at.context.by == present.people.decider:
            found.append(NAME)
        found.append(WITHDRAW)
    return found


def _after_the_end(visit: Visit, at: JobContext, present: Present, may: May) -> list[Offer]:
    found = []
    if may >= May.DECIDE and present.row.state == "DONE" and not at.context.merged(at.id):
        found += [MERGE, PULL_REQUEST]
    if visit.may() >= May.DECIDE and not visit.holder.job:
        found.append(FOLLOW_UP)
    return found
