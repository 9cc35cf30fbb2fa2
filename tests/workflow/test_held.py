"""Every file below orchestration/ is held against the bus: whatever is changed there is named, and nothing else is."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.audit.audit import audit
from parley.workflow.files.archive import LOG
from parley.workflow.host.files_audit import FilesReport
from parley.workflow.model.flow_slots import current
from parley.workflow.model.terms import PLAN, TASK_ORCHESTRATION, instructions_of, round_of, session_of, task_base_of
from simulator.disk import SimDisk, SimPapers
from tests.cli.home import Home
from tests.engine.job_harness import JOB, on, say, sleep, write
from tests.workflow.workflow_harness import JUDGE, WorkflowHarness, doer, note, output, plan, played_by, verdict

OWN = f"job:{JOB}"
DOUBT = {"description": "A or B?", "context": "at work", "category": "implementation_detail", "status": "resolved",
         "resolution": "A"}  # fmt: skip


def two() -> WorkflowHarness:
    """Two doers with notes, of whom one is sent back once."""
    once = on(r"^\[VERIFY\] two, round 1", verdict("rejected", "not yet"), say("no"))
    noting = on(r"^\[TASK\]", note(**DOUBT), *doer("one")[0]["do"])
    text = plan({"name": "one"}, {"name": "two", "depends_on": ["one"]})
    return WorkflowHarness(text, {"one": doer("one", noting), "two": doer("two"), "judge": [once, *JUDGE]})


@pytest.fixture(scope="module")
def finished() -> WorkflowHarness:
    return two().done()


def held(stage: WorkflowHarness, disk: SimDisk | None = None) -> FilesReport:
    """What the audit says of the files, after the record itself."""
    state = stage.disk.records.get((JOB, "state.json"))
    anchor = json.loads(state)["head"] if state is not None else None
    report = audit(stage.outside, JOB, anchor, papers=SimPapers(disk or stage.disk, JOB))
    assert not report.findings
    assert report.files is not None
    assert report.ok == (not report.files.odd)
    return report.files


def files(stage: WorkflowHarness) -> list[str]:
    return sorted(path for path in stage.disk.work[JOB, OWN] if path.startswith("orchestration/"))


def put(stage: WorkflowHarness, path: str, text: str | None, *, tip: bool = False) -> SimDisk:
    """The disk with a file that another hand has changed, in the folder or in what is committed."""
    disk = copy.copy(stage.disk)
    disk.work, disk.tips = dict(disk.work), dict(disk.tips)
    where = disk.tips if tip else disk.work
    changed = dict(where[JOB, OWN])
    if text is None:
        changed.pop(path)
    else:
        changed[path] = text
    where[JOB, OWN] = changed
    return disk


@settings(max_examples=50)
@given(st.data())
def test_whatever_is_changed_in_any_file_is_named_and_nothing_else(
    finished: WorkflowHarness, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(files(finished)))
    before = finished.disk.work[JOB, OWN][path]
    lines = before.split("\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    changes: list[str | None] = [
        None,
        f"{before}\n",
        before[:-1],
        "\n".join([*lines[:at], *lines[at + 1 :]]),
        "\n".join([*lines[:at], f"{lines[at]}x", *lines[at + 1 :]]),
        data.draw(st.text(st.characters(codec="utf-8"), max_size=40)),
    ]
    after = data.draw(st.sampled_from([change for change in changes if change != before]))
    tip = data.draw(st.booleans())

    found = held(finished, put(finished, path, after, tip=tip))

    assert [one.file for one in found.odd] == [path]
    assert found.odd[0].what.startswith("as committed, ") == tip
    assert after is None or found.odd[0].line > 0


@pytest.mark.parametrize(
    "path",
    [
        round_of("one", 7),
        session_of("two"),
        task_base_of("three"),
        f"{session_of('one').rpartition('/')[0]}/session_20250928_143022_service.json",
        "orchestration/agents/archival_agent/found/one.txt",
        "orchestration/notes.md",
        output("four"),
    ],
)
def test_a_file_that_is_one_too_many_is_named(finished: WorkflowHarness, path: str) -> None:
    assert [one.file for one in held(finished, put(finished, path, "{}")).odd] == [path]


def test_the_line_and_both_words_are_told(finished: WorkflowHarness) -> None:
    record = finished.disk.work[JOB, OWN][TASK_ORCHESTRATION]
    odd = held(finished, put(finished, TASK_ORCHESTRATION, record.replace("| taken |", "| not taken |", 1))).odd[0]

    assert record.split("\n")[odd.line - 1].startswith("| 1 |")
    assert odd.what.startswith('Merge log: the file says "')
    assert "| not taken |" in odd.what.partition("the bus says")[0]
    assert "| taken |" in odd.what.partition("the bus says")[2]


def test_every_kind_of_file_is_among_those_that_are_compared(finished: WorkflowHarness) -> None:
    there = files(finished)
    for path in (PLAN, TASK_ORCHESTRATION, LOG, round_of("two", 2), task_base_of("one"), instructions_of("judge")):
        assert path in there
    assert held(finished).compared == len(there)
    assert not held(finished).behind


def test_there_is_no_false_alarm_at_any_moment_of_a_job_that_goes_on() -> None:
    stage = two()
    looked: list[FilesReport] = []

    def sound(seen: Any) -> bool:
        found = held(seen)
        assert not found.odd, [str(one) for one in found.odd]
        looked.append(found)
        return not seen.live.record.live

    stage.until(sound)
    assert len(looked) > 20
    assert not looked[-1].behind
    assert any(found.compared for found in looked)


def test_what_a_lead_makes_of_the_record_in_its_own_turn_is_named() -> None:
    stage = two()
    stage.until(_complete)
    stage.disk.work[JOB, OWN][round_of("two", 1)] = "{}\n"
    with pytest.raises(AssertionError, match=r"two/verification/round_1\.json:1: the file says"):
        stage.run()  # whose last act is the audit

    assert [one.file for one in held(stage).odd] == [round_of("two", 1)]


def test_what_an_agent_had_written_when_its_job_was_withdrawn_is_no_forgery() -> None:
    begun = "orchestration/agents/one/draft.md"
    lead = [on(r"^\[EXECUTE\]", write(begun, "half"), sleep(10_000), state="EXECUTE")]
    stage = WorkflowHarness(plan({"name": "one"}), {"one": doer("one")}, execute=lead)
    stage.until(lambda s: begun in s.disk.work[JOB, OWN])
    stage.withdraw(reason="enough").run()  # whose last act is the audit

    assert (stage.state, begun in files(stage)) == ("WITHDRAWN", True)
    told = "an agent was at work in the job's tree when the job ended: only the protocol's own files were compared"
    assert held(stage).remarks == [told]


def _complete(stage: Any) -> bool:
    found = current(stage.outside.load(JOB).molecules)
    return found is not None and found.phase == "complete"


# ---- with the real program -----------------------------------------------------------------------


def book() -> str:
    """A job whose workflow of one doer comes to its end."""
    acceptance = {"text": "it is there", "commands": ["test -f src/one/one.py"]}
    play = played_by(plan({"name": "one", "acceptance": acceptance}), {"one": doer("one")})
    del play["agents"]["prover"]
    return str(yaml.safe_dump(play))


@pytest.fixture(scope="module")
def job_at(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, str]:
    """One finished job for all that look at it."""
    home = Home(tmp_path_factory.mktemp("held"))
    return home, home.start(book())


def changed(job_at: tuple[Home, str], change: Callable[[Path], object]) -> tuple[str, str]:
    """What audit and check say of a tree that somebody has changed; all is put back afterwards."""
    home, job = job_at
    tree = home.folder / ".parley/jobs" / job / "work"
    kept = {path: path.read_bytes() for path in (tree / "orchestration").rglob("*") if path.is_file()}
    change(tree)
    audited, checked = home.here("audit", job), home.here("workflow", "check", job)
    for path in (tree / "orchestration").rglob("*"):
        if path.is_symlink() or (path.is_file() and path not in kept):
            path.unlink()
    for path, data in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o644)
    assert (audited.code, checked.code) == (1, 1), audited.out + checked.out
    return audited.out, checked.out


def test_a_finished_job_is_sound_and_an_export_says_that_files_are_not_in_it(job_at: tuple[Home, str]) -> None:
    home, job = job_at
    done, checked = home.here("audit", job), home.here("workflow", "check", job)
    assert (done.code, checked.code) == (0, 0), done.out + checked.out
    assert "files below orchestration/ compared with the bus: each is what it says" in done.out
    assert home.here("audit", job, "--json").document["files"]["findings"] == []

    assert home.here("export", job, "-o", "record.jsonl").code == 0
    exported = home.here("audit", "record.jsonl")
    assert exported.code == 0
    assert "the files below orchestration/ are not here: none was compared with the bus" in exported.out


def test_an_edited_verdict_is_named_by_audit_and_check(job_at: tuple[Home, str]) -> None:
    def forge(tree: Path) -> None:
        path = tree / round_of("one", 1)
        path.write_text(path.read_text().replace('"verified"', '"rejected"'))

    audited, checked = changed(job_at, forge)
    assert "the record is sound, but 1 file is not what it says" in audited
    place = f"{round_of('one', 1)}:6: "
    said = 'the file says ""verdict": "rejected","; the bus says ""verdict": "verified","'
    assert f"{place}{said}" in audited
    assert f"{place}one: {said}" in checked


def test_links_programs_and_a_folder_that_is_gone_are_named(job_at: tuple[Home, str]) -> None:
    def link(tree: Path) -> None:
        (tree / TASK_ORCHESTRATION).rename(tree.parent / "elsewhere.md")
        (tree / TASK_ORCHESTRATION).symlink_to(tree.parent / "elsewhere.md")

    assert f"{TASK_ORCHESTRATION}: it is no ordinary file" in changed(job_at, link)[0]
    assert "its mode was changed" in changed(job_at, lambda tree: (tree / TASK_ORCHESTRATION).chmod(0o755))[0]
    gone = changed(job_at, lambda tree: (tree / "orchestration").rename(tree.parent / "moved"))
    assert f"{TASK_ORCHESTRATION}: it is missing" in gone[0]
    assert f"{TASK_ORCHESTRATION}: it is missing" in gone[1]


def test_a_session_that_was_brought_back_is_no_forgery(job_at: tuple[Home, str]) -> None:
    home, job = job_at
    (archive,) = (home.folder / ".parley/jobs" / job / "work/orchestration").rglob("session_2*.json")
    assert home.here("workflow", "restore", job, "one", archive.name).code == 0
    assert home.here("audit", job).code == 0, home.here("audit", job).out


def test_what_gc_has_freed_is_not_compared_and_that_is_told(job_at: tuple[Home, str], tmp_path: Path) -> None:
    first, job = job_at
    shutil.copytree(first.folder, tmp_path / "work", symlinks=True)
    home = Home(tmp_path / "work")
    assert home.here("bus", "adopt", "--yes").code == 0
    assert home.here("gc", job, "--older", "0s", "--unmerged").code == 0
    done = home.here("audit", job)
    assert done.code == 0
    assert "the job's files are gone (`parley gc` frees them): none was compared" in done.out
    assert "none was compared" in home.here("workflow", "check", job).out
