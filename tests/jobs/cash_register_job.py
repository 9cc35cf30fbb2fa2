"""The script of one whole job: a cash register learns discounts and taxes, by Claude Codes with a scripted API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.apis.messages import Block, Exchange, Script, Turn
from tests.apis.script import Say, Use

REQUEST = "The till shall know discounts and taxes"
INTENT = "# Intent\nDiscounts and taxes, in percent.\n"
WHOLE = "Cents stay whole numbers.\n"
PLAN = "# Plan\n1. A discount.\n2. A tax.\n"
ORDER = "The discount goes before the tax.\n"
SIGNATURE, BODY = "def total(prices):", "    return sum(prices)"
DISCOUNT = ("def total(prices, discount=0):", "    return sum(prices) * (100 - discount) // 100")
TAX = ("def total(prices, tax=0):", "    return sum(prices) * (100 + tax) // 100")
BOTH = (
    "def total(prices, discount=0, tax=0):",
    "    return sum(prices) * (100 - discount) // 100 * (100 + tax) // 100",
)
ADVICE = "Tell in the README what a price is."
README = "# A till\n\nA price is a whole number of cents.\n"
RUN = "python3 -m unittest 2>&1"


def shell(command: str) -> Use:
    return Use("Bash", {"command": command})


def outcome(name: str, reason: str) -> Use:
    record = json.dumps({"outcome": name, "reason": reason})
    return shell(f"mkdir -p .parley && printf '%s' '{record}' > .parley/outcome.json")


def asserts(artifact: str, text: str) -> Use:
    return Use("AskQuestion", {"kind": "assert", "artifact": artifact, "text": text})


def at(path: str, **more: str) -> Callable[[Exchange], Mapping[str, Any]]:
    """Arguments for a tool that wants a whole path: the folder is what `pwd` said first in this conversation."""
    return lambda talk: {"file_path": f"{talk.last(r'(?m)^(/.+/jobs/.+)$')}/{path}", **more}


def changed(path: str, old: str, new: str) -> list[Block]:
    """An edit as Claude Code wants it: after a look."""
    return [Use("Read", at(path)), Use("Edit", at(path, old_string=old, new_string=new))]


# ---- the leads -------------------------------------------------------------------------------------


def intent_lead() -> list[Turn]:
    return [
        Turn(r"^\[INTENT\]", [Use("AskQuestion", {"text": "Are discounts and taxes given in percent?"})]),
        Turn(
            r"^\[ANSWER\]",
            [shell("pwd"), Use("Write", at("INTENT.md", content=INTENT)), asserts("INTENT.md", "Is this it?")],
        ),
        Turn(
            r"^\[ANSWER revise\]",
            [*changed("INTENT.md", INTENT, INTENT + WHOLE), asserts("INTENT.md", "And now?")],
        ),
        Turn(r"^\[ANSWER approve\]", [outcome("APPROVED_INTENT", "approved by the human")]),
    ]


def executes(parts: int) -> list[Turn]:
    """EXECUTE: first it finds the plan wanting; then two coders, whose changes meet in one line."""

    def begins(talk: Exchange) -> Sequence[Block]:
        if talk.results and ORDER not in talk.results[0]:
            return [shell("cat PLAN.md"), Use("AskQuestion", {"text": "Which comes first, discount or tax? Replan?"})]
        return [
            shell("cat PLAN.md && pwd"),
            Use("Send", {"to": "coder", "text": "Part one: the discount. Own till.py and test_discount.py."}),
            Use("Send", {"to": "coder", "text": "Part two: the tax. Own till.py and test_tax.py."}),
            Say("Both are at work."),
        ]

    def settles(talk: Exchange) -> Mapping[str, Any]:
        seen = talk.results[1]
        conflict = re.search(r"<<<<<<< parent\n.*>>>>>>> dispatch:\w+", seen, re.DOTALL)
        assert conflict is not None, seen
        return at("till.py", old_string=conflict[0], new_string="\n".join(BOTH))(talk)

    def closing(talk: Exchange) -> list[Block]:
        threads = dict.fromkeys(re.findall(r"sent to coder on (dispatch:\w+)", "\n".join(talk.earlier)))
        return [*(Use("CloseConversation", {"thread": thread}) for thread in threads), Say("Bringing them together.")]

    waiting = [Turn(r"is done\.", [Say("I wait for the others.")])] * (parts - 1)
    return [
        Turn(r"^\[EXECUTE\]", begins),
        Turn(r"^\[ANSWER backtrack plan\]", [outcome("REPLAN", "the plan has to say which comes first")]),
        Turn(
            r"^\[INTERVENE advisory\]",
            [
                Use("Send", lambda talk: {"thread": talk.last(r"sent to coder on (dispatch:\w+)"), "text": ADVICE}),
                Say("Passed on."),
            ],
        ),
        *waiting,
        Turn(r"is done\.", closing),
        Turn(
            r"^\[MERGE conflict\]",
            [
                Use("Read", at("till.py")),
                shell("cat till.py"),
                Use("Edit", settles),
                shell(RUN),
                Use("Write", at("WORK_SUMMARY.md", content="# Work\nBoth are in.\n\n## Assumptions\n- No coins.\n")),
                asserts("WORK_SUMMARY.md", "All tests pass. Is it right?"),
            ],
        ),
        Turn(r"^\[ANSWER approve\]", [outcome("APPROVED_WORK", "approved by the human")]),
    ]


def project_lead(parts: int) -> list[Turn]:
    def approved(talk: Exchange) -> Sequence[Block]:
        work = any("[EXECUTE]" in prompt for prompt in talk.prompts)
        return [outcome("APPROVED_WORK" if work else "APPROVED_PLAN", "approved by the human")]

    return [
        Turn(
            r"^\[PLAN\][\s\S]*comes first",
            [shell("pwd"), *changed("PLAN.md", PLAN, PLAN + ORDER), asserts("PLAN.md", "With the order?")],
        ),
        Turn(
            r"^\[PLAN\]", [shell("pwd"), Use("Write", at("PLAN.md", content=PLAN)), asserts("PLAN.md", "Is it sound?")]
        ),
        *executes(parts)[:-1],
        Turn(r"^\[ANSWER approve\]", approved),
    ]


# ---- the others ------------------------------------------------------------------------------------


def coder(held: Callable[[], object] = bool) -> list[Turn]:
    """Two tasks, and a remark on the second; `held` is called before the second task's answer."""

    def part(name: str, now: tuple[str, str], check: str) -> list[Block]:
        test = (
            "import unittest\n\nfrom till import total\n\n\n"
            f"class It(unittest.TestCase):\n    def test_{name}(self):\n        {check}\n"
        )
        return [
            shell("pwd"),
            *changed("till.py", f"{SIGNATURE}\n{BODY}", "\n".join(now)),
            Use("Write", at(f"test_{name}.py", content=test)),
            shell(RUN),
            Say(f"The {name} is done."),
        ]

    def second(_: Exchange) -> Sequence[Block]:
        held()
        return part("tax", TAX, "self.assertEqual(total([100], tax=10), 110)")

    return [
        Turn("(?m)^Part one", part("discount", DISCOUNT, "self.assertEqual(total([200], discount=50), 100)")),
        Turn("(?m)^Part two", second),
        Turn(
            re.escape(ADVICE),
            [Use("Read", at("README.md")), Use("Write", at("README.md", content=README)), Say("The README is done.")],
        ),
    ]


def proxy() -> list[Turn]:
    """Asks the human, and has nothing to add to words that come without a verdict."""
    return [
        Turn(r"^\[QUESTION\]", [shell("ls"), Use("AskHuman", {"text": "Please look at it."})]),
        Turn(r"^\[HUMAN\]", [Use("Answer", {"text": ""})]),
    ]


def script(*, parts: int = 2, held: Callable[[], object] = bool) -> Script:
    """All of them. `parts` is how many reports the lead waits for."""
    return Script(
        {
            "intent-lead": intent_lead(),
            "project-lead": project_lead(parts),
            "coder": coder(held),
            "proxy": proxy(),
        }
    )


def passing_on() -> list[dict[str, Any]]:
    """A proxy that is played too: it asks the human, and adds nothing to what they say."""
    plain = {"match": r"\[HUMAN\]", "repeat": True, "do": [{"answer": {"text": ""}}]}
    return [{"match": r"\[QUESTION\]", "repeat": True, "do": [{"ask_human": "please look"}]}, plain]


def human(*more: dict[str, Any], proxy: bool = False) -> str:
    """A playbook in which only the human is played, and the proxy where it is said."""
    rules = [
        *more,
        {"match": "INTENT INTENT.md", "verdict": "revise", "text": "Cents stay whole: say so."},
        {"match": "Which comes first", "verdict": "backtrack plan", "text": "It matters: put it into the plan."},
        {"match": r"[A-Z_]+\.md:", "verdict": "approve", "text": "yes", "repeat": True},
    ]
    return json.dumps({"human": rules, "agents": {}, **({"proxy": passing_on()} if proxy else {})})


PERCENT = {"match": "in percent", "text": "Yes, in percent."}
RESULT = {
    "till.py": '"""A till."""\n\n\n' + "\n".join(BOTH) + "\n",
}
