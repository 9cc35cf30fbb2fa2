"""What the job's page is made of: drawings, the words of the rules, the past that is read, a workflow's table."""

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from parley.cli.common import place_of
from parley.cli.looking.repository_contexts import context_of
from parley.protocol.molecules import Entry, Record
from parley.protocol.rules import RULES
from parley.protocol.states import Action, State
from parley.views.dependency_layers import layered
from parley.views.history.state_machine import state_machine
from parley.views.history.timeline import TimelineView, timeline
from parley.views.repository_context import JobContext
from parley.views.workflow_view import workflow_page
from parley.web.drawing import graph as graph_drawing
from parley.web.drawing import state_machine as machine_drawing
from parley.web.drawing import timeline as timeline_drawing
from parley.web.pages.workflow import LEVELS
from parley.web.reads import job_indexes
from parley.web.reads.job_indexes import JobIndexes
from parley.web.rule_words import explained
from parley.web.templating import Templates
from tests.cli.home import APPROVES, LEADS, Home
from tests.engine.job_harness import JOB, always, on, say, write
from tests.web.acting import SCRIPT
from tests.web.page_harness import prepare_repository, start_job
from tests.workflow.workflow_harness import WorkflowHarness, doer, note, output, plan, verdict


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A repository with one job that is done."""
    made = prepare_repository(tmp_path_factory.mktemp("parts") / "project")
    start_job(made, LEADS + APPROVES)
    return made


@pytest.fixture
def at(home: Home) -> Iterator[JobContext]:
    """The job."""
    context = context_of(place_of(str(home.folder)))
    yield JobContext(context, context.jobs()[0].job)
    context.close()


def parsed(drawn: str) -> ET.Element:
    """A drawing as XML: it is well formed."""
    return ET.fromstring(drawn)  # noqa: S314 - made here


# ---- drawings ----------------------------------------------------------------------------------------


def record(state: State, *passed: tuple[State, Action]) -> Record:
    """A record that has walked so."""
    history = tuple(
        Entry(before, action, "lead", 10.0 + number, "why") for number, (before, action) in enumerate(passed)
    )
    return Record("j", state, history=history)


def test_the_state_machine_draws_each_way_back_with_how_often_it_was_taken() -> None:
    walked = record(
        State.EXECUTE,
        (State.INTENT, Action.APPROVED_INTENT),
        (State.PLAN, Action.APPROVED_PLAN),
        (State.EXECUTE, Action.REPLAN),
        (State.PLAN, Action.APPROVED_PLAN),
        (State.EXECUTE, Action.REPLAN),
        (State.PLAN, Action.APPROVED_PLAN),
    )
    drawn = str(machine_drawing.draw(state_machine(walked, 1.0, 100.0)))

    parsed(drawn)
    assert "REPLAN: back from EXECUTE to PLAN, 2 times" in drawn
    assert drawn.count('class="back"') == 1
    assert re.search(r'state-node here"><title>EXECUTE', drawn)
    assert "WITHDRAWN" not in drawn


def test_the_state_machine_ends_where_the_job_ended() -> None:
    drawn = str(machine_drawing.draw(state_machine(record(State.FAILURE, (State.INTENT, Action.FAILURE)), 1.0, 9.0)))

    assert "state-node here failed" in drawn
    assert ">DONE<" not in drawn


def test_a_graph_draws_every_agent_and_dependency_whatever_their_names() -> None:
    wanted = {"a": ["b"], "b": ["a"], SCRIPT: ["a", "nobody"], "w" * 300: []}
    drawn = str(graph_drawing.draw(layered(wanted, {"a": "verified", "b": "session_complete"}), LEVELS))

    found = parsed(drawn)
    assert len(found.findall(".//rect")) == 4
    assert len([one for one in found.iter("path") if "graph-edge" in one.attrib.get("class", "")]) == 3
    assert "<script" not in drawn
    assert 'class="graph-node good"' in drawn
    assert "session complete" in drawn


def test_an_empty_graph_is_drawn_too() -> None:
    parsed(str(graph_drawing.draw(layered({}, {}), LEVELS)))


def test_a_timeline_draws_a_row_for_each_thread_within_its_width(at: JobContext) -> None:
    reading = JobIndexes(lambda repository, job: None).of("key", at, at.present())
    with reading.held() as index:
        assert index is not None
        found = timeline(index, index.turns_of()[-1].ended, TimelineView(rows=100))
    drawn = parsed(str(timeline_drawing.draw(found, "/r/k/j")))

    bars = [one for one in drawn.iter("rect") if one.attrib["class"].startswith("seg")]
    assert len(bars) == sum(len(row.segments) for row in found.rows)
    right = timeline_drawing.WIDE
    assert all(float(bar.attrib["x"]) + float(bar.attrib["width"]) <= right + 2 for bar in bars)
    assert len(drawn.findall(".//a")) == len(found.rows)


# ---- rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_is_explained(name: str) -> None:
    assert explained(name).words.endswith(".")
    assert explained(name).shape == RULES[name].shape


def test_a_rule_that_is_not_known_is_told_as_such() -> None:
    assert "does not know" in explained(SCRIPT).words


# ---- the past of jobs --------------------------------------------------------------------------------


def test_a_short_job_is_read_at_once(at: JobContext) -> None:
    told: list[tuple[str, str]] = []
    reading = JobIndexes(lambda repository, job: told.append((repository, job))).of("key", at, at.present())

    assert reading.ready
    assert told == []


def test_a_long_job_is_read_beside_and_told_of_when_it_is_there(
    at: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_indexes, "AT_ONCE", 3)
    monkeypatch.setattr(job_indexes, "SLICE", 7)
    told = threading.Event()
    indexes = JobIndexes(lambda repository, job: told.set())
    first = indexes.of("key", at, at.present())
    with first.held() as index:
        assert index is None
    assert told.wait(30)

    again = indexes.of("key", at, at.present())
    assert again is first
    with again.held() as index:
        assert index is not None
        last = at.present().loaded.transaction
        assert last is not None
        assert index.step == last.steps


def test_only_the_jobs_that_were_looked_at_last_are_kept(at: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_indexes, "MOST", 2)
    indexes = JobIndexes(lambda repository, job: None)
    first, second = indexes.of("one", at, at.present()), indexes.of("two", at, at.present())
    assert indexes.of("one", at, at.present()) is first
    indexes.of("three", at, at.present())

    assert indexes.of("one", at, at.present()) is first
    assert indexes.of("two", at, at.present()) is not second


def test_a_past_that_another_program_changed_is_told_and_not_read_again_and_again(tmp_path: Path) -> None:
    home = prepare_repository(tmp_path / "project")
    job = start_job(home, LEADS)
    with closing(sqlite3.connect(home.folder / ".parley" / "bus.db", isolation_level=None)) as other:
        triggers = other.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            other.execute(f"DROP TRIGGER {name}")
        other.execute("UPDATE steps SET extra = '{' WHERE rule = 'ask-step'")
        for _, made in triggers:
            other.execute(made)
    context = context_of(place_of(str(home.folder)))
    at = JobContext(context, job)
    reading = JobIndexes(lambda repository, job: None).of("key", at, at.present())

    assert reading.problem
    assert not reading.ready
    context.close()


# ---- a workflow --------------------------------------------------------------------------------------


def test_the_table_of_a_workflow_has_notes_rounds_and_merges_as_text() -> None:
    small = note(description=SCRIPT, context="c", status="resolved", category="documentation", resolution=SCRIPT)
    made = (small, write("src/one/one.py", "1"), write(output("one"), "1"), say("made"))
    agents = {
        "one": doer("one", on(r"^\[TASK\]", *made)),
        "two": doer("two"),
        "judge": [
            on(r"^\[VERIFY\] one, round 1", verdict("rejected", SCRIPT)),
            always(r"^\[VERIFY\]", verdict("verified"), say("good")),
        ],
    }
    asked = plan({"name": "one"}, {"name": "two", "depends_on": ["one"]}, stages=[["one"], ["two"]])
    flow = workflow_page(WorkflowHarness(asked, agents).run().outside.load(JOB).molecules, str)
    assert flow is not None

    shown = Templates().render(
        "part_workflow.html",
        flow=flow,
        graph=graph_drawing.draw(flow.graph, LEVELS),
        levels=LEVELS,
        base="/r/k/j",
        live="x",
    )

    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") >= 3
    assert "2 rounds, last: verified" in shown
    assert "1 note" in shown
    assert shown.count(">merged<") == 2
    assert 'href="#agent-two"' in shown
    assert 'id="agent-two"' in shown
