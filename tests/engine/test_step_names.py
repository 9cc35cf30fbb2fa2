"""What a step's row names is read back as what it was: by every rule's place, and by every molecule's brief."""

from __future__ import annotations

import pytest

from parley.base.json_codec import Unreadable
from parley.engine.values.step_names import (
    FiringPlace,
    NamedInterrupt,
    NamedParent,
    NamedRecord,
    NamedRun,
    NamedSurface,
    NamedTerminate,
    NamedVerdict,
    all_named,
    first_named,
    place_of,
)
from parley.protocol.molecules import (
    Interrupt,
    Origin,
    Parent,
    Record,
    Ruling,
    Run,
    Surface,
    Terminate,
    Verdict,
    thread_kind,
)
from parley.protocol.rules import RULES
from parley.protocol.states import State
from tests.engine.job_harness import JobHarness, book
from tests.stores.rows import step


@pytest.mark.parametrize("ruling", Ruling)
@pytest.mark.parametrize("artifact", ["", "PLAN.md"])
@pytest.mark.parametrize("told", [True, False])
def test_a_verdict_is_named_with_its_ruling_of_one_word_or_two(ruling: Ruling, artifact: str, told: bool) -> None:
    verdict = Verdict(
        record="j1",
        artifact=artifact,
        ruling=ruling,
        digest="d1",
        author="human",
        question="q1",
        answer="m3",
        told=told,
    )
    assert first_named(NamedVerdict, verdict.brief()) == NamedVerdict(
        record="j1", artifact=artifact, ruling=ruling, digest="d1", author="human"
    )


def test_each_molecule_is_named_by_its_brief() -> None:
    run = Run(agent="coder", thread="dispatch:1", message="m2", turn="t3", interrupt=Interrupt("dispatch:1", "m2"))
    surface = Surface(
        agent="coder", thread="dispatch:1", team=frozenset(), tools=(), messages=(), workspace="dispatch:1"
    )
    briefs = "\n".join(
        molecule.brief()
        for molecule in (
            run, surface, Parent("dispatch:1", "state:j1/1"), Terminate("dispatch:1", Origin.PHASE),
            Interrupt("dispatch:1", "m2", now=True, authoritative=True), Record("j1"),
        )
    )  # fmt: skip
    assert first_named(NamedRun, briefs) == NamedRun("coder", "dispatch:1", "m2", "t3")
    assert first_named(NamedSurface, briefs) == NamedSurface("coder", "dispatch:1", "dispatch:1")
    assert first_named(NamedParent, briefs) == NamedParent("dispatch:1", "state:j1/1")
    assert first_named(NamedTerminate, briefs) == NamedTerminate("dispatch:1", Origin.PHASE)
    assert first_named(NamedInterrupt, briefs) == NamedInterrupt("dispatch:1", "m2")
    assert first_named(NamedRecord, briefs) == NamedRecord("j1", State.INTENT, 1)
    assert list(all_named(NamedVerdict, briefs)) == []


@pytest.mark.parametrize("odd", ["Terminate dispatch:1 sometime", "Terminate", "Terminate "])
def test_what_another_program_wrote_there_names_nothing(odd: str) -> None:
    with pytest.raises(Unreadable):
        list(all_named(NamedTerminate, f"{odd}\nTerminate dispatch:1"))


def test_every_rule_names_its_place() -> None:
    for rule in RULES:
        assert place_of(step(1, rule=rule, at="one two three")) != FiringPlace(), rule


def test_the_places_of_a_job_are_what_they_are_called() -> None:
    stage = JobHarness(book()).run().withdraw().run()
    for one in stage.steps():
        place = place_of(one)
        assert thread_kind(place.thread) in ("", "job", "state", "dispatch", "escalation"), one
        assert ":" not in place.agent, one
        assert not place.message or place.message.startswith("m"), one
        assert not place.record or place.record == "j1", one
