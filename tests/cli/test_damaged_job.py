"""A job whose rows another program has changed: it is named, and hides no other job of its home."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.audit.tamper import unguarded
from tests.cli.home import Home

DAMAGES = {
    "a question": "UPDATE molecules SET body = 'x' WHERE slot LIKE 'question %' AND job = serial(:job)",
    "a question's message": (
        "UPDATE molecules SET body = replace(body, '\"m', '\"mx') WHERE slot LIKE 'question %' AND job = serial(:job)"
    ),
    "what is known of messages": "UPDATE messages SET meta = '[]' WHERE job = serial(:job)",
    "all messages": "DELETE FROM messages WHERE job = serial(:job)",
    "what is known of steps": "UPDATE steps SET extra = 'x' WHERE job = serial(:job)",
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, str, str]:
    """Two jobs that wait at their first gate."""
    home = Home(tmp_path_factory.mktemp("two"))
    return home, home.start(), home.start()


@contextmanager
def damaged(home: Home, job: str, statement: str) -> Iterator[None]:
    """The home with rows of a job changed, for a while."""
    with (
        closing(sqlite3.connect(home.folder / ".parley" / "bus.db", isolation_level=None)) as bus,
        closing(sqlite3.connect(":memory:")) as before,
    ):
        serials = dict(bus.execute("SELECT job, serial FROM jobs"))
        bus.create_function("serial", 1, serials.__getitem__)
        bus.backup(before)
        unguarded(bus, lambda raw: raw.execute(statement, {"job": job}))
        try:
            yield
        finally:
            before.backup(bus)


@pytest.mark.parametrize("what", list(DAMAGES)[:4])
def test_the_inbox_and_the_watch_list_the_others_and_name_the_damaged_one(
    two: tuple[Home, str, str], what: str
) -> None:
    home, bad, good = two
    with damaged(home, bad, DAMAGES[what]):
        found = {need["job"]: need for need in home.here("inbox", "--json").document["needs"]}
        inbox, watch = home.here("inbox"), home.here("watch")
        question = found[good]["id"]
        refused = home.here("answer", question, "yes", "--abandon")

    assert (found[bad]["kind"], found[good]["kind"]) == ("unreadable", "gate")
    assert inbox.code == watch.code == 0
    assert f"parley audit {bad}" in inbox.out
    assert f"parley answer {question} --approve" in inbox.out
    assert "its record can't be read" in watch.out
    assert good in watch.out
    assert "is not a choice of this question" in refused.err  # it was found past the damaged job


def test_listings_and_costs_leave_out_no_other_job(two: tuple[Home, str, str]) -> None:
    home, bad, good = two
    with damaged(home, bad, DAMAGES["a question"]):
        plain, listed = home.here("ls"), {job["id"]: job for job in home.jobs()}
        chosen = home.here("ls", "--state", "needs-you", "--json").document["jobs"]
    with damaged(home, bad, DAMAGES["what is known of steps"]):
        cost = home.here("cost")

    assert plain.code == 0
    assert plain.out.count("a request") == 2
    assert f"parley audit {bad}" in listed[bad]["problem"]
    assert "problem" not in listed[good]
    assert {job["id"] for job in chosen} == {bad, good}
    assert cost.code == 1
    assert good in cost.out
    assert cost.err.startswith(f"parley: {bad} is left out: its record can't be read: parley audit {bad} (")
