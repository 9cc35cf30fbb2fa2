"""What every store does. Two stores on one bus are two processes."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import BusError, Commit, Duplicate, Loaded, LostOwnership, Owned, Spent
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.store import Store
from tests.postgres_server import Bus
from tests.stores.rows import change, commit, end, everything, job, message, step, take, transaction, turn

Opener = Callable[[], Store]


def opener(kind: str, home: Path, request: pytest.FixtureRequest) -> Opener:
    if kind == "sqlite":
        return lambda: SqliteStore(home)
    if kind == "postgres":
        emptied: Bus = request.getfixturevalue("emptied")
        emptied.empty()
        return emptied.open
    bus, names = MemoryBus(), iter(range(1000))
    return lambda: MemoryStore(bus, owner=f"process {next(names)}")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Each call opens the bus once more, as another process would."""
    opened: list[Store] = []
    open_one = opener(request.param, tmp_path, request)

    def open_more() -> Store:
        opened.append(open_one())
        return opened[-1]

    yield open_more
    for store in opened:
        store.close()


@pytest.fixture
def store(bus: Opener) -> Store:
    return bus()


@pytest.fixture
def owned(store: Store) -> Store:
    """A store that owns the job j1, in epoch 1."""
    store.create(job())
    assert store.own("j1") == 1
    return store


# ---- jobs


def test_a_new_bus_is_empty(store: Store) -> None:
    assert store.jobs() == []
    reads = (store.steps, store.messages, store.transactions, store.turns, store.inputs)
    assert [row for read in reads for row in read("j1")] == []


def test_jobs_are_listed_oldest_first(store: Store) -> None:
    rows = [job("b", created=2.0), job("c", created=1.0), job("a", created=2.0)]
    for row in rows:
        store.create(row)

    assert store.jobs() == [rows[1], rows[2], rows[0]]


def test_an_id_in_use_is_a_duplicate(store: Store, bus: Opener) -> None:
    store.create(job())

    with pytest.raises(Duplicate, match="j1 already"):
        bus().create(job(request="other"))
    assert store.jobs() == [job()]


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "../x", "a\0b", "-x", "a b", "a\n", "x" * 101, "é"])
def test_an_id_that_can_not_name_a_file_is_refused(store: Store, name: str) -> None:
    for act in (lambda: store.create(job(name)), lambda: store.own(name), lambda: store.owner_lives(name)):
        with pytest.raises(BusError, match="can't be a job's id"):
            act()


def test_a_job_that_is_not_there(store: Store) -> None:
    for act in (
        lambda: store.own("j1"),
        lambda: store.load("j1"),
        lambda: store.put("j1", "answer", "k", 1.0, "ann", "{}"),
    ):
        with pytest.raises(BusError, match="there is no job 'j1'"):
            act()
    assert not store.owner_lives("j1")


def test_a_job_without_steps_is_loaded(store: Store) -> None:
    store.create(job(settings='{"long": "text"}'))

    assert store.load("j1") == Loaded(row=job(settings='{"long": "text"}'))


# ---- owners


def test_each_owner_has_a_new_epoch(store: Store, bus: Opener) -> None:
    store.create(job())
    other = bus()

    assert store.own("j1") == 1
    store.disown("j1")
    assert other.own("j1") == 2
    other.close()
    assert store.own("j1") == 3


def test_the_last_owners_epoch_is_loaded_with_the_job(store: Store, bus: Opener) -> None:
    store.create(job())
    assert store.load("j1").epoch == 0
    store.own("j1")
    assert bus().load("j1").epoch == 1
    store.disown("j1")
    assert store.load("j1").epoch == 1


def test_a_living_owner_keeps_its_job(owned: Store, bus: Opener) -> None:
    other = bus()

    for claimant in (other, owned):
        with pytest.raises(Owned, match="j1 has a living owner"):
            claimant.own("j1")
    owned.commit([commit()])
    assert [row.number for row in other.transactions("j1")] == [1]


def test_who_owns_is_seen_by_all(owned: Store, bus: Opener) -> None:
    other = bus()
    owned.create(job("j2"))

    assert owned.owner_lives("j1")
    assert other.owner_lives("j1")
    assert not other.owner_lives("j2")
    other.disown("j1")  # not its own to give
    assert other.owner_lives("j1")
    owned.disown("j1")
    assert not other.owner_lives("j1")
    assert not owned.owner_lives("j1")


def test_jobs_have_owners_of_their_own(owned: Store, bus: Opener) -> None:
    owned.create(job("j2"))
    other = bus()

    assert other.own("j2") == 1
    other.commit([commit(name="j2")])
    owned.commit([commit()])


def test_who_does_not_own_can_not_commit(owned: Store, bus: Opener) -> None:
    with pytest.raises(LostOwnership, match="does not own job j1"):
        bus().commit([commit()])
    owned.disown("j1")
    with pytest.raises(LostOwnership, match="does not own job j1"):
        owned.commit([commit()])
    assert list(owned.transactions("j1")) == []


def test_a_commit_of_another_epoch_is_refused(owned: Store) -> None:
    for epoch in (0, 2):
        with pytest.raises(LostOwnership, match="another owner has taken the job"):
            owned.commit([commit(epoch=epoch, steps=[step(1)])])
    assert list(owned.steps("j1")) == []


# ---- commits


def test_a_commit_is_read_back_to_the_letter(owned: Store) -> None:
    odd = '{"text": "naïve \\u0000 \x00 \U0001f600", "n": 1.0}'
    steps = [step(1, produced=odd, extra=odd), step(2, rule="send")]
    messages = [message(1, body=odd, meta=odd), message(2, thread="dispatch:2", seq=7)]
    turns = [turn("t1"), turn("t2", message=odd)]
    made = change(updated=9.25, state="PLAN", visit=2, backtracks=1, needs_human=1, held=1)

    rows = {"steps": steps, "messages": messages, "started": turns}
    owned.commit([replace(commit(molecules={"s2": odd, "s1": "{}"}, progress=made), **rows)])

    assert list(owned.steps("j1")) == steps
    assert list(owned.messages("j1")) == messages
    assert owned.message("j1", 2) == messages[1]
    assert list(owned.transactions("j1")) == [transaction(1)]
    assert list(owned.turns("j1")) == turns
    sequences = {("coder", "dispatch:1"): 1, ("coder", "dispatch:2"): 7}
    loaded = owned.load("j1")
    assert loaded == Loaded(
        row=job(updated=9.25, state="PLAN", visit=2, backtracks=1, needs_human=1, held=1),
        molecules={"s1": "{}", "s2": odd},
        transaction=transaction(1),
        sequences=sequences,
        turns=tuple(turns),
        epoch=1,
    )
    assert list(loaded.molecules) == ["s1", "s2"]
    assert owned.jobs() == [loaded.row]


def test_times_and_numbers_keep_their_exact_values(owned: Store) -> None:
    exact = [step(number, time=1731700000.123457) for number in (-(2**39), 2**39 - 1)]
    owned.commit([commit(steps=exact)])

    assert list(owned.steps("j1", after=-(2**63))) == exact


@pytest.mark.parametrize("number", [2**39, -(2**39) - 1, 2**62])
def test_a_number_that_is_out_of_reach_is_refused(owned: Store, number: int) -> None:
    owned.create(job("j2"))
    for wrong in (commit(number), commit(steps=[step(number)]), commit(messages=[message(number, seq=1)])):
        with pytest.raises(BusError, match="has a number that the bus can't hold; nothing was written"):
            owned.commit([wrong])
    assert everything(owned)[0][1] == everything(owned)[1][1] == []


@pytest.mark.parametrize("name", ["", "t", "17", "t-1", "t01", "t1x", "u1", "t 1", f"t{2**39}"])
def test_a_turn_that_has_no_number_is_refused(owned: Store, name: str) -> None:
    for wrong in (commit(started=[turn(name)]), commit(ended=[end(name, 1, "ended")])):
        with pytest.raises(BusError, match=r"nothing (of it )?was written"):
            owned.commit([wrong])
    assert list(owned.turns("j1")) == []


def test_what_was_begun_is_written_by_the_next_call_and_before_what_it_writes(owned: Store, bus: Opener) -> None:
    owned.begin_commit([commit(1, steps=[step(1)])])
    owned.begin_commit([commit(2, steps=[step(2, 2)]), commit(3, steps=[step(3, 3)])])
    owned.commit([commit(4, steps=[step(4, 4)])])
    assert [row.number for row in owned.steps("j1")] == [row.number for row in owned.transactions("j1")] == [1, 2, 3, 4]

    owned.begin_commit([commit(5, steps=[step(5, 5)])])
    assert owned.load("j1").transaction == transaction(5)
    owned.begin_commit([commit(6, steps=[step(6, 6)])])
    owned.commit([])
    assert [row.number for row in bus().steps("j1")] == [1, 2, 3, 4, 5, 6]


def test_a_commit_that_was_begun_is_refused_like_any_other(owned: Store, bus: Opener) -> None:
    with pytest.raises(LostOwnership, match="another owner has taken the job"):  # noqa: PT012 - either may say it
        owned.begin_commit([commit(epoch=2, steps=[step(1)])])
        owned.commit([])
    with pytest.raises(Duplicate):  # noqa: PT012 - either may say it
        owned.begin_commit([commit(messages=[message(1), message(2, seq=0)])])
        owned.load("j1")
    assert (list(owned.steps("j1")), list(owned.messages("j1"))) == ([], [])

    owned.begin_commit([commit(1, steps=[step(1)])])
    owned.commit([])
    assert len(list(bus().steps("j1"))) == 1


def test_nothing_to_commit_is_no_error_and_changes_nothing(owned: Store) -> None:
    before = owned.load("j1")
    owned.commit([])
    assert owned.load("j1") == before


def test_molecules_come_and_go(owned: Store) -> None:
    owned.commit([commit(molecules={"a": "1", "b": "2"})])
    owned.commit([commit(2, molecules={"a": None, "b": "3", "c": "4", "never": None})])

    assert owned.load("j1").molecules == {"b": "3", "c": "4"}


def test_a_jobs_progress_changes_and_the_rest_of_its_row_stays(owned: Store) -> None:
    for number, held in enumerate((1, 2, 2, 0), 1):
        owned.commit([commit(number, progress=change(updated=float(number), held=held))])
        assert owned.load("j1").row == job(updated=float(number), held=held)
    owned.commit([commit(5)])
    assert owned.jobs() == [job(updated=4.0)]


def test_commits_of_many_jobs_are_one(owned: Store) -> None:
    owned.create(job("j2"))
    owned.own("j2")
    before = everything(owned)

    with pytest.raises(LostOwnership):
        owned.commit([commit(steps=[step(1)]), commit(name="j2", epoch=7, steps=[step(1)])])
    assert everything(owned) == before
    owned.commit([commit(steps=[step(1)]), commit(name="j2", steps=[step(1)])])
    assert list(owned.steps("j1")) == list(owned.steps("j2")) == [step(1)]


def test_commits_of_one_job_in_a_group_are_written_in_turn(owned: Store) -> None:
    owned.create(job("j2"))
    owned.own("j2")
    owned.commit(
        [
            commit(1, molecules={"a": "1", "b": "1"}, started=[turn("t1")], progress=change(state="PLAN")),
            commit(1, name="j2", molecules={"a": "j2"}),
            commit(2, molecules={"a": None, "b": None}, ended=[end("t1", 1, "ended")], progress=change(state="DONE")),
            commit(3, molecules={"b": "3"}),
        ]
    )

    loaded = owned.load("j1")
    assert loaded.molecules == {"b": "3"}
    assert loaded.turns == ()
    assert loaded.row.state == "DONE"
    assert owned.load("j2").molecules == {"a": "j2"}


FULL = commit(
    steps=[step(1), step(2)],
    messages=[message(1)],
    molecules={"a": "1"},
    started=[turn("t1"), turn("t2")],
    taken=[take(1, "done")],
    progress=change(state="PLAN"),
)
GOOD = {
    "steps": [step(3, 2)], "messages": [message(2, 2)], "molecules": {"a": None, "b": "2"},
    "started": [turn("t3")], "ended": [end("t1", 1, "ended")], "taken": [take(2, "ok")],
    "progress": change(state="DONE", held=3),
}  # fmt: skip


@pytest.mark.parametrize(
    "number, wrong, error",
    [
        pytest.param(1, {}, Duplicate, id="transaction"),
        pytest.param(2, {"steps": [step(3, 2), step(2, 2)]}, Duplicate, id="step"),
        pytest.param(2, {"steps": [step(4, 2), step(4, 2)]}, Duplicate, id="step in itself"),
        pytest.param(2, {"messages": [message(1, 2, key="k", seq=9)]}, Duplicate, id="message number"),
        pytest.param(2, {"messages": [message(2, 2, key="k", seq=1)]}, Duplicate, id="message sequence"),
        pytest.param(
            2, {"messages": [message(2, 2, key="k", seq=0)]}, Duplicate, id="message sequence before the last"
        ),
        pytest.param(
            2, {"messages": [message(2, 2), message(3, 2, seq=2)]}, Duplicate, id="message sequence in itself"
        ),
        pytest.param(2, {"messages": [message(2, 2, key="key1")]}, Duplicate, id="message key"),
        pytest.param(2, {"started": [turn("t3"), turn("t1")]}, Duplicate, id="turn"),
        pytest.param(2, {"ended": [end("t1", 1, "ended"), end("t9", 1, "ended")]}, BusError, id="no such turn"),
        pytest.param(2, {"ended": [end("t1", 1, "ended"), end("t1", 1, "ended")]}, BusError, id="turn ended twice"),
        pytest.param(2, {"ended": [end("t1", 2, "ended")]}, BusError, id="turn of another epoch"),
        pytest.param(2, {"taken": [take(2, "ok"), take(1, "again")]}, BusError, id="input taken before"),
        pytest.param(2, {"taken": [take(2, "ok"), take(3, "other's")]}, BusError, id="input of another job"),
        pytest.param(2, {"taken": [take(9, "ok")]}, BusError, id="no such input"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_refused_commit_changes_nothing(
    owned: Store, bus: Opener, *, number: int, wrong: dict[str, object], error: type[BusError], alone: bool
) -> None:
    owned.create(job("j2"))
    owned.own("j2")
    for name in ("j1", "j1", "j2"):
        owned.put(name, "answer", f"key{len(owned.inputs(name))}", 1.0, "ann", "{}")
    owned.commit([FULL])
    before = everything(owned)
    bad = commit(number, **{**GOOD, **wrong})  # type: ignore[arg-type]  # rows of any kind
    others = [] if alone else [commit(name="j2", steps=[step(1)], molecules={"x": "y"}, progress=change(held=1))]

    with pytest.raises(error, match=r"nothing (of it )?was written"):
        owned.commit([*others, bad])

    assert everything(owned) == before
    assert everything(bus()) == before
    owned.commit([commit(2, **GOOD)])  # type: ignore[arg-type]  # rows of any kind
    assert owned.load("j1").molecules == {"b": "2"}


def test_rows_are_listed_by_number_whatever_the_order_they_came_in(owned: Store) -> None:
    owned.commit([commit(2, steps=[step(5), step(3)], messages=[message(9, seq=1), message(4, seq=2)])])
    owned.commit([commit(1, steps=[step(4)], messages=[message(5, seq=9)])])

    assert [row.number for row in owned.steps("j1")] == [3, 4, 5]
    assert [row.number for row in owned.messages("j1")] == [4, 5, 9]
    assert [row.number for row in owned.transactions("j1")] == [1, 2]
    owned.commit([commit(3, started=[turn("t10"), turn("t9")])])
    owned.commit([commit(4, started=[turn("t2")])])
    assert (
        [row.turn for row in owned.turns("j1")] == [row.turn for row in owned.load("j1").turns] == ["t2", "t9", "t10"]
    )
    loaded = owned.load("j1")
    assert loaded.transaction == transaction(4)
    assert loaded.sequences == {("coder", "dispatch:1"): 9}


def test_transactions_are_all_listed_whatever_their_numbers(owned: Store) -> None:
    for number in (1, 0, -5):
        owned.commit([commit(number)])

    assert [row.number for row in owned.transactions("j1")] == [-5, 0, 1]


def test_reading_goes_on_after_a_number(owned: Store) -> None:
    owned.commit([commit(steps=[step(n) for n in range(1, 1301)], messages=[message(n) for n in range(1, 1301)])])

    assert [row.number for row in owned.steps("j1")] == list(range(1, 1301))
    assert [row.number for row in owned.steps("j1", after=1299)] == [1300]
    assert [row.number for row in owned.messages("j1", after=700)] == list(range(701, 1301))
    assert list(owned.steps("j1", after=1300)) == []


def test_reading_step_by_step_does_not_hinder_a_commit(owned: Store, bus: Opener) -> None:
    owned.commit([commit(steps=[step(n) for n in range(1, 1001)])])
    reading = bus().steps("j1")
    assert next(reading).number == 1

    owned.commit([commit(2, steps=[step(1001, 2)])])

    assert next(reading).number == 2


def test_a_message_that_is_not_there(owned: Store) -> None:
    with pytest.raises(BusError, match="job j1 has no message 1"):
        owned.message("j1", 1)
    with pytest.raises(BusError, match="job j9 has no message 1"):
        owned.message("j9", 1)


# ---- turns


def test_a_turn_ends_once_and_in_its_epoch(owned: Store) -> None:
    owned.commit([commit(started=[turn("t1"), turn("t2"), turn("t3")])])
    assert [row.turn for row in owned.load("j1").turns] == ["t1", "t2", "t3"]
    owned.commit([commit(2, ended=[end("t2", 1, "ended"), end("t1", 1, "lost")])])

    for late in (end("t2", 1, "ended"), end("t1", 1, "ended"), end("t3", 2, "ended")):
        with pytest.raises(BusError, match=f"not out.*j1 {late.turn}") as refused:
            owned.commit([commit(3, ended=[late])])
        assert not isinstance(refused.value, LostOwnership | Duplicate)
    assert [(row.turn, row.status) for row in owned.turns("j1")] == [
        ("t1", "lost"), ("t2", "ended"), ("t3", "submitted"),
    ]  # fmt: skip
    assert owned.load("j1").turns == (turn("t3"),)


def test_a_turn_of_an_earlier_owner_is_ended_by_the_next(owned: Store, bus: Opener) -> None:
    owned.commit([commit(started=[turn("t1")])])
    owned.close()
    heir = bus()

    assert heir.own("j1") == 2
    heir.commit([commit(2, epoch=2, ended=[end("t1", 1, "lost")], started=[turn("t2", 2)])])

    assert heir.load("j1").turns == (turn("t2", 2),)


def test_a_turn_may_start_and_end_in_one_commit(owned: Store) -> None:
    owned.commit([commit(started=[turn("t1")], ended=[end("t1", 1, "ended")])])

    assert [row.status for row in owned.turns("j1")] == ["ended"]
    assert owned.load("j1").turns == ()


# ---- inputs


def test_inputs_are_taken_in_order_and_once(owned: Store, bus: Opener) -> None:
    other = bus()
    numbers = [other.put("j1", "answer", f"k{n}", float(n), "ann", f'{{"n": {n}}}') for n in range(3)]

    waiting = owned.inputs("j1")
    assert [row.number for row in waiting] == numbers == sorted(numbers)
    first = waiting[0]
    assert (first.job, first.kind, first.key, first.time, first.by, first.body) == (
        "j1", "answer", "k0", 0.0, "ann", '{"n": 0}',
    )  # fmt: skip
    owned.commit([commit(5, taken=[take(numbers[1], "late")])])

    assert [row.key for row in other.inputs("j1")] == ["k0", "k2"]
    assert [(row.key, row.taken, row.note) for row in other.inputs("j1", waiting=False)] == [
        ("k0", 0, ""), ("k1", 5, "late"), ("k2", 0, ""),
    ]  # fmt: skip


def test_the_inputs_of_several_jobs_are_read_at_once(owned: Store, bus: Opener) -> None:
    other = bus()
    for name in ("j2", "j3"):
        owned.create(job(name))
    numbers = [other.put(name, "answer", key, 1.0, "ann", "{}") for key in "ab" for name in ("j1", "j2", "j3")]
    owned.commit([commit(taken=[take(numbers[0], "")])])

    waiting = owned.waiting(["j1", "j3", "unknown"])
    assert {name: [row.key for row in waiting if row.job == name] for name in ("j1", "j2", "j3")} == {
        "j1": ["b"], "j2": [], "j3": ["a", "b"],
    }  # fmt: skip
    assert all(owned.authentic(row) for row in waiting)
    assert owned.waiting([]) == []


def test_an_input_of_a_used_key_is_a_duplicate(owned: Store, bus: Opener) -> None:
    owned.create(job("j2"))
    number = owned.put("j1", "answer", "k", 1.0, "ann", "{}")

    with pytest.raises(Duplicate, match="of the key k before"):
        bus().put("j1", "withdraw", "k", 2.0, "bob", "[]")
    owned.commit([commit(taken=[take(number, "")])])
    with pytest.raises(Duplicate):
        owned.put("j1", "answer", "k", 1.0, "ann", "{}")
    assert owned.put("j2", "answer", "k", 1.0, "ann", "{}") == number + 1
    assert len(owned.inputs("j1", waiting=False)) == 1


# ---- the rest


def notices(store: Store) -> bool:
    """Whether a store notices what another has written; a server's notice takes a moment to come."""
    for _ in range(200):
        if store.changed():
            return True
        store.wait(0.05)
    return False


def test_what_others_write_is_noticed_and_what_one_writes_oneself_is_not(owned: Store, bus: Opener) -> None:
    other = bus()
    for store in (owned, other):
        store.changed()  # a first call may say anything: there was none before it
    assert not owned.changed()
    owned.commit([commit()])
    assert notices(other)
    assert not owned.changed()
    assert not other.changed()

    other.put("j1", "answer", "k", 1.0, "ann", "{}")

    assert notices(owned)
    assert not owned.changed()
    assert not other.changed()
    with pytest.raises(Duplicate):
        other.put("j1", "answer", "k", 1.0, "ann", "{}")
    assert not owned.changed()


def test_a_closed_store_is_of_no_use_and_lets_go_of_its_jobs(owned: Store, bus: Opener) -> None:
    owned.close()
    owned.close()

    for act in (owned.jobs, owned.changed, lambda: owned.create(job("j2")), lambda: owned.load("j1")):
        with pytest.raises(BusError, match="closed"):
            act()
    assert not bus().owner_lives("j1")
    assert bus().own("j1") == 2


def test_threads_may_share_a_store(owned: Store) -> None:
    faults: list[BaseException] = []

    def write(who: int) -> None:
        try:
            for n in range(20):
                owned.put("j1", "answer", f"{who}-{n}", 1.0, "ann", "{}")
                owned.load("j1")
                owned.changed()
        except BaseException as error:  # noqa: BLE001 - the test shows it
            faults.append(error)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 21):
        owned.commit([commit(number)])
    for thread in threads:
        thread.join()

    assert faults == []
    assert len(owned.inputs("j1")) == 80


# ---- all do the same, whatever is asked of them

names = st.sampled_from(["j1", "j2"])
small = st.integers(0, 3)
commits = st.builds(
    lambda name, number, epoch, steps, messages, molecules, started, ended, taken, state: commit(
        number, epoch, name,
        steps=[step(n, number) for n in steps],
        messages=[message(n, number, thread=f"d{t}", seq=n + t, key=f"k{n}") for n, t in messages],
        molecules=molecules,
        started=[turn(f"t{n}", epoch) for n in started],
        ended=[end(f"t{n}", e, "ended") for n, e in ended],
        taken=[take(n, "taken") for n in taken],
        progress=None if state is None else change(state=state, held=number),
    ),
    names, st.integers(1, 12), st.sampled_from([1, 1, 1, 2, 3]),
    st.lists(st.integers(1, 30), max_size=3), st.lists(st.tuples(st.integers(1, 30), small), max_size=2),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, "1", "2"])),
    st.lists(small, max_size=2), st.lists(st.tuples(small, st.integers(1, 2)), max_size=1),
    st.lists(st.integers(1, 3), max_size=1), st.sampled_from([None, "PLAN", "DONE"]),
)  # fmt: skip
asked = st.one_of(
    st.tuples(st.just("commit"), st.lists(commits, min_size=1, max_size=3)),
    st.tuples(st.just("commit"), st.lists(commits, min_size=1, max_size=1)),
    st.tuples(st.just("put"), names, st.sampled_from("xyz")),
    st.tuples(st.sampled_from(["own", "disown", "create", "crash"]), names),
)


def ask(store: Store, what: tuple[object, ...]) -> str:
    """Do what is asked; what came of it."""
    try:
        match what:
            case ("commit", list(group)):
                store.commit([each for each in group if isinstance(each, Commit)])
            case ("put", str(name), str(key)):
                return str(store.put(name, "answer", key, 1.0, "ann", "{}"))
            case ("own", str(name)):
                return str(store.own(name))
            case ("disown", str(name)):
                store.disown(name)
            case ("create", str(name)):
                store.create(job(name))
            case _:
                pass  # a crash, which is the caller's
    except BusError as error:
        return "refused" if what[0] == "commit" else type(error).__name__
    return "done"


@settings(max_examples=60)
@given(doings=st.lists(asked, min_size=5, max_size=40))
def test_sqlite_shows_the_same_as_memory(
    doings: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("bus")
    compare(lambda: SqliteStore(home, durability="normal"), doings)


@settings(max_examples=15)
@given(doings=st.lists(asked, min_size=5, max_size=40))
def test_postgres_shows_the_same_as_memory(doings: list[tuple[object, ...]], emptied: Bus) -> None:
    emptied.empty()
    compare(emptied.open, doings)


def compare(open_one: Opener, doings: list[tuple[object, ...]]) -> None:
    bus = MemoryBus()
    memory, other = MemoryStore(bus), open_one()
    for what in [("create", "j1"), ("own", "j1"), *doings]:
        if what[0] == "crash":
            memory.close()
            other.close()
            memory, other = MemoryStore(bus), open_one()
        assert ask(memory, what) == ask(other, what)
    assert everything(memory) == everything(other)
    for name in ("j1", "j2"):
        assert memory.owner_lives(name) == other.owner_lives(name)
    memory.close()
    other.close()


# ---- spending


def test_what_is_used_up_adds_up_by_job_and_by_day(bus: Opener) -> None:
    one, two = bus(), bus()
    for name, store in (("j1", one), ("j2", two)):
        store.create(job(name))
        store.own(name)
    one.commit([replace(commit(1), spent={"mon": Spent(turns=1), "tue": Spent(turns=1, tokens=5, micros=7, millis=9)})])
    two.commit([replace(commit(1, name="j2"), spent={"tue": Spent(turns=2, tokens=10, micros=20, millis=30)})])
    one.commit([replace(commit(2), spent={"tue": Spent(turns=0, tokens=1, micros=1, millis=1)})])

    assert two.load("j1").spent == {"mon": Spent(turns=1), "tue": Spent(turns=1, tokens=6, micros=8, millis=10)}
    assert one.load("j2").spent == {"tue": Spent(turns=2, tokens=10, micros=20, millis=30)}
    assert (one.spent("mon"), one.spent("tue"), one.spent("wed")) == (
        Spent(turns=1),
        Spent(turns=3, tokens=16, micros=28, millis=40),
        Spent(),
    )


def test_a_commit_that_fails_spends_nothing(owned: Store) -> None:
    owned.commit([replace(commit(1), spent={"mon": Spent(turns=1)})])
    with pytest.raises(BusError):
        owned.commit(
            [replace(commit(2, ended=[end("t9", 1, "ended")]), spent={"mon": Spent(turns=5), "tue": Spent(turns=5)})]
        )

    assert owned.load("j1").spent == {"mon": Spent(turns=1)}
    assert owned.spent("tue") == Spent()


def test_no_other_process_writes_while_one_is_alone(bus: Opener) -> None:
    stores = [bus() for _ in range(4)]
    for number, store in enumerate(stores):
        store.create(job(f"j{number}"))
        store.own(f"j{number}")

    def take(number: int, store: Store) -> None:
        for turn_ in range(1, 21):
            with store.alone():
                if store.spent("mon").turns < 50:
                    store.commit([replace(commit(turn_, name=f"j{number}"), spent={"mon": Spent(turns=1)})])

    threads = [threading.Thread(target=take, args=each) for each in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert stores[0].spent("mon") == Spent(turns=50)
