"""The skills are prose; what the protocol says of them is held against it, word by word."""

import re
from pathlib import Path

import pytest

from parley.engine import protocol_messages
from parley.ports.workspaces import Conflict, Merge
from parley.protocol.molecules import Ruling
from parley.protocol.states import APPROVAL, BACKTRACK, LIVE, Action, State, skill_outcomes
from parley.protocol.transitions import make_initial_state
from parley.roles import protocols, skill_text
from parley.roles.instance_files import EXTRA_SKILLS
from parley.roles.phases import PHASES
from parley.roles.skill_anatomy import EDGES, SKILLS, STEPS, WORKFLOW, marks

RUNS = "workflow-execution"
FOLDER = Path(protocol_messages.__file__).parents[1] / "skills"


def sections(state: State) -> dict[str, str]:
    """A skill's parts by their headings."""
    parts = re.split(r"^## (.+)$", skill_text(SKILLS[state]), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def outcomes_in(text: str) -> set[str]:
    return {str(action) for action in Action if re.search(rf"`{action}`", text)}


def test_each_state_has_its_skill_and_there_are_no_others() -> None:
    at_hand = {name for names in EXTRA_SKILLS.values() for name in names}
    assert {path.name for path in FOLDER.iterdir()} == {*SKILLS.values(), *at_hand}
    assert (protocols() / "workflow-planning.md").is_file()
    assert at_hand.isdisjoint(SKILLS.values())
    assert tuple(SKILLS) == LIVE


@pytest.mark.parametrize("state", LIVE)
def test_a_skill_has_every_step_in_order_and_every_edge_and_no_other(state: State) -> None:
    parts = sections(state)

    assert tuple(name for name in parts if name in STEPS) == STEPS
    found = {(step, to) for step in STEPS for to in re.findall(r"-> ([A-Z]+)$", parts[step], re.MULTILINE)}
    assert found == set(EDGES)


@pytest.mark.parametrize("state", LIVE)
def test_a_skill_begins_by_whether_its_artifact_is_there(state: State) -> None:
    start, artifact = sections(state)["START"], PHASES[state].artifact

    assert f"- `{artifact}` is there -> ALIGN" in start
    assert f"- `{artifact}` is absent -> DRAFT" in start
    assert f"`artifact: {artifact}`" in sections(state)["ASSERT"]
    assert f"`{artifact}` at the root of your worktree" in skill_text(SKILLS[state])


@pytest.mark.parametrize("state", LIVE)
def test_a_skill_writes_the_outcomes_of_its_state_and_no_others(state: State) -> None:
    parts = sections(state)
    allowed = {str(action) for action in skill_outcomes(state)}

    assert outcomes_in(parts["The outcome record"]) == allowed
    assert outcomes_in(skill_text(SKILLS[state])) == allowed
    assert outcomes_in(parts["APPROVE"]) == {APPROVAL[state]}
    assert outcomes_in(parts["WITHDRAW"]) == {"WITHDRAW"}
    assert outcomes_in(parts["BACKTRACK"]) == allowed & {str(action) for action in BACKTRACK.values()}
    assert "`.parley/outcome.json`" in parts["The outcome record"]


def in_table(text: str) -> list[str]:
    """The marks in the first column of a table, each row of which says what to do."""
    rows = re.findall(r"^\| (`\[[^\n]*) \| ([^|\n]+) \|$", text, re.MULTILINE)
    assert all(meaning.strip() for _, meaning in rows)
    return [mark for marked, _ in rows for mark in re.findall(r"`\[([^\]]+)\]`", marked)]


@pytest.mark.parametrize("state", LIVE)
def test_a_skill_knows_every_mark_that_its_lead_may_meet(state: State) -> None:
    assert sorted(in_table(sections(state)["Marks"])) == sorted(marks(state))


def test_the_marks_of_a_workflow_are_told_with_the_workflow() -> None:
    pages = {State.PLAN: (protocols() / "workflow-planning.md").read_text(), State.EXECUTE: skill_text(RUNS)}

    for state, page in pages.items():
        assert in_table(page) == list(WORKFLOW[state])
        assert not any(mark.startswith(("DESIGN", "WORKFLOW")) for mark in marks(state))


@pytest.mark.parametrize("state", LIVE)
def test_a_skill_surfaces_a_rewrite_and_ends_its_turn_with_a_question(state: State) -> None:
    parts = sections(state)

    assert re.search(r"rewrite.*silently", parts["REVISE"], re.DOTALL)
    assert "Your turn ends" in parts["ASK"]
    assert "Your turn ends" in parts["ASSERT"]
    assert "void" in parts["ASSERT"]


def test_the_last_gate_compares_with_intent_and_plan_and_names_the_phase() -> None:
    text = sections(State.EXECUTE)["ASSERT"]

    assert all(word in text for word in ("intent", "plan", "name the phase that was wrong"))


def made(state: State) -> list[str]:
    """Every message that the protocol makes for a lead."""
    record = make_initial_state("j")
    rulings = [None, *Ruling]
    return [
        f"[{state}] text",
        protocol_messages.pending(record, ["coder on dispatch:a"]),
        protocol_messages.violation("why"),
        protocol_messages.failed("coder", "dispatch:a", "it died", 3),
        protocol_messages.report("coder", "dispatch:a", ("a.py",), "done"),
        protocol_messages.dead_letter("coder", "dispatch:a", "text"),
        protocol_messages.merged("coder", "dispatch:a", Merge(("a.py",))),
        protocol_messages.merged("coder", "dispatch:a", Merge((), (Conflict("a.py", "one", None),))),
        protocol_messages.recovered("", ["Send"]).strip(),
        protocol_messages.withdrawn("why"),
        *(protocol_messages.intervene("text", authoritative=authority) for authority in (True, False)),
        *(protocol_messages.answer(ruling, "text", "q", "human", heard=True) for ruling in rulings),
    ]


def test_every_mark_that_the_engine_puts_on_a_leads_message_is_in_the_table() -> None:
    """EXECUTE has them all: the other states lack only the verdicts that lead nowhere from there."""
    known = set(marks(State.EXECUTE))

    for text in made(State.EXECUTE):
        mark = re.match(r"\[([^\]]+)\]", text)
        assert mark is not None, text
        assert mark[1] in known, text
