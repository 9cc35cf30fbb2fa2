"""The whole engine under simulated faults: nothing promised is ever broken, and a seed tells it all again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from parley.engine.values import message_meta
from parley.engine.values.message_meta import Answered, Put
from parley.protocol.molecules import Record
from parley.workflow.model.events import MergeEnded, NoteTaken, RoundEnded, StatusChanged
from parley.workflow.model.terms import Note
from simulator.ledger import events
from simulator.minds import mind
from simulator.run import JOB, Simulation, simulate
from simulator.workflows import has_workflow, is_disputed

SEEDS = 1_400
PLAIN = 500  # up to here seeds without a workflow are run; the rest of them in the long run
FIRST = 150  # are run by the test of what they reach, and those with a workflow by tests of their own
CHUNK = 50
WORKFLOWS = [seed for seed in range(FIRST, SEEDS) if has_workflow(seed)]
SETTLED = 2604  # the first disputed seed whose conflict is settled: most of those before it end in another way
ENDLESS = 5086  # a doer never mends its pending note, under a human who always says yes
DISPUTED = [*(seed for seed in WORKFLOWS if is_disputed(seed)), SETTLED]
OTHERS = [seed for seed in WORKFLOWS if not is_disputed(seed)]
REACHED = {
    "pending-working", "blocked-working", "stalled", "failed", "session_complete", "rejected", "refused", "rescope",
    "by-agent_self", "by-workflow_executor", "by-user",
}  # fmt: skip
SOAK_SEEDS = 200_000
SOAK_CHUNK = 2_000


@pytest.mark.parametrize("first", range(FIRST, PLAIN, CHUNK))
def test_no_seed_breaks_a_promise(first: int) -> None:
    """Crashes, lost agents, lost locks, meddling: invariants, deliveries, ends and the audit hold."""
    seeds = [seed for seed in range(first, first + CHUNK) if not has_workflow(seed)]
    ends = Counter(simulate(seed).state for seed in seeds)
    assert sum(ends.values()) == len(seeds) > CHUNK // 2


@pytest.mark.parametrize("seeds", [OTHERS[::2], OTHERS[1::2]], ids=["even", "odd"])
def test_no_seed_with_a_workflow_breaks_a_promise_and_all_comes_to_pass_that_may_become_of_one(
    seeds: list[int],
) -> None:
    """The same, and the laws of workflows; doers of all fates, notes that are settled by everybody who may."""
    runs = [ended(seed) for seed in seeds]
    ends = Counter(str(run.soup().need(Record, JOB).state) for run in runs)
    assert ends["DONE"] > len(seeds) // 4, ends
    assert {word for run in runs for word in happened(run)} >= REACHED


def test_no_seed_in_which_a_file_changes_hands_breaks_a_promise_and_some_come_to_a_conflict() -> None:
    """Two doers have the same file, one after another; what both have written is settled, proved and taken."""
    runs = [ended(seed) for seed in DISPUTED]
    assert "settled" in {word for run in runs for word in happened(run)}


def test_a_human_who_always_says_yes_does_not_keep_a_run_from_its_end() -> None:
    """A doer never mends its note, and each yes buys it one more long round: at last the job is withdrawn."""
    assert simulate(ENDLESS).state == "WITHDRAWN"


def ended(seed: int) -> Simulation:
    run = Simulation(seed)
    run.run()
    return run


def happened(run: Simulation) -> Iterator[str]:
    """What has become of a run's workflows, in a word each."""
    status: dict[str, str] = {}
    for event in events(run.outside, JOB):
        match event:
            case StatusChanged(agent=agent, to=to):
                yield to
                yield f"{status.get(agent, 'pending')}-{to}"
                status[agent] = to
            case RoundEnded(round=found):
                yield found.verdict
            case MergeEnded(merged=merged):
                yield "refused" if not merged.taken else "settled" if merged.conflicts else "merged"
            case NoteTaken(note=Note(resolved_by=str(by))):
                yield f"by-{by}"
            case _:
                yield str(event.__struct_config__.tag)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(PLAIN, PLAIN + SOAK_SEEDS, SOAK_CHUNK))
def test_no_seed_of_a_long_run_breaks_a_promise(first: int) -> None:
    """The same for a hundred times as many seeds; PARLEY_SOAK_FROM moves on to others."""
    offset = int(os.environ.get("PARLEY_SOAK_FROM", "0"))
    ends = Counter(simulate(seed + offset).state for seed in range(first, first + SOAK_CHUNK))
    assert sum(ends.values()) == SOAK_CHUNK


@pytest.mark.parametrize("seed", [*range(7, 400, 20), *WORKFLOWS[:3]])
def test_one_seed_is_one_run(seed: int) -> None:
    """The same seed gives the same steps, messages and times, to the last bit, as the head says."""
    assert simulate(seed) == simulate(seed)


def test_seeds_reach_every_end_and_nearly_every_rule() -> None:
    """Its runs end in all ways and fire what an engine can fire by itself."""
    results = [simulate(seed) for seed in range(FIRST)]
    ends = {result.state for result in results}
    fired = {rule for result in results for rule in result.fired}
    assert {"DONE", "WITHDRAWN", "FAILURE"} <= ends
    assert {
        "recover",
        "give-up",
        "dialog",
        "interrupt",
        "wake-int",
        "term-run",
        "cascade",
        "hold",
        "send-ask",
    } <= fired
    assert sum(result.crashes for result in results) > 100


def test_seeds_let_answers_stand_and_be_questions_and_lose_the_memory() -> None:
    """Its minds are of all kinds: the record supports an answer, or does not, and some memories fail."""
    told: Counter[str] = Counter()
    for seed in range(300):
        made = mind(seed)
        if made.settings is not None and made.steady and made.policies:
            run = Simulation(seed)
            run.run()
            for meta in map(message_meta.read, run.outside.messages(JOB)):
                if isinstance(meta, Answered | Put) and meta.view.weighed is not None:
                    told[meta.how if isinstance(meta, Put) else "stood"] += 1
    assert {"stood", "unsure", "checked"} <= set(told), told
