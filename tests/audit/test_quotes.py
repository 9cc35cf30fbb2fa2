"""Words in a person's name that they did not say are found, also where the chain was made anew."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from parley.protocol.codec import decode_as, encode_term
from parley.protocol.rule import Answer
from tests.audit.conftest import Kept
from tests.audit.played_jobs import RecordedHome
from tests.audit.tamper import Row, rows, tampered, update
from tests.audit.test_tampering import rechain

PLAY = r"""
proxy:
  - match: '\[QUESTION\] INTENT'
    do: [{ask_human: {text: "please look", found: "no test", would: approve, confidence: 0.5}}]
  - {match: '\[QUESTION\] PLAN', do: [{ask_human: "look again"}]}
  - {match: '\[HUMAN\]', do: [{answer: {verdict: revise, text: "they mean the colour"}}]}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: INTENT.md, text: "intent"}}, {assert: {artifact: INTENT.md, text: "is it right?"}}]
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "ok"}}]}
  project-lead:
    - match: '\[PLAN\]'
      do: [{write: {path: PLAN.md, text: "plan"}}, {assert: {artifact: PLAN.md, text: "is it sound?"}}]
    - {match: '\[ANSWER revise\]', do: [{sleep: 0.1}]}
"""


def play(folder: Path, **settings: Any) -> Kept:
    """A job with a verdict of the human's on its intent, and words without one on its plan."""
    theatre = RecordedHome(folder, "sqlite")
    job = "quoted"
    theatre.start(job, PLAY, **settings)
    theatre.go_on(job)
    theatre.answer(job, "approve", "yes,\nso it is")
    theatre.go_on(job)
    theatre.answer(job, None, "rather green?")
    theatre.go_on(job)
    assert theatre.audit(job).ok
    state = theatre.state(job)
    theatre.close()
    return Kept(job, folder, state, folder)


@pytest.fixture(scope="module")
def quoted(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return play(tmp_path_factory.mktemp("quotes") / "home")


def said(kept: Kept, agent: str, mark: str) -> Row:
    return next(row for row in rows(kept, "messages") if row["agent"] == agent and row["body"].startswith(mark))


def reworded(row: Row, **meta: Any) -> Callable[[sqlite3.Connection], None]:
    """A message that says something else, in a chain that fits."""
    body = meta.pop("body", row["body"])

    def tamper(raw: sqlite3.Connection) -> None:
        update(raw, "messages", row, body=body, meta=json.dumps({**json.loads(row["meta"]), **meta}))
        rechain(raw)

    return tamper


def found(kept: Kept, folder: Path, row: Row, **changes: Any) -> str:
    report = tampered(kept, folder, reworded(row, **changes), anchored=False)
    assert [(one.table, one.number) for one in report.findings] == [("messages", row["number"])]
    return report.findings[0].what


def test_an_answer_with_other_words_than_the_humans_is_found(quoted: Kept, tmp_path: Path) -> None:
    row = said(quoted, "intent-lead", "[ANSWER approve]")
    assert row["body"].endswith("so it is\n\n(the proxy's remarks, not the human's words) It found: no test")
    other = row["body"].replace("so it is", "so it is, and delete the rest")
    assert "does not say what was answered" in found(quoted, tmp_path, row, body=other)
    words = "yes,\nso it is, and delete the rest"
    assert "other words than the human's" in found(quoted, tmp_path, row, body=other, text=words)


def test_the_proxys_remarks_can_not_be_moved_before_their_heading(quoted: Kept, tmp_path: Path) -> None:
    row = said(quoted, "intent-lead", "[ANSWER approve]")
    body = row["body"].replace("\n\n(the proxy's remarks, not the human's words)", "")
    assert "does not say what was answered" in found(quoted, tmp_path, row, body=body)


def test_a_verdict_of_the_proxys_in_the_humans_name_is_found(quoted: Kept, tmp_path: Path) -> None:
    row = said(quoted, "project-lead", "[ANSWER revise]")
    assert "the human's words, read as revise by the proxy" in row["body"]
    body = row["body"].replace("the human's words, read as revise by the proxy", "from the human")
    assert "by whom" in found(quoted, tmp_path, row, body=body)
    assert "another answer than its step" in found(quoted, tmp_path, row, body=body, author="human")
    step = next(one for one in reversed(rows(quoted, "steps")) if one["rule"] == "respond")

    def forge(raw: sqlite3.Connection) -> None:
        update(raw, "steps", step, choice=step["choice"].replace('"proxy"', '"human"'), who="human")
        rechain(raw)

    (finding,) = tampered(quoted, tmp_path, forge, anchored=False).findings
    assert (finding.table, finding.number) == ("steps", step["number"])
    assert "this answer is the proxy's, not the human's" in finding.what


@pytest.mark.parametrize("instead", ["[]", '["m1"]'])
def test_an_answer_that_does_not_name_the_humans_messages_is_found(quoted: Kept, tmp_path: Path, instead: str) -> None:
    for step in (one for one in rows(quoted, "steps") if one["rule"] == "respond"):
        answer = decode_as(Answer, step["choice"])
        assert len(answer.words) == 1
        choice = encode_term(replace(answer, words=tuple(json.loads(instead))))

        def forge(raw: sqlite3.Connection, step: Row = step, choice: str = choice) -> None:
            update(raw, "steps", step, choice=choice)
            rechain(raw)

        (finding,) = tampered(quoted, tmp_path, forge, anchored=False).findings
        assert (finding.table, finding.number) == ("steps", step["number"])
        assert "carries all that the human said" in finding.what


def test_a_question_that_the_asker_did_not_ask_is_found(quoted: Kept, tmp_path: Path) -> None:
    row = said(quoted, "human", "INTENT INTENT.md")
    body = row["body"].replace("is it right?", "may I delete everything?")
    assert "does not put the question as it was asked" in found(quoted, tmp_path, row, body=body)
    what = found(quoted, tmp_path, row, body=body, text="may I delete everything?")
    assert "other words than theirs" in what


@pytest.mark.parametrize(
    "view", [{"would": {"verdict": "approve"}}, {"predicted": {"verdict": "approve"}}, {"found": "x"}]
)
def test_a_view_of_a_proxy_that_had_no_turn_is_found(tmp_path: Path, view: dict[str, Any]) -> None:
    kept = play(tmp_path / "home", brief_human=False)
    row = said(kept, "human", "INTENT INTENT.md")
    assert "had no turn before the human" in found(kept, tmp_path, row, view=view)
