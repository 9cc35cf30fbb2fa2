"""What the human chooses of a question's menu: by command, from what the question lists; words choose nothing."""

from dataclasses import replace
from typing import Any

import pytest

from parley.actions.leave import Unchosen, give_answer
from parley.audit.audit import audit
from parley.base.options import Menu, Option, listed, refusal
from parley.bus.memory_store import MemoryStore
from parley.engine.values.human_inputs import note_words
from parley.views.job_view import Present
from parley.views.questions.answer_choices import choices
from parley.views.questions.needs import needs
from parley.workflow.execution import escalate
from parley.workflow.execution.executor_turn import ExecutorTurn
from tests.engine.job_harness import JOB, on, say
from tests.workflow.workflow_harness import LEAD, WorkflowHarness, doer, plan

ALONE = plan({"name": "one"})
TWO = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
GATES = [{"match": r"^(INTENT|PLAN) ", "verdict": "approve", "text": "yes", "repeat": True}]
FAILED = "one has failed"
STOPPED = [LEAD[0], on(r"^\[WORKFLOW stopped\]", say("it was stopped"), state="EXECUTE")]


def failing(text: str = TWO) -> WorkflowHarness:
    """A doer that has failed, about which the human is asked."""
    agents = {"one": doer("one"), "two": doer("two")}
    stage = WorkflowHarness(text, agents, GATES, execute=[*LEAD, STOPPED[1]]).lose("one", 3)
    return stage.run()


def test_the_question_lists_what_can_be_chosen_with_its_commands() -> None:
    stage = failing()
    (asked,) = Present(stage.outside, JOB).questions()

    assert [option.name for option in asked.menu.options] == ["retry", "abandon", "stop"]
    labels = {choice.label for choice in choices(asked).values() if choice.option}
    assert labels == {"try one again", "go on without one and without all that depends on it", "stop the workflow"}
    for name in ("retry", "abandon", "stop"):
        assert f"parley answer {asked.id} --{name}" in asked.body
    assert "Words without one of these choose nothing: they are advice, and one is tried again with them." in asked.body
    assert [choice["command"] for choice in asked.document()["choices"]] == [
        f"parley answer {asked.id} --{name}" for name in ("retry", "abandon", "stop")
    ]
    (need,) = needs(stage.outside, stage.engine.world.files)
    assert f"parley answer {asked.id} --abandon" in [way.command for way in need.exits]


@pytest.mark.parametrize("words", ["abandon", "stop", "Abandon.", "please abandon it, we don't need it", "retry"])
def test_words_are_advice_whatever_they_say(words: str) -> None:
    stage = failing().answer(None, words, FAILED).run()

    assert stage.flow.members["one"].given_up is False
    assert any(text.startswith(f"[AGAIN] one: {words}") for text in stage.told("one"))
    assert stage.flow.phase == "complete"


def test_what_is_chosen_is_done_and_the_words_stand_beside_it() -> None:
    stage = failing().answer("abandon", "it is of no use", FAILED).run()

    assert stage.flow.members["one"].given_up
    assert stage.flow.members["one"].standing.reason == "it was killed by signal 9; the human says so: it is of no use"
    assert stage.flow.phase == "complete"
    assert not audit(MemoryStore(stage.bus, "auditor"), JOB, None).findings


def test_retry_and_approve_are_the_same() -> None:
    for ruling in ("retry", "approve"):
        stage = failing().answer(ruling, "take care", FAILED).run()
        assert any(text.startswith("[AGAIN] one: take care") for text in stage.told("one"))
        assert stage.flow.phase == "complete"


def test_stop_stops() -> None:
    stage = failing().answer("stop", "enough", FAILED).run()

    assert stage.flow.phase == "stopped"
    assert any(text.startswith("[WORKFLOW stopped] the human says stop: enough") for text in stage.told("project-lead"))


@pytest.mark.parametrize("choice", ["fail", "withdrawn"])
def test_what_is_not_listed_is_refused_with_what_is(choice: str) -> None:
    stage = failing()
    (asked,) = Present(stage.outside, JOB).questions()
    odd: dict[str, Any] = {"ruling": None, "text": "", "choice": choice}
    stage.put("answer", key="odd", question=asked.id, framing=asked.framing, **odd)
    stage.run()

    note = next(note_words(row) for row in stage.outside.inputs(JOB, waiting=False) if row.key == "odd")
    assert note == f"refused: {choice!r} is not a choice of this question; it has: retry, abandon, stop"
    assert stage.live.standing.asking == 1


def test_a_single_word_that_names_a_choice_is_not_sent_as_advice() -> None:
    stage = failing()
    (asked,) = Present(stage.outside, JOB).questions()

    for words in ("abandon", " Abandon.\n", "`abandon`"):
        with pytest.raises(Unchosen, match=f"words choose nothing here; .* parley answer {asked.id} --abandon"):
            give_answer(stage.outside, asked, None, words, Present(stage.outside, JOB).row.decider)


@pytest.mark.parametrize("done", ["abandon", "stop", "retry", ""])
def test_the_audit_sees_whether_what_was_done_is_what_was_chosen(done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    faithful = escalate.answered

    def faithless(act: ExecutorTurn, question: str, said: escalate.HumanAnswer) -> None:
        faithful(act, question, replace(said, choice=done, ruling=""))

    monkeypatch.setattr(escalate, "answered", faithless)
    stage = failing().answer("retry", "again", FAILED)
    if done == "retry":
        assert stage.run().flow.phase == "complete"
        return
    with pytest.raises(AssertionError, match="it does something else than was chosen: retry"):
        stage.run()  # it audits what it has done


def test_a_menu_knows_what_is_meant_and_is_listed_with_its_commands() -> None:
    menu = Menu(
        (Option("retry", "try", "approve"), Option("stop", "stop it", then="its lead is told")), "they are advice"
    )

    assert (menu.meant("", "approve"), menu.meant("stop", ""), menu.meant("", "revise")) == ("retry", "stop", "")
    assert "not a choice of this question; it has none" in refusal(Menu(), "stop")
    assert "- retry: try (so does --approve): parley answer q --retry" in listed("q", menu)
    assert "- stop: stop it; its lead is told: parley answer q --stop" in listed("q", menu)
