"""Plans, sessions and notes for tests: Hypothesis strategies and examples."""

from __future__ import annotations

from hypothesis import strategies as st

from parley.workflow.model.notes import BY_EXECUTOR, BY_USER, CATEGORIES, MUST_ESCALATE, SELF, note_id
from parley.workflow.model.terms import (
    Acceptance,
    Category,
    Checkpoint,
    Note,
    NoteStatus,
    Plan,
    Remedy,
    Session,
    Task,
    Worker,
)

PLAN_TEXT = """\
---
task: user_management
goal: Users can be kept and listed
stages:
  - [database_agent]
  - [api_agent, frontend_agent]
agents:
  database_agent:
    role: coder
    task_id: create_user_table_1727539200
    verifier: database_verifier
    outputs: [agents/database_agent/task_output/schema.sql]
    owns: ["db/**"]
    forbids: ["web/**"]
    objective: Make the table of users
    boundaries: No web
    deliverable: A schema
    acceptance: {text: The schema loads, commands: ["python -m pytest -q tests/db"]}
    time_limit_seconds: 900
    on_stall: re-scope
  api_agent:
    task_id: api_endpoints_1727539284
    depends_on: [database_agent]
    verifier: api_verifier
    inputs: [orchestration/agents/database_agent/task_output/schema.sql]
    owns: ["api/**"]
    acceptance: The endpoints answer
  frontend_agent:
    task_id: pages_1727539300
    depends_on: [database_agent]
    verifier: api_verifier
    owns: ["web/**"]
    acceptance: {text: The pages show}
  database_verifier: {task: verifier, role: reviewer}
  api_verifier: {task: verifier, role: reviewer}
checkpoints:
  - {from: database_agent, to: api_agent, by: database_verifier, criteria: The schema loads, on_failure: Back to it}
  - {from: database_agent, to: frontend_agent, by: database_verifier, criteria: The schema loads}
escalation: The architecture group answers; requirements come from the user
---

# User management

In words.
"""

SLUGS = st.sampled_from(["a", "user_management", "x1_2", "9_lives", "0"])
NAMES = st.sampled_from(["a", "database_agent", "api_agent", "y", "no", "null", "x-1", "n0_", "true"])
# What a file can hold: no halves of surrogate pairs.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
FILLED = TEXTS.filter(lambda text: bool(text.strip()))
PATHS = st.sampled_from(
    ["a", "db/schema.sql", "1.0", ".env", "a b/c", "orchestration/agents/a/task_output/é", "a:b", "-"]
)
SECONDS = st.one_of(st.just(0.0), st.integers(1, 10**6).map(float), st.floats(0.001, 1e6))
MOMENTS = st.integers(0, 4_000_000_000)


def lists(of: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    """A few of something, each once."""
    return st.lists(of, max_size=3, unique=True).map(tuple)


@st.composite
def workers(draw: st.DrawFn, name: str) -> Worker:
    """Any agent of a plan."""
    return Worker(
        name=name,
        task=draw(st.sampled_from(Task)),
        role=draw(st.one_of(st.just(name), NAMES)),
        task_id=draw(SLUGS.map(lambda slug: f"{slug}_1727539200")),
        depends_on=draw(lists(NAMES)),
        verifier=draw(NAMES),
        inputs=draw(lists(PATHS)),
        outputs=draw(lists(PATHS)),
        owns=draw(lists(FILLED.filter(lambda text: not text.startswith(("agents/", "./"))))),
        forbids=draw(lists(PATHS)),
        objective=draw(TEXTS),
        boundaries=draw(TEXTS),
        deliverable=draw(TEXTS),
        acceptance=Acceptance(draw(TEXTS), draw(lists(FILLED))),
        time_limit_seconds=draw(SECONDS),
        stall_seconds=draw(SECONDS),
        on_stall=draw(st.sampled_from(Remedy)),
    )


CHECKPOINTS = st.builds(Checkpoint, NAMES, NAMES, NAMES, FILLED, TEXTS)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan that a file can hold, sensible or not."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    stages = draw(st.lists(lists(NAMES).filter(bool), max_size=3))
    return Plan(
        task=draw(SLUGS),
        goal=draw(FILLED),
        workers={name: draw(workers(name)) for name in names},
        stages=tuple(stages),
        checkpoints=tuple(draw(st.lists(CHECKPOINTS, max_size=2))),
        escalation=draw(TEXTS),
    )


@st.composite
def notes(draw: st.DrawFn, number: int) -> Note:
    """Any note that a session may have."""
    status = draw(st.sampled_from(NoteStatus))
    category = draw(st.sampled_from(("", *CATEGORIES)))
    must = category in ("", *MUST_ESCALATE)
    made = draw(MOMENTS)
    by, resolution, when, reason = None, None, None, None
    if status is NoteStatus.RESOLVED:
        by = draw(st.sampled_from((BY_EXECUTOR, BY_USER) if must else (SELF, BY_EXECUTOR, BY_USER)))
        resolution, when = draw(FILLED), made + draw(st.integers(0, 1000))
        reason = draw(st.one_of(st.none(), TEXTS)) if by != SELF else None
    if status is NoteStatus.ESCALATED:
        reason = draw(FILLED)
    return Note(
        note_id=note_id(number),
        timestamp=made,
        description=draw(FILLED),
        context=draw(FILLED),
        status=status,
        category=Category(category),
        resolution=resolution,
        resolved_by=by,
        resolution_timestamp=when,
        escalation_reason=reason,
    )


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Any session of a worker."""
    count = draw(st.integers(0, 4))
    return Session(
        f"{draw(SLUGS)}_1727539200", draw(MOMENTS), tuple(draw(notes(number)) for number in range(1, count + 1))
    )


@st.composite
def mutations(draw: st.DrawFn, text: str) -> str:
    """A text with a piece cut out, doubled, or put in."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 40)))
        between = draw(
            st.one_of(
                st.sampled_from(["", "\t", "\n", "&a ", "*a", "<<: ", "null", "[", "}", '"', "\ud800", "NaN", "1e999"]),
                st.just(text[start:end] * 2),
                st.text(max_size=5),
            )
        )
        text = text[:start] + between + text[end:]
    return text
