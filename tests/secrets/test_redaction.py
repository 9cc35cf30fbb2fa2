"""No secret survives, in any form that it may take; nothing else is touched."""

import base64
import json
import re
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.base.documents.node import SHOWN
from parley.base.redaction import SHAPES, Secrets, hints
from parley.base.text import BadText, last_bytes, read_json
from parley.bus.rows import MessageRow
from parley.features.secrets.row_redaction import choice, message_row, molecule, words
from parley.features.secrets.secret_sources import from_environment, from_text, names_a_secret, secrets_of
from parley.protocol.codec import decode_choice, decode_molecule, encode_term
from parley.protocol.molecules import Idle, MessageKind
from parley.protocol.rule import Passage
from parley.protocol.states import Action
from parley.protocol.transitions import make_initial_state, transition
from parley.runners.scripted import agent_process
from parley.workflow.files.reading import strict_json
from parley.workspaces import outcome_record
from parley.workspaces.files.scan import path_text

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "JSON": json.dumps,
    "JSON, all Unicode": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps(json.dumps({"said": text})),
    "JSON with every letter escaped": lambda text: "".join(
        f"\\u{ord(char):04x}" for char in text if ord(char) < 1 << 16
    ),
    "JSON with slashes escaped": lambda text: json.dumps(text).replace("/", "\\/"),
    "percent": lambda text: quote(text, safe=""),
    "percent, small letters": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "form": quote_plus,
    "base 64": lambda text: base64.b64encode(text.encode()).decode(),
    "base 64 after one": lambda text: base64.b64encode(b"u" + text.encode() + b"tail").decode(),
    "base 64 after two": lambda text: base64.b64encode(b"u:" + text.encode() + b"!").decode(),
    "base 64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "HEXADECIMAL": lambda text: text.encode().hex().upper(),
}
KEYS = string.ascii_letters + string.digits + "-_.~!@#$%^&*()+=/\\\"' ü€😀"
LEAST = 4  # letters that say that something has survived
NAMES = ("PLANTED_KEY", *(shape.name for shape in SHAPES))


def could_be_kept(text: str) -> bool:
    return text == text.strip() and len(set(text)) > 3 and not any(text in f"[redacted {name}]" for name in NAMES)


VALUES = st.text(KEYS, min_size=8, max_size=60).filter(could_be_kept)
AROUND = st.text(max_size=60)
PIECES = st.text("ab-_: Kx", min_size=1, max_size=5)


def undone(form: str, text: str) -> bool:
    """Whether a form keeps all of the text, so that it could be read out of it again."""
    return form != "JSON with every letter escaped" or all(ord(char) < 1 << 16 for char in text)


@pytest.mark.parametrize("form", FORMS)
@given(before=AROUND, value=VALUES, after=AROUND)
@settings(max_examples=30, deadline=None)
def test_no_planted_secret_survives_in_any_form(form: str, before: str, value: str, after: str) -> None:
    if not undone(form, value):
        return
    planted = FORMS[form](value)
    # of base 64 the part that does not depend on what stands around it
    core = planted.strip('"')
    if form.startswith("base 64"):
        core = core.rstrip("=")[4:-6]
        if len(core) < LEAST:
            return  # so few letters are found anywhere
    text = f"{before} {planted} {after}"

    redacted = Secrets([("PLANTED_KEY", value)]).redact(text)

    assert core not in redacted or core in f"{before}|{after}" or core in "[redacted PLANTED_KEY]"
    assert "[redacted " in redacted


@given(before=AROUND, value=VALUES, after=AROUND, form=st.sampled_from(sorted(FORMS)))
@settings(max_examples=100, deadline=None)
def test_redacting_again_changes_nothing(before: str, value: str, after: str, form: str) -> None:
    secrets = Secrets([("PLANTED_KEY", value), ("OTHER", value[::-1]), ("PIN", value[:4])])
    once = secrets.redact(f"{before}{FORMS[form](value)}{after}{value}")

    assert secrets.redact(once) == once


@given(beginnings=st.sets(PIECES, min_size=1, max_size=12), text=st.text("ab-_: Kx", max_size=40))
def test_a_texts_hints_are_those_of_the_beginnings_in_it(beginnings: set[str], text: str) -> None:
    hinted = any(
        rare in text and (only in text if only else re.search(pattern, text))
        for rare, only, pattern in hints(beginnings)
    )

    assert hinted == any(beginning in text for beginning in beginnings)


@given(st.text(max_size=400))
@settings(max_examples=100, deadline=None)
def test_a_text_without_secrets_stays_to_the_byte(text: str) -> None:
    assert Secrets([("KEY", "0123456789abcdef-planted")]).redact(text) == text


PROSE = """The task-runner reads tasks-and-subtasks-in-order-of-priority, and sk-learn is not used. Basic
configuration and bearer authentication are described in docs/auth.md; see https://example.test:8080/path?x=%20y and
C:\\new\\temp. A PRIVATE KEY is needed. `git commit -m "x"` gives 3f5a9e0c1b2d4e6f8a7b9c0d1e2f3a4b5c6d7e8f. AKIA is
a prefix. eyJ too. {"a": "\\u00fc\\n", "b": [1, 2]} Author: token-based; authorization: see RFC.
sk-some-kebab-case-name-that-goes-on. password: required.
"""


def test_prose_and_code_that_only_sound_like_secrets_stay() -> None:
    assert Secrets().redact(PROSE) == PROSE


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq0\nabcdEFGH0123\n-----END RSA PRIVATE KEY-----"
TOKENS = {
    "anthropic-key": "sk-ant-api03-abcDEF123_-xyz",
    "api-key": "sk-proj-abcdefghijkl0123456789",
    "payment-key": "sk_live_abcdefghij0123",
    "github-token": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "gitlab-token": "glpat-abcdefghij0123456789",
    "aws-key": "AKIAIOSFODNN7EXAMPLE",
    "slack-token": "xoxb-123456789012-abcdefghij",
    "google-key": "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "package-token": "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJlLW9mLWl0",
    "private-key": PEM,
}


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("form", ["as it is", "JSON", "JSON in JSON", "percent", "JSON with every letter escaped"])
def test_keys_of_known_shapes_are_found_unknown(name: str, form: str) -> None:
    text = f"before {FORMS[form](TOKENS[name])} after"

    redacted = Secrets().redact(text)

    assert f"[redacted {name}]" in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert FORMS[form](TOKENS[name]).strip('"')[8:-2] not in redacted


@pytest.mark.parametrize(
    "text, left",
    [
        ("Authorization: Bearer abc-def.ghi", "Authorization: Bearer [redacted authorization]"),
        ('{"authorization": "Basic dXNlcjpwYXNz"}', '{"authorization": "Basic [redacted authorization]"}'),
        ("curl -H 'x-api-key: 0123456789'", "curl -H 'x-api-key: [redacted api-key-header]'"),
        ("BEARER abcdefghijk1", "BEARER [redacted bearer]"),
        ("postgres://me:pa55w0rd@db/x", "postgres://me:[redacted url-password]@db/x"),
        ('{"key":"-----BEGIN PRIVATE KEY-----\\nMIIE","x":1}', '{"key":"[redacted private-key]","x":1}'),
        (f"{PEM} and {PEM}", "[redacted private-key] and [redacted private-key]"),
    ],
)
def test_only_the_secret_part_is_taken_out(text: str, left: str) -> None:
    assert Secrets().redact(text) == left


def test_a_short_secret_is_taken_as_a_word_and_a_tiny_one_not_at_all() -> None:
    secrets = Secrets([("PIN", "4711"), ("P", "abc")])

    assert secrets.redact("pin 4711, not 47110 or x4711; abc") == "pin [redacted PIN], not 47110 or x4711; abc"


def test_a_secret_of_several_lines_is_found_line_by_line() -> None:
    secrets = Secrets([("CERT", "first-line-0123456789\nsecond-line-0123456789\nend")])

    assert secrets.redact("| second-line-0123456789 |") == "| [redacted CERT] |"


def test_nobody_hides_a_secret_in_a_marker_or_makes_one_up() -> None:
    secrets = Secrets([("KEY", "hunter22-hunter22")])

    assert "hunter22-hunter22" not in secrets.redact("[redacted hunter22-hunter22]")
    assert secrets.redact("[redacted KEY]") == "[redacted KEY]"
    assert Secrets([("KEY", "redacted"), ("API_KEY", "API_KEY-")]).redact("[redacted KEY]") == "[redacted KEY]"


@pytest.mark.parametrize(
    "piece",
    ["-----BEGIN PRIVATE KEY-----", "AKIA", "sk-", "sk-a", "%41", "\\u0041", "\\\\", "://a:", "eyJ",
     "eyJaaaaaaaa.aaaaaaaa", "authorization: bearer ", "[redacted K]", "planted-secret", "aB1-",
     'bearer "', "x-api-key=\\"],
)  # fmt: skip
def test_its_time_grows_with_the_text_alone(piece: str) -> None:
    secrets = Secrets([("K", "planted-secret")])

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        begun = time.process_time()
        secrets.redact(text)
        return time.process_time() - begun

    # eight times the text: 8 times the time, or 64 where it grows with the square. The least of each counts, since a
    # busy machine only ever adds; it is tried again for as long as something may have been added.
    small, large = seconds(20_000), seconds(160_000)
    for _ in range(20):
        if large < 8 * 4 * max(small, 0.0005):
            return
        small, large = min(small, seconds(20_000)), min(large, seconds(160_000))
    pytest.fail(f"{large} s for eight times what takes {small} s")


# ---- where they come from ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["API_KEY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "CLIENT_SECRET", "DB_PASSWORD", "PGPASSWORD", "apiKey", "SECRET_1",
     "AWS_SECRET_ACCESS_KEY", "npm_config__authToken", "MY_PASS", "SESSION_COOKIE", "SENTRY_DSN", "SIGNING_KEYS"],
)  # fmt: skip
def test_names_that_promise_a_secret(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name",
    ["PWD", "OLDPWD", "PATH", "HOME", "SSH_AUTH_SOCK", "KEY_FILE", "TOKENIZERS_PARALLELISM", "KEYBOARD", "AUTHOR"],
)
def test_names_that_promise_none(name: str) -> None:
    assert not names_a_secret(name)


def test_what_an_env_file_holds() -> None:
    text = """# comment
export ONE="quoted \\"value\\" here"
TWO='single # not a comment'
THREE=bare-value-123 # a comment
NODE_ENV=production
DEBUG=true
PORT=3000
SHORT=abc123
PIN_SECRET=abc123
PLAIN_PASSWORD=postgres
MULTI="-----BEGIN THING
line two of it that is long
-----END THING"
BROKEN="never closed value
LAST=the-last-value
"""
    found = dict(from_text(text))
    values = {value for _, value in from_text(text)}

    assert {'quoted "value" here', "single # not a comment", "bare-value-123", "the-last-value"} <= values
    assert found["PIN_SECRET"] == "abc123"
    assert found["PLAIN_PASSWORD"] == "postgres"
    assert "line two" in found["MULTI"]
    assert {"NODE_ENV", "DEBUG", "PORT", "SHORT"}.isdisjoint(found)


def test_the_repositorys_files_and_the_copied_ones_are_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=value-of-a-0\n")
    (tmp_path / ".env.local").write_text("B=value-of-b-0\n")
    (tmp_path / ".env.example").write_text("C=value-of-c-0\n")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/settings.ini").write_text("D=value-of-d-0\n")
    (tmp_path / "conf/prod.env").write_text("E=value-of-e-0\n")
    (tmp_path / ".env.gone").symlink_to("nowhere")

    secrets = secrets_of(
        tmp_path, {"F_TOKEN": "value-of-f-0", "G": "value-of-g-0"}, ["conf/settings.ini", "conf", "no"]
    )

    text = " ".join(f"value-of-{letter}-0" for letter in "abcdefg")
    assert secrets.redact(text) == (
        "[redacted A] [redacted B] value-of-c-0 [redacted D] [redacted E] [redacted F_TOKEN] value-of-g-0"
    )
    assert list(from_environment({"X_TOKEN": "true", "Y": "z"})) == []


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_env_file_can_be_read(text: str) -> None:
    secrets = Secrets(from_text(text))
    once = secrets.redact(text)

    assert secrets.redact(once) == once


# ---- rows ----------------------------------------------------------------------------------------


VALUE = "Zq7Xw2Lm9Tn4Rk8Vb5Yc1Hd6"


@pytest.mark.parametrize(
    "kind, shown",
    [(MessageKind.REPLY, "[HUMAN chose wxyzabcdqrst] on"), (MessageKind.TASK, "[HUMAN chose [redacted KEY]] on")],
)
def test_a_mark_is_kept_only_where_the_protocol_wrote_it(kind: MessageKind, shown: str) -> None:
    row = MessageRow(
        number=1, transaction=1, sender="coder", sender_thread="dispatch:d1", agent="tester", thread="dispatch:d2",
        seq=1, key="k", time=0.0, body="[HUMAN chose wxyzabcdqrst] on", kind=kind,
    )  # fmt: skip

    assert message_row(row, Secrets([("KEY", "wxyzabcdqrst")])).body == shown


@given(
    st.recursive(
        st.just(f"x {VALUE}") | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(("task", "command", "does", "any", "text")), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_a_member_that_nobody_has_thought_of_is_redacted_too(document: Any) -> None:
    secrets = Secrets([("A_KEY", VALUE)])

    assert VALUE not in words(json.dumps({"new": document}), secrets)
    assert VALUE not in words(json.dumps({"usage": {VALUE: 1}, "notes": [{VALUE: document}]}), secrets)


def test_what_the_protocol_reads_is_never_touched() -> None:
    """Somebody has called the names of states and roles a secret."""
    secrets = Secrets([("A_KEY", "project-lead"), ("B_KEY", "dispatch:abc"), ("PIN_KEY", "INTENT")])
    row = (
        '{"to":"project-lead","thread":"dispatch:abc","state":"INTENT",'
        '"text":"ask project-lead","deep":[{"reason":"INTENT"}]}'
    )

    assert json.loads(words(row, secrets)) == {
        "to": "project-lead",
        "thread": "dispatch:abc",
        "state": "INTENT",
        "text": "ask [redacted A_KEY]",
        "deep": [{"reason": "[redacted PIN_KEY]"}],
    }
    assert words('{"a": 1}', secrets) == '{"a": 1}'
    passage = Passage(Action.REALIGN, "project-lead", 1.0, "the project-lead says so")
    redacted = "the [redacted A_KEY] says so"
    assert decode_choice(choice(encode_term(passage), secrets)) == replace(passage, reason=redacted)
    assert (
        choice('["project-lead",{"reason":"INTENT"}]', secrets)
        == '["[redacted A_KEY]",{"reason":"[redacted PIN_KEY]"}]'
    )
    record = transition(make_initial_state("j"), Action.APPROVED_INTENT, reason="the project-lead says so")
    kept = decode_molecule(molecule("record j", encode_term(record), secrets))
    assert kept == replace(record, history=(replace(record.history[0], reason=redacted),))
    idle, cause = encode_term(Idle("project-lead", "dispatch:abc")), encode_term("project-lead")
    assert (molecule("life project-lead dispatch:abc", idle, secrets), choice(cause, secrets)) == (idle, cause)
    assert words("broken project-lead {", secrets) == "broken [redacted A_KEY] {"


@given(st.text("ab \n\u200b", max_size=40), st.integers(2, 80), st.booleans())
def test_what_a_cut_leaves_of_a_secret_is_redacted_too(before: str, length: int, from_end: bool) -> None:
    value = "Zq7Xw2Lm9Tn4Rk8Vb5Yc1Hd6"
    text = f"{before}{value}{before}"
    cut = f"…{text[-length:]}" if from_end else f"{text[:length]}…"
    shown = Secrets([("KEY", value)]).redact(cut if length < len(text) else text)
    assert not [at for at in range(len(value) - 7) if value[at : at + 8] in shown]


def _refusal(data: str) -> str:
    with pytest.raises(BadText) as refused:
        read_json(data, 10_000)
    return str(refused.value)


def _outcome(document: dict[str, int]) -> str:
    return outcome_record._parse(json.dumps(document).encode()).problem


# Each of these shows some of what an agent made: the parameter is what lies just where it is cut.
SHOWS: dict[str, Callable[[str], str]] = {
    "a file that is not kept": lambda text: path_text("d" * 180 + text),
    "a key given twice": lambda text: _refusal(json.dumps({"k" * 25 + text: 1})[:-1] + f', "{"k" * 25 + text}": 2}}'),
    "a key of an outcome record": lambda text: _outcome({"k" * (SHOWN - 12) + text: 1}),
    "a command of a playbook": lambda text: agent_process._beginning("c" * 185 + text),
    "a file of a workflow": lambda text: strict_json.shown("v" * (strict_json._SHOWN - 12) + text),
    "errors without line ends": lambda text: last_bytes(b"x" * 99 + text.encode() + b"y" * 88, 100).decode(),
}


@pytest.mark.parametrize("name", SHOWS)
def test_half_of_a_secret_where_something_is_cut_is_redacted_everywhere(name: str) -> None:
    value = "Zq7Xw2Lm9Tn4Rk8Vb5Yc1Hd6"
    shown = Secrets([("TOKEN", value)]).redact(SHOWS[name](value))

    assert "[redacted TOKEN]" in shown
    assert not [value[at : at + 6] for at in range(len(value) - 5) if value[at : at + 6] in shown], shown


def test_a_key_that_a_cut_has_shortened_is_still_one() -> None:
    assert Secrets().redact("use sk-ant-ab… now") == "use [redacted key]… now"
    assert Secrets().redact("see http://host:8080…") == "see http://host:8080…"


def test_keys_of_a_document_are_redacted_and_a_path_that_holds_a_value_is_spared() -> None:
    known = Secrets([("TOKEN", "Zq7Xw2Lm9Tn4"), ("ROOT", "/srv/project")])
    assert known.document({"Zq7Xw2Lm9Tn4": 1}) == {"[redacted TOKEN]": 1}
    assert known.sparing("/srv/project/.parley").redact("/srv/project Zq7Xw2Lm9Tn4") == "/srv/project [redacted TOKEN]"
