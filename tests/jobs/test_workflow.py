"""A workflow whose architect, doers and verifiers are the real Claude Code, each behind the boundary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.workflow.model.flow import Flow
from parley.workflow.model.flow_slots import current
from parley.workflow.model.terms import Status
from tests.apis.messages import Block, MessagesAPI, Request, Script, Turn
from tests.apis.script import Say, Together, Use
from tests.cli.home import turn_processes
from tests.engine.job_harness import INTENT, asserts, close, on, outcome, send, write
from tests.jobs.cash_register_job import at, shell
from tests.jobs.user_machine import KEY, UserMachine
from tests.workflow.design_actions import instructed
from tests.workflow.workflow_harness import PLAN_FILE, output, plan

STORE = "class Store:\n    def __init__(self):\n        self.notes = {}\n\n    def add(self, title, text):\n"
TAKES_ALL = f"{STORE}        self.notes[title] = text\n"
REFUSES = (
    f"{STORE}        if title in self.notes:\n            raise ValueError(title)\n        self.notes[title] = text\n"
)
ADDS = "from src.store.store import Store\n\nstore = Store()\nstore.add('a', 'b')\nassert store.notes == {'a': 'b'}\n"
PAGE = "<form><input name=title></form>\n"
DESIGN = plan(
    {"name": "store", "acceptance": {"text": "a note is kept", "commands": ["python3 -B -m src.store.check"]}},
    {"name": "page", "acceptance": {"text": "it has a form", "commands": ["grep -q '<form' src/page/index.html"]}},
    stages=[["store", "page"]],
)
CONTRACT = "~/.claude/protocols/orchestration_agent_contract.md"
CONTRACT_TITLE = "# Orchestration agent contract"
FINDING = "a second note of the same title takes the place of the first"
ANSWER = "A title names one note."


def put(path: str, text: str) -> Use:
    return Use("Write", at(path, content=text))


def designed() -> list[Block]:
    files = [(PLAN_FILE, DESIGN), *((one["write"]["path"], one["write"]["text"]) for one in instructed(DESIGN))]
    return [shell("pwd"), Together(*(put(path, text) for path, text in files)), Say("designed")]


def architect() -> list[Turn]:
    source = {"agent": "store", "note_id": "note_001", "answer": ANSWER, "source": "user"}
    return [
        Turn(r"^\[DESIGN\]", designed()),
        Turn(
            r"^\[ESCALATION\] store",
            [
                Use("Resolve", source),  # nobody has asked the user yet
                Use("AskQuestion", {"text": "May two notes have the same title?"}),
            ],
        ),
        Turn(r"^\[ANSWER\]", [Use("Resolve", source), Say("titles are unique")]),
    ]


def store() -> list[Turn]:
    asked = {
        "description": "May two notes have the same title?", "context": "writing Store.add",
        "category": "requirements", "status": "resolved", "resolution": "yes",
    }  # fmt: skip
    raised = {**asked, "status": "escalated", "escalation_reason": "only users can say"}
    del raised["resolution"]
    return [
        Turn(
            r"^\[TASK\]",
            [
                shell("pwd"),
                shell(f"head -n 1 {CONTRACT}"),
                put("src/store/store.py", TAKES_ALL),
                put("src/page/index.html", "mine"),
                Use("Note", asked),  # what users want is not a doer's to settle
                Use("Note", raised),
                Use("Status", {"status": "ready_for_verification"}),
                Use("Status", {"status": "blocked"}),
                Say("may they?"),
            ],
        ),
        Turn(
            r"^\[ANSWERS\]",  # perhaps in a new conversation: others may have needed the room
            [shell("pwd"), put("src/store/check.py", ADDS), put(output("store"), "add(title, text)\n"), Say("made")],
        ),
        Turn(r"^\[REVIEW\]", [Use("Status", {"status": "ready_for_verification"}), Say("looked")], repeat=True),
        Turn(
            r"^\[REJECTED\]",
            [shell("pwd"), Use("Read", at("src/store/store.py")), put("src/store/store.py", REFUSES), Say("mended")],
        ),
    ]


def page() -> list[Turn]:
    assumed = {"description": "A title is short.", "context": "the form", "category": "implementation_detail"}
    settled = {"note_id": "note_001", "status": "resolved", "resolution": "one line is enough for it"}
    return [
        Turn(
            r"^\[TASK\]",
            [
                shell("pwd"),
                put("src/page/index.html", PAGE),
                put(output("page"), "a form\n"),
                Use("Note", assumed),
                Say("made"),
            ],
        ),
        Turn(r"^\[REVIEW\]", [Use("Note", settled), Say("looked")]),
    ]


def judge() -> list[Turn]:
    verified = Use("Verdict", {"verdict": "verified", "findings": []})
    return [
        Turn(
            r"^\[VERIFY\] store, round 1",
            [
                Use("Verdict", {"verdict": "rejected", "findings": []}),  # without a finding nobody can act on it
                Use("Verdict", {"verdict": "rejected", "findings": [FINDING]}),
            ],
        ),
        Turn(r"^\[VERIFY\]", [verified, Say("good")]),
    ]


AGENTS = {
    "workflow-architect": architect(),
    "design-verifier": [Turn(r"^\[VERIFY\]", [Use("Verdict", {"verdict": "verified", "findings": []}), Say("sound")])],
    "store": store(),
    "page": page(),
    "judge": judge(),
}
LEAD = [
    on(r"^\[PLAN\]", send("architecture-group", "notes with a page", "group"), state="PLAN"),
    on(r"^\[DESIGN ready\]", close("group"), state="PLAN"),
    on(r"^\[MERGE clean\]", write("PLAN.md", "the workflow"), asserts("PLAN.md"), state="PLAN"),
    on(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN"), state="PLAN"),
    on(r"^\[EXECUTE\]", send("workflow-executor", "run it", "work"), state="EXECUTE"),
    on(r"^\[WORKFLOW complete\]", close("work"), state="EXECUTE"),
    on(r"^\[MERGE clean\]", write("WORK_SUMMARY.md", "done"), asserts("WORK_SUMMARY.md"), state="EXECUTE"),
    on(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"), state="EXECUTE"),
]
BOOK = {
    "human": [
        {"match": "same title", "text": ANSWER},
        {"match": ".", "verdict": "approve", "text": "yes", "repeat": True},
    ],
    "proxy": [
        {"match": r"\[QUESTION\]", "repeat": True, "do": [{"ask_human": "please look"}]},
        {"match": r"\[HUMAN approve", "repeat": True, "do": [{"answer": {"verdict": "approve", "text": "yes"}}]},
        {"match": r"\[HUMAN\]", "repeat": True, "do": [{"answer": {"text": ANSWER}}]},
    ],
    "agents": {"intent-lead": INTENT, "project-lead": LEAD},
}


def test_a_workflow_carried_out_by_claude_code_reaches_done(tmp_path: Path) -> None:
    desk = UserMachine(tmp_path / "repo")
    book = tmp_path / "book.yaml"
    book.write_text(json.dumps(BOOK), encoding="utf-8")
    with MessagesAPI(Script(AGENTS), key=KEY) as api:
        desk.log_in(api)
        done = desk.parley("run", "Keep notes", "--agent", "claude", "--playbook", str(book))

    job = desk.job()
    assert done.code == 0, (done, desk.parley("log", job).out)
    work = desk.folder / ".parley/jobs" / job / "work"
    assert (work / "src/store/store.py").read_text(encoding="utf-8") == REFUSES
    assert (work / "src/page/index.html").read_text(encoding="utf-8") == PAGE
    _check_what_was_answered(api)
    _check_what_happened(_flow(desk, job))
    assert "`May two notes have the same title?`" in (work / "WORK_SUMMARY.md").read_text(encoding="utf-8")
    assert desk.parley("workflow", "check", job).code == 0
    assert desk.parley("audit", job).code == 0
    assert turn_processes(job) == []
    assert desk.holding(KEY) == []


def _check_what_was_answered(api: MessagesAPI) -> None:
    """What the tools said to the real program."""
    said = {agent: "\n".join(_results(request) for request in api.of(agent)) for agent in AGENTS}
    assert CONTRACT_TITLE in said["store"]
    assert "src/page/index.html belongs to page (rule: page owns src/page/**)" in said["store"]
    assert "note_001 is escalated" in said["store"]
    assert "note_001 is resolved" in said["page"]
    assert "AskQuestion first" in said["workflow-architect"]
    assert "say what you found" in said["judge"]


def _results(request: Request) -> str:
    contents = [message["content"] for message in request.document["messages"]]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    results = [block.get("content", "") for block in blocks if block["type"] == "tool_result"]
    return json.dumps(results, ensure_ascii=False)


def _flow(desk: UserMachine, job: str) -> Flow:
    store = SqliteStore(desk.folder / ".parley")
    try:
        found = current(store.load(job).molecules)
    finally:
        store.close()
    assert found is not None
    return found


def _check_what_happened(flow: Flow) -> None:
    standings: dict[str, Any] = {name: member.standing for name, member in flow.members.items()}
    assert {name: one.status for name, one in standings.items()} == dict.fromkeys(("store", "page"), Status.COMPLETE)
    notes = {
        name: [(note.resolution, note.resolved_by) for note in one.session.notes] for name, one in standings.items()
    }
    assert notes == {"store": [(ANSWER, "user")], "page": [("one line is enough for it", "agent_self")]}
    assert [(one.verdict, one.findings) for one in standings["store"].rounds] == [
        ("rejected", (FINDING,)),
        ("verified", ()),
    ]
    assert all(proof.holds for merged in flow.merges for proof in merged.proofs)
