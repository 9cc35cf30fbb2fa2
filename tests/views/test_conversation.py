"""The conversation of a thread: whole in pages, followed by number, with the work of its turns folded in."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.views.history.conversation import Conversation, Item, Message, TurnWork
from parley.views.history.turn_work import TurnStreams
from parley.views.work import WorkFollower, WorkKind
from tests.views.conftest import Seen


def all_items(talk: Conversation, limit: int) -> list[Item]:
    """The whole conversation, page by page from its end."""
    found: list[Item] = []
    page = talk.page(limit=limit)
    while True:
        assert sum(isinstance(item, Message) for item in page.items) <= limit
        found = [*page.items, *found]
        if page.before is None:
            return found
        page = talk.page(page.before, limit)


def of(seen: Seen, thread: str = "", *, indexed: bool = True) -> Conversation:
    return Conversation(seen.store, seen.job, seen.streams(), thread=thread, index=seen.index() if indexed else None)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_the_pages_together_are_the_whole_conversation(seen: Seen, limit: int, *, indexed: bool) -> None:
    for thread in ["", *(one.id for one in seen.index().threads())]:
        found = all_items(of(seen, thread, indexed=indexed), limit)
        rows = [row for row in seen.store.messages(seen.job) if thread in ("", row.thread, row.sender_thread)]
        turns = {turn.turn for turn in seen.store.turns(seen.job) if thread in ("", turn.thread)}

        assert [item.number for item in found if isinstance(item, Message)] == [row.number for row in rows]
        told = [item.turn for item in found if isinstance(item, TurnWork) and item.agent != "orchestrator"]
        assert len(told) == len(set(told))
        assert set(told) == turns
        assert len({item.key for item in found}) == len(found)


def test_a_page_with_too_many_turns_has_fewer_messages_and_none_is_lost(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = all_items(of(seen), 50)
    monkeypatch.setattr("parley.views.history.conversation.MOST_TURNS", 3)

    assert all_items(of(seen), 50) == whole
    assert len(of(seen).page().items) < len(whole)


def test_a_turn_stands_between_the_message_that_woke_it_and_what_came_of_it(seen: Seen) -> None:
    coder = next(one for one in seen.index().threads() if one.agent == "coder")

    items = of(seen, coder.id).page().items
    task, lost, turn, report, *_ = items
    assert isinstance(task, Message)
    assert (task.kind, task.outgoing) == ("task", False)
    assert isinstance(lost, TurnWork)
    assert (lost.how, lost.message) == ("lost", task.key)
    assert isinstance(turn, TurnWork)
    assert isinstance(report, Message)
    assert (report.kind, report.outgoing) == ("report", True)


def test_what_was_added_since_a_number_completes_what_was_there(seen: Seen) -> None:
    for thread in ("", *(one.id for one in seen.index().threads())):
        talk = of(seen, thread)
        whole = {item.key: item for item in all_items(talk, 50)}
        for number in range(0, talk.page().last + 1, 5):
            time = seen.store.message(seen.job, number).time if number else 0.0
            known = {
                key
                for key, item in whole.items()
                if (item.number <= number if isinstance(item, Message) else item.ended and item.ended < time)
            }
            new = {item.key: item for item in talk.after(number).items}
            assert known | new.keys() == whole.keys()
            assert all(whole[key] == item for key, item in new.items())
            assert not any(isinstance(item, Message) and item.number <= number for item in new.values())


def test_what_a_turn_did_is_read_in_pages_and_counted_without_reading_it(seen: Seen) -> None:
    coder = next(one for one in seen.index().threads() if one.agent == "coder")
    turn = seen.index().turns_of(coder.id)[-1]
    talk = of(seen, turn.thread)

    due = [event for event in WorkFollower(seen.folder, thread=turn.thread).read() if event.turn == turn.turn]
    page = talk.events(turn.turn, limit=2)
    found = list(page.events)
    while page.more:
        page = talk.events(turn.turn, after=page.first + len(page.events), limit=2)
        found += page.events
    assert found == due
    (folded,) = [item for item in talk.page().items if isinstance(item, TurnWork) and item.turn == turn.turn]
    assert folded.work.uses == sum(event.kind is WorkKind.RESULT for event in due)
    assert folded.work.failed == 1
    assert folded.work.over


@pytest.mark.parametrize(
    "thread", ["dispatch:../../../etc/passwd", "dispatch:\0", "state:..", "nothing", "dispatch:" + "a" * 5000]
)
def test_a_thread_that_is_none_has_no_conversation(seen: Seen, thread: str) -> None:
    for indexed in (True, False):
        talk = of(seen, thread, indexed=indexed)
        assert talk.page().items == ()
        assert talk.events("t1").events == ()
    assert seen.streams().events(thread, "t1").events == ()


@pytest.mark.parametrize("number", [-5, 0, 10**9])
def test_a_number_that_no_message_has_does_no_harm(seen: Seen, number: int) -> None:
    talk = of(seen)

    assert talk.page(number).last == talk.page().last
    assert talk.after(number).last == talk.page().last


# ---- streams of any kind -------------------------------------------------------------------------

TEXTS = st.sampled_from(["", "a", '"tool":"x"', '{"over":true}', "\n", "\\", "é"])
SIGNS = st.sampled_from(["", "writing", "pause", "queue"])
LINES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"event": st.just("start"), "agent": st.just("coder"), "thread": st.just("dispatch:d")}),
        st.fixed_dictionaries(
            {"event": st.just("progress"), "text": TEXTS},
            optional={
                "sign": SIGNS,
                "tool": st.sampled_from(["Send", "shell"]),
                "use": st.sampled_from(["1", "2"]),
                "over": st.just(True),
                "failed": st.just(True),
                "result": TEXTS,
            },
        ),
        st.fixed_dictionaries({"event": st.just("call"), "tool": st.sampled_from(["Send", "Note"]), "call": TEXTS}),
        st.fixed_dictionaries({"event": st.just("refused"), "tool": st.sampled_from(["Send", "Note"]), "why": TEXTS}),
        st.fixed_dictionaries({"event": st.sampled_from(["end", "lost", "waits", "goes on"]), "text": TEXTS}),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(st.tuples(st.sampled_from(["t1", "t2"]), LINES), max_size=4), cut=st.integers(0, 40))
def test_what_is_counted_of_a_stream_is_what_is_read_of_it(
    lines: list[tuple[str, list[dict[str, object]]]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    path = folder / "streams" / "dispatch-d.jsonl"
    path.parent.mkdir()
    data = "".join(
        json.dumps(
            {"time": 1.0, "turn": turn, "event": line["event"], **line}, separators=(",", ":"), ensure_ascii=False
        )
        + "\n"
        for turn, some in lines
        for line in some
    ).encode()
    streams = TurnStreams(folder)
    path.write_bytes(data[: max(0, len(data) - cut)])
    streams.count("dispatch:d", "t1")  # the second look goes on from the first
    path.write_bytes(data)

    for turn in ("t1", "t2"):
        due = [event for event in WorkFollower(folder, thread="dispatch:d").read() if event.turn == turn]
        assert list(streams.events("dispatch:d", turn).events) == due
        counted = streams.count("dispatch:d", turn)
        results = [event for event in due if event.kind is WorkKind.RESULT]
        assert counted.uses == len(results)
        assert counted.failed == sum(event.failed for event in results)
        assert counted.says == sum(event.kind is WorkKind.SAYS for event in due)


def test_a_stream_that_was_replaced_by_a_shorter_one_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "streams" / "dispatch-d.jsonl"
    path.parent.mkdir()
    streams = TurnStreams(tmp_path)
    path.write_text('{"time":1,"turn":"t1","event":"call","tool":"Send"}\n' * 3)
    assert streams.count("dispatch:d", "t1").uses == 3

    path.write_text('{"time":1,"turn":"t1","event":"call","tool":"Send"}\n')

    assert streams.count("dispatch:d", "t1").uses == 1
