"""Values of a workflow, right ones and hostile ones, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from parley.workflow.files.task_record import Assigned, TaskRecord, Tracked
from parley.workflow.model.terms import LivenessAction, Merged, Proof, Remedy, Rescope, Status, Task
from parley.workflow.model.times import LAST

HOSTILE = (
    "",
    " ",
    "|",
    "\\|",
    "\\",
    "`",
    "```",
    "``` text",
    "a\nb",
    "\r\n",
    "\x85\u2028\x0b",
    "| --- | --- |",
    "## Worker tracker",
    "### Merge 1",
    "### Text 1",
    "# Task orchestration: `x`",
    "<br>",
    "`a`<br>`b`",
    "<script>alert(1)</script>",
    "<!--",
    "-->",
    "([text 1](#text-1))",
    "`x` and 3 more ([list 1](#list-1))",
    "\\u0060",
    "\\&",
    "\ud800",
    "\U000e0001",
    "\u202egnp.exe",
    "…",
    "- `true` ended with 0 after 1.0 s",
    "x" * 5000,
    ("long line of words " * 20 + "\n") * 3,
)
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=30),
    st.text(alphabet="`|\\\n<>br&u0 #-*()[]…", max_size=40),
    st.lists(st.sampled_from(HOSTILE), max_size=3).map("".join),
)
lists = st.lists(texts, max_size=9).map(tuple)
moments = st.integers(0, LAST)
proofs = st.builds(
    Proof, texts, st.integers(-64, 255), texts, st.floats(0, 1e9, allow_nan=False, allow_infinity=False), texts
)
tracked = st.builds(Tracked, texts, st.sampled_from(Status), lists, lists, texts, texts, lists, st.none() | moments)
assigned = st.builds(
    Assigned,
    texts,
    st.sampled_from(Task),
    texts,
    texts,
    texts,
    lists,
    texts,
    st.integers(0, 99),
    lists,
    st.sampled_from(Remedy),
    texts,
)
rescopes = st.builds(Rescope, moments, texts, texts, lists, lists, texts)
actions = st.builds(LivenessAction, moments, texts, st.sampled_from(Remedy), texts, texts)
merges = st.builds(
    Merged,
    number=st.integers(1, 10**6),
    agent=texts,
    time=moments,
    taken=st.booleans(),
    commits=lists,
    paths=lists,
    conflicts=lists,
    resolved_by=texts,
    trivial=st.booleans(),
    kept_out=lists,
    proofs=st.lists(proofs, max_size=3).map(tuple),
    reason=texts,
)


def some(of: st.SearchStrategy) -> st.SearchStrategy:
    """A few of them."""
    return st.lists(of, max_size=3).map(tuple)


records = st.builds(
    TaskRecord,
    task=texts,
    goal=texts,
    tracked=some(tracked),
    assigned=some(assigned),
    rescopes=some(rescopes),
    actions=some(actions),
    merges=st.lists(merges, max_size=3, unique_by=lambda merge: merge.number).map(tuple),
)
