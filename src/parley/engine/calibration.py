"""Whether the proxy answers for the human or asks, as the record of what this human said allows.

Pure: the same record, case and weights give the same decision. One pass over the record, oldest first.
docs/calibration.md gives the reasons, and `make bench` tries the rule on simulated humans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

APPROVE = "approve"
REFUSALS = frozenset({"revise", "backtrack intent", "backtrack plan", "withdraw"})
VERDICTS = REFUSALS | {APPROVE, ""}

# Agreements in a row before an answer is trusted; an approval needs `false_approval` times as many.
RUN = 3.0
# Agreements of other states and kinds count a third, and stand for half of such a run at most.
ELSEWHERE, ELSEWHERE_MOST = 1 / 3, 0.5
# Agreements of any kind that have to follow a surprise, before anything is trusted again.
CALM = 6.0
# What a surprise leaves of the evidence before it: the human may have changed their mind.
KEPT = 0.5
# Of what the human would refuse, the share that may slip through as approved, where a false approval weighs 1.
SLIP = 0.06
# Before there is evidence about that share, half a refusal that slipped through and half one that did not stand for it.
PRIOR = 0.5
# So many refusals of a state and kind are believed as much as those of all states and kinds.
OWN = 5.0
# After so many agreements without a surprise, the share that is checked begins to fall towards the set one.
LONG = 100.0
# Confidences no further apart than this are the same.
NEAR = 0.05
DAY = 86_400.0

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Past:
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


def decide(past: Sequence[Past], case: Case, weights: Weights) -> Decision:
    """Answer only what the record of this human allows; in doubt, ask."""
    fault = _fault(case, weights)
    if fault:
        return Decision(False, 0.0, 0.0, fault)
    record = _read(past, case, weights)
    evidence = record.agreed + record.disagreed
    agreement = record.agreed / (evidence + 1.0)
    doubt = _doubt(record, agreement)
    if not doubt:
        share = record.shown()
        if case.draw >= share:
            return Decision(True, agreement, evidence, f"agreed in {record.agreed:.0f} of {evidence:.0f} like it")
        doubt = f"checked anyway: {share:.0%} of such answers are"
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
    """Why the case must be asked whatever the draw; empty where it need not."""
    key = record.key
    if record.newest > record.fresh:
        if record.newest < math.inf:
            return f"stale evidence: the last decision like it is {record.newest / DAY:.0f} days old"
        return "too little evidence: no decision like it"
    if record.run(key) < record.needed(key[2]):
        if record.disagreed and record.runs.get(key, 0.0) < record.agreed:
            return f"disagreed lately: {record.runs.get(key, 0.0):.0f} agreements since"
        return f"too little evidence: {record.agreed:.0f} decisions"
    if record.calm < CALM:
        return f"surprised lately: {record.calm:.0f} agreements since"
    if record.weights.false_approval * (1.0 - agreement) > agreement:
        return f"agreed too seldom: {record.agreed:.0f} of {record.agreed + record.disagreed:.0f}"
    return ""


@dataclass(slots=True)
class _Record:
    """What the record says about a case, as far as it has been read."""

    key: Key
    weights: Weights
    fresh: float
    runs: dict[Key, float] = field(default_factory=dict)  # agreements since the last disagreement
    verdict_runs: dict[str, float] = field(default_factory=dict)  # the same, over all states and kinds
    calm: float = CALM  # agreements of any kind since the last surprise
    newest: float = math.inf  # age in seconds of the newest agreement with the case
    agreed: float = 0.0  # with the case's state, kind and verdict
    disagreed: float = 0.0
    missed: float = 0.0  # refusals in the case's state and kind that were predicted as approvals
    caught: float = 0.0  # those that were predicted as refusals
    missed_anywhere: float = 0.0
    caught_anywhere: float = 0.0

    def needed(self, verdict: str) -> float:
        """How long a run of agreement makes an answer trusted."""
        return RUN * max(1.0, self.weights.false_approval) if verdict == APPROVE else RUN

    def run(self, key: Key) -> float:
        """The run of agreement, with some help from other states and kinds."""
        own = self.runs.get(key, 0.0)
        others = self.verdict_runs.get(key[2], 0.0) - own
        return own + min(others * ELSEWHERE, self.needed(key[2]) * ELSEWHERE_MOST)

    def checked(self, verdict: str) -> float:
        """The share of trusted answers that is checked: of approvals more, until agreement has lasted for long."""
        least = min(1.0, self.weights.checked)
        if verdict != APPROVE:
            return least
        most = min(1.0, least * max(1.0, self.weights.false_approval))
        return max(least, most * min(1.0, LONG / self.calm)) if self.calm else most

    def seen(self, key: Key) -> float:
        """The share of such gates that the human sees: all until they are trusted, then what is checked."""
        if self.calm < CALM or self.run(key) < self.needed(key[2]):
            return 1.0
        return self.checked(key[2]) or 1.0

    def slip(self) -> float:
        """Of what the human would refuse here, the share that would be approved at such a confidence."""
        refused = self.missed_anywhere + self.caught_anywhere
        anywhere = (self.missed_anywhere + PRIOR) / (refused + 2 * PRIOR)
        return (self.missed + OWN * anywhere) / (self.missed + self.caught + OWN)

    def shown(self) -> float:
        """The share of cases like this one that is shown to the human although it could be answered."""
        share = self.checked(self.key[2])
        if self.key[2] != APPROVE:
            return share
        return max(share, 1.0 - SLIP / max(1.0, self.weights.false_approval) / self.slip())


def _read(past: Sequence[Past], case: Case, weights: Weights) -> _Record:
    """One pass over the record, oldest first."""
    key = (case.state, case.kind, case.predicted)
    record = _Record(key, weights, weights.fresh_days * DAY)
    for one in past:
        age = abs(case.time - one.time)  # a clock that was wrong makes evidence old, never fresh
        if one.predicted in REFUSALS and one.said in REFUSALS:
            _catch(record, one, _weight(one, age, record.fresh))
        if one.agreed and one.said == one.predicted:
            if 0.0 <= one.confidence <= case.confidence + NEAR:
                _agree(record, one, _weight(one, age, record.fresh), age)
        elif not one.confidence < case.confidence - NEAR:
            _disagree(record, one, _weight(one, age, record.fresh))
    return record


def _weight(one: Past, age: float, fresh: float) -> float:
    """How much a decision counts: once while it is fresh, up to twice where it is like the case."""
    weight = 1.0 + one.likeness if 0.0 <= one.likeness <= 1.0 else 1.0
    if age <= fresh:
        return weight
    return weight * 0.25 ** ((age - fresh) / fresh) if age < math.inf else 0.0


def _agree(record: _Record, one: Past, weight: float, age: float) -> None:
    key = (one.state, one.kind, one.predicted)
    record.runs[key] = record.runs.get(key, 0.0) + weight
    record.verdict_runs[one.predicted] = record.verdict_runs.get(one.predicted, 0.0) + weight
    record.calm += weight
    if key == record.key:
        record.agreed += weight
        record.newest = min(record.newest, age)


def _disagree(record: _Record, one: Past, weight: float) -> None:
    key = (one.state, one.kind, one.predicted)
    if record.run(key) >= record.needed(one.predicted):
        record.calm = 0.0
        record.caught *= KEPT
        record.caught_anywhere *= KEPT
    record.verdict_runs[one.predicted] = 0.0
    record.runs[key] = 0.0
    if key == record.key:
        record.disagreed += weight
    if one.predicted == APPROVE:
        record.missed_anywhere += weight
        if key[:2] == record.key[:2]:
            record.missed += weight


def _catch(record: _Record, one: Past, weight: float) -> None:
    """Count a foreseen refusal as often as it stood a chance to be seen, beside one that slipped through."""
    weight *= record.seen((one.state, one.kind, APPROVE)) / record.seen((one.state, one.kind, one.predicted))
    record.caught_anywhere += weight
    if one.state == record.key[0] and one.kind == record.key[1]:
        record.caught += weight
