"""Settings are read, or refused in one line with its place; each of two files is judged, and one goes over another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.base.documents.node import DocumentError
from parley.settings import load
from parley.settings.schema import Settings

ROOT, OWN = Path("/nowhere"), Path("/users/parley.toml")
FULL = """\
[policy]
plan = "when_unsure"  # the rest: always
[limits]
fan_out = 4
message = 20_000
[boundary]
hosts = ["example.org:443"]
[roles.coder]
team = ["tester"]
limits = { turn_seconds = 60 }
[agents.other]
command = ["other", "{message_file}"]
route = { upstream = "https://api.example.org", paths = ["/v1/*"] }
[notify]
to = "desktop"
[budget.job]
turns = 40
tokens = "2M"
"""


def refusal(content: bytes, settled: bytes = b"") -> str:
    try:
        load.parse(ROOT, content, settled, OWN)
    except DocumentError as error:
        return str(error)
    return ""


@given(st.binary(max_size=100) | st.text("[]{}=.,\"'\n #policylmts0123").map(str.encode))
def test_any_file_is_read_or_refused_in_one_line_with_its_place(content: bytes) -> None:
    assert re.fullmatch(r"|/nowhere/parley\.toml:[1-9]\d*:[1-9]\d*: [^\n]+; [^\n]+", refusal(content))
    assert re.fullmatch(r"|/users/parley\.toml:[1-9]\d*:[1-9]\d*: [^\n]+; [^\n]+", refusal(b"", content))


@given(st.integers(0, len(FULL)), st.integers(0, 6), st.text(max_size=4))
def test_a_damaged_file_is_read_or_refused_in_one_line_with_its_place(at: int, cut: int, put: str) -> None:
    damaged = FULL[:at] + put + FULL[at + cut :]

    assert re.fullmatch(
        r"|/nowhere/parley\.toml:[1-9]\d*:[1-9]\d*: [^\n]+; [^\n]+", refusal(damaged.encode(errors="surrogatepass"))
    )


def test_what_a_repository_says_goes_before_what_the_user_says_key_by_key() -> None:
    own = b"[policy]\nintent = 'never'\nplan = 'never'\n[limits]\nfan_out = 2\nparallel = 3\n[notify]\nto = 'x://y'\n"
    settings = load.parse(ROOT, FULL.encode(), own, OWN)

    assert settings.policies == ("never", "when_unsure", "always")
    assert (settings.fan_out, settings.parallel, settings.sending.message) == (4, 3, 20_000)
    assert settings.roles["coder"].limits == {"turn_seconds": 60.0}
    assert settings.budget.job == {"turns": 40.0, "tokens": 2e6}
    assert settings.notify is not None
    assert settings.notify.to == ("desktop",)


def test_without_a_file_all_is_as_it_is_by_default() -> None:
    assert load.parse(ROOT, b"", b"", OWN) == load.parse(ROOT, b"") == Settings()


@pytest.mark.parametrize(
    "content, settled, said",
    [
        (
            "[limits]\nfan_out = 3\nfan_ut = 3",
            "",
            "/nowhere/parley.toml:3:1: [limits] fan_ut: there is no such setting",
        ),
        (
            "[limits]\nfan_out = 'x'",
            "",
            "/nowhere/parley.toml:2:11: [limits] fan_out: it must be a whole number; write",
        ),
        ("\n\nlimits.fan_out = 0", "", "/nowhere/parley.toml:3:18: [limits] fan_out: it must be a whole number; write"),
        (
            "",
            "[limits]\nfan_out = 0",
            "/users/parley.toml:2:11: [limits] fan_out: it must be a whole number; write",
        ),
        ("", "[bus]\n", "/users/parley.toml:1:2: bus: this is about one repository; move it to that repository's"),
        ("[roles]\nx = 1", "", "/nowhere/parley.toml:2:5: [roles.x]: it must be a table; write [roles.x] on a line"),
        ("[budget.job]\nturns = 'x'", "", "/nowhere/parley.toml:2:9: [budget.job] turns: it must be a whole number"),
        ("[notify]\nto = ['a://b', 'c']", "", "/nowhere/parley.toml:2:6: [notify] to: address 2 is none; write it as"),
        ("a = [\n1,\n2", "", "/nowhere/parley.toml:3:2: this is not valid TOML (Unclosed array); correct it here"),
        ("[limits]\nä = '\ud800'", "", "/nowhere/parley.toml:2:6: this is not UTF-8; save the file as UTF-8"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(content: str, settled: str, said: str) -> None:
    told = refusal(content.encode(errors="surrogatepass"), settled.encode())

    assert told.startswith(said)
