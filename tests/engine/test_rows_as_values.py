"""What rows hold beside their columns are typed values: each is read as what it was written, and as nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.base.json_codec import Unreadable, encode
from parley.base.options import Menu, Option
from parley.bus.rows import InputRow, JobRow, MessageRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.sqlite.urgent_input import leave_withdrawal
from parley.engine.values import human_inputs, message_meta
from parley.engine.values.change_stat import Stat
from parley.engine.values.human_inputs import (
    AnswerInput,
    AnswerTaken,
    Denied,
    Done,
    Handled,
    Input,
    InterveneInput,
    Late,
    NotMergedInput,
    Paused,
    PauseInput,
    ResumeInput,
    Unsigned,
    WithdrawInput,
    Withdrawn,
)
from parley.engine.values.message_meta import (
    Begins,
    Conflicted,
    DeadLetter,
    Dialog,
    Failed,
    Guessed,
    Intervened,
    LeftForCode,
    Meta,
    Observed,
    OutcomeRefused,
    PassedOn,
    Plain,
    Posed,
    ProxyView,
    Put,
    Relayed,
    Replied,
    Requested,
    Rested,
    SentFiles,
    Stalled,
    TakenAway,
    Weighed,
)
from parley.engine.values.step_extra import Told
from parley.engine.values.unfinished_work import Doing, End, Unfinished
from parley.ports.decisions import How
from parley.ports.workspaces import Change, SentFile
from parley.protocol.molecules import Kind, Ruling

MENU = Menu((Option("retry", "try it again", "approve"),), "they are advice")
LEFT_OUT = (Unfinished(agent="coder", thread="dispatch:1", doing=Doing.AT_WORK, end=End.GOES_ON, since=5.0),)
VIEW = ProxyView(predicted=Guessed("approve", 0.5), recalled=("d1",), weighed=Weighed(answer=False, agreement=0.5, evidence=2.0, why="new"))  # fmt: skip # noqa: E501

METAS: list[Meta] = [
    Plain(riders=(Told("dispatch:1", "merged"),)),
    Requested(),
    Observed(record="j1", state="PLAN", actor="plan-lead", turn="t3", workspace="job:j1", contents=(("PLAN.md", "d"),)),
    Rested(),
    Failed(thread="dispatch:1", message="m2", fault="it died", tries=3),
    Stalled(thread="dispatch:1", turn="t2", since=1.5),
    DeadLetter("m3"),
    TakenAway("dispatch:1"),
    Conflicted(thread="dispatch:1", merged=4, paths=("a.py",)),
    SentFiles((SentFile("a.py", "b10b", "100644", 5),)),
    LeftForCode.of(Guessed("approve")),
    Intervened(by="ada", text="stop", now=True),
    PassedOn(origin="m4", authoritative=True),
    Posed(
        question="q1",
        text="right?",
        state="EXECUTE",
        kind=Kind.ASSERT,
        artifact="WORK_SUMMARY.md",
        stat=Stat(1, 2, 3, (Change("a.py", 2, None),)),
        menu=MENU,
        unfinished=LEFT_OUT,
    ),
    Dialog(text="What now?", fault="it is silent", menu=MENU, violation="no such outcome"),
    Begins(),
    OutcomeRefused("no such outcome"),
    Put(
        question="q1",
        state="PLAN",
        visit=1,
        kind=Kind.ASSERT,
        asker="plan-lead",
        thread="state:j1/2",
        asked="m5",
        subject="PLAN PLAN.md",
        text="right?",
        how=How.CHECKED,
        view=VIEW,
        unfinished=LEFT_OUT,
    ),
    Replied(by="ada", put="m6", ruling=Ruling.REVISE, text="not yet"),
    message_meta.Answered(question="q1", kind=Kind.QUESTION, author="proxy", asked="m5", text="yes", view=VIEW),
    Relayed(question="q1", author="human", asker="coder"),
]
INPUTS: list[Input] = [
    AnswerInput(question="q1", framing="m6", ruling=Ruling.APPROVE, text="yes"),
    AnswerInput(question="q1", framing="m6", choice="retry", rule=0),
    InterveneInput(text="stop", thread="dispatch:1", now=True),
    WithdrawInput(),
    WithdrawInput(thread="dispatch:1", reason="enough"),
    PauseInput(),
    ResumeInput(raised={"turns": "+4"}, day="2026-01-02"),
    NotMergedInput(reason="it is dirty"),
]
HANDLED: list[tuple[Handled, str]] = [
    (AnswerTaken(), "answered"),
    (Withdrawn(), "withdrawn"),
    (Paused(), "paused"),
    (Done("resumed"), "resumed"),
    (Late("it has ended"), "too late: it has ended"),
    (Denied("not yours"), "refused: not yours"),
    (Unsigned(), "refused: it is not signed with this bus's key: another program wrote it"),
]


def message(meta: str) -> MessageRow:
    return MessageRow(
        number=1, transaction=1, sender="a", sender_thread="t", agent="b", thread="u", seq=1, key="k", time=1.0,
        body="", meta=meta,
    )  # fmt: skip


def given(kind: str, body: str, note: str = "") -> InputRow:
    return InputRow(number=1, job="j1", kind=kind, key="k", time=1.0, by="ada", body=body, taken=bool(note), note=note)


@pytest.mark.parametrize("meta", METAS, ids=lambda meta: type(meta).__name__)
def test_what_is_known_about_a_message_is_read_as_it_was_written(meta: Meta) -> None:
    row = message(encode(meta))
    assert message_meta.read(row) == meta
    assert message_meta.read_as(type(meta), row) == meta


def test_every_meaning_is_tried_here() -> None:
    named = {value for value in vars(message_meta).values() if isinstance(value, type) and issubclass(value, Meta)}
    assert {type(meta) for meta in METAS} == named - {Meta, message_meta.ToProxy}


def test_words_alone_have_no_meta() -> None:
    assert message_meta.read(message("")) is None


@pytest.mark.parametrize(
    "odd", ["[]", "{", '{"about":"nothing"}', '{"about":"stalled"}', '{"about":"requested","more":1}', "null"]
)
def test_what_another_program_wrote_into_a_meta_is_not_read(odd: str) -> None:
    with pytest.raises(Unreadable):
        message_meta.read(message(odd))


@pytest.mark.parametrize("asked", INPUTS, ids=lambda asked: type(asked).__name__)
def test_what_is_asked_is_read_as_it_was_left(asked: Input) -> None:
    assert human_inputs.read(given(asked.kind, encode(asked))) == asked


@pytest.mark.parametrize("kind,body", [("answer", "{}"), ("pause", "[]"), ("pause", '{"x":1}'), ("merge?", "{}")])
def test_what_can_not_be_asked_is_not_read(kind: str, body: str) -> None:
    row = given(kind, body)
    assert human_inputs.read_or_none(row) is None
    with pytest.raises(Unreadable):
        human_inputs.read(row)


@pytest.mark.parametrize("became,words", HANDLED, ids=lambda became: type(became).__name__)
def test_what_became_of_an_input_is_told_in_words_made_of_it(became: Handled, words: str) -> None:
    row = given("pause", "{}", encode(became))
    assert human_inputs.handled(row) == became
    assert human_inputs.note_words(row) == words
    assert human_inputs.is_in_vain(row) is words.startswith(("too late: ", "refused: "))


def test_an_input_that_nobody_took_is_not_handled() -> None:
    assert human_inputs.handled(given("pause", "{}")) is None


def test_a_withdrawal_that_is_left_at_once_is_read_like_any_other(tmp_path: Path) -> None:
    """It is written without the codec, which takes too long to import."""
    store = SqliteStore(tmp_path)
    try:
        store.create(JobRow(job="j1", request="r", decider="ada", created=1.0, updated=1.0, agent="scripted", settings="{}"))  # fmt: skip # noqa: E501
        assert leave_withdrawal(tmp_path, "j1", "ada", "not worth it", ()).taken
        (row,) = store.inputs("j1")
        assert store.authentic(row)
        assert human_inputs.read(row) == WithdrawInput(thread="job:j1", reason="not worth it")
    finally:
        store.close()
