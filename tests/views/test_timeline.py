"""The timeline: all that happened is in it, and it is never larger than what is seen."""

import time

from hypothesis import given
from hypothesis import strategies as st

from parley.views.history.job_index import JobIndex
from parley.views.history.timeline import Segment, TimelineView, in_tree_order, merged, row_of, ticks, timeline
from tests.views.conftest import Seen


def test_every_thread_has_a_row_below_its_dispatchers_and_every_turn_a_segment(seen: Seen) -> None:
    index, now = seen.index(), time.time()

    drawn = timeline(index, now, TimelineView(rows=1000, width=10**9))

    assert drawn.total == len(drawn.rows) == len(index.threads())
    parents = {one.id: one.parent for one in index.threads()}
    depths = {row.thread: row.depth for row in drawn.rows}
    assert all(depths[name] == depths[above] + 1 for name, above in parents.items() if above)
    turns = [one.turn for row in drawn.rows for one in row.segments if one.kind == "working"]
    assert sorted(turns) == sorted(turn.turn for turn in index.turns_of())
    (lost,) = [one for row in drawn.rows for one in row.segments if one.how == "lost"]
    assert lost.words
    asks = [one for row in drawn.rows for one in row.segments if one.kind == "asks"]
    assert [one.open for one in asks].count(True) == 1
    assert max(one.ended for one in asks) == now
    assert [mark.backtrack for mark in drawn.marks] == [False, False, True, False]


def test_the_pages_together_are_all_rows(seen: Seen) -> None:
    index, now = seen.index(), time.time()
    rows = timeline(index, now, TimelineView(rows=1000)).rows

    pages = [timeline(index, now, TimelineView(first=first, rows=3)).rows for first in range(0, len(rows), 3)]

    assert tuple(row for page in pages for row in page) == rows
    assert all(rows[row_of(index, row.thread)] == row for row in rows)
    assert row_of(index, "nothing") == -1


def test_what_is_code_has_no_row_where_it_is_left_out(seen: Seen) -> None:
    drawn = timeline(seen.index(), time.time(), TimelineView(rows=1000, code=frozenset({"orchestrator"})))

    assert "orchestrator" not in {row.agent for row in drawn.rows}


def test_a_job_that_has_not_begun_has_an_empty_timeline(seen: Seen) -> None:
    assert timeline(JobIndex(seen.store, seen.row), 5.0).rows == ()
    assert in_tree_order([]) == []


SEGMENTS = st.lists(
    st.builds(
        lambda began, length, kind: Segment(kind=kind, began=began, ended=began + length),
        st.floats(0, 1000),
        st.floats(0, 50),
        st.sampled_from(["working", "waits"]),
    ),
    max_size=60,
)


@given(segments=SEGMENTS, width=st.integers(1, 200))
def test_no_more_segments_are_drawn_than_fit_and_none_is_lost(segments: list[Segment], width: int) -> None:
    pixel = 1050 / width

    drawn = merged(segments, 0.0, 1050.0, pixel)

    assert sum(one.count for one in drawn) == len(segments)
    for one in segments:
        assert any(other.kind == one.kind and other.began <= one.began and one.ended <= other.ended for other in drawn)
    for kind in ("working", "waits"):
        tiny = [one for one in drawn if one.kind == kind and one.ended - one.began < pixel]
        assert len(tiny) <= width + 1


@given(began=st.floats(0, 2e9), length=st.floats(0, 1e7), most=st.integers(1, 20))
def test_the_marks_of_an_axis_lie_on_it_and_are_few(began: float, length: float, most: int) -> None:
    found = ticks(began, began + length, most)

    assert len(found) <= most
    assert all(began <= moment <= began + length for moment in found)
