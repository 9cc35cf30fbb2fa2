"""`parley audit` says what was refused: to whom, what, and why; and so does the audit of an export."""

import json
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from parley.audit.refusals import ANOTHER_PROGRAM, LISTED, Refusals
from parley.base.json_codec import encode
from parley.bus.rows import InputRow, StepRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import account_name
from parley.engine.values.human_inputs import Denied
from parley.engine.values.step_extra import StepExtra
from parley.ports.turns import Confined
from tests.cli.home import APPROVES, LEADS, Home

HOSTILE = LEADS.replace(
    "do: [{write: {path: INTENT.md",
    'do: [{write: {path: ".g\\u200cit/config", text: "x"}}, {write: {path: "PARLEY.TOML", text: "x"}}, '
    '{assert: {artifact: GONE.md, text: "right?"}}, {write: {path: INTENT.md',
    1,
)


def test_the_audit_says_what_was_refused_to_whom_and_why(home: Home, tmp_path: Path) -> None:
    job = home.start(HOSTILE + APPROVES)

    told = home.run("audit", job, "--json").document["refusals"]
    whys = [one["why"] for one in told["listed"]]
    assert told["by"]["intent-lead"] == {"left_out": 4, "refused": 1}  # the files are there in its second turn, too
    assert (told["count"], told["more"]) == (len(whys), 0)
    assert all(one["time"] > 0 and one["table"] == "steps" for one in told["listed"])
    assert any("git's own on another filesystem" in why for why in whys)
    assert any("its name is parley.toml on another filesystem" in why for why in whys)
    assert any("GONE.md" in why for why in whys)

    text = home.run("audit", job)
    assert text.code == 0
    assert f"{len(whys)} refusals are recorded: 5 of intent-lead" in text.out
    assert "\u200c" not in text.out
    assert home.run("export", job, "-o", str(tmp_path / "x.jsonl")).code == 0
    assert home.run("audit", str(tmp_path / "x.jsonl"), "--json").document["refusals"] == told


def test_refusals_are_counted_where_there_are_too_many_to_list() -> None:
    found = Refusals()
    row = StepRow(
        number=1,
        transaction=1,
        rule="nosend-step",
        who="coder",
        time=1.0,
        at="coder dispatch:1",
        choice="",
        consumed="",
        produced="",
    )
    for number in range(LISTED):
        cage = Confined(faults=(f"udp: datagram {number} arrived",))
        found.step(row, StepExtra(refused=(f"{number}{'a' * 1000}", f"b{number}"), boundary=cage))

    document = found.document()
    assert (document["count"], len(document["listed"]), document["more"]) == (3 * LISTED, LISTED, 2 * LISTED)
    assert document["by"] == {"coder": {"boundary": LISTED, "refused": 2 * LISTED}}
    assert len(found.lines()) == 12
    assert max(map(len, found.lines())) < 500


def test_a_refusal_that_is_told_again_and_again_hides_no_other() -> None:
    found = Refusals()
    row = StepRow(
        number=1,
        transaction=1,
        rule="nosend-step",
        who="coder",
        time=1.0,
        at="coder dispatch:1",
        choice="",
        consumed="",
        produced="",
    )
    for _ in range(2 * LISTED):
        found.step(row, StepExtra(left_out=(".GIT/x: its name is git's own on another filesystem",)))
    found.step(row, StepExtra(refused=("/etc/passwd is outside your workspace",)))

    document = found.document()
    assert [one["kind"] for one in document["listed"]] == ["left_out"] * (LISTED // 2) + ["refused"]
    assert (document["count"], document["more"]) == (2 * LISTED + 1, 2 * LISTED - LISTED // 2)
    _, first, last = found.lines()
    assert first.endswith(f"(steps 1), {2 * LISTED} times")
    assert "/etc/passwd" in last


def test_the_audit_says_which_inputs_were_not_followed_whose_they_were_and_why(home: Home, tmp_path: Path) -> None:
    job, now = home.start(), time.time()
    gone = {"question": "gone", "framing": "", "ruling": "approve", "text": "", "rule": None}
    with closing(SqliteStore(home.folder / ".parley")) as store:
        store.put(job, "answer", "a1", now, "mallory", json.dumps(gone))
        store.put(job, "answer", "a2", now, account_name(), json.dumps(gone))
        store.put(job, "intervene", "a3", now, account_name(), json.dumps({"thread": "dispatch:none", "text": "x"}))
    with closing(sqlite3.connect(home.folder / ".parley/bus.db", isolation_level=None)) as bus:
        forged = [job, "withdraw", "a4", now, f"{account_name()}\nhead 0", "{}", "0" * 64]
        bus.execute(
            "INSERT INTO inputs (job, kind, key, time, by, body, signature) VALUES (?, ?, ?, ?, ?, ?, ?)", forged
        )
    home.run("resume", job)

    told = home.here("audit", job, "--json").document["refusals"]
    assert told["by"] == {"mallory": {"input": 1}, account_name(): {"input": 2}, ANOTHER_PROGRAM: {"input": 1}}
    assert {one["table"] for one in told["listed"]} == {"inputs"}
    assert all(one["time"] == now for one in told["listed"])
    for why in ("only they can answer; not mallory", "has no open question gone", "no dispatch:none", "is not signed"):
        assert any(why in one["why"] for one in told["listed"]), why
    text = home.here("audit", job)
    assert text.code == 0
    assert "\nhead 0" not in text.out, "a name can't pass for a line of the report"
    home.here("export", job, "-o", str(tmp_path / "x.jsonl"))
    assert home.here("audit", str(tmp_path / "x.jsonl"), "--json").document["refusals"] == told


def test_the_audit_says_which_merges_were_refused_and_for_which_files(home: Home, tmp_path: Path) -> None:
    also = 'do: [{write: {path: "a.txt", text: "a"}}, {write: {path: WORK'
    job = home.start(LEADS.replace("do: [{write: {path: WORK", also) + APPROVES)
    home.write("a.txt", "the user's own")
    assert home.run("merge", job, "--dry-run").code == 1
    assert home.here("audit", job, "--json").document["refusals"]["count"] == 0, "a rehearsal is no merge"

    assert "a.txt" in home.refuses("merge", job, code=1)
    told = home.here("audit", job, "--json").document["refusals"]
    (one,) = told["listed"]
    assert (one["kind"], one["who"], one["table"]) == ("merge", account_name(), "inputs")
    assert "a.txt" in one["why"]
    assert one["time"] > 0
    assert f"{account_name()} was refused a merge: a.txt" in home.here("audit", job).out
    home.here("export", job, "-o", str(tmp_path / "x.jsonl"))
    assert home.here("audit", str(tmp_path / "x.jsonl"), "--json").document["refusals"] == told
    assert home.here("show", job).code == 0
    shutil.copytree(home.folder, tmp_path / "copy", symlinks=True)
    copy = Home(tmp_path / "copy")
    assert "will be deleted" not in copy.here("bus", "adopt", "--yes").out
    assert copy.here("audit", job, "--json").document["refusals"] == told, "nor does an adoption lose it"


def test_a_merge_of_what_is_not_done_is_told_before_and_after_the_job_goes_on(asked: Home) -> None:
    job = asked.job()
    shown = asked.here("inbox").out
    assert asked.here("merge", job, "--dry-run").code == 2
    assert asked.here("audit", job, "--json").document["refusals"]["count"] == 0, "a rehearsal is no merge"
    assert "it is not done yet" in asked.refuses("merge", job)
    assert asked.here("inbox").out == shown, "it asks nothing of the job"

    for taken in (False, True):
        if taken:
            asked.run("resume", job)
        report = asked.here("audit", job)
        assert report.code == 0
        assert f"{account_name()} was refused a merge: {job} can't be merged: it is not done yet" in report.out
    asked.here("withdraw", job)
    assert "it was withdrawn" in asked.refuses("merge", job)
    assert asked.here("audit", job, "--json").document["refusals"]["by"] == {account_name(): {"merge": 2}}


def test_a_refusal_is_one_line_whatever_was_said() -> None:
    found = Refusals()
    found.step(
        StepRow(
            number=1,
            transaction=1,
            rule="nosend-step",
            who="coder",
            time=1.0,
            at="coder dispatch:1",
            choice="",
            consumed="",
            produced="",
        ),
        StepExtra(refused=("a\nb\x1b[2J",)),
    )
    found.input(
        InputRow(
            number=1,
            job="j",
            kind="x\ny",
            key="k",
            time=1.0,
            by="m\nn",
            body="[",
            taken=1,
            note=encode(Denied("o\np")),
            signature="",
        ),
        signed=True,
        ended=True,
    )
    found.input(
        InputRow(
            number=2, job="j", kind="merge", key="k", time=1.0, by="m", body="[" * 5000, taken=0, note="", signature=""
        ),
        signed=True,
        ended=True,
    )

    assert not any(char in line for line in found.lines() for char in "\n\x1b")
    assert found.document()["count"] == 3
