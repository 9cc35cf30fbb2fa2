"""Who may do what in a job besides who started it: each person acts under their own name, and no one beyond it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.actions.leave import Closed, NotDecider, give_answer
from parley.base.json_codec import encode
from parley.base.person_names import LONGEST, BadName, is_person_name, person_name
from parley.base.text import printable
from parley.bus.rows import InputRow
from parley.engine.inputs import is_given_up
from parley.engine.values import human_inputs
from parley.engine.values.human_inputs import (
    AnswerInput,
    Input,
    InterveneInput,
    NameInput,
    PauseInput,
    ResumeInput,
    WithdrawInput,
    is_in_vain,
    note_words,
)
from parley.engine.values.job_settings import STAND_INS
from parley.engine.values.people import May, may_of
from parley.protocol.molecules import AskHuman, Ruling
from parley.views.history.chronicle import Follower
from parley.views.job_view import Present
from parley.views.questions.needs import needs
from parley.views.questions.question_outcome import fate
from simulator.disk import SimFiles
from tests.engine.job_harness import INTENT, JOB, JobHarness, always, ask, book, on, outcome, send, sleep, write

ASKS = book(
    intent=[on(r"^\[INTENT\]", write("INTENT.md", "x"), ask("which one?")), always(".", sleep(1), outcome("NONE"))]
)


def leave(stage: JobHarness, by: str, given: Input) -> InputRow:
    """Leave an input in a person's name, let the owner take it, and read what became of it."""
    number = stage.outside.put(JOB, given.kind, f"{given.kind}:{stage.ids.new()}", stage.clock.now(), by, encode(given))
    stage.run()
    return next(row for row in stage.outside.inputs(JOB, waiting=False) if row.number == number)


def name(stage: JobHarness, person: str, may: May) -> InputRow:
    return leave(stage, "ada", NameInput(person=person, may=may))


def answer_to(stage: JobHarness, **said: Any) -> AnswerInput:
    (asked,) = stage.soup.of(AskHuman)
    return AnswerInput(question=asked.id, framing=asked.framing, **said)


# ---- the order, and the names ----------------------------------------------------------------------


def test_each_right_includes_those_before_it() -> None:
    assert [may for may in May if may >= May.ANSWER] == [May.ANSWER, May.DECIDE]
    assert May.SEE < May.ANSWER < May.DECIDE
    assert not May.DECIDE <= May.SEE
    assert max(May) is May.DECIDE


@given(st.text(max_size=80) | st.sampled_from(["human", "Proxy", "ORCHESTRATOR", *STAND_INS, " bob ", "a\u202eb"]))
def test_a_persons_name_is_one_line_that_can_be_seen_and_no_part_of_a_jobs(text: str) -> None:
    if not is_person_name(text.strip()):
        with pytest.raises(BadName) as bad:
            person_name(text)
        assert printable(str(bad.value)) == str(bad.value)
        return
    found = person_name(text)
    assert 1 <= len(found) <= LONGEST
    assert (found, printable(found)) == (text.strip(), found)
    assert found not in STAND_INS
    assert found.casefold() not in ("human", "proxy", "orchestrator")


# ---- naming ----------------------------------------------------------------------------------------


def test_whom_the_decider_names_decides_and_the_record_names_them() -> None:
    stage = JobHarness(book()).run()
    assert note_words(name(stage, "bob", May.DECIDE)) == "bob decides from now on"
    assert may_of(stage.outside.load(JOB), "bob") is May.DECIDE
    question = Present(stage.outside, JOB).questions()[0]
    give_answer(stage.outside, question, "approve", "yes", "bob")
    assert Present(stage.outside, JOB).questions() == []
    with pytest.raises(Closed) as closed:
        give_answer(stage.outside, question, "revise", "no", "ada")  # two answer at once: the first counts
    assert closed.value.earlier is not None
    assert closed.value.earlier.by == "bob"

    assert stage.run().state == "PLAN"
    assert [answer["by"] for answer in stage.document()["answers"]] == ["bob"]
    closed_by = fate(stage.outside, JOB, question.id)
    assert closed_by is not None
    assert closed_by.how == "approve, by bob"
    assert "bob" in [event.by for event in Follower(stage.outside, JOB).read()]


def test_a_naming_counts_from_where_it_was_taken_until_it_is_taken_back() -> None:
    stage = JobHarness(book()).run()
    early = leave(stage, "bob", answer_to(stage, ruling=Ruling.APPROVE))
    assert note_words(early) == "refused: ada started the job, and only they can answer; not bob"
    name(stage, "bob", May.DECIDE)
    assert note_words(name(stage, "bob", May.SEE)) == "bob only looks from now on"
    late = leave(stage, "bob", answer_to(stage, ruling=Ruling.APPROVE))
    assert (is_in_vain(late), stage.state) == (True, "INTENT")


def test_a_naming_and_an_answer_that_come_together_are_taken_in_their_order() -> None:
    stage = JobHarness(book()).run()
    stage.put("name", person="bob", may="decide")
    given = answer_to(stage, ruling=Ruling.APPROVE)
    stage.put("answer", by="bob", question=given.question, framing=given.framing, ruling="approve", text="yes")
    stage.put("name", person="bob", may="see")
    assert stage.run().state == "PLAN"
    assert may_of(stage.outside.load(JOB), "bob") is May.SEE


def test_who_may_do_what_outlives_the_owner() -> None:
    stage = JobHarness(book(), people={"eve": "answer"}).run()
    name(stage, "bob", May.DECIDE)
    stage.kill()
    stage.adopt().run()
    people = Present(stage.outside, JOB).people
    assert people.document() == {"ada": "decide", "eve": "answer", "bob": "decide"}
    assert not is_in_vain(leave(stage, "bob", answer_to(stage, ruling=Ruling.APPROVE)))


@pytest.mark.parametrize(
    "by, person, why",
    [
        ("bob", "eve", "only ada, who started the job, says what others may do"),
        ("carl", "carl", "only ada, who started the job, says what others may do"),
        ("ada", "ada", "ada started the job, and always decides"),
        ("ada", "human (--yes)", "no person can be called 'human (--yes)'"),
        ("ada", "proxy", "no person can be called 'proxy'"),
        ("ada", " eve", "the name has blanks around it"),
        ("ada", "", "a person needs a name"),
        ("ada", "e" * 65, "64 characters at most"),
        ("ada", "e\nve", "characters that can't be seen"),
        ("ada", "\u202eeve", "characters that can't be seen"),
    ],
)
def test_only_who_started_the_job_names_and_only_persons(by: str, person: str, why: str) -> None:
    stage = JobHarness(book(), people={"bob": "decide"}).run()
    taken = leave(stage, by, NameInput(person=person, may=May.DECIDE))
    assert is_in_vain(taken)
    assert why in note_words(taken)
    assert Present(stage.outside, JOB).people.document() == {"ada": "decide", "bob": "decide"}


# ---- what each may do ------------------------------------------------------------------------------

BUSY = book(intent=[on(r"^\[INTENT\]", send("writer", "look")), *INTENT[1:]], writer=[always(".", sleep(1000))])
ANSWERERS: list[Input] = [InterveneInput(text="mind this"), PauseInput(), ResumeInput()]
DECIDERS: list[Input] = [
    InterveneInput(text="do this", authoritative=True),
    ResumeInput(raised={"turns": "+4"}, day="2026-01-01"),
    WithdrawInput(),
]


def do(by: str, given: Input) -> str:
    """What becomes of an input in a person's name, on a job that is paused only where it is to be resumed."""
    stage = JobHarness(BUSY, people={"bob": "decide", "eve": "answer", "sam": "see"}, budget={"job": {"turns": 9}})
    stage.start().crank()
    if isinstance(given, ResumeInput):
        stage.pause().crank()
    stage.outside.put(JOB, given.kind, "it", stage.clock.now(), by, encode(given))
    assert is_given_up(stage.outside, JOB) == (isinstance(given, WithdrawInput) and by not in ("eve", "sam"))
    stage.crank()
    row = stage.outside.inputs(JOB, waiting=False)[-1]
    assert row.taken
    return note_words(row) if is_in_vain(row) else ""


@pytest.mark.parametrize("given", [*ANSWERERS, *DECIDERS], ids=encode)
def test_each_person_gets_what_their_naming_includes_and_nothing_else(given: Input) -> None:
    decides = given in DECIDERS
    assert do("ada", given) == do("bob", given) == ""
    assert do("sam", given).startswith("refused: ")
    assert do("eve", given).startswith("refused: only ada, who started the job, and bob " if decides else "")
    assert (do("eve", given) == "") is not decides


@pytest.mark.parametrize("given", [*ANSWERERS, WithdrawInput()], ids=encode)
def test_an_account_that_nobody_named_may_still_advise_pause_and_stop(given: Input) -> None:
    """It holds the key of the bus: stopping never waits for one person."""
    assert do("root", given) == ""


def test_who_answers_gets_plain_questions_and_gives_nothing_up_by_them() -> None:
    stage = JobHarness(ASKS, people={"eve": "answer", "sam": "see"}).run()
    (need,) = needs(stage.outside, SimFiles(stage.disk, stage.fuse))
    assert (need.decider, need.others) == ("ada", ("eve",))
    for by, ruling in (("sam", None), ("eve", Ruling.WITHDRAW), ("eve", Ruling.BACKTRACK_INTENT)):
        assert is_in_vain(leave(stage, by, answer_to(stage, text="this one", ruling=ruling))), (by, ruling)
    question = Present(stage.outside, JOB).questions()[0]
    with pytest.raises(NotDecider, match="answer as ada or eve, not as sam"):
        give_answer(stage.outside, question, None, "this one", "sam")
    with pytest.raises(NotDecider, match="answer as ada, not as eve"):
        give_answer(stage.outside, question, "withdraw", "", "eve")
    give_answer(stage.outside, question, None, "this one", "eve")
    stage.crank()
    assert [row.by for row in human_inputs.answered(stage.outside.inputs(JOB, waiting=False))] == ["eve"]


@pytest.mark.parametrize("ruling", [Ruling.APPROVE, Ruling.REVISE, None])
def test_who_answers_gives_no_word_at_a_gate(ruling: Ruling | None) -> None:
    stage = JobHarness(book(), people={"eve": "answer"}).run()
    taken = leave(stage, "eve", answer_to(stage, ruling=ruling, text="as it is"))
    assert note_words(taken) == "refused: ada started the job, and only they can answer; not eve"
    assert stage.state == "INTENT"


def test_the_log_and_the_outcome_of_a_question_name_who_withdrew() -> None:
    for by_answer in (False, True):
        stage = JobHarness(ASKS, people={"bob": "decide"}).run()
        (asked,) = stage.soup.of(AskHuman)
        leave(stage, "bob", PauseInput())
        leave(stage, "ada", ResumeInput())
        leave(stage, "bob", answer_to(stage, ruling=Ruling.WITHDRAW) if by_answer else WithdrawInput(reason="enough"))
        assert stage.state == "WITHDRAWN"
        told = {event.kind: event for event in Follower(stage.outside, JOB).read() if event.kind != "message"}
        assert told["hold"].text == "paused, by bob"
        assert told["release"].text == "goes on, by ada"
        assert told["transition"].document()["by"] == "bob"
        assert by_answer or told["withdraw"].text == f"job:{JOB} is withdrawn, by bob"
        closed = fate(stage.outside, JOB, asked.id)
        assert closed is not None
        assert closed.how == ("withdraw, by bob" if by_answer else "bob withdrew the job (enough)")


# ---- in any order ----------------------------------------------------------------------------------

PERSONS = ["bob", "eve"]
DEED = st.one_of(
    st.tuples(st.just("name"), st.sampled_from(["ada", *PERSONS]), st.sampled_from(PERSONS), st.sampled_from(May)),
    st.tuples(st.just("advise"), st.sampled_from(PERSONS), st.just(""), st.sampled_from([May.ANSWER, May.DECIDE])),
    st.tuples(st.just("crank"), st.just(""), st.just(""), st.just(May.SEE)),
    st.tuples(st.just("kill"), st.just(""), st.just(""), st.just(May.SEE)),
)


@settings(max_examples=60)
@given(st.lists(DEED, max_size=14))
@example([("name", "ada", "bob", May.DECIDE), ("advise", "bob", "", May.DECIDE), ("name", "ada", "bob", May.SEE)])
def test_in_any_order_each_gets_what_the_last_naming_before_it_says(deeds: list[tuple[str, str, str, May]]) -> None:
    stage = JobHarness(book()).run()
    named: dict[str, May] = {}
    due: list[bool] = []
    for deed, by, person, may in deeds:
        if deed == "name":
            stage.put("name", by=by, person=person, may=str(may))
            due.append(by == "ada")
            named |= {person: may} if by == "ada" else {}
        elif deed == "advise":
            stage.put("intervene", by=by, text="mind this", authoritative=may is May.DECIDE)
            due.append(named[by] >= may if by in named else may is May.ANSWER)
        elif deed == "kill":
            stage.kill()
        else:
            stage.crank()
    stage.run()  # where the audit checks it, too
    rows = stage.outside.inputs(JOB, waiting=False)
    assert [not is_in_vain(row) for row in rows] == due, [note_words(row) for row in rows]
    assert all(may_of(stage.outside.load(JOB), person) is named.get(person, May.SEE) for person in PERSONS)
