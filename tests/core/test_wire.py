"""The terms as text: the short way writes to the letter what the plain way does, and both can be read back."""

import json

from hypothesis import given
from hypothesis import strategies as st

from parley.core.rule import Answer, Asking, Broadcast, Ending, Enrolment, Opening, Passage
from parley.core.states import Action, Entry, Record, State
from parley.core.terms import (
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Close,
    Crashed,
    Deliver,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    Parent,
    Proxy,
    Question,
    Role,
    Run,
    Send,
    Surface,
    Terminate,
    Tombstone,
    Verdict,
)
from parley.core.wire import decode, encode, text

# Fields are filled from their types: any text, any number.
TERMS = st.one_of(
    *(
        st.builds(kind)
        for kind in (
            Idle, Run, Send, Mailbox, Parent, AskQuestion, Proxy, AskHuman, Interrupt, Terminate, Charter, Surface,
            Tombstone, Hold, Crashed, Assertion, Verdict, Deliver, Close, Question, Role, Broadcast, Asking, Answer,
            Ending, Opening, Passage, Enrolment,
        )
    ),
    st.builds(Record, history=st.lists(st.builds(Entry), max_size=3).map(tuple)),
)  # fmt: skip
CHOICES = st.one_of(TERMS, st.text(), st.none())


@given(CHOICES)
def test_the_text_of_a_term_is_its_encoding(term: object) -> None:
    assert text(term) == json.dumps(encode(term), ensure_ascii=False, separators=(",", ":"))


@given(TERMS)
def test_a_term_is_read_back(term: object) -> None:
    assert decode(json.loads(text(term))) == term


def test_what_json_has_no_letters_for() -> None:
    odd = 'a"b\\c\nd\x00e\x7f\ud800é'
    run = Run(odd, "job:j", odd, "t1", Interrupt("job:j", odd, now=True))
    assert text(run) == json.dumps(encode(run), ensure_ascii=False, separators=(",", ":"))
    record = Record("j", history=(Entry(State.PLAN, Action.REPLAN, odd, 1e300),))
    assert decode(json.loads(text(record))) == record
