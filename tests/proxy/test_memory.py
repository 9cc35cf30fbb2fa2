"""The memory's file: what is kept, what comes to mind, what is forgotten, and what happens to a damaged one."""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from parley.bus.postgres.server_address import address_of
from parley.bus.rows import InputRow, MessageRow
from parley.features.proxy import decision_recall, decision_store, remembering
from parley.features.proxy.decision_recall import RecalledDecisions
from parley.features.proxy.decision_store import SCHEMA, SqliteDecisions, place
from parley.features.proxy.postgres_decisions import PostgresDecisions
from parley.ports.decisions import Decided, Guess, MemoryTrouble
from tests.postgres_server import Server, running

DAY = 86400.0
NOW = 1.8e9


def decided(question: str = "q1", asked: str = "is it right?", **more: Any) -> Decided:
    """A decision; the rest as it is given."""
    base = Decided(
        time=NOW,
        human="me",
        repository="shop",
        job="j1",
        question=question,
        framing="m7",
        state="PLAN",
        kind="assert",
        asked=asked,
        artifact="PLAN.md",
        digest="d1g",
    )
    after = Guess("approve", 0.9, "it has all parts")
    return replace(base, before=Guess("approve", 0.6), after=after, verdict="approve", how="policy", **more)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def file_memory(tmp_path: Path) -> Iterator[SqliteDecisions]:
    memory = SqliteDecisions(tmp_path / "deep" / "memory.db")
    yield memory
    memory.close()


@pytest.fixture(params=["a file", "a server"])
def memory(request: pytest.FixtureRequest) -> Iterator[RecalledDecisions]:
    """A memory of each kind: they behave alike."""
    if request.param == "a file":
        yield request.getfixturevalue("file_memory")
        return
    with closing(on_server(request.getfixturevalue("postgres"))) as found:
        yield found


def on_server(server: Server) -> PostgresDecisions:
    """An empty memory: that of a new user of the database."""
    user = f"user_{secrets.token_hex(8)}"
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(user)))
        session.execute(sql.SQL("GRANT CREATE ON DATABASE postgres TO {}").format(sql.Identifier(user)))
    return PostgresDecisions(address_of("tests", {"tests": server.url.replace("postgres@", f"{user}@")}, {}))


# ---- whose word it is ----------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False, None])
def test_after_an_adoption_no_word_is_remembered_that_anybody_may_have_written(known: bool | None) -> None:
    given = InputRow(number=3, job="j", kind="answer", key="k", time=1.0, by="me", body="{}", taken=2, note="answered")
    world: Any = SimpleNamespace(
        store=SimpleNamespace(inputs=lambda job, *, waiting: [given], authentic=lambda row: known)
    )
    live: Any = SimpleNamespace(id="j")
    word = MessageRow(
        number=1,
        transaction=2,
        sender="human",
        sender_thread="escalation:q",
        agent="proxy",
        thread="escalation:q",
        seq=1,
        key="input:3",
        time=1.0,
        body="[HUMAN approve] yes",
    )
    assert remembering._is_authentic(live, world, word) is (known is True)
    assert not remembering._is_authentic(live, world, msgspec.structs.replace(word, key="input:4"))


# ---- keeping -------------------------------------------------------------------------------------


def test_what_is_kept_comes_back_as_it_was(memory: RecalledDecisions) -> None:
    one = decided(said="yes, go on", agreed=True, excerpt="# Plan\nfirst the door")
    silent = replace(decided("q2"), before=None, after=None, verdict=None, framing="", how="answered")
    memory.remember([one, silent])
    back, second = memory.of_job("j1")
    assert (replace(back, id=""), replace(second, id="")) == (one, silent)
    assert back.id != second.id


def test_the_same_decision_is_kept_once_whoever_keeps_it_again(memory: RecalledDecisions) -> None:
    memory.remember([decided(said="yes")])
    memory.remember([decided(said="another"), decided("q2")])
    assert [one.said for one in memory.of_job("j1")] == ["yes", ""]
    assert [one.question for one in memory.search("right", 9)] == ["q2", "q1"]


def test_nobody_else_may_read_it(file_memory: SqliteDecisions) -> None:
    file_memory.remember([decided()])
    assert stat.S_IMODE(file_memory.path.parent.stat().st_mode) == 0o700
    for path in file_memory.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_looking_does_not_make_a_file(memory: RecalledDecisions) -> None:
    assert memory.last(5) == []
    assert memory.recall("me", "PLAN", "assert", "x", 5) == memory.past("me", "PLAN", "assert", "x") == []
    assert (list(memory.everything()), memory.count(), memory.exists) == ([], 0, False)


def test_it_lies_with_the_users_own_data_unless_they_name_a_place(tmp_path: Path) -> None:
    assert place({"PARLEY_MEMORY": str(tmp_path / "m.db"), "XDG_DATA_HOME": "/x"}) == tmp_path / "m.db"
    assert place({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "parley" / "memory.db"
    assert place({}) == Path("~/.local/share/parley/memory.db").expanduser()


def test_several_processes_write_at_once(file_memory: SqliteDecisions) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.proxy.test_memory import SqliteDecisions, decided\n"
        "file_memory = SqliteDecisions(Path(sys.argv[1]))\n"
        "for n in range(20): file_memory.remember([decided(f'{sys.argv[2]}-{n}', f'word{n}'), decided(f'both-{n}')])\n"
    )
    words = [sys.executable, "-c", script, str(file_memory.path)]
    root = Path(__file__).parents[2]
    writers = [subprocess.Popen([*words, name], cwd=root) for name in ("one", "two")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert file_memory.count() == 60
    assert len(file_memory.search("word7", 99)) == 2


# ---- recalling -----------------------------------------------------------------------------------


def test_what_shares_rare_words_comes_to_mind_first(memory: RecalledDecisions) -> None:
    memory.remember([decided(f"n{n}", f"is the plan right for part {n}") for n in range(50)])
    memory.remember([decided("rare", "is the plan right for the quicksilver pump"), decided("x", "quicksilver")])
    found = memory.recall("me", "PLAN", "assert", "the plan for a quicksilver pump: is it right?", 3)
    assert [one.decided.question for one in found[:2]] == ["rare", "x"]
    assert 0.0 < found[1].likeness < found[0].likeness <= 1.0


def test_the_artifact_and_the_humans_words_are_recalled_by_too(memory: RecalledDecisions) -> None:
    memory.remember([decided("a", "right?", excerpt="pay by cheque"), decided("b", "right?", said="no cheques at all")])
    memory.remember([decided(f"n{n}", "right?") for n in range(5)])
    assert {one.decided.question for one in memory.recall("me", "PLAN", "assert", "cheque or cheques?", 2)} == {
        "a",
        "b",
    }


def test_the_same_state_and_the_newer_go_first_among_equals(memory: RecalledDecisions) -> None:
    memory.remember(
        [
            decided("old", "the blue door", time=NOW - 900 * DAY),
            decided("elsewhere", "the blue door", state="INTENT"),
            decided("same", "the blue door"),
        ]
    )
    found = memory.recall("me", "PLAN", "assert", "a blue door", 3)
    assert [one.decided.question for one in found] == ["same", "elsewhere", "old"]


def test_a_refusal_and_its_reason_come_to_mind_as_readily_as_a_bare_yes(memory: RecalledDecisions) -> None:
    memory.remember([decided(f"yes{n}", "the blue door") for n in range(9)])
    refusal = decided("no", "the blue door", said="not any more: paint it green, as we agreed with the neighbours")
    memory.remember([replace(refusal, verdict="revise")])
    found = memory.recall("me", "PLAN", "assert", "a blue door", 3)
    assert [one.decided.question for one in found] == ["no", "yes8", "yes7"]


def test_only_what_this_human_said_is_recalled(memory: RecalledDecisions) -> None:
    memory.remember([decided("other", "blue", human="you"), replace(decided("none", "blue"), verdict=None)])
    memory.remember([decided("mine", "blue")])
    assert [one.decided.question for one in memory.recall("me", "PLAN", "assert", "blue", 9)] == ["mine"]
    assert [one.decided.id for one in memory.past("me", "PLAN", "assert", "blue")] == [memory.search("blue", 1)[0].id]


def test_what_the_proxy_answered_by_itself_does_not_push_out_what_the_human_said(memory: RecalledDecisions) -> None:
    memory.remember([decided("mine", "blue door", said="never")])
    own = replace(decided(), asked="blue door", verdict=None, framing="", how="answered")
    memory.remember([replace(own, question=f"p{n}", time=NOW + n) for n in range(300)])
    assert [one.decided.said for one in memory.recall("me", "PLAN", "assert", "blue door", 6)] == ["never"]
    assert [one.likeness for one in memory.past("me", "PLAN", "assert", "blue door")] == [1.0]


def test_the_record_is_the_last_of_this_kind_and_the_last_of_all_oldest_first(memory: RecalledDecisions) -> None:
    memory.remember([decided(f"a{n}", "x", time=NOW + n) for n in range(300)])
    memory.remember([decided(f"b{n}", "x", state="INTENT", time=NOW + 300 + n) for n in range(300)])
    record = memory.past("me", "PLAN", "assert", "x")
    times = [one.decided.time - NOW for one in record]
    assert times == [float(n) for n in (*range(100, 300), *range(400, 600))]


@settings(max_examples=120)
@given(
    text=st.text(max_size=200) | st.sampled_from(["a AND b", 'x" OR "y', "asked:x", "NEAR(a b)", "^a*", "-", "\x00"])
)
def test_any_text_can_be_looked_for(text: str) -> None:
    for memory in STOCKED:
        for found in (memory.recall("me", "PLAN", "assert", text, 5), memory.past("me", "PLAN", "assert", text)):
            assert all(0.0 <= one.likeness <= 1.0 for one in found)
        memory.search(text, 5)


@settings(max_examples=60)
@given(text=st.text(st.characters(categories=["L", "N", "P", "Z"]), min_size=1, max_size=60))
def test_what_was_asked_is_found_by_its_own_words(text: str) -> None:
    """Whatever the words: they are looked for as they stand, and never taken as a query."""
    for memory in STOCKED:
        memory.remember([decided(f"own {text}", f"zanzibar {text}")])
        assert f"own {text}" in {one.question for one in memory.search("zanzibar", 10_000)}


STOCKED: list[RecalledDecisions] = []


@pytest.fixture(autouse=True, scope="module")
def _stocked(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[None]:
    STOCKED.append(SqliteDecisions(tmp_path_factory.mktemp("stocked") / "memory.db"))
    STOCKED.append(on_server(postgres))
    for memory in STOCKED:
        memory.remember([decided(f"q{n}", f"asked about a b x y {n}") for n in range(20)])
    yield
    for memory in STOCKED:
        memory.close()
    STOCKED.clear()


def test_words_are_found_without_their_accents(memory: RecalledDecisions) -> None:
    memory.remember([decided("q1", "the café")])
    assert [one.question for one in memory.search("cafe", 5)] == ["q1"]
    assert memory.recall("me", "PLAN", "assert", "café", 5)


def test_a_server_that_is_gone_is_told_in_a_line(tmp_path: Path) -> None:
    gone = PostgresDecisions(address_of("tests", {"tests": f"postgresql://x@/x?host={tmp_path}"}, {}))
    with pytest.raises(MemoryTrouble, match=r"the PostgreSQL server can't be reached") as told:
        gone.recall("me", "PLAN", "assert", "x", 5)
    assert "\n" not in str(told.value)


def test_each_user_of_a_database_has_a_memory_of_their_own(postgres: Server) -> None:
    with closing(on_server(postgres)) as mine, closing(on_server(postgres)) as yours:
        mine.remember([decided()])
        assert (mine.count(), yours.exists) == (1, False)


def test_a_recall_reads_a_bounded_number_of_rows(file_memory: SqliteDecisions, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many decisions share a word: what is fetched is counted, not timed."""
    monkeypatch.setattr(decision_recall, "WALKED", 20)
    monkeypatch.setattr(decision_recall, "POSTINGS", 10)
    monkeypatch.setattr(decision_recall, "PAST", 10)
    monkeypatch.setattr(decision_recall, "WEIGHED", 5)
    work = []
    for count in (400, 1600):
        file_memory.remember([decided(f"n{n}", f"the common words of question {n}") for n in range(count)])
        steps = 0

        def tick() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection = file_memory._opened()
        connection.set_progress_handler(tick, 1)
        file_memory.recall("me", "PLAN", "assert", "the common words of question 7", 3)
        file_memory.past("me", "PLAN", "assert", "the common words of question 7")
        connection.set_progress_handler(None, 1)
        work.append(steps)
    assert work[1] < 1.2 * work[0], work


def test_the_record_is_read_from_an_index_alone(file_memory: SqliteDecisions) -> None:
    file_memory.remember([decided()])
    plan = file_memory._opened().execute(
        f"EXPLAIN QUERY PLAN {decision_store._SQL['of_kind']}", ("me", "PLAN", "assert", 5)
    )
    assert [row["detail"] for row in plan] == [
        "SEARCH decisions USING COVERING INDEX of_kind (human=? AND state=? AND kind=?)"
    ]


# ---- correcting and forgetting -------------------------------------------------------------------


def test_a_correction_keeps_what_was_there(memory: RecalledDecisions) -> None:
    memory.remember([replace(decided(), verdict=None, how="answered", framing="")])
    (old,) = memory.last(1)
    new = memory.correct(old.id, "revise", "no: the vault is missing", NOW + 5)
    assert (new.verdict, new.said, new.how, new.agreed) == ("revise", "no: the vault is missing", "corrected", False)
    assert [(one.verdict, one.how) for one in memory.corrections(old.id)] == [(None, "answered")]
    assert memory.correct(old.id, "approve", "", NOW + 6).agreed
    assert [one.verdict for one in memory.corrections(old.id)] == [None, "revise"]
    assert memory.search("vault", 5) == []
    assert [one.decided.id for one in memory.past("me", "PLAN", "assert", "")] == [old.id]


def test_what_is_forgotten_is_gone_to_the_byte(file_memory: SqliteDecisions) -> None:
    file_memory.remember([decided("keep", "the kingfisher"), decided("drop", "the unmentionable", said="unspeakable")])
    (drop,) = file_memory.search("unmentionable", 1)
    file_memory.correct(drop.id, "revise", "unthinkable", NOW)
    assert file_memory.forget([drop.id]) == 1
    file_memory.close()
    left = b"".join(path.read_bytes() for path in file_memory.path.parent.iterdir())
    assert b"kingfisher" in left
    for word in (b"unmentionable", b"unspeakable", b"unthinkable", drop.id.encode()):
        assert word not in left
    assert [one.question for one in file_memory.last(9)] == ["keep"]
    assert [one.question for one in file_memory.search("kingfisher", 9)] == ["keep"]


def test_forgetting_what_is_not_there_changes_nothing(memory: RecalledDecisions) -> None:
    memory.remember([decided()])
    with pytest.raises(MemoryTrouble, match=r"there is no decision 'nope'; `parley memory list` lists them"):
        memory.forget([memory.last(1)[0].id, "nope"])
    assert memory.count() == 1


# ---- what can be wrong with the file -------------------------------------------------------------


def test_a_damaged_file_is_told_in_a_line_and_kept(file_memory: SqliteDecisions) -> None:
    file_memory.path.parent.mkdir()
    file_memory.path.write_bytes(b"this is no database, and it is all that there is")
    before = file_memory.path.read_bytes()
    with pytest.raises(
        MemoryTrouble, match=r"memory\.db: the memory is damaged \(.*\) and was left as it is; .* move it"
    ):
        file_memory.recall("me", "PLAN", "assert", "x", 5)
    with pytest.raises(MemoryTrouble, match="damaged"):
        file_memory.remember([decided()])
    assert file_memory.path.read_bytes() == before


def test_pages_that_were_overwritten_are_found_when_they_are_read(file_memory: SqliteDecisions) -> None:
    file_memory.remember([decided(f"q{n}", f"some words {n} " * 20) for n in range(200)])
    file_memory.close()
    data = bytearray(file_memory.path.read_bytes())
    data[4096 : len(data) - 4096] = b"\xff" * (len(data) - 8192)
    file_memory.path.write_bytes(data)
    with pytest.raises(MemoryTrouble, match="damaged"):
        file_memory.recall("me", "PLAN", "assert", "some words 7", 5)


def test_another_programs_database_is_not_touched(file_memory: SqliteDecisions) -> None:
    file_memory.path.parent.mkdir()
    other = sqlite3.connect(file_memory.path)
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()
    with pytest.raises(MemoryTrouble, match="another program's database; name another with PARLEY_MEMORY"):
        file_memory.remember([decided()])


def test_a_newer_memory_is_left_alone(file_memory: SqliteDecisions) -> None:
    file_memory.remember([decided()])
    file_memory._opened().execute(f"PRAGMA user_version = {SCHEMA + 1}")
    file_memory.close()
    with pytest.raises(MemoryTrouble, match=r"a newer Parley wrote this memory .*update Parley"):
        file_memory.last(5)


ANOTHER_HAND = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON decisions BEGIN UPDATE decisions SET verdict = 'approve'; END",
    "a view": "CREATE VIEW v AS SELECT 1",
    "a table": "CREATE TABLE more (x)",
    "a column": "ALTER TABLE decisions ADD COLUMN x TEXT",
    "an index": "CREATE INDEX i ON decisions (said)",
    "a view in a table's place": "DROP TABLE corrected; CREATE VIEW corrected AS SELECT 1",
    "a table less": "DROP TABLE corrected",
}


@pytest.mark.parametrize("script", ANOTHER_HAND.values(), ids=ANOTHER_HAND)
def test_a_memory_with_a_schema_of_another_hand_is_not_read(file_memory: SqliteDecisions, script: str) -> None:
    file_memory.remember([decided()])
    file_memory.close()
    other = sqlite3.connect(file_memory.path)
    other.executescript(script)
    other.close()
    with pytest.raises(MemoryTrouble, match="another hand has changed this memory"):
        file_memory.recall("me", "PLAN", "assert", "right", 5)
    with pytest.raises(MemoryTrouble, match=r"move it away and a new one begins, or name another with PARLEY_MEMORY"):
        file_memory.remember([decided("q2")])


def test_a_memory_is_a_file_of_the_users_own_and_nothing_else(file_memory: SqliteDecisions, tmp_path: Path) -> None:
    file_memory.remember([decided()])
    file_memory.close()
    kept = file_memory.path.rename(tmp_path / "kept.db")

    file_memory.path.symlink_to(kept)
    for use in (file_memory.count, lambda: file_memory.remember([decided("q2")])):
        with pytest.raises(MemoryTrouble, match="this is a link"):
            use()
    file_memory.path.unlink()
    file_memory.path.hardlink_to(kept)
    with pytest.raises(MemoryTrouble, match="another name elsewhere"):
        file_memory.count()
    file_memory.path.unlink()
    os.mkfifo(file_memory.path)
    with pytest.raises(MemoryTrouble, match="no ordinary file"):
        file_memory.remember([decided("q2")])
    file_memory.path.unlink()
    kept.rename(file_memory.path).chmod(0o644)
    assert file_memory.count() == 1
    assert stat.S_IMODE(file_memory.path.stat().st_mode) == 0o600
    file_memory.close()
    if os.geteuid() == 0:
        os.chown(file_memory.path, 1234, -1)
        with pytest.raises(MemoryTrouble, match="it belongs to user 1234, and you are user 0"):
            file_memory.count()


def test_a_memory_that_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "there.db")
    assert place({"PARLEY_MEMORY": str(tmp_path / "link.db")}) == tmp_path / "there.db"


def test_a_memory_that_is_busy_says_so(file_memory: SqliteDecisions) -> None:
    file_memory.remember([decided()])
    other = sqlite3.connect(file_memory.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    hasty = SqliteDecisions(file_memory.path, busy_seconds=0.01)
    with pytest.raises(MemoryTrouble, match="another process keeps the memory busy; try again"):
        hasty.remember([decided("q2")])
    assert hasty.recall("me", "PLAN", "assert", "right", 5), "whoever only reads is not kept waiting"
    other.close()
    hasty.remember([decided("q2")])
    hasty.close()
