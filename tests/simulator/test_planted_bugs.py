"""The simulator finds bugs: each of these, planted one at a time, makes some seed fail."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import Commit, InputRow, Spent
from parley.engine import inputs, loop, owned_job, quiescence, recovery, reduction
from parley.engine.agents import orchestrator
from parley.engine.owned_job import OwnedJob
from parley.engine.turn import finish, gate
from parley.engine.turn.running_turn import Turn
from parley.engine.values.human_inputs import Done
from parley.features.budgets import arithmetic
from parley.features.liveness import silence
from parley.features.proxy import remembering
from parley.ports.turns import Confined
from parley.protocol.molecules import Mailbox, Ruling
from parley.protocol.rule import Firing, Passage, Reaction, RuleSet
from parley.protocol.rules import RULES
from parley.protocol.soup import Soup
from simulator import agents
from simulator.run import Failed, simulate
from simulator.workflows import has_workflow

SEEDS = [seed for seed in range(300) if not has_workflow(seed)]


def found(rules: RuleSet = RULES, first: int = 0) -> str:
    """What the first failing seed says. `first`: one that has found it before, and is tried before the others."""
    why = next(filter(None, (failure(seed, rules) for seed in (first, *SEEDS))), "")
    # a bug that was planted badly must not pass for one that was found
    assert not why.startswith(("AttributeError", "TypeError", "NameError")), why
    return why


def failure(seed: int, rules: RuleSet) -> str:
    """What a seed breaks, if it does."""
    try:
        simulate(seed, rules)
    except Failed as failed:
        return failed.why
    return ""


def with_rule(name: str, change: Callable[[Soup, Firing, Reaction], Reaction]) -> RuleSet:
    """The rules with one of them changed."""
    rule = RULES[name]

    def react(soup: Soup, firing: Firing) -> Reaction:
        return change(soup, firing, rule.react(soup, firing))

    return {**RULES, name: replace(rule, react=react)}


def without_mail(soup: Soup, firing: Firing, reaction: Reaction) -> Reaction:
    """The mailbox loses what it was given last."""
    produced = tuple(replace(m, queue=m.queue[:-1]) if isinstance(m, Mailbox) else m for m in reaction.produced)
    return Reaction(reaction.consumed, produced)


def mail_dropped_first(soup: Soup, firing: Firing, reaction: Reaction) -> Reaction:
    """The mailbox loses what is to be read next."""
    produced = tuple(replace(m, queue=m.queue[1:]) if isinstance(m, Mailbox) else m for m in reaction.produced)
    return Reaction(reaction.consumed, produced)


def mail_reversed(soup: Soup, firing: Firing, reaction: Reaction) -> Reaction:
    """The mailbox puts the newest first."""
    produced = tuple(replace(m, queue=m.queue[::-1]) if isinstance(m, Mailbox) else m for m in reaction.produced)
    return Reaction(reaction.consumed, produced)


@pytest.mark.parametrize(
    "rule,change",
    [
        ("send", without_mail),
        ("send", mail_reversed),
        ("recover", mail_dropped_first),
        ("respond", without_mail),
        ("cascade", lambda soup, firing, reaction: Reaction(reaction.consumed, reaction.produced[:1])),
        ("term-final", lambda soup, firing, reaction: Reaction(reaction.consumed, ())),
        ("spark", lambda soup, firing, reaction: Reaction(reaction.consumed, reaction.produced[:3])),
    ],
    ids=[
        "send loses",
        "send reorders",
        "recover loses",
        "respond loses",
        "cascade skips",
        "no tombstone",
        "no edge",
    ],
)
def test_a_bug_in_a_rule_is_found(rule: str, change: Callable[[Soup, Firing, Reaction], Reaction]) -> None:
    """Rules are run, not trusted."""
    assert found(with_rule(rule, change))


def test_a_bus_that_loses_an_edge_in_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatch tree of the next owner lacks a branch."""
    kill = MemoryBus.kill

    def lossy(self: MemoryBus, owner: str) -> None:
        kill(self, owner)
        for job in self.jobs.values():
            for slot in [slot for slot in job.molecules if slot.startswith("edge ")][:1]:
                del job.molecules[slot]

    monkeypatch.setattr(MemoryBus, "kill", lossy)
    assert found().startswith("bus_durability: after transaction")


def test_a_bus_that_rewrites_a_row_in_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded of the past is another afterwards."""
    kill = MemoryBus.kill

    def forging(self: MemoryBus, owner: str) -> None:
        kill(self, owner)
        for job in self.jobs.values():
            job.steps.rows[:1] = [replace(row, who="eve") for row in job.steps.rows[:1]]

    monkeypatch.setattr(MemoryBus, "kill", forging)
    assert found().startswith("audit_append_only: row 1 of steps")


def test_a_turn_that_counts_behind_a_boundary_that_did_not_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent got out of its workspace, and its work is taken all the same."""
    escaped = Confined(ok=False, held=0, tried=1, faults=("it read above its root",))
    monkeypatch.setattr("simulator.agents.Confined", lambda **_: escaped)
    assert "behind a boundary that did not hold: it read above its root" in found()


def test_a_turn_that_counts_with_no_word_on_its_boundary_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some agents are confined, and of others nothing is known."""
    verdicts = cycle([Confined(ok=True, held=1, tried=1), None])
    monkeypatch.setattr("simulator.agents.Confined", lambda **_: next(verdicts))
    assert "nothing says that its boundary was verified" in found()


def test_a_transition_that_goes_by_no_outcome_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a lead left is not what its state ended by."""

    def invented(*given: Any, **named: Any) -> Passage:
        made = Passage(*given, **named)
        return replace(made, reason=f"{made.reason}, or so")

    monkeypatch.setattr("parley.engine.agents.orchestrator.Passage", invented)
    assert re.search("no outcome record of [a-z-]+ on the bus says [A-Z_]+ so", found())


def test_a_gate_that_is_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transition without its verdict."""
    monkeypatch.setattr("parley.protocol.lifecycle.refuse_passage", lambda soup, record, passage: None)
    assert found()


def test_effects_before_their_commit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that runs although a crash may take back its wake."""
    advance = loop.Engine._advance

    def act_first(self: loop.Engine) -> bool:
        for job in self.jobs.values():
            self._settle(job)
            self._act(job)
        return advance(self)

    monkeypatch.setattr(loop.Engine, "_advance", act_first)
    assert "before it was committed" in found()


def test_a_late_call_that_is_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that outlived its turn gets a yes."""
    take = loop.Engine._called

    def careless(self: loop.Engine, job: OwnedJob | None, turn: Any, event: Any) -> None:
        if turn is None:
            self.world.turns.reply(event.job, event.turn, event.number, True, "fine", {})
        else:
            take(self, job, turn, event)

    monkeypatch.setattr(loop.Engine, "_called", careless)
    assert "late call" in found()


def test_a_process_that_is_not_cancelled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work goes on after a withdrawal."""
    monkeypatch.setattr(agents.SimTurns, "cancel", lambda self, job, turn: None)
    assert "still running" in found()


def test_a_bus_that_does_not_check_the_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that lost its lock writes all the same."""
    commit = MemoryStore.commit

    def forged(self: MemoryStore, commits: Sequence[Commit]) -> None:
        job = self.bus.find("sim")
        store = MemoryStore(self.bus, job.owner or self.owner)
        commit(store, [msgspec.structs.replace(each, epoch=job.epoch) for each in commits])

    monkeypatch.setattr(MemoryStore, "commit", forged)
    assert found(first=69)


def test_a_failure_nobody_is_told_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that can't go on, and a dispatcher that waits for it."""
    monkeypatch.setattr(orchestrator.Orchestrator, "lead_failed", lambda self, meta: self.rest())
    monkeypatch.setattr(quiescence, "judge", lambda job, world_: False)
    assert found(first=9)


def test_an_unbounded_retry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that fails for ever."""

    def again(self: orchestrator.Orchestrator, record: Any, why: str = "") -> None:
        self.send([self.letter(record.actor, record.thread, why or "again")])

    monkeypatch.setattr(orchestrator.Orchestrator, "waited", again)
    monkeypatch.setattr(orchestrator.Orchestrator, "violated", again)
    assert found(first=9)


def test_a_crash_that_forgets_its_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart nobody takes up the lost turns."""
    monkeypatch.setattr(recovery, "orphans", lambda live: [])
    assert found(first=13)


def test_a_workspace_that_is_not_put_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Approved is one tree, delivered another."""
    monkeypatch.setattr(gate, "WORK", "NO SUCH FILE")
    assert found()


def test_a_fallback_that_answers_for_the_human_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that fails under `always` and approves by itself."""

    def approve(job: OwnedJob, world_: Any, question: str, key: str) -> None:
        reduction.respond(job, world_, question, ruling=Ruling.APPROVE, text="fine", key=key)

    monkeypatch.setattr(finish, "fall_back", approve)
    assert found(first=17)


def test_a_budget_that_is_spent_one_turn_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic.BudgetLine, "spent", property(lambda line: line.used > line.limit))
    assert "starts one more than" in found(first=6)


def test_an_owner_that_begins_to_count_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_job, "sum_of", lambda spent: Spent())
    assert "starts one more than" in found(first=6)


def test_an_interrupt_that_costs_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = OwnedJob.begin

    def free(self: OwnedJob, turn: Turn, host: str, time: float) -> None:
        begin(self, turn, host, time)
        if self.draft.steps[-1].rule == "interrupt":
            self.spend(turn.day, Spent(turns=-1))

    monkeypatch.setattr(OwnedJob, "begin", free)
    assert re.search("the bus counts|starts one more than the [0-9]+ turns that are allowed", found(first=6))


def test_a_decision_that_a_crash_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said, and committed, is not remembered where the process dies before it gets to that."""
    monkeypatch.setattr(remembering, "last_decided", lambda job, world_: ())
    assert "said and not remembered" in found(first=188)


def test_a_decision_that_is_remembered_as_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy's word is taken for the human's."""
    true = remembering.replied

    def flattering(*words: Any) -> Any:
        made = true(*words)
        return dataclasses.replace(made, verdict=made.after.verdict) if made and made.after else made

    monkeypatch.setattr(remembering, "replied", flattering)
    assert "the bus says otherwise" in found(first=16)


def test_a_memory_whose_failure_ends_the_job_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job does without what it can't remember."""

    def strict(world_: Any, decided: Any) -> str:
        world_.decisions.remember([decided])
        return ""

    monkeypatch.setattr(remembering, "remember", strict)
    assert found(first=43).startswith("MemoryTrouble")


def test_an_input_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are passed over without a word."""
    take = inputs.take

    def forgetful(job: OwnedJob, world_: Any, row: InputRow) -> None:
        if row.kind == "intervene":
            job.take(row, Done(""))
        else:
            take(job, world_, row)

    monkeypatch.setattr(inputs, "take", forgetful)
    assert found()


def test_an_intervention_whose_way_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was passed on to a lead, and people are told that it still waits."""
    monkeypatch.setattr(orchestrator, "origin_of", lambda row: "")
    assert "interventions that are said to wait" in found()


def test_a_stall_that_is_told_of_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever dispatched it hears of it again and again."""
    monkeypatch.setattr(silence, "stall_of", lambda soup, thread: None)
    assert found(first=157)


def test_silence_that_is_counted_from_nowhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign of life that is not heard makes the living stalled."""
    monkeypatch.setattr(silence, "stall_seconds", lambda job, turn: 0.5)
    assert "not silent for long" in found()
