"""The simulator finds bugs: each of these, planted one at a time, makes some seed fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from parley.adapters.memory import MemoryStore
from parley.core.rule import Firing, Reaction, RuleSet
from parley.core.rules import RULES
from parley.core.soup import Soup
from parley.core.terms import Mailbox, Ruling
from parley.engine import budgets, calls, endings, engine, inputs, liveness, orchestrator, recovery, reduce, remembering
from parley.engine.live import LiveJob
from parley.engine.turn import Turn
from parley.ports import Commit, InputRow, Spent
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


def test_a_gate_that_is_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transition without its verdict."""
    monkeypatch.setattr("parley.core.job.refuse_passage", lambda soup, record, passage: None)
    assert found()


def test_effects_before_their_commit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that runs although a crash may take back its wake."""
    advance = engine.Engine._advance

    def act_first(self: engine.Engine) -> bool:
        for live in self.jobs.values():
            self._settle(live)
        self._act()
        return advance(self)

    monkeypatch.setattr(engine.Engine, "_advance", act_first)
    assert "before it was committed" in found()


def test_a_late_call_that_is_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that outlived its turn gets a yes."""
    take = engine.Engine._called

    def careless(self: engine.Engine, live: LiveJob | None, turn: Any, event: Any) -> None:
        if turn is None:
            self.world.turns.reply(event.job, event.turn, event.number, True, "fine", {})
        else:
            take(self, live, turn, event)

    monkeypatch.setattr(engine.Engine, "_called", careless)
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
        commit(store, [each._replace(epoch=job.epoch) for each in commits])

    monkeypatch.setattr(MemoryStore, "commit", forged)
    assert found(first=69)


def test_a_failure_nobody_is_told_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that can't go on, and a dispatcher that waits for it."""
    monkeypatch.setattr(orchestrator.Orchestrator, "lead_failed", lambda self, meta: self.rest())
    monkeypatch.setattr(engine.Engine, "_judge_pending", lambda self, live: False)
    assert found()


def test_an_unbounded_retry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that fails for ever."""

    def again(self: orchestrator.Orchestrator, record: Any, why: str = "") -> None:
        self.send([self.letter(record.actor, record.thread, why or "again")])

    monkeypatch.setattr(orchestrator.Orchestrator, "waited", again)
    monkeypatch.setattr(orchestrator.Orchestrator, "violated", again)
    assert found()


def test_a_crash_that_forgets_its_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart nobody takes up the lost turns."""
    monkeypatch.setattr(recovery, "orphans", lambda live: [])
    assert found()


def test_a_workspace_that_is_not_put_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Approved is one tree, delivered another."""
    monkeypatch.setattr(endings, "WORK", "NO SUCH FILE")
    monkeypatch.setattr(calls, "contents", endings.contents)
    assert found()


def test_a_fallback_that_answers_for_the_human_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that fails under `always` and approves by itself."""

    def approve(live: LiveJob, world_: Any, question: str, key: str) -> None:
        reduce.respond(live, world_, question, Ruling.APPROVE, "fine", key)

    monkeypatch.setattr(endings, "fall_back", approve)
    assert found()


def test_a_budget_that_is_spent_one_turn_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets.Line, "spent", property(lambda line: line.used > line.limit))
    assert "starts one more than" in found()


def test_an_owner_that_begins_to_count_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "total", lambda spent: budgets.Tally())
    assert "starts one more than" in found()


def test_an_interrupt_that_costs_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = LiveJob.begin

    def free(self: LiveJob, turn: Turn, host: str, time: float) -> None:
        begin(self, turn, host, time)
        if self._pending.steps[-1].rule == "interrupt":
            self.spend(turn.day, Spent(turns=-1))

    monkeypatch.setattr(LiveJob, "begin", free)
    assert "the bus counts" in found()


def test_a_decision_that_a_crash_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said, and committed, is not remembered where the process dies before it gets to that."""
    monkeypatch.setattr(remembering, "again", lambda live, world_: None)
    assert "said and not remembered" in found(first=134)


def test_a_decision_that_is_remembered_as_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy's word is taken for the human's."""
    true = remembering.replied

    def flattering(*words: Any) -> Any:
        made = true(*words)
        return replace(made, verdict=made.after.verdict) if made and made.after else made

    monkeypatch.setattr(inputs, "replied", flattering)
    assert "the bus says otherwise" in found()


def test_a_memory_whose_failure_ends_the_job_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job does without what it can't remember."""

    def strict(live: LiveJob, world_: Any) -> None:
        if live.decided:
            world_.decisions.remember(live.decided)
            live.decided = []

    monkeypatch.setattr(remembering, "keep", strict)
    assert found().startswith("MemoryTrouble")


def test_an_input_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are passed over without a word."""
    take = inputs.take

    def forgetful(live: LiveJob, world_: Any, row: InputRow) -> None:
        if row.kind == "intervene":
            live.take(row, "")
        else:
            take(live, world_, row)

    monkeypatch.setattr(inputs, "take", forgetful)
    assert found()


def test_an_intervention_whose_way_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was passed on to a lead, and people are told that it still waits."""
    monkeypatch.setattr(orchestrator, "origin_of", lambda row: "")
    assert "interventions that are said to wait" in found()


def test_a_stall_that_is_told_of_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever dispatched it hears of it again and again."""
    monkeypatch.setattr(liveness, "stall_of", lambda soup, thread: None)
    assert found()


def test_silence_that_is_counted_from_nowhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign of life that is not heard makes the living stalled."""
    monkeypatch.setattr(liveness, "stall_seconds", lambda settings, role: 0.5)
    assert "not silent for long" in found()
