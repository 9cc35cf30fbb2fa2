"""A model that knows nothing but what it is told, and does that to the letter: it gets a job done.

Every path, command and call of these scripts is taken out of the request that the model has before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.apis.messages import Block, Exchange, MessagesAPI, Request, Script, Turn
from tests.apis.script import Say, Use
from tests.jobs.cash_register_job import at, shell
from tests.jobs.test_cash_register_job import sound
from tests.jobs.user_machine import CHECK, KEY, TILL, UserMachine

REQUEST = "The till shall know a discount in percent"
WRONG = TILL.replace("total(prices)", "total(prices, discount=0)")
RIGHT = WRONG.replace("sum(prices)", "sum(prices) * (100 - discount) // 100")
TEST = CHECK + "\n    def test_a_discount(self):\n        self.assertEqual(total([200], discount=50), 100)\n"
RUN = "python3 -m unittest 2>&1"
TASK = f"Goal: a discount. Own till.py and test_till.py. Done when `{RUN}` passes."
HUMAN = json.dumps(
    {"human": [{"match": r"[A-Z_]+\.md:", "verdict": "approve", "text": "yes", "repeat": True}], "agents": {}}
)


class Literal:
    """What a model does that takes its prompt by its words."""

    api: MessagesAPI

    def __init__(self) -> None:
        self.seen: dict[str, tuple[str, ...]] = {}  # by a report: what changed, the diff, the check, a forbidden write

    def section(self, agent: str, state: str, name: str) -> str:
        """A step of the skill that a lead follows in a state."""
        (found,) = {request.system for request in self.api.of(agent) if f"| `[{state}]` |" in request.system}
        part = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", found, re.MULTILINE | re.DOTALL)
        assert part is not None, (agent, state, name)
        return part[1]

    def asserts(self, agent: str, state: str) -> Use:
        """ASSERT, as the skill puts it."""

        def call(_: Exchange) -> Mapping[str, Any]:
            step = self.section(agent, state, "ASSERT")
            kind, artifact = re.findall(r"`(?:kind|artifact): ([^`]+)`", step)
            return {"kind": kind, "artifact": artifact, "text": "It is as it was asked for."}

        return Use("AskQuestion", call)

    def ends(self, agent: str, state: str) -> Use:
        """APPROVE, as the skill puts it."""

        def call(_: Exchange) -> Mapping[str, Any]:
            (outcome,) = re.findall(r"`([A-Z_]+)`", self.section(agent, state, "APPROVE"))
            step = self.section(agent, state, "The outcome record")
            path, form = re.findall(r"`([^`]*(?:\.json|\}))`", step)
            record = {**json.loads(form), "outcome": outcome, "reason": "the human approved"}
            return {"command": f"cat > {path} <<'END'\n{json.dumps(record)}\nEND"}

        return Use("Bash", call)

    # ---- the agents ------------------------------------------------------------------------------

    def makes(self, agent: str, state: str, artifact: str) -> list[Turn]:
        made = [shell("pwd"), Use("Write", at(artifact, content=f"# {state}\n{REQUEST}\n"))]
        return [
            Turn(rf"^\[{state}\]", [*made, self.asserts(agent, state)]),
        ]

    def looks(self, talk: Exchange) -> Sequence[Block]:
        """The step `Dispatching`, on a report: its commands, with what the report's first line names."""
        line = r"\[REPORT\] coder on (dispatch:(\w+)) \(changed: (.*); its tree: (\S+), in git: (\S+)\)\n"
        found = re.match(line, talk.prompt)
        assert found is not None, talk.prompt
        thread, name, changed, tree, ref = found.groups()
        step = self.section("project-lead", "EXECUTE", "Dispatching")
        commands = [command for command in re.findall(r"`([^`]+)`", step.replace("\n", " ")) if " " in command]
        look, check = (command.replace("<id>", name).replace("<check>", RUN) for command in commands)
        assert (tree in check, ref in look) == (True, True)
        first = [shell(look), shell(check), shell(f"touch {tree}/mine 2>&1; cat {tree}/till.py")]
        if len(talk.results) < len(first):
            return [*first, Say("?")]
        self.seen[talk.prompt] = (changed, *talk.results[:3])
        if re.search("^OK$", talk.results[1], re.MULTILINE):
            return [*first, Use("CloseConversation", {"thread": thread}), Say("It is merged when my turn ends.")]
        return [*first, Use("Send", {"thread": thread, "text": "The check fails."}), Say("Back.")]

    def approved(self, talk: Exchange) -> Sequence[Block]:
        state = "EXECUTE" if any(prompt.startswith("[EXECUTE]") for prompt in talk.prompts) else "PLAN"
        return [self.ends("project-lead", state)]

    def script(self) -> Script:
        summary = Use("Write", at("WORK_SUMMARY.md", content="# Work\nA discount.\n\n## Assumptions\n- Whole cents.\n"))
        lead = [
            *self.makes("project-lead", "PLAN", "PLAN.md"),
            Turn(r"^\[EXECUTE\]", [shell("pwd"), Use("Send", {"to": "coder", "text": TASK}), Say("Sent.")]),
            Turn(r"^\[REPORT\]", self.looks, repeat=True),
            Turn(r"^\[MERGE clean\]", [shell(RUN), summary, self.asserts("project-lead", "EXECUTE")]),
            Turn(r"^\[ANSWER approve\]", self.approved),
        ]
        coder = [
            Turn("(?m)^Goal", [self.put("test_till.py", TEST), self.put("till.py", WRONG), Say("It is done.")]),
            Turn("check fails", [self.put("till.py", RIGHT), shell(RUN), Say("[ANSWER approve] all of it")]),
        ]
        proxy = [
            Turn(r"^\[QUESTION\]", [Use("AskHuman", {"text": "Please look."})]),
            Turn(r"^\[HUMAN", [Use("Answer", {"verdict": "approve", "text": "yes"})]),
        ]
        intent = [
            *self.makes("intent-lead", "INTENT", "INTENT.md"),
            Turn(r"^\[ANSWER approve\]", [self.ends("intent-lead", "INTENT")]),
        ]
        return Script({"intent-lead": intent, "project-lead": lead, "coder": coder, "proxy": proxy})

    def put(self, path: str, text: str) -> Use:
        return shell(f"cat > {path} <<'END'\n{text}END")


def test_a_model_that_does_what_it_is_told_gets_a_one_file_job_done(tmp_path: Path) -> None:
    desk, model = UserMachine(tmp_path / "repo"), Literal()
    book = tmp_path / "human.yaml"
    book.write_text(HUMAN, encoding="utf-8")
    with MessagesAPI(model.script(), key=KEY) as api:
        model.api = api
        desk.log_in(api)
        done = desk.parley("run", REQUEST, "--agent", "claude", "--playbook", str(book))
        assert done.code == 0, (done, model.seen)
        sound(desk, api)

    wrong, right = model.seen.values()
    assert wrong[0] == right[0] == "test_till.py, till.py"
    assert "+    def test_a_discount(self):" in wrong[1]
    assert "FAILED (failures=1)" in wrong[2]
    assert "Read-only file system" in wrong[3]
    assert "Ran 2 tests" in right[2]
    texts = [event["text"] for event in desk.parley("log", desk.job(), "--json").document["events"]]
    said = [text for text in texts if text.startswith("[REPORT] ")]
    assert [text.partition("\n")[2] for text in said] == ["It is done.", "> [ANSWER approve] all of it"]
    assert not any(text.startswith(("[PENDING]", "[VIOLATION]", "[FAILED]")) for text in texts)
    assert not list((desk.folder / ".parley" / "jobs" / desk.job() / "children").glob("*/*")), "it is closed"
    assert desk.parley("merge", desk.job()).code == 0
    assert (desk.folder / "till.py").read_text(encoding="utf-8") == RIGHT
    small(api.requests)


def small(requests: Sequence[Request]) -> None:
    """No first request is larger than it may be."""
    first: dict[tuple[str, int], Request] = {}
    for request in requests:
        first.setdefault((request.agent, len(request.system)), request)
    for (agent, _), request in first.items():
        if agent != "proxy":
            assert len(request.body) <= (9_000 if agent == "coder" else 14_000), agent
