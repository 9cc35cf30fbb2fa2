"""Tries the rule that answers or asks on simulated humans, beside simpler rules: ``python -m bench.calibration``.

The model. A gate shows a piece of work of one of twelve sorts, some frequent and some rare. The human has a hidden
rule that says which sorts are refused. The proxy has seen only what this human was asked: for a sort that it knows
it expects what the last three decisions say, the surer the more it knows; for one that is new it guesses, and says
so; and it misreads one gate in a hundred, with the same confidence. Nothing is learnt from a gate that nobody was
asked about.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import report
from bench.report import Section
from parley.features.proxy.calibration import APPROVE, Case, PastDecision, Weights, decide

ROOT = Path(__file__).parent.parent
PAGE, PLOTS = ROOT / "docs" / "calibration.md", ROOT / "docs" / "benchmarks"
HUMANS, GATES, WARM, CHANGE = 1000, 150, 50, 100
OTHERS = 60  # humans of each other kind
WINDOW = 10
SEED = "study"
REVISE = "revise"
# What is aimed at: fewer questions and few false approvals with a steady human, and these soon after a change of mind.
FEWER, SLIPPED, TURNED, BACK = 0.6, 0.02, 0.05, 20
WEIGHTS = Weights()
ONE = (("PLAN", "assert"),)
THREE = tuple((state, "assert") for state in ("INTENT", "PLAN", "EXECUTE"))
SIX = tuple((state, kind) for state in ("INTENT", "PLAN", "EXECUTE") for kind in ("question", "assert"))
SURE = 0.8  # the fixed threshold
LAST, AGREED = 20, 0.9  # the moving average

Policy = Callable[[Sequence[PastDecision], Case], bool]
Confidence = Callable[[random.Random, bool], float]


@dataclass(frozen=True)
class Human:
    """A simulated human."""

    name: str
    refuses: float = 0.3  # chance that a sort of work is refused
    change: int | None = None  # the gate at which every sort is judged anew
    contrary: float = 0.0  # chance that a decision is the opposite of the rule
    careless: float = 0.0  # chance that the human approves without looking
    places: Sequence[tuple[str, str]] = ONE  # states and kinds, at random
    hours: float = 1.0  # from gate to gate


@dataclass(frozen=True)
class Gate:
    """What happens at a gate, whoever decides."""

    sort: int
    place: int
    refused: bool  # what the human finds on looking
    said: str  # what the human says when asked
    draw: float
    chance: tuple[float, float, float]  # for what the proxy does


@dataclass(frozen=True)
class Outcome:
    """What came of a gate."""

    asked: bool
    refused: bool
    approved: bool  # by the proxy, for the human


def always(past: Sequence[PastDecision], case: Case) -> bool:
    """Answer nothing."""
    return False


def never(past: Sequence[PastDecision], case: Case) -> bool:
    """Answer everything."""
    return True


def threshold(past: Sequence[PastDecision], case: Case) -> bool:
    """Answer what the proxy is sure of."""
    return case.confidence >= SURE


def moving_average(past: Sequence[PastDecision], case: Case) -> bool:
    """Answer while the last decisions were foreseen, but for the same share that is checked."""
    last = past[-LAST:]
    return len(last) == LAST and sum(one.agreed for one in last) >= AGREED * LAST and case.draw >= WEIGHTS.checked


def calibrated(past: Sequence[PastDecision], case: Case) -> bool:
    """What Parley does; the draw alone asks where it is below the set share, so the record need not be read."""
    return case.draw >= WEIGHTS.checked and decide(past, case, WEIGHTS).answer


POLICIES: dict[str, Policy] = {
    "always": always,
    "never": never,
    f"threshold {SURE:g}": threshold,
    f"average of {LAST}": moving_average,
    "parley": calibrated,
}
KINDS = (
    Human("steady"),
    Human("changing", change=CHANGE),
    Human("contradictory", contrary=0.1),
    Human("careless", careless=0.2),
)


# ---- a proxy that remembers sorts of work --------------------------------------------------------

SORTS = 12
OFTEN = [1 / (rank + 1) for rank in range(SORTS)]
MISREAD = 0.01


def gates(human: Human, rng: random.Random, number: int) -> Iterator[Gate]:
    """The gates of one human's days."""
    rule = [rng.random() < human.refuses for _ in range(SORTS)]
    for at in range(number):
        if at == human.change:
            rule = [rng.random() < human.refuses for _ in range(SORTS)]
        (sort,) = rng.choices(range(SORTS), OFTEN)
        refused = rule[sort] != (rng.random() < human.contrary)
        said = REVISE if refused and rng.random() >= human.careless else APPROVE
        chance = (rng.random(), rng.random(), rng.gauss(0.0, 0.03))
        yield Gate(
            sort=sort,
            place=rng.randrange(len(human.places)),
            refused=refused,
            said=said,
            draw=rng.random(),
            chance=chance,
        )


def remembering(gate: Gate, seen: Sequence[bool]) -> tuple[str, float]:
    """What the proxy expects of a gate, having seen these refusals of its sort, and how sure it is."""
    guess, misread, noise = gate.chance
    if not seen:
        return (REVISE if guess < 0.5 else APPROVE), 0.5 + 0.25 * misread  # noqa: PLR2004 - an even guess
    last = seen[-3:]
    refuses = (2 * sum(last) > len(last) or (len(last) == 2 and last[-1])) != (misread < MISREAD)  # noqa: PLR2004 - both
    return (REVISE if refuses else APPROVE), min(1.0, max(0.0, min(0.98, 0.75 + 0.08 * len(seen)) + noise))


def live(human: Human, policy: Policy, days: Sequence[Gate]) -> list[Outcome]:
    """One human's gates under a policy."""
    past: list[PastDecision] = []
    memory: dict[int, list[bool]] = {}
    outcomes = []
    for at, gate in enumerate(days):
        seen = memory.setdefault(gate.sort, [])
        predicted, confidence = remembering(gate, seen)
        time, (state, kind) = at * human.hours * 3600.0, human.places[gate.place]
        answered = policy(
            past, Case(time=time, state=state, kind=kind, predicted=predicted, confidence=confidence, draw=gate.draw)
        )
        outcomes.append(Outcome(not answered, gate.refused, answered and predicted == APPROVE))
        if not answered:
            past.append(
                PastDecision(
                    time=time,
                    state=state,
                    kind=kind,
                    predicted=predicted,
                    confidence=confidence,
                    said=gate.said,
                    agreed=predicted == gate.said,
                )
            )
            seen.append(gate.said == REVISE)
    return outcomes


# ---- proxies that learn nothing, for the robustness of the rule ----------------------------------


@dataclass(frozen=True)
class Proxy:
    """A proxy that is right with a fixed chance, whatever it has seen."""

    name: str
    right: Sequence[float] = (0.95,)  # for each place
    confidence: Confidence = lambda rng, right: 0.9
    refuses: float = 0.3
    yes: bool = False  # approves everything
    turned: float = 0.0  # from the change on, the share of decisions that are the opposite of before
    places: Sequence[tuple[str, str]] = ONE
    hours: float = 1.0


def _graded(rng: random.Random, right: bool) -> float:
    return min(1.0, max(0.0, rng.gauss(0.93, 0.04) if right else rng.gauss(0.75, 0.12)))


def _high(rng: random.Random, right: bool) -> float:
    return min(1.0, rng.gauss(0.97, 0.02))


def _low(rng: random.Random, right: bool) -> float:
    return min(1.0, max(0.0, rng.gauss(0.6, 0.05)))


PROXIES = (
    Proxy("right in 99 %", right=(0.99,)),
    Proxy("right in 99 %, 10 % refused", right=(0.99,), refuses=0.1),
    Proxy("right in 99 %, 50 % refused", right=(0.99,), refuses=0.5),
    Proxy("right in 95 %, always 0.9 sure"),
    Proxy("right in 95 %, 5 % refused", refuses=0.05),
    Proxy("right in 95 %, 50 % refused", refuses=0.5),
    Proxy("right in 95 %, surer when right", confidence=_graded),
    Proxy("right in 95 %, surer when right, six places", confidence=_graded, places=SIX),
    Proxy("right in 95 %, two days between gates", confidence=_graded, hours=48.0),
    Proxy("right in 90 %, surer when right", right=(0.9,), confidence=_graded),
    Proxy("right in 80 %, over-confident", right=(0.8,), confidence=_high),
    Proxy("right in 97 %, under-confident", right=(0.97,), confidence=_low),
    Proxy("right in 99, 99 and 70 % by state", right=(0.99, 0.99, 0.7), places=THREE),
    Proxy("approves everything, 5 % refused", yes=True, refuses=0.05),
    Proxy("approves everything, 30 % refused", yes=True),
    Proxy("right in 99 %, all turned round at 100", right=(0.99,), turned=1.0),
    Proxy("right in 99 %, half turned round at 100", right=(0.99,), turned=0.5),
)


def endure(proxy: Proxy, rng: random.Random, number: int) -> list[Outcome]:
    """One human's gates with such a proxy, decided as Parley does."""
    past: list[PastDecision] = []
    outcomes = []
    for at in range(number):
        place = rng.randrange(len(proxy.places))
        refused = rng.random() < proxy.refuses
        right = rng.random() < proxy.right[place % len(proxy.right)]
        predicted = APPROVE if proxy.yes or refused != right else REVISE
        confidence = proxy.confidence(rng, right)
        if at >= CHANGE and rng.random() < proxy.turned:
            refused = not refused
        said, time, (state, kind) = REVISE if refused else APPROVE, at * proxy.hours * 3600.0, proxy.places[place]
        answered = calibrated(
            past, Case(time=time, state=state, kind=kind, predicted=predicted, confidence=confidence, draw=rng.random())
        )
        outcomes.append(Outcome(not answered, refused, answered and predicted == APPROVE))
        if not answered:
            past.append(
                PastDecision(
                    time=time,
                    state=state,
                    kind=kind,
                    predicted=predicted,
                    confidence=confidence,
                    said=said,
                    agreed=predicted == said,
                )
            )
    return outcomes


# ---- measures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """A share, and half of its interval of 95 %."""

    share: float
    half: float

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} ± {100 * self.half:.1f}"


Lives = Sequence[Sequence[Outcome]]


def rate(pairs: Sequence[tuple[int, int]]) -> Rate:
    """Of all the second numbers, the share that the first ones are; humans are what varies."""
    whole = sum(of for _, of in pairs)
    if not whole:
        return Rate(math.nan, math.nan)
    share = sum(some for some, _ in pairs) / whole
    return Rate(share, 1.96 * math.sqrt(sum((some - share * of) ** 2 for some, of in pairs)) / whole)


def questions(lives: Lives, begin: int, end: int) -> Rate:
    """Questions to the human, a gate."""
    return rate([(sum(one.asked for one in life[begin:end]), end - begin) for life in lives])


def false_approvals(lives: Lives, begin: int, end: int) -> Rate:
    """Of the gates that the human would have refused, the share that the proxy approved."""
    parts = [life[begin:end] for life in lives]
    return rate(
        [(sum(one.approved and one.refused for one in part), sum(one.refused for one in part)) for part in parts]
    )


@dataclass(frozen=True)
class Study:
    """All that was simulated: for each human and policy the lives, and for each proxy."""

    kinds: dict[str, dict[str, Lives]]
    proxies: dict[str, Lives]


def run(humans: int = HUMANS, others: int = OTHERS, seed: str = SEED) -> Study:
    """Simulate; the same seed gives the same study."""
    kinds: dict[str, dict[str, Lives]] = {}
    for human in KINDS:
        days = [list(gates(human, random.Random(f"{seed} {human.name} {at}"), GATES)) for at in range(humans)]
        kinds[human.name] = {name: [live(human, policy, day) for day in days] for name, policy in POLICIES.items()}
    proxies: dict[str, Lives] = {
        proxy.name: [endure(proxy, random.Random(f"{seed} {proxy.name} {at}"), GATES) for at in range(others)]
        for proxy in PROXIES
    }
    return Study(kinds, proxies)


# ---- what is shown -------------------------------------------------------------------------------


def sections(study: Study) -> list[Section]:
    """The page's tables; shares in percent, with intervals of 95 %."""
    steady, changing = (study.kinds[name]["parley"] for name in ("steady", "changing"))
    fewer, slipped = 1.0 - questions(steady, WARM, GATES).share, false_approvals(steady, WARM, GATES).share
    back = false_approvals(changing, CHANGE + BACK, CHANGE + BACK + WINDOW).share
    aims = [
        [f"steady: fewer questions, gates {WARM + 1} to {GATES}", _percent(fewer), f"at least {_percent(FEWER)}",
         _reached(fewer >= FEWER)],
        [f"steady: false approvals, gates {WARM + 1} to {GATES}", _percent(slipped), f"at most {_percent(SLIPPED)}",
         _reached(slipped <= SLIPPED)],
        [f"changing: false approvals, {BACK + 1} to {BACK + WINDOW} gates after", _percent(back),
         f"below {_percent(TURNED)}", _reached(back < TURNED)],
    ]  # fmt: skip
    spans = (("all gates", 0, GATES), (f"gates {WARM + 1} to {GATES}", WARM, GATES))
    table = [
        [kind, name, *(cell for _, begin, end in spans for cell in _pair(lives, begin, end))]
        for kind, policies in study.kinds.items()
        for name, lives in policies.items()
    ]
    after = [(at, at + WINDOW) for at in range(CHANGE - WINDOW, GATES, WINDOW)]
    turn = [
        [name, *(str(false_approvals(lives, begin, end)) for begin, end in after)]
        for name, lives in study.kinds["changing"].items()
    ]
    heads = [f"{what}, {span}" for span, *_ in spans for what in ("questions", "false approvals")]
    others = [
        [name, *_pair(lives, WARM, CHANGE), *_pair(lives, CHANGE, GATES)] for name, lives in study.proxies.items()
    ]
    return [
        Section("What is aimed at", ["", "measured", "aim", "reached"], aims),
        Section("Humans and policies", ["human", "policy", *heads], table),
        Section(
            "False approvals around a change of mind",
            ["policy", *(f"{begin + 1} to {end}" for begin, end in after)],
            turn,
            f"The human changes their mind after gate {CHANGE}.",
        ),
        Section(
            "Other proxies, which learn nothing",
            ["proxy", *(f"{what}, gates {span}" for span in (f"{WARM + 1} to {CHANGE}", f"{CHANGE + 1} to {GATES}")
                        for what in ("questions", "false approvals"))],
            others,
        ),
    ]  # fmt: skip


def _pair(lives: Lives, begin: int, end: int) -> tuple[str, str]:
    return str(questions(lives, begin, end)), str(false_approvals(lives, begin, end))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _reached(yes: bool) -> str:
    return "yes" if yes else "no"


def curves(study: Study) -> dict[str, Any]:
    """What is drawn: a panel for each human, a line for each policy."""
    windows = [(at, at + WINDOW) for at in range(0, GATES, WINDOW)]

    def drawn(name: str, title: str, measure: Callable[[Lives, int, int], Rate]) -> dict[str, Any]:
        panels = []
        for kind, policies in study.kinds.items():
            series = []
            for label, lives in policies.items():
                found = [measure(lives, begin, end) for begin, end in windows]
                y, half = [round(each.share, 5) for each in found], [round(each.half, 5) for each in found]
                own = label == "parley"
                drawn_as = {"label": label.capitalize() if own else label, "ours": own}
                series.append({**drawn_as, "x": [end for _, end in windows], "y": y, "half": half})
            panels.append({"title": kind, "series": series})
        return {"name": name, "title": title, "xlabel": "gate", "panels": panels}

    return {
        "panels": [
            drawn("calibration-questions", "Questions a gate", questions),
            drawn("calibration-false-approvals", "False approvals, of what would be refused", false_approvals),
        ]
    }


BEGIN, END = "<!-- the study: written by make bench -->", "<!-- end of the study -->"


def write(study: Study, python: Path) -> None:
    """The study's part of its page, and its plots, drawn with another environment's Python."""
    text = PAGE.read_text(encoding="utf-8")
    told = report.render_sections(sections(study), level=3)
    page = re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{told}\n{END}", text, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")
    data = PLOTS / "calibration.json"
    data.write_text(json.dumps(curves(study), indent=1) + "\n", encoding="utf-8")
    subprocess.run([str(python), "-m", "bench.plots", str(data), str(PLOTS)], cwd=ROOT, check=True)


def main() -> int:
    """Simulate, print, and write the page and its plots."""
    parser = argparse.ArgumentParser(prog="bench.calibration", description=__doc__)
    parser.add_argument("--humans", type=int, default=HUMANS, help="of each kind")
    parser.add_argument("--seed", default=SEED)
    parser.add_argument("--no-write", action="store_true", help="print only, leave the docs alone")
    parser.add_argument(
        "--plots", type=Path, default=ROOT / ".venv-peers" / "bin" / "python", help="a Python that draws"
    )
    options = parser.parse_args()
    study = run(options.humans, min(options.humans, OTHERS), options.seed)
    print(report.render_text(sections(study)))
    if not options.no_write:
        write(study, options.plots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
