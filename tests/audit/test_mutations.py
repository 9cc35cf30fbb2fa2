"""Any row, any column, any value: what is not as it was written is found, and never breaks the audit."""

from collections.abc import Iterator
from copy import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from parley.audit.audit import AuditReport, audit, read_anchor
from parley.audit.export import Exported
from tests.audit.conftest import Kept

NAMES = ("running", "failing", "idle", "withdrawn")
TABLES = ("jobs", "transactions", "steps", "messages", "turns", "inputs")


def fresh(store: Exported) -> Exported:
    """A copy that can be changed."""
    other = copy(store)
    other.rows = {table: list(found) for table, found in store.rows.items()}
    other.molecules = dict(store.molecules)
    return other


def look(play: Kept, store: Exported, *, anchored: bool = True) -> AuditReport:
    return audit(store, play.job, read_anchor(play.state) if anchored else None)


def neighbours(value: Any) -> Iterator[Any]:
    """What a value might be instead, and almost is."""
    if isinstance(value, str):
        yield from (f"{value} ", value[:-1], value.swapcase(), value.replace("1", "2"))
    else:
        yield from (value + 1, value - 1, -value, type(value)(0))


def test_every_column_of_every_row_is_covered_without_an_anchor(kept: dict[str, Kept]) -> None:
    play = kept["running"]
    store = play.load()
    unseen = []
    for table in TABLES:
        for index, row in enumerate(store.rows[table]):
            for column, value in asdict(row).items():
                new = next(other for other in neighbours(value) if other != value or value == "")
                changed = fresh(store)
                changed.rows[table][index] = replace(row, **{column: new if value != "" else "x"})
                if look(play, changed, anchored=False).ok:
                    unseen.append((table, index, column, value))
    for where, body in store.molecules.items():
        changed = fresh(store)
        changed.molecules[where] = f"{body} "
        assert not look(play, changed, anchored=False).ok, where

    assert unseen == []


def values() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.binary(max_size=4),
        st.sampled_from(["[" * 100_000, '{"a":', "null", "[]", "{}", '["Passage"]', "t1", "m1", "\ud800"]),
    )


@given(data=st.data())
@settings(max_examples=200)
def test_any_value_anywhere_is_found(kept: dict[str, Kept], data: st.DataObject) -> None:
    play = kept[data.draw(st.sampled_from(NAMES))]
    store = fresh(play.load())
    table = data.draw(st.sampled_from(TABLES))
    found = store.rows[table]
    index = data.draw(st.integers(0, len(found) - 1))
    column = data.draw(st.sampled_from(found[index].__struct_fields__))
    before, value = getattr(found[index], column), data.draw(values())
    found[index] = replace(found[index], **{column: value})

    report = look(play, store)

    if type(before) is not type(value) and before == value:
        return  # 1 or True or 1.0: the same to some, and to others not
    assert report.ok == (before == value)


@given(data=st.data())
@settings(max_examples=150)
def test_any_row_that_is_gone_doubled_or_moved_is_found(kept: dict[str, Kept], data: st.DataObject) -> None:
    play = kept[data.draw(st.sampled_from(NAMES))]
    store = fresh(play.load())
    table = data.draw(st.sampled_from(TABLES[1:]))
    found = store.rows[table]
    before = list(found)
    way = data.draw(st.sampled_from(["gone", "doubled", "moved"]))
    row = found.pop(data.draw(st.integers(0, len(found) - 1)))
    if way != "gone":
        found.insert(data.draw(st.integers(0, len(found))), row)
    if way == "doubled":
        found.insert(data.draw(st.integers(0, len(found))), row)

    assert look(play, store).ok == (found == before)


@given(data=st.data())
@settings(max_examples=75)
def test_any_molecule_that_is_gone_added_or_changed_is_found(kept: dict[str, Kept], data: st.DataObject) -> None:
    play = kept[data.draw(st.sampled_from(NAMES))]
    store = fresh(play.load())
    where = data.draw(st.one_of(st.sampled_from(sorted(store.molecules)), st.text(max_size=10)))
    body = data.draw(st.one_of(st.none(), st.text(max_size=10), st.sampled_from([*store.molecules.values()])))
    before = store.molecules.pop(where, None)
    if body is not None:
        store.molecules[where] = body

    assert look(play, store).ok == (body == before)


def test_a_tail_of_any_length_in_any_tables_is_missed(kept: dict[str, Kept]) -> None:
    for name in NAMES:
        play = kept[name]
        store = play.load()
        for last in range(len(store.rows["transactions"])):
            for tables in (("transactions", "steps", "messages"), ("steps",), ("transactions",)):
                shorter = fresh(store)
                for table in tables:
                    key = "number" if table == "transactions" else "transaction"
                    shorter.rows[table] = [r for r in store.rows[table] if getattr(r, key) <= last]
                assert not look(play, shorter).ok
