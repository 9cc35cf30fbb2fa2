"""The boundary for text: whatever comes in, what comes out can be written anywhere, or is refused in one line."""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.base import text as boundary
from parley.base.text import BadText, name_bytes, name_text, printable, read_json, safe_lines

ANY_TEXT = st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf"]), max_size=60)
MOST = 10_000
OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def hostile_json() -> st.SearchStrategy[str]:
    """JSON, and what is nearly JSON: escapes of halves, numbers without end, keys given twice."""
    numbers = st.sampled_from(["1e999", "-1e999", "NaN", "-Infinity", "9" * 30, "9" * 5000, "-0", "1.5", "7"])
    words = ANY_TEXT.map(json.dumps) | st.sampled_from(['"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\0"', '"'])
    return st.recursive(
        numbers | words | st.sampled_from(["null", "true", "", "\ufeff1"]),
        lambda inner: (
            st.builds(lambda items: f"[{','.join(items)}]", st.lists(inner, max_size=4))
            | st.builds(
                lambda pairs: f"{{{','.join(f'{key}:{item}' for key, item in pairs)}}}",
                st.lists(st.tuples(words, inner), max_size=4),
            )
        ),
        max_leaves=12,
    )


@given(hostile_json() | ANY_TEXT, st.booleans())
def test_json_is_read_or_refused_and_what_is_read_can_be_written(source: str, mend: bool) -> None:
    for given_as in (source, source.encode("utf-8", "surrogatepass")):
        try:
            value = read_json(given_as, MOST, mend=mend)
        except BadText:
            continue
        for text in texts_in(value):
            assert "\0" not in text
            text.encode("utf-8")
        json.dumps(value, allow_nan=False).encode("ascii")


@given(st.binary(max_size=200))
def test_bytes_become_text_that_can_be_written(data: bytes) -> None:
    assert "\0" not in boundary.lenient(data)
    boundary.lenient(data).encode("utf-8")
    with suppress(BadText):
        assert boundary.decode(data, MOST).encode("utf-8") == data


@given(ANY_TEXT, st.integers(0, 80))
def test_a_text_that_fits_is_left_alone_and_another_says_how_long_it_was(text: str, most: int) -> None:
    fitting = boundary.fit(text, most)

    fitting.encode("utf-8")
    if len(text) <= most:
        assert fitting == boundary.mended(text)
    else:
        assert f"({len(text)} characters in all)" in fitting


@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}"), ('[{"]":', "}]")])
def test_depth_is_refused_before_the_parser_sees_it(depth: int, opening: str, closing: str) -> None:
    source = opening * depth + "1" + closing * depth

    with pytest.raises(BadText, match="deeper"):
        read_json(source, sys.maxsize)


def test_depth_is_refused_also_where_little_stack_is_left() -> None:
    def down(levels: int) -> str:
        if levels:
            return down(levels - 1)
        with pytest.raises(BadText) as refused:
            read_json("[" * 5000, sys.maxsize)
        return str(refused.value)

    assert "deeper" in down(600)


def test_a_bracket_in_a_string_is_no_level() -> None:
    assert read_json(json.dumps(["[{" * 500, '\\"[' * 500]), MOST) == ["[{" * 500, '\\"[' * 500]


@pytest.mark.parametrize("source", ["NaN", "1e999", "-1e999", "Infinity", "9" * 5000, str(2**63), '{"a":1,"a":1}'])
def test_what_later_readers_trip_over_is_no_json_here(source: str) -> None:
    with pytest.raises(BadText):
        read_json(source, MOST)


def test_a_stream_is_mended_instead() -> None:
    assert read_json(b'{"a":"\\ud800","a":"x\\u0000\xff"}', MOST, mend=True) == {"a": "x\ufffd\ufffd"}
    assert read_json('["\\ud83d\\ude00"]', MOST, mend=True) == ["\U0001f600"]


@given(ANY_TEXT)
def test_what_is_printable_has_nothing_that_a_terminal_obeys(text: str) -> None:
    for shown in (printable(text), *safe_lines(text).replace("\t", "").split("\n")):
        shown.encode("utf-8")
        assert not {unicodedata.category(char) for char in shown} & OBEYED


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=30))
def test_what_is_printable_already_stays_as_it_is(text: str) -> None:
    if printable(text) != text:
        assert boundary._INVISIBLE.search(text)


def test_tricks_of_bidirectional_text_are_seen() -> None:
    assert printable("ok\u202e\x1b[2J\r\n\u200bx\U000e0041\u3164") == r"ok\u202e\x1b[2J\r\n\u200bx\U000e0041\u3164"
    assert safe_lines("a\r\nb\rc\n\td\x07") == "a\nb\\rc\n\td\\x07"


@given(st.binary(max_size=40))
def test_a_name_of_any_bytes_is_shown_and_can_be_taken_back(name: bytes) -> None:
    shown = name_text(name)

    shown.encode("utf-8")
    assert shown == printable(shown)
    assert name_bytes(shown) == name
    assert name_text(name.decode("utf-8", "surrogateescape")) == shown


@given(ANY_TEXT, ANY_TEXT)
def test_two_names_never_look_the_same(one: str, other: str) -> None:
    assert (name_text(one) == name_text(other)) == (one == other)


def test_numbers_are_finite() -> None:
    assert all(math.isfinite(number) for number in read_json("[1, -1.5, 1e300, 9223372036854775807]", MOST))
