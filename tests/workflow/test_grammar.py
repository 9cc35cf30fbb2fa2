"""Names and ids: whatever the design check accepts, every later reader accepts; what one refuses, all refuse alike."""

import json
from dataclasses import asdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley.base.documents.node import DocumentError
from parley.runners.scripted.playbook import parse
from parley.workflow.design.design_check import check_design
from parley.workflow.files.archive import Archived, archive_of, read_index
from parley.workflow.files.plan import read_plan
from parley.workflow.files.rounds import read_round, render_round
from parley.workflow.files.session import TakenSession, read_session, render_session, take_back
from parley.workflow.files.status_file import read_status, render_status, shared_of
from parley.workflow.files.structure import check_structure
from parley.workflow.model import grammar
from parley.workflow.model.terms import PLAN, Round, Session, Task, Worker, session_of
from tests.workflow.complete_design import ROLES, good
from tests.workflow.workflow_harness import WorkflowHarness, doer, plan

# What ids are made of, right and wrong, so that many of either kind come up.
PIECES = st.sampled_from(
    ["a", "create", "user", "9", "_", "-", "__", "1727539200", "_1727539200", "Ä", "A", " ", "x" * 40]
)
IDS = st.lists(PIECES, min_size=1, max_size=6).map("".join)


def of_design(task_id: str) -> list[str]:
    files = good()
    files[PLAN] = files[PLAN].replace("create_user_table_1727539200", json.dumps(task_id))
    found = check_design(files, ROLES)
    return [one.remedy for one in found if one.rule == "malformed-task-id"]


def of_session(task_id: str) -> list[str]:
    return [one.remedy for one in read_session(render_session(Session(task_id, 1)))[1]]


def of_round(task_id: str) -> list[str]:
    text = render_round(Worker("one", Task.DOER, "coder", task_id), Round(1, "judge", "verified"))
    return [one.remedy for one in read_round(text, "one", 1)[1]]


def of_index(task_id: str) -> list[str]:
    entry = Archived(
        file=archive_of("one", "t", 1),
        agent="one",
        task="t",
        task_id=task_id,
        session_start=1,
        archived_at=2,
        notes=0,
        sha256="0" * 64,
        status="session_complete",
        reason="",
    )
    return [one.remedy for one in read_index(json.dumps({"archives": [asdict(entry)]}))[1]]


READERS = (of_design, of_session, of_round, of_index)


@given(IDS)
@example("create-user-table_1727539200")
@example("create_user_table_17275392001")
@example("create__table_1727539200")
@example(f"{'x' * 64}_1727539200")
@example(f"{'x' * 65}_1727539200")
@example("_1727539200")
def test_every_reader_of_a_task_id_says_the_same(task_id: str) -> None:
    said = [reader(task_id) for reader in READERS]

    assert {bool(remedies) for remedies in said} == {not grammar.is_task_id(task_id)}
    assert all(grammar.TASK_ID_FORM in remedy for remedies in said for remedy in remedies)


@given(st.from_regex(r"[a-z0-9]{1,9}([_-][a-z0-9]{1,9}){0,5}_[0-9]{9,10}", fullmatch=True))
def test_a_session_that_the_design_check_lets_begin_can_be_taken_back(task_id: str) -> None:
    session = Session(task_id, 1)

    assert take_back(session, render_session(session), 2) == TakenSession()


NAMES = st.lists(
    st.sampled_from(["a", "x9", "_", "-", "9", "A", ".", " ", "é", "\n", "ab" * 30]), min_size=1, max_size=4
).map("".join)


def name_of_plan(name: str) -> bool:
    text = plan({"name": "one"}).replace('"judge"', json.dumps(name))
    found, findings = read_plan(text)
    return found is not None and not any(one.rule == "wrong-name" for one in findings)


def name_of_status(name: str) -> bool:
    found, _ = read_plan(plan({"name": "one"}))
    assert found is not None
    text = render_status(shared_of(found)).replace('"one"', json.dumps(name))
    return not any(one.rule == "wrong-name" for one in read_status(text)[1])


def name_of_folder(name: str) -> bool:
    found = check_structure({session_of(name): render_session(Session("a_1727539200", 1))})
    return not found


def name_of_playbook(name: str) -> bool:
    try:
        parse(json.dumps({"agents": {name: []}}), "book.yaml")
    except DocumentError:
        return False
    return True


@given(NAMES)
@example("a" * 64)
@example("a" * 65)
def test_every_reader_of_an_agents_name_says_the_same(name: str) -> None:
    said = [reader(name) for reader in (name_of_plan, name_of_status, name_of_folder, name_of_playbook)]

    assert set(said) == {grammar.is_name(name)}


@pytest.mark.parametrize("task_id", ["make-one_1727539200", f"{'x' * 64}_1727539200", "9-lives_172753920"])
def test_a_doer_whose_task_id_passes_the_design_check_comes_to_its_end(task_id: str) -> None:
    stage = WorkflowHarness(plan({"name": "one", "task_id": task_id}), {"one": doer("one")}).done()

    assert stage.statuses() == {"one": "session_complete"}
