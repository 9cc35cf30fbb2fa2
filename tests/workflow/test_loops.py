"""The same question, in whatever words, is noticed when it comes the third time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workflow.loops import loop, similar

THRESHOLD = 85.0
SAME = [
    ("Should email be unique?", "should the EMAIL be unique"),
    ("Should email be unique?", "Is the email supposed to be unique?"),
    ("Which password hashing algorithm?", "What algorithm for password hashing"),
    ("Should I use Python or bash to parse this log file?", "Python or bash to parse the log file?"),
    ("Should this be REST or GraphQL?", "GraphQL or REST?"),
    ("Should email be unique?", "Should emails be unique in the users table?"),
    ("Can the price be negative?", "May prices be negative?"),
    ("Which password hashing algorithm?", "Which password hashing algorithm should I use?"),
    ("Do we need pagination on the list endpoint?", "Is pagination needed for the list endpoint?"),
    ("???", "???"),
    ("Should it be?", "should it BE"),
]
OTHER = [
    ("Should email be unique?", "Should names be unique?"),
    ("Should email be unique?", "Which database is used?"),
    ("Which database?", "Which framework?"),
    ("Which port does the API use?", "Which port does the frontend use?"),
    ("Which database is used for the tests, and where is it?", "Is the email unique?"),
    ("Should deleted users be kept?", "Should deleted users be listed?"),
    ("Which hash?", "Which hash for the tokens of the API, and where are they kept?"),
    ("What happens if the user already exists?", "Which roles does a user have?"),
    ("???", "!"),
    ("", "Which database?"),
]


@pytest.mark.parametrize("one, other", SAME)
def test_a_question_in_other_words_is_the_same(one: str, other: str) -> None:
    assert similar(one, other, THRESHOLD)
    assert similar(other, one, THRESHOLD)


@pytest.mark.parametrize("one, other", OTHER)
def test_another_question_is_another(one: str, other: str) -> None:
    assert not similar(one, other, THRESHOLD)
    assert not similar(other, one, THRESHOLD)


def test_the_threshold_decides() -> None:
    assert similar("Should email be unique?", "Should names be unique?", 60)
    assert not similar("Is a list sorted by date?", "Is a list sorted by name?", 95)


@settings(max_examples=60)
@given(st.text(max_size=50), st.floats(1, 100))
def test_every_question_is_like_itself(question: str, threshold: float) -> None:
    assert similar(question, question, threshold)


@settings(max_examples=60)
@given(st.text(max_size=20), st.integers(0, 5))
def test_the_third_of_a_kind_is_a_loop(question: str, before: int) -> None:
    history = [question] * before

    assert loop(history, question, THRESHOLD) == ((*history, question) if before >= 2 else ())


def test_a_loop_is_told_with_the_questions_that_are_alike_and_no_others() -> None:
    history = ["Which database?", "Should email be unique?", "Which port?"]

    assert loop(history, "Is the email supposed to be unique?", THRESHOLD) == ()
    assert loop([*history, "should the email be unique"], "Is the email supposed to be unique?", THRESHOLD) == (
        "Should email be unique?",
        "should the email be unique",
        "Is the email supposed to be unique?",
    )
