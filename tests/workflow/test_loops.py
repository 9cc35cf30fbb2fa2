"""The same question, in whatever words, is noticed when it comes the third time."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.workflow.model.flow import AskedQuestion
from parley.workflow.model.loops import alike, loop, similar

THRESHOLD = 85.0
DOCS = Path(__file__).parents[2] / "docs" / "workflow-questions.md"
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
    ("Which date format do the reports use?", "What is the format of dates in reports?"),
    ("Is authentication neccessary?", "Is authentication necessary?"),
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
    ("Is port 8080 free for the API?", "Is port 8081 free for the API?"),
    ("May I drop the column user_id?", "May I drop the column user_ip?"),
    ("Should deleted users be kept in the audit table?", "Should deleted users be listed in the audit table?"),
    ("Which database schema?", "Which version of the migration tool for the database schema?"),
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
    assert similar("Should email be unique?", "Should names be unique?", 50)
    assert not similar("Is a list sorted by date?", "Is a list sorted by name?", 95)


@settings(max_examples=60)
@given(st.text(max_size=50), st.floats(1, 100))
def test_every_question_is_like_itself(question: str, threshold: float) -> None:
    assert similar(question, question, threshold)


@settings(max_examples=100)
@given(st.text(max_size=50), st.text(max_size=50))
def test_it_does_not_matter_which_was_first(one: str, other: str) -> None:
    assert alike(one, other) == pytest.approx(alike(other, one))
    assert 0 <= alike(one, other) <= 100


def test_the_docs_show_both_sides_of_the_threshold() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (\d+) \| (yes|no) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)

    assert Counter(same for *_, same in rows) >= Counter({"yes": 5, "no": 5})
    for one, other, score, same in rows:
        assert (round(alike(one, other)), similar(one, other, THRESHOLD)) == (int(score), same == "yes"), (one, other)


# ---- what counts ---------------------------------------------------------------------------------


def asked(text: str, asking: int, answer: str = "so", **more: Any) -> AskedQuestion:
    return AskedQuestion(
        note_id=f"note_{asking:03}", text=text, time=asking, asking=asking, by="one", session=0, answer=answer, **more
    )


@settings(max_examples=60)
@given(st.text(max_size=20), st.integers(0, 5))
def test_the_third_asking_of_a_kind_is_a_loop(question: str, before: int) -> None:
    history = [asked(question, number) for number in range(1, before + 1)]
    now = asked(question, before + 1, "")

    assert loop([*history, now], now, THRESHOLD) == ((*history, now) if before >= 2 else ())


@given(st.lists(st.integers(1, 4), max_size=8), st.lists(st.booleans(), min_size=8, max_size=8))
def test_only_askings_that_were_answered_count_and_each_counts_once(askings: list[int], answered: list[bool]) -> None:
    history = [asked("Which path?", at, "so" if told else "") for at, told in zip(askings, answered, strict=False)]
    now = asked("Which path?", 5, "")

    times = len({one.asking for one in history if one.answer})

    assert bool(loop([*history, now], now, THRESHOLD)) == (times >= 2)


def test_a_loop_is_told_with_the_questions_that_are_alike_and_no_others() -> None:
    texts = ["Which database?", "Should email be unique?", "Which port?", "should the email be unique"]
    history = [asked(text, number) for number, text in enumerate(texts, 1)]
    now = asked("Is the email supposed to be unique?", 5, "")

    assert [one.asking for one in loop(history, now, THRESHOLD)] == [2, 4, 5]
    assert loop(history[:3], now, THRESHOLD) == ()


def test_what_the_architect_calls_the_same_is_the_same_in_whatever_words() -> None:
    first, second = asked("Which path is mine?", 1), asked("Where am I to write?", 2)
    third = asked("Whose folder is src?", 3, "")

    assert loop([first, second], third, THRESHOLD) == ()
    linked = [first, replace(second, same_as=(first.key,))]
    assert loop(linked, third, THRESHOLD) == ()
    assert len(loop(linked, replace(third, same_as=(second.key,)), THRESHOLD)) == 3
    assert len(loop(linked, replace(third, same_as=(first.key,)), THRESHOLD)) == 3
