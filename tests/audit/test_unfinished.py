"""A record that hides unfinished work which was left out is found, also by a chain that was made anew."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.audit.conftest import Kept
from tests.audit.played_jobs import RecordedHome
from tests.audit.tamper import rows, tampered, update
from tests.audit.test_quotes import found, said
from tests.audit.test_tampering import rechain

PLAY = r"""
proxy:
  - {match: '\[QUESTION\]', do: [{ask_human: "please look"}]}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {send: {to: researcher, as: r, text: "look around"}}
        - {write: {path: INTENT.md, text: "intent"}}
        - {assert: {artifact: INTENT.md, text: "is it right?"}}
    - {match: '\[ANSWER revise\]', do: [{sleep: 0.1}]}
  researcher:
    - {match: '.', do: [{sleep: 0.5}, {say: "looked"}]}
"""


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A job whose lead puts its intent forward while it dispatches a worker, and again while that one is at work."""
    folder = tmp_path_factory.mktemp("hurried") / "home"
    theatre = RecordedHome(folder, "sqlite")
    theatre.start("hurried", PLAY)
    theatre.go_on("hurried")
    assert theatre.audit("hurried").ok
    state = theatre.state("hurried")
    theatre.close()
    return Kept("hurried", folder, state, folder)


def test_the_step_the_question_and_what_the_human_reads_all_have_to_say_it(hurried: Kept, tmp_path: Path) -> None:
    step = next(row for row in rows(hurried, "steps") if '"unfinished"' in row["extra"])
    extra = json.loads(step["extra"])
    del extra["unfinished"]

    def forge(raw: sqlite3.Connection) -> None:
        update(raw, "steps", step, extra=json.dumps(extra))
        rechain(raw)

    (finding,) = tampered(hurried, tmp_path, forge, anchored=False).findings
    assert (finding.table, finding.number) == ("steps", step["number"])
    assert "it tells of other unfinished work than dispatch:" in finding.what

    asked = said(hurried, "proxy", "[QUESTION]")
    silent = "[QUESTION] INTENT INTENT.md\nis it right?"
    assert "is left out" in found(hurried, tmp_path, asked, body=silent)
    assert "is left out" in found(hurried, tmp_path, asked, unfinished=[])
    put = said(hurried, "human", "INTENT INTENT.md")
    assert "does not tell the unfinished work" in found(hurried, tmp_path, put, unfinished=[])
    assert "as it was asked" in found(hurried, tmp_path, put, body=put["body"].replace("Left out", "Put in"))
