"""What only the bus in memory does: processes die and lose their locks on demand."""

import pytest

from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import BusError, LostOwnership, Owned
from tests.stores.rows import commit, job, step


def test_a_killed_process_loses_its_jobs_and_writes_no_more() -> None:
    bus = MemoryBus()
    old, new = MemoryStore(bus, owner="old"), MemoryStore(bus, owner="new")
    for name in ("j1", "j2"):
        old.create(job(name))
    old.own("j1")
    new.own("j2")
    old.commit([commit(steps=[step(1)])])

    bus.kill("old")

    assert not new.owner_lives("j1")
    assert new.owner_lives("j2")
    with pytest.raises(LostOwnership):
        old.commit([commit(2)])
    assert new.own("j1") == 2
    assert list(new.steps("j1")) == [step(1)]


def test_a_process_of_the_same_name_is_another_one() -> None:
    bus = MemoryBus()
    zombie, heir = MemoryStore(bus, owner="one"), MemoryStore(bus, owner="one")
    zombie.create(job())
    zombie.own("j1")
    with pytest.raises(Owned):
        heir.own("j1")
    bus.kill("one")

    assert heir.own("j1") == 2
    with pytest.raises(LostOwnership):
        zombie.commit([commit(epoch=1)])


def test_an_owner_whose_lock_was_stolen_can_not_commit() -> None:
    bus = MemoryBus()
    store = MemoryStore(bus)
    store.create(job())
    store.own("j1")

    assert bus.steal("j1") == 2

    assert store.changed()
    with pytest.raises(LostOwnership):
        store.commit([commit()])
    with pytest.raises(LostOwnership):
        store.commit([commit(epoch=2)])
    store.disown("j1")
    with pytest.raises(Owned, match="thief"):
        store.own("j1")
    bus.kill("thief")
    assert store.own("j1") == 3


def test_a_job_that_is_not_there_can_not_be_stolen() -> None:
    with pytest.raises(BusError, match="there is no job"):
        MemoryBus().steal("j1")


def test_rows_are_the_very_ones_that_were_given() -> None:
    store = MemoryStore(MemoryBus())
    row = step(1)
    store.create(job())
    store.own("j1")
    store.commit([commit(steps=[row])])

    assert next(store.steps("j1")) is row
