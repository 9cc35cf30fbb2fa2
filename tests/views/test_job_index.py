"""The index of a job's past: equal to what a reading of all rows finds, however it was read."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import MessageRow, StepRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.protocol.molecules import Record
from parley.views.costs import turn_costs
from parley.views.history.artifact_history import APPROVED, OPEN, SENT_BACK, VOID
from parley.views.history.job_index import JobIndex
from parley.views.history.turn_history import ABANDONED, ENDED, LOST, from_outbox
from parley.views.job_view import DAMAGE, Present, past
from tests.cli.home import Home, wait_for
from tests.views.conftest import Seen


def everything(index: JobIndex) -> tuple[object, ...]:
    """All that an index knows."""
    return (
        index.history(),
        index.costs(),
        index.threads(),
        index.turns_of(),
        index.held_times(),
        index.transitions,
        index.merges,
        index.artifacts.questions(),
    )


@pytest.mark.parametrize("width", [1, 7, 1000])
def test_a_job_read_in_slices_is_the_same_as_one_read_at_once(seen: Seen, width: int) -> None:
    sliced = JobIndex(seen.store, seen.row)
    while sliced.read(width):
        assert not sliced.complete

    assert everything(sliced) == everything(seen.index())


def test_the_index_says_what_the_past_and_the_costs_say(seen: Seen) -> None:
    index = seen.index()

    assert index.history() == past(seen.store, seen.job)
    assert index.costs() == turn_costs(seen.store, seen.row)
    assert index.history().lost == 1


def test_every_turn_is_there_with_how_it_ended(seen: Seen) -> None:
    index = seen.index()

    outbox = {turn.turn: turn for turn in from_outbox(seen.store.turns(seen.job))}
    agents = {turn.turn: turn for turn in index.turns_of() if turn.turn in outbox}
    assert agents.keys() == outbox.keys()
    assert {turn.how for turn in agents.values()} == {ENDED, LOST}
    (lost,) = [turn for turn in index.turns_of() if turn.how == LOST]
    assert lost.agent == "coder"
    assert lost.fault
    (again,) = [turn for turn in index.turns_of(lost.thread) if turn.how == ENDED]
    assert again.message == lost.message
    assert again.began >= lost.ended > lost.began
    assert sum(turn.usage.get("input_tokens", 0) for turn in index.turns_of()) == 900


def test_the_versions_of_an_artifact_have_the_verdicts_that_they_got_and_what_counts_of_them(seen: Seen) -> None:
    history = seen.index().artifacts

    plans = history.versions("PLAN.md")
    assert [(one.ruling, one.standing, one.words) for one in plans] == [
        ("revise", SENT_BACK, "say how it is tested"),
        ("approve", VOID, "good"),
        ("approve", APPROVED, "good again"),
    ]
    assert {one.author for one in plans} == {"human"}
    (intent,) = history.versions("INTENT.md")
    assert (intent.standing, intent.live) == (APPROVED, True)
    (work,) = history.versions("WORK_SUMMARY.md")
    assert (work.standing, work.ruling, work.answered) == (OPEN, "", 0.0)


def test_the_approvals_that_count_are_those_of_the_record(seen: Seen) -> None:
    record = Present(seen.store, seen.job).soup.need(Record, seen.job)

    live = {(one.artifact, one.digest) for one in seen.index().artifacts.versions() if one.live}
    assert live == set(record.approved)


def test_the_transitions_are_those_of_the_record(seen: Seen) -> None:
    record = Present(seen.store, seen.job).soup.need(Record, seen.job)

    found = seen.index().transitions
    assert [(one.before, one.action, one.reason) for one in found] == [
        (str(entry.state), str(entry.action), entry.reason) for entry in record.history
    ]
    assert [one.visit for one in found] == [2, 3, 4, 5]


def test_a_merge_that_was_clean_and_one_with_a_conflict_are_both_told(seen: Seen) -> None:
    clean, conflict = seen.index().merges

    assert (clean.agent, clean.conflicts) == ("coder", ())
    assert "till.py" in clean.words
    assert (conflict.agent, conflict.conflicts) == ("coder", ("till.py",))
    assert clean.thread != conflict.thread
    assert clean.into == conflict.into


def test_the_time_in_which_the_human_is_asked_lasts_until_the_answer(seen: Seen) -> None:
    asks = [one for one in seen.index().held_times() if one.kind == "asks"]

    assert [bool(one.ended) for one in asks] == [True] * (len(asks) - 1) + [False]
    assert all(one.began < one.ended for one in asks if one.ended)


def test_the_letters_of_a_thread_are_the_messages_to_and_from_it(seen: Seen) -> None:
    index = seen.index()

    for thread in index.threads():
        due = [row.number for row in seen.store.messages(seen.job) if thread.id in (row.thread, row.sender_thread)]
        assert list(index.letters(thread.id)) == due


PAUSED = r"""
agents:
  intent-lead:
    - {match: '\[INTENT\]', do: [{write: {path: a.txt, text: "1"}}, {sleep: 600}]}
    - {match: '\[INTERVENE', do: [{ask: {text: "what now?"}}]}
"""


def test_an_interrupted_turn_and_a_pause_are_told_and_a_later_read_goes_on_from_the_last(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "paused"
    folder.mkdir()
    home = Home(folder)
    with home.started("run", "x", "--playbook", home.write("p.yaml", PAUSED)) as process:
        wait_for(lambda: list(folder.glob(".parley/jobs/*/work/a.txt")))
        job = home.jobs()[0]["id"]
        store = SqliteStore(folder / ".parley")
        (row,) = store.jobs()
        index = JobIndex(store, row)
        index.read()
        assert [turn.how for turn in index.turns_of() if turn.agent == "intent-lead"] == [""]
        home.run("intervene", job, "stop that", "--now")
        wait_for(lambda: home.here("inbox", "--json").document["questions"])
        assert home.run("pause", job).code == 0
        process.wait(30)
    index.read()
    assert [turn.how for turn in index.turns_of() if turn.agent == "intent-lead"] == [ABANDONED, ENDED]
    assert [one.kind for one in index.held_times() if not one.ended] == ["asks", "paused"]
    fresh = JobIndex(store, row)
    fresh.read()
    assert everything(index) == everything(fresh)
    assert index.history() == past(store, job)
    store.close()


# ---- rows that another program has changed -------------------------------------------------------

ODD = [
    "",
    "x",
    "{}",
    "[]",
    '"a"',
    '["stall"]',
    "Run a",
    "Record a",
    "Hold x y",
    "Verdict a b",
    "Surface a",
    "a b c d e f",
]
COLUMNS = ["rule", "at", "choice", "consumed", "produced", "extra"]


class ChangedStore(MemoryStore):
    """A store that has the rows of another, one of them changed."""

    def __init__(self, seen: Seen, place: int, column: str, value: str) -> None:
        super().__init__(MemoryBus(), "reader")
        self._source, self._tampered = seen, (place, column, value)

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        rows = list(self._source.store.steps(job))
        place, column, value = self._tampered
        number = place % len(rows)
        rows[number] = replace(rows[number], **{column: value})
        return iter(rows)

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        return self._source.store.messages(job, after)

    def message(self, job: str, number: int) -> MessageRow:
        return self._source.store.message(job, number)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, 10_000),
    column=st.sampled_from(COLUMNS),
    value=st.one_of(st.sampled_from(ODD), st.sampled_from(["hold", "escalate", "respond", "ask", "give-up", "wake"])),
)
def test_a_row_that_another_program_has_changed_is_damage_and_nothing_worse(
    seen: Seen, place: int, column: str, value: str
) -> None:
    index = JobIndex(ChangedStore(seen, place, column, value), seen.row)

    with suppress(*DAMAGE):
        index.read()
        everything(index)
