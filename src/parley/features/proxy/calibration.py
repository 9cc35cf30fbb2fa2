"""Whether the proxy answers for the human or asks, as the record of what this human said allows.

Pure: the same record, case and weights give the same decision. One pass over the record, oldest first.
docs/calibration.md gives the reasons, and `make bench` tries the rule on simulated humans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from parley.base.wording import count

APPROVE, WITHDRAW = "approve", "withdraw"
REFUSALS = frozenset({"revise", "backtrack intent", "backtrack plan", WITHDRAW})
VERDICTS = REFUSALS | {APPROVE, ""}

# Agreements in a row before an answer is trusted; an approval needs `false_approval` times as many.
RUN = 3.0
# Agreements in a row after which a disagreement is a surprise, for all weights.
PROVEN, PROVEN_APPROVAL = 3.0, 9.0
# Agreements in other states and kinds count half, and stand for two thirds of such a run at most.
ELSEWHERE, ELSEWHERE_MOST = 1 / 2, 2 / 3
# Agreements of any kind that it takes after a surprise, or at the beginning, before anything is trusted.
CALM = 8.0
# What a surprise leaves of the foreseen refusals before it: the human may have changed their mind.
KEPT = 0.5
# Of what the human would refuse, the share that may slip through as approved, where a false approval weighs 1.
SLIP = 0.065
# What stands for evidence about that share before there is any: as much for as against.
PRIOR = 0.35
# Who refuses nothing shows at least that refusals are rare: six approvals in a row stand for one foreseen.
RARE = 1 / 6
# So many refusals in a state and kind are believed as much as those of all states and kinds.
OWN = 5.0
# Approvals are checked `false_approval` times as often as the set share says, and by so much of it more.
EXTRA = 0.75
# After so many agreements without a surprise, the share that is checked begins to fall towards the set one.
LONG = 80.0
# Nothing counts as seen more seldom than this, so that no single decision counts for many.
LEAST_SEEN = 0.05
# Confidences no further apart than this are the same.
NEAR = 0.05
DAY = 86_400.0
# From this share on "one in" says nothing.
MOST = 2 / 3

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PastDecision:
    """One earlier decision of this human; a record has the oldest first."""

    time: float  # seconds since the epoch
    state: str
    kind: str
    predicted: str  # the proxy's verdict before the human spoke
    confidence: float  # the proxy's own, of that prediction
    said: str  # the human's verdict
    agreed: bool  # whether the human's word was what was predicted
    likeness: float = 0.0  # 0 to 1: how like the case it is


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be decided now."""

    time: float
    state: str
    kind: str
    predicted: str
    confidence: float
    draw: float  # 0 to 1, by chance: whether a confident answer is checked


@dataclass(frozen=True, slots=True)
class Weights:
    """How much the human minds; `[proxy]` in parley.toml."""

    false_approval: float = 3.0  # how much worse than a needless question
    checked: float = 0.1  # the least share of confident answers that the human is asked about all the same
    fresh_days: float = 90.0  # evidence older than this counts less and less


@dataclass(frozen=True, slots=True)
class Decision:
    """To answer, or else to ask."""

    answer: bool
    agreement: float  # predicted, 0 to 1
    evidence: float  # how many decisions, as far as they count
    why: str  # one line for people
    checked: bool = False  # it could have been answered, and is asked to check the record


def decide(past: Sequence[PastDecision], case: Case, weights: Weights) -> Decision:
    """Answer only what the record of this human allows; in doubt, ask."""
    fault = _fault(case, weights)
    if fault:
        return Decision(False, 0.0, 0.0, fault)
    record = _read(past, case, weights)
    evidence = record.agreed + record.disagreed
    agreement = record.agreed / (evidence + 1.0)
    doubt = _doubt(record, agreement)
    if not doubt:
        checked, risky = record.checked(case.predicted), record.risky()
        if case.draw >= max(checked, risky):
            return Decision(True, agreement, evidence, f"agreed in {record.agreed:.0f} of {evidence:.0f} like it")
        if case.draw < checked:
            return Decision(False, agreement, evidence, _drawn(checked), checked=True)
        doubt = _unproven(record)
    return Decision(False, agreement, evidence, doubt)


def _fault(case: Case, weights: Weights) -> str:
    """What makes a case impossible to judge, if anything does."""
    if case.predicted not in VERDICTS:
        return "the verdict is none that is known"
    if not 0.0 <= case.confidence <= 1.0:
        return "the confidence is not between 0 and 1"
    if not (math.isfinite(case.time) and 0.0 <= case.draw <= 1.0):
        return "the time or the draw is no usable number"
    if not (weights.false_approval >= 0.0 and weights.checked >= 0.0 and weights.fresh_days > 0.0):
        return "the weights are no usable numbers"
    return ""


def _doubt(record: _Record, agreement: float) -> str:
    """Why the case must be asked regardless of the draw; empty where it need not."""
    if record.case.predicted == WITHDRAW:
        return "only the human withdraws"
    if record.newest == math.inf:
        return "too little evidence: no decision like it"
    if record.newest > record.fresh:
        return f"stale evidence: the last decision like it is {count(round(record.newest / DAY), 'day')} old"
    run = record.runs.get(record.key, 0.0)
    if record.calm < CALM and record.surprised:
        return f"surprised lately: {count(round(record.calm), 'agreement')} since"
    if record.calm < CALM or not record.lasts(record.key, record.needed):
        if record.disagreed and run < record.agreed:
            return f"disagreed lately: {count(round(run), 'agreement')} since"
        return f"too little evidence: {count(round(record.agreed), 'decision')}"
    if record.weights.false_approval * (1.0 - agreement) > agreement:
        return f"agreed too seldom: in {record.agreed:.0f} of {record.agreed + record.disagreed:.0f} like it"
    return ""


def _drawn(share: float) -> str:
    """Why a case is asked that could have been answered."""
    return f"checked anyway: one in {1.0 / share:.0f}" if share < MOST else "checked anyway: most are"


def _unproven(record: _Record) -> str:
    """Why an approval is asked although approvals were agreed to."""
    refused = record.missed_anywhere + record.caught_anywhere
    if refused < 1.0:
        return "too little evidence: it has not seen enough refusals to know that it foresees them"
    return f"too little evidence: of about {count(round(refused), 'refusal')} it foresaw {record.caught_anywhere:.0f}"


class _Record:
    """What the record says about a case, as far as it has been read."""

    __slots__ = (
        "agreed", "bar", "calm", "case", "caught", "caught_anywhere", "disagreed", "fresh", "key", "least", "missed",
        "missed_anywhere", "most", "needed", "newest", "runs", "runs_anywhere", "surprised", "weights",
    )  # fmt: skip

    def __init__(self, case: Case, weights: Weights) -> None:
        self.case = case
        self.weights = weights
        self.key: Key = (case.state, case.kind, case.predicted)
        self.bar = max(1.0, weights.false_approval)  # how much higher it is for an approval
        self.least = min(1.0, weights.checked)  # of trusted answers, the share that is checked
        self.most = min(1.0, weights.checked * (EXTRA + self.bar))  # of approvals, until agreement has lasted for long
        self.needed = RUN * self.bar if case.predicted == APPROVE else RUN
        self.fresh = weights.fresh_days * DAY
        self.runs: dict[Key, float] = {}  # agreements since the last disagreement
        self.runs_anywhere: dict[str, float] = {}  # the same for a verdict, over all states and kinds
        self.calm = 0.0  # agreements of any kind since the last surprise
        self.surprised = False
        self.newest = math.inf  # age in seconds of the newest agreement with the case
        self.agreed = 0.0  # in the case's state, kind and verdict
        self.disagreed = 0.0
        self.missed = 0.0  # refusals in the case's state and kind that were predicted as approvals
        self.caught = 0.0  # those that were predicted as refusals
        self.missed_anywhere = 0.0
        self.caught_anywhere = 0.0

    def agree(self, one: PastDecision, weight: float, age: float) -> None:
        """Take a decision that was foreseen."""
        verdict = one.predicted
        key = (one.state, one.kind, verdict)
        runs, anywhere = self.runs, self.runs_anywhere
        runs[key] = runs.get(key, 0.0) + weight
        anywhere[verdict] = anywhere.get(verdict, 0.0) + weight
        self.calm += weight
        if key == self.key:
            self.agreed += weight
            self.newest = min(self.newest, age)

    def disagree(self, one: PastDecision, weight: float) -> None:
        """Take a decision that was not foreseen: a surprise where the answer would have been trusted."""
        key = (one.state, one.kind, one.predicted)
        if self.proven(key):
            self.surprised = True
            self.calm = 0.0
            self.caught *= KEPT
            self.caught_anywhere *= KEPT
        self.runs[key] = self.runs_anywhere[one.predicted] = 0.0
        if key == self.key:
            self.disagreed += weight
        if one.predicted == APPROVE:
            self.missed_anywhere += weight
            if key[:2] == self.key[:2]:
                self.missed += weight

    def catch(self, one: PastDecision, weight: float) -> None:
        """Take a foreseen refusal, as often as it stood a chance to be seen beside one that slipped through."""
        state, kind = one.state, one.kind
        weight *= self.seen((state, kind, APPROVE)) / self.seen((state, kind, one.predicted))
        self.caught_anywhere += weight
        if state == self.case.state and kind == self.case.kind:
            self.caught += weight

    def lasts(self, key: Key, needed: float) -> bool:
        """Whether agreement has lasted since the last disagreement, with some help from other states and kinds."""
        own = self.runs.get(key, 0.0)
        if own >= needed:
            return True
        others = max(0.0, self.runs_anywhere.get(key[2], 0.0) - own)
        return own + min(others * ELSEWHERE, needed * ELSEWHERE_MOST) >= needed

    def proven(self, key: Key) -> bool:
        """Whether an answer was to be trusted, for all weights."""
        return self.calm >= CALM and self.lasts(key, PROVEN_APPROVAL if key[2] == APPROVE else PROVEN)

    def seen(self, key: Key) -> float:
        """The share of such gates that the human sees: all until they are trusted, then what is checked."""
        return max(self.checked(key[2]), LEAST_SEEN) if self.proven(key) else 1.0

    def checked(self, verdict: str) -> float:
        """The share of trusted answers that is checked: of approvals more, until agreement has lasted for long."""
        if verdict != APPROVE:
            return self.least
        if self.calm < CALM:
            return 1.0
        lasting = 1.0 if self.calm <= LONG else LONG / self.calm
        return max(self.least, self.most * lasting, CALM / self.calm if self.surprised else 0.0)

    def risky(self) -> float:
        """The share of such approvals that is asked about, so that no more than is tolerated slips through."""
        if self.case.predicted != APPROVE:
            return 0.0
        return 1.0 - SLIP / self.bar / self.slip()

    def slip(self) -> float:
        """Of what the human would refuse here, the share that would be approved at such a confidence."""
        caught = max(self.caught_anywhere, self.runs_anywhere.get(APPROVE, 0.0) * RARE)
        anywhere = (self.missed_anywhere + PRIOR) / (self.missed_anywhere + caught + 2 * PRIOR)
        return (self.missed + OWN * anywhere) / (self.missed + self.caught + OWN)


def _read(past: Sequence[PastDecision], case: Case, weights: Weights) -> _Record:
    """One pass over the record, oldest first."""
    record = _Record(case, weights)
    now, fresh, approval = case.time, record.fresh, case.predicted == APPROVE
    lowest, highest = case.confidence - NEAR, case.confidence + NEAR
    for one in past:
        age = abs(now - one.time)  # a clock that was wrong makes evidence old, never fresh
        weight = 1.0 if age <= fresh and one.likeness == 0.0 else _weight(one, age, fresh)
        if approval and one.predicted in REFUSALS and one.said in REFUSALS:
            record.catch(one, weight)
        if one.agreed and one.said == one.predicted:
            if 0.0 <= one.confidence <= highest:
                record.agree(one, weight, age)
        elif not one.confidence < lowest:
            record.disagree(one, weight)
    return record


def _weight(one: PastDecision, age: float, fresh: float) -> float:
    """How much a decision counts: once while it is fresh, up to twice where it is like the case."""
    weight = 1.0 + one.likeness if 0.0 <= one.likeness <= 1.0 else 1.0
    if age <= fresh:
        return weight
    return weight * 0.25 ** ((age - fresh) / fresh) if age < math.inf else 0.0
