"""What archives are called, and the files that tell of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.workflow.files.archive import (
    ACTIONS,
    INDEX,
    LOG,
    MOST_ENTRIES,
    Archived,
    Logged,
    agent_of,
    archive_of,
    archived,
    is_archive,
    read_index,
    read_log,
    render_index,
    render_log,
    restorable,
    task_of,
)
from parley.workflow.files.session import render_session
from parley.workflow.model.terms import Note, Session, session_of
from tests.workflow.value_strategies import texts

START = 1727539822
SESSION = Session("create_user_table_1727539200", START, (Note("note_001", START, "emails are unique", "the table"),))
agents = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
written = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def test_an_archive_is_named_after_the_time_its_session_began_and_the_task() -> None:
    folder = "orchestration/agents/database_agent/completion_drive"
    assert (
        archive_of("database_agent", "user_management", START)
        == f"{folder}/session_20240928_161022_user_management.json"
    )
    assert archive_of("database_agent", "user_management", START, 2).endswith("_user_management_2.json")


@given(agents, texts, st.integers(-(10**12), 10**12), st.integers(1, 9))
def test_every_archive_is_a_plain_file_beside_its_session_whatever_the_task_is_called(
    agent: str, task: str, start: int, number: int
) -> None:
    path = archive_of(agent, task, start, number)
    assert is_archive(path)
    assert agent_of(path) == agent
    assert path.rsplit("/", 1)[0] == session_of(agent).rsplit("/", 1)[0]
    assert re.fullmatch(r"session_\d{8}_\d{6}_[A-Za-z0-9_-]+\.json", path.rsplit("/", 1)[1])


@pytest.mark.parametrize(
    "path",
    [
        "orchestration/agents/a/completion_drive/session_current.json",
        "orchestration/agents/a/completion_drive/more/session_20240928_161022_t.json",
        "orchestration/agents/a/task_output/session_20240928_161022_t.json",
        "orchestration/agents/a/completion_drive/session_20240928_161022_.._t.json",
        "agents/a/completion_drive/session_20240928_161022_t.json",
        "session_20240928_161022_t.json",
        "",
    ],
)
def test_what_lies_elsewhere_or_is_called_otherwise_is_no_archive(path: str) -> None:
    assert not is_archive(path)


def test_an_archive_without_a_task_in_its_name_is_one_too() -> None:
    path = "orchestration/agents/a/completion_drive/session_20250928_143022.json"
    assert is_archive(path)
    assert task_of(path) == ""


entries = st.builds(
    lambda agent, task, start, now: archived(archive_of(agent, task, start), task, SESSION, task, now),
    agents,
    written,
    st.integers(0, 10**10),
    st.integers(0, 10**10),
)


@given(st.lists(entries, unique_by=lambda entry: entry.file))
def test_an_index_is_read_back_to_the_letter_in_the_order_of_its_paths(made: list[Archived]) -> None:
    assert read_index(render_index(made)) == (tuple(sorted(made, key=lambda entry: entry.file)), [])


@given(st.lists(st.builds(Logged, st.integers(0, 10**10), written, st.sampled_from(ACTIONS), written, written)))
def test_a_log_is_read_back_to_the_letter(made: list[Logged]) -> None:
    assert read_log(render_log(made)) == (tuple(made), [])


def test_a_log_does_not_grow_without_end() -> None:
    made = [Logged(number, "a", "archived", "f") for number in range(MOST_ENTRIES + 5)]
    kept, _ = read_log(render_log(made))
    assert kept == tuple(made[5:])


ENTRY = archived(archive_of("database_agent", "t", START), "t", SESSION, render_session(SESSION), 5)
GOOD = json.loads(render_index([ENTRY]))["archives"][0]


@pytest.mark.parametrize(
    "field,value,said",
    [
        ("file", "../../etc/passwd", 'file is "../../etc/passwd"'),
        ("file", archive_of("api_agent", "t", START), "file is"),
        ("agent", 3, "archives[0].agent is 3"),
        ("session_start", True, "archives[0].session_start is true"),
        ("session_start", -1, "archives[0].session_start is -1"),
        ("sha256", None, "archives[0].sha256 is null"),
        ("mood", "good", '"mood" is not a field'),
    ],
)
def test_what_is_wrong_with_an_index_is_told_by_field(field: str, value: Any, said: str) -> None:
    found, findings = read_index(json.dumps({"archives": [{**GOOD, field: value}]}))
    assert found is None
    assert [finding for finding in findings if said in finding.text and finding.file == INDEX], findings


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"archives": {}}', '{"archives": [1]}', "{" * 99_999, '{"a": NaN}'])
def test_a_file_that_is_no_index_and_no_log_is_a_finding(text: str) -> None:
    assert read_index(text)[0] is None
    assert read_log(text.replace("archives", "entries"))[0] is None


def test_a_log_with_an_unknown_action_is_a_finding() -> None:
    found, (finding,) = read_log(render_log([Logged(1, "a", "eaten", "f")]))
    assert found is None
    assert (finding.file, finding.text) == (LOG, 'action is "eaten"')


def test_an_archive_that_was_changed_since_is_not_restored() -> None:
    text = render_session(SESSION)
    assert restorable(text, ENTRY, ENTRY.file) == (SESSION, [])
    assert restorable(text, None, ENTRY.file) == (SESSION, [])
    session, (finding,) = restorable(text.replace("unique", "shared"), ENTRY, ENTRY.file)
    assert session is None
    assert finding.rule == "changed-archive"
    session, findings = restorable("{}", None, ENTRY.file)
    assert session is None
    assert {finding.file for finding in findings} == {ENTRY.file}
