"""Who may answer, and what somebody is told whose answer does not count."""

import json
import sqlite3
from typing import Any

import pytest

from parley.actions.leave import Closed, NotDecider, NoWords, give_answer
from parley.cli.common import account_name
from parley.protocol.molecules import AskHuman
from parley.views.job_view import Present
from parley.views.questions.needs import exits_of
from parley.views.questions.question_outcome import fate
from tests.cli.home import LEADS, Home
from tests.engine.job_harness import JOB, JobHarness, always, ask, asserts, book, on, outcome, send, sleep, write

# ---- whose word counts -----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["eve", "", "human", "human (--yes)", "human (playbook)", "ada ", "root"])
def test_nobody_but_the_decider_answers(by: str) -> None:
    stage = JobHarness(book()).run()
    asked = stage.soup.of(AskHuman)[0]
    words = {"question": asked.id, "framing": asked.framing, "ruling": "approve", "text": "yes"}
    stage.put("answer", by=by, key=f"answer:{asked.id}:{asked.framing}", **words).run()
    assert stage.notes() == [f"refused: ada started the job, and only they can answer; not {by}"]
    assert (stage.state, stage.live.standing.asking) == ("INTENT", 1)
    question = Present(stage.outside, JOB).questions()[0]
    with pytest.raises(NotDecider):
        give_answer(stage.outside, question, "approve", "yes", by)
    give_answer(stage.outside, question, "approve", "yes", "ada")  # what was refused takes nothing from them
    assert Present(stage.outside, JOB).questions() == []
    with pytest.raises(Closed):
        give_answer(stage.outside, question, "approve", "again", "ada")

    assert stage.run().state == "PLAN"


def test_an_answer_to_somebody_elses_job_is_refused_whatever_the_environment_says(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()
    with sqlite3.connect(home.folder / ".parley" / "bus.db") as bus:
        bus.execute("UPDATE jobs SET decider = 'ada'")
    bus.close()
    question = home.question()
    for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME", "LNAME"):
        monkeypatch.setenv(name, "ada")
    said = home.refuses("answer", question, "--approve")

    assert f"question {question} is not yours to answer: ada started " in said
    assert said.endswith(f"answer as ada, not as {account_name()}")
    assert "only ada, who started the job, can answer" in home.here("inbox").out
    assert home.question() == question


def test_a_yes_to_a_plain_question_is_told_to_approve_nothing(home: Home) -> None:
    home.start("agents:\n  intent-lead:\n    - {match: 'INTENT', do: [{ask: {text: 'is INTENT.md right?'}}]}\n")

    done = home.here("answer", home.question(), "--approve")

    assert done.code == 0
    assert done.out.splitlines()[-1] == "your yes is the answer to what was asked; it approves no artifact"


def test_whoever_stands_in_is_the_deciders_own_only_where_the_decider_said_so() -> None:
    stage = JobHarness(book(), yes=True).run()

    assert stage.state == "DONE"
    assert {row.by for row in stage.outside.inputs(JOB, waiting=False)} == {"human (--yes)"}
    assert [answer["by"] for answer in stage.document()["answers"]] == ["human (--yes)"] * 3


def test_yes_is_recorded_as_such(home: Home) -> None:
    home.write("leads.yaml", LEADS)
    assert home.here("run", "x", "--playbook", "leads.yaml", "--yes", "--json").code == 0
    job = home.jobs()[0]["id"]

    assert "human (--yes) -> proxy" in home.here("log", job).out
    state = json.loads(home.job_file(job, "state.json").read_text(encoding="utf-8"))
    assert [(answer["verdict"], answer["by"]) for answer in state["answers"]] == [("approve", "human (--yes)")] * 3
    assert "the human's answers: 3 by human (--yes)" in home.here("audit", job).out
    assert home.here("audit", job, "--json").document["answers"] == {"human (--yes)": 3}


def test_the_audit_finds_an_answer_of_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record made by an owner that does not care who answers."""
    stage = JobHarness(book()).run()
    asked = stage.soup.of(AskHuman)[0]
    monkeypatch.setattr("parley.engine.inputs._refuse_unless_allowed", lambda *_: None)
    stage.put("answer", by="eve", question=asked.id, framing=asked.framing, ruling="approve", text="yes")
    with pytest.raises(
        AssertionError, match="'eve' might not leave it: ada started the job, and only they can answer; not eve"
    ):
        stage.run()


def test_an_answer_that_somebody_else_has_left_hides_no_question_and_takes_none() -> None:
    """Nobody works on the job, so that nobody has refused it yet."""
    stage = JobHarness(book()).run()
    question = Present(stage.outside, JOB).questions()[0]
    stage.kill()
    words = {"question": question.id, "framing": question.framing, "ruling": "withdraw", "text": "no"}
    stage.put("answer", by="eve", key=f"answer:{question.id}:{question.framing}", **words)
    assert [each.id for each in Present(stage.outside, JOB).questions()] == [question.id]
    assert fate(stage.outside, JOB, question.id) is None
    give_answer(stage.outside, question, "approve", "yes", "ada")
    stage.adopt().run()

    assert [note.partition(":")[0] for note in stage.notes()] == ["refused", "answered"]
    assert stage.state == "PLAN"


# ---- which question --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_revise_that_was_left_on_the_bus_is_refused_and_takes_nothing(text: str) -> None:
    stage = JobHarness(book()).run()
    question = Present(stage.outside, JOB).questions()[0]
    with pytest.raises(NoWords, match="revise needs words; say what is to change"):
        give_answer(stage.outside, question, "revise", text, "ada")
    stage.answer("revise", text).run()

    assert stage.notes() == ["refused: revise needs words; say what is to change"]
    assert (stage.state, stage.live.standing.asking) == ("INTENT", 1)
    give_answer(stage.outside, question, "approve", "", "ada")  # an approval needs none
    assert stage.run().state == "PLAN"


def test_a_proxy_that_revises_without_words_is_refused() -> None:
    rules = [on(r"\[QUESTION\]", {"answer": {"verdict": "revise", "text": " "}}, {"answer": {"text": "yes"}})]
    stage = JobHarness(book(proxy=rules), policies="when_unsure").run()

    assert "revise needs words; say what is to change" in stage.refusals


def test_an_answer_that_names_no_question_of_the_job_is_refused_clearly() -> None:
    stage = JobHarness(book()).run()
    stage.put("answer", question="n77", framing="m4", ruling="approve", text="yes").run()

    assert stage.notes() == [f"too late: {JOB} has no open question n77"]
    assert stage.live.standing.asking == 1


def test_an_answer_to_how_it_was_put_before_is_refused() -> None:
    proxy = [always(r"\[QUESTION\]|\[HUMAN\]", {"ask_human": "please look"})]
    stage = JobHarness(book(proxy=proxy)).run()
    before = Present(stage.outside, JOB).questions()[0]
    stage.answer(None, "well").run()
    asked = stage.soup.of(AskHuman)[0]
    assert (asked.id, asked.framing != before.framing) == (before.id, True)
    with pytest.raises(Closed):
        give_answer(stage.outside, before, "approve", "", "ada")
    stage.put("answer", question=before.id, framing=before.framing, ruling="approve", text="").run()

    assert stage.notes()[-1] == "too late: the question was put anew since"
    assert stage.live.standing.asking == 1


# ---- what became of it -----------------------------------------------------------------------------


def told(stage: JobHarness, question: str) -> str:
    found = fate(stage.outside, JOB, question)
    assert found is not None
    return found.words(lambda time: "then")


def test_what_became_of_a_question_is_told() -> None:
    stage = JobHarness(book()).run()
    first = stage.soup.of(AskHuman)[0].id
    assert fate(stage.outside, JOB, first) is None
    stage.answer("approve").run()
    assert told(stage, first) == f"question {first} was answered before: approve, by ada at then"
    second = stage.soup.of(AskHuman)[0].id
    stage.withdraw(reason="too dear").run()
    assert told(stage, second) == f"question {second} is closed: ada withdrew the job (too dear) at then"
    assert fate(stage.outside, JOB, "n999") is None


def test_a_withdrawn_subtree_a_close_and_a_transition_are_told_apart() -> None:
    def asking(*more: dict[str, Any]) -> JobHarness:
        lead = [on(r"^\[INTENT\]", write("INTENT.md", "x"), send("writer", "go", "w"), asserts("INTENT.md")), *more]
        return JobHarness(book(intent=lead, writer=[on("go", ask("which?"))])).run()

    stage = asking()
    question = next(asked for asked in stage.soup.of(AskHuman) if asked.agent == "writer")
    stage.withdraw(question.thread).run()
    assert told(stage, question.id).endswith(f"is closed: ada withdrew {question.thread} (enough) at then")

    stage = asking(on("ANSWER approve", {"close": {"thread": "w"}}))
    question = next(asked for asked in stage.soup.of(AskHuman) if asked.agent == "writer")
    stage.answer("approve", about="INTENT.md").run()
    assert told(stage, question.id).endswith("is closed: its asker was closed at then")

    stage = asking(on("ANSWER approve", outcome("APPROVED_INTENT", "clear")))
    question = next(asked for asked in stage.soup.of(AskHuman) if asked.agent == "writer")
    stage.answer("approve", about="INTENT.md").run()
    said = told(stage, question.id)
    assert said.endswith("is closed: its state was left (APPROVED_INTENT by intent-lead (clear)) at then")


def test_what_the_proxy_answered_is_told_as_the_proxys() -> None:
    proxy = [always("QUESTION", {"answer": {"verdict": "approve", "text": "ok", "confidence": 0.9}})]
    stage = JobHarness(book(proxy=proxy), "when_unsure").run()
    question = next(step.at for step in stage.steps("respond"))

    assert told(stage, question) == f"question {question} was answered before: approve, by the proxy at then"


def test_an_answer_that_lost_a_race_with_a_withdrawal_names_the_withdrawal() -> None:
    stage = JobHarness(book()).run()
    asked = stage.soup.of(AskHuman)[0]
    question = Present(stage.outside, JOB).questions()[0]
    stage.withdraw()
    give_answer(stage.outside, question, "approve", "yes", "ada")
    stage.run()

    assert stage.notes()[-1].startswith("too late: ")
    assert told(stage, asked.id) == f"question {asked.id} is closed: ada withdrew the job (enough) at then"


# ---- what an answer gives up -----------------------------------------------------------------------


def test_what_a_withdrawal_gives_up_is_said_before_it_is_said() -> None:
    execute = [on(r"^\[EXECUTE\]", send("coder", "go"), send("writer", "look"))]
    human = [{"match": "right", "verdict": "approve", "text": "yes", "repeat": True}]
    play = book(execute=execute, human=human, coder=[on("^go$", ask("how?"))], writer=[on("look", sleep(60))])
    stage = JobHarness(play).sleeping("writer").until(lambda s: s.live.standing.asking)
    (asked,) = Present(stage.outside, JOB).questions()
    assert (asked.asker, asked.stake) == ("coder", "the whole job j1 (1 agent at work)")
    assert asked.document()["gives_up"] == asked.stake
    last = exits_of(asked)[-1]
    assert (last.words, last.command) == (f"give up {asked.stake}", f'parley answer {asked.id} "TEXT" --withdraw')


DOER = """
agents:
  intent-lead:
    - {match: 'INTENT', do: [{send: {to: writer, text: look}}]}
  writer:
    - {match: 'look', do: [{ask: {text: 'which one?'}}]}
"""


def test_a_withdrawal_of_a_job_that_no_process_works_on_is_carried_out_by_the_command(home: Home) -> None:
    job = home.start(DOER)
    question = home.question()
    assert f"give up the whole job {job}  parley answer {question}" in home.here("inbox").out
    done = home.here("answer", question, "we buy one", "--withdraw")

    assert (done.code, done.out) == (0, f"answered {question}: the whole job {job} is given up\n")
    shown = home.here("show", job, "--json").document
    assert shown["state"] == "WITHDRAWN"
    assert f"we buy one (the answer to question {question} of writer)" in home.here("log", job).out
    assert home.here("audit", job).code == 0
