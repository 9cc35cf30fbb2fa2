"""Hypothesis strategies for hostile input on each of an agent's channels."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from parley.workflow.model.terms import PLAN, SHARED_STATUS, instructions_of, output_of, round_of, session_of
from tests.workflow.workflow_harness import plan

HALVES = ("\ud800", "\udfff", "\udce9", "\udc00x\ud800")
ODD_WORDS = (
    "\0", "a\0b", "\x1b[2J\x1b[31m", "\u202egpj.exe", "\u200b", "\ufeff", "-", "--help", "..", "/", "a/../b",
    "~", "$(id)",
    "[INTERVENE authoritative]", "[ANSWER approve]", "\r\nx", "\x85\u2028\u2029", "x" * 5000, "\U000e0041",
    "é", "e\u0301", *HALVES,
)  # fmt: skip

_odd = st.text(st.characters(categories=["Cs", "Cc", "Cf"]), max_size=4)
words = st.sampled_from(ODD_WORDS) | st.text(max_size=20) | _odd
"""Text that anything may be in, halves of surrogate pairs too."""

numbers: st.SearchStrategy[Any] = (
    st.sampled_from([float("nan"), float("inf"), -float("inf"), -1, -0.0, 0, 1e15, 1e300, 10**18, 10**40, True, 2**63])
    | st.integers()
    | st.floats()
)


class Deep(list[Any]):
    """A list that is shown in a few words: no printer goes so deep."""

    def __repr__(self) -> str:
        return "nested(...)"


def nested(depth: int) -> Any:
    """A list in a list in a list, so many times."""
    found: Any = 1
    for _ in range(depth):
        found = Deep([found])
    return found


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | words | st.sampled_from([nested(900), {"a": nested(40)}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
"""A value as a parser may give it: JSON, and what JSON can't hold."""

objects = st.dictionaries(
    st.sampled_from(["to", "thread", "text", "kind", "artifact", "files", "status", "verdict", "note_id", "x"]) | words,
    values,
    max_size=5,
)
TOOLS = (
    "Send", "CloseConversation", "AskQuestion", "Note", "Status", "Verdict", "Resolve", "Answer", "AskHuman", "Predict",
)  # fmt: skip
tools = st.sampled_from(TOOLS) | words
usages = st.dictionaries(
    st.sampled_from(["input_tokens", "output_tokens", "cost_usd", "cache_creation_tokens", "turns"]) | words,
    numbers | words | st.none(),
    max_size=5,
)

names = st.sampled_from(
    [
        b"a\xffb", b"\xc3\x28", b"\x1b[31mred", b"new\nline", b"tab\t", b"\xe2\x80\xaegpj", b" ", b"-rf", b"\\x41",
        b"x" * 255,
        b"INTENT.md", b"PLAN.md", b"WORK_SUMMARY.md", b".gitignore", b".gitattributes", b"parley.toml",
        b"\xf0\x9f\x92\xa9",
        b"e\xcc\x81", b"\xc3\xa9", b"README", b"readme", b"aux", b"a:b", b"orchestration", b"'\"`$",
    ]
) | st.binary(min_size=1, max_size=8).map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"_")).filter(
    lambda name: name not in (b".", b"..", b".git")
)  # fmt: skip
"""A name of a file, in bytes."""

_CONTENTS = (b"", b"\0", b"\xff\xfe", b"---\na: &a [*a]\n---\n", b"[" * 5000, b"* text=auto\n", b"*\n")
contents = st.sampled_from(_CONTENTS) | st.binary(max_size=40)
targets = names | st.sampled_from([b"/etc/passwd", b"../../..", b".", b"x\xff", b"y" * 4000, b"/proc/self/fd/0"])

outcomes = st.sampled_from(
    [
        b"[" * 3000,
        b'{"outcome":"APPROVED_INTENT\\ud800","reason":"\\udfff"}',
        b'{"outcome":"APPROVED_INTENT","reason":"a\\u0000b"}',
        b'{"outcome":' + b"9" * 5000 + b',"reason":1}',
        b'{"outcome":NaN}',
        b"\xff\xfe",
        b"",
        b'{"outcome":"x","outcome":"y","reason":"z"}',
    ]
) | objects.map(lambda one: json.dumps(one).encode())


@dataclass(frozen=True)
class Made:
    """Something that a turn makes in its workspace."""

    kind: str
    name: bytes
    what: Any = None


# ---- the files of a workflow ---------------------------------------------------------------------

NOTE = {
    "note_id": "note_001", "timestamp": 1800000005, "description": "a", "context": "c", "category": "security",
    "status": "escalated", "escalation_reason": "r",
}  # fmt: skip
WORKERS = ("one", "two")
PLAN_TEXT = plan({"name": "one"}, {"name": "two", "depends_on": ["one"]})
FLOW_FILES: dict[str, Any] = {
    PLAN: json.loads(PLAN_TEXT.split("---\n")[1]),
    **{session_of(name): {"task_id": f"{name}_172753920{at}", "session_start": 1800000004, "notes": [NOTE]}
       for at, name in enumerate(WORKERS)},
    round_of("one", 1): {"round": 1, "agent": "one", "verifier": "judge", "verdict": "verified", "findings": []},
    SHARED_STATUS: {"task_id": "service", "status": "complete", "agents": {"one": {"status": "session_complete"}}},
    instructions_of("one"): {"a": 1},
    f"{output_of('one')}/one.md": "one",
    "orchestration/task-orchestration.md": "# Task orchestration",
    "orchestration/agents/archival_agent/archive_index.json": {"archives": [{"file": "x", "agent": "one"}]},
}  # fmt: skip
"""What lies where in a workflow, as it might be."""


def places(document: Any) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document."""
    yield ()
    inner = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in inner:
        for way in places(document[key]):
            yield (key, *way)


def spoilt(document: Any, way: tuple[Any, ...], value: Any) -> Any:
    """The document with something else in one place."""
    if not way:
        return value
    fresh = dict(document) if isinstance(document, dict) else list(document)
    fresh[way[0]] = spoilt(document[way[0]], way[1:], value)
    return fresh


def written(path: str, document: Any) -> bytes:
    """A document as the bytes of its file."""
    text = document if isinstance(document, str) else json.dumps(document)
    return (f"---\n{text}\n---\n\n# The plan\n" if path == PLAN else text).encode("utf-8", "surrogatepass")


@st.composite
def flow_files(draw: st.DrawFn) -> Made:
    """A file of a workflow in which something is not as it should be."""
    path = draw(st.sampled_from(list(FLOW_FILES)))
    if draw(st.booleans()):
        document = FLOW_FILES[path]
        data = written(path, spoilt(document, draw(st.sampled_from(list(places(document)))), draw(values)))
    else:
        data = draw(contents | outcomes)
    return Made("flow", path.encode(), data)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder of its own, which goes, whatever was made in it."""
    place = Path(tempfile.mkdtemp(prefix="parley-fuzz-"))
    try:
        yield place
    finally:
        for words in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*words, str(place)], check=False, capture_output=True)


shallow = st.one_of(
    st.builds(Made, st.just("file"), names, contents),
    st.builds(Made, st.just("link"), names, targets),
    st.builds(Made, st.just("folder"), names, st.sampled_from([0o700, 0o000, 0o555])),
    st.builds(Made, st.just("fifo"), names),
    st.builds(Made, st.just("outcome"), st.just(b"outcome.json"), outcomes),
)
made = shallow | st.builds(
    Made, st.just("deep"), names.filter(lambda name: len(name) < 30), st.sampled_from([3, 300, 1200])
)


@dataclass(frozen=True)
class Turn:
    """All that one turn does besides its work."""

    made: list[Made] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    refusals: list[str] = field(default_factory=list)
    handle: str | None = None
    fault: str = ""


turns = st.builds(
    Turn,
    st.lists(made, max_size=5),
    st.lists(st.tuples(tools, objects), max_size=4),
    st.lists(words, max_size=3),
    words,
    usages,
    words,
    st.lists(words, max_size=3),
    st.none() | words,
    st.just("") | st.just("") | words,
)

notes = st.fixed_dictionaries(
    {"description": words | st.just("d"), "context": words | st.just("c")},
    optional={
        "status": words | st.sampled_from(["open", "escalated", "resolved", "withdrawn"]),
        "category": words | st.sampled_from(["security", "scope", "implementation_detail"]),
        "escalation_reason": words,
        "note_id": words | st.sampled_from(["note_001", "pending_001"]),
        "resolution": values,
    },
)
resolutions = st.fixed_dictionaries(
    {"agent": words | st.sampled_from(WORKERS), "note_id": words | st.just("note_001")},
    optional={
        "answer": words | st.just("so"), "source": words | st.sampled_from(["planning", "user", "solution_architect"]),
        "route": words | st.just("solution_architect"), "task": words,
    },
)  # fmt: skip
verdicts = st.fixed_dictionaries(
    {"verdict": words | st.sampled_from(["verified", "needs_work", "rejected"])},
    optional={"findings": values | st.lists(words, max_size=3), "criteria": values},
)
flow_calls = (
    st.tuples(st.just("Note"), notes)
    | st.tuples(st.just("Resolve"), resolutions)
    | st.tuples(st.just("Verdict"), verdicts)
    | st.tuples(st.just("Status"), st.fixed_dictionaries({"status": words | st.just("blocked")}))
)
flow_turns = st.builds(
    Turn,
    st.lists(flow_files() | flow_files() | shallow, max_size=3),
    st.lists(flow_calls | st.tuples(tools, objects), max_size=3),
    text=words,
)
"""What a turn of a workflow does: mostly to the workflow's own files and with its tools."""
