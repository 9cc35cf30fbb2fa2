"""The session that the README shows: a small job by real Claude Codes, with a scripted API in the model's place."""

from __future__ import annotations

import json

from tests.apis.messages import Script, Turn
from tests.apis.script import Say, Use

FILES = {
    "hello.py": 'print("hello")\n',
    "README.md": "# hello\n",
}
INTENT = "# Intent\n`python3 hello.py NAME` greets NAME; without a name it says hello as before.\n"
PLAN = "# Plan\nA coder changes hello.py. Done when `python3 hello.py World` prints `hello World`.\n"
SUMMARY = "# Work\nhello.py greets by name; both ways were run.\n\n## Assumptions\n- One name at most.\n"
CODE = 'import sys\n\nprint("hello", *sys.argv[1:2])\n'


def shell(command: str) -> Use:
    return Use("Bash", {"command": command})


def puts(path: str, text: str) -> Use:
    """A file, written by a shell: a path of one machine stands nowhere in the script."""
    return shell(f"cat > {path} <<'END'\n{text}END")


def asserts(artifact: str, text: str) -> Use:
    return Use("AskQuestion", {"kind": "assert", "artifact": artifact, "text": text})


def outcome(name: str) -> Use:
    record = json.dumps({"outcome": name, "reason": "approved by the human"})
    return shell(f"mkdir -p .parley && printf '%s' '{record}' > .parley/outcome.json")


def asks_human() -> list[Turn]:
    look = {"text": "Please look at it.", "found": "it says what was asked for", "would": "approve", "confidence": 0.9}
    return [Turn(r"^\[QUESTION\]", [Use("Predict", {"verdict": "approve", "confidence": 0.8}), Use("AskHuman", look)])]


def script() -> Script:
    """All who work on it."""
    return Script(
        {
            "proxy": asks_human(),
            "intent-lead": [
                Turn(
                    r"^\[INTENT\]",
                    [
                        shell("cat hello.py"),
                        puts("INTENT.md", INTENT),
                        asserts("INTENT.md", "Greet by name; hello stays."),
                    ],
                ),
                Turn(r"^\[ANSWER approve\]", [outcome("APPROVED_INTENT"), Say("Approved.")]),
            ],
            "project-lead": [
                Turn(r"^\[PLAN\]", [puts("PLAN.md", PLAN), asserts("PLAN.md", "One task, one check.")]),
                Turn(
                    r"^\[EXECUTE\]",
                    [Use("Send", {"to": "coder", "text": "Change hello.py as PLAN.md says, and run its check."})],
                ),
                Turn(
                    r"greets by name",
                    [Use("CloseConversation", lambda talk: {"thread": talk.last(r"coder on (dispatch:\w+)")})],
                ),
                Turn(
                    r"\[MERGE clean\]",
                    [
                        shell("python3 hello.py World && python3 hello.py"),
                        puts("WORK_SUMMARY.md", SUMMARY),
                        asserts("WORK_SUMMARY.md", "Both ways were run."),
                    ],
                ),
                Turn(
                    r"^\[ANSWER approve\]",
                    lambda talk: [
                        outcome(
                            "APPROVED_WORK" if any("[EXECUTE]" in said for said in talk.prompts) else "APPROVED_PLAN"
                        ),
                        Say("Approved."),
                    ],
                    repeat=True,
                ),
            ],
            "coder": [
                Turn(
                    "hello.py",
                    [
                        puts("hello.py", CODE),
                        shell("python3 hello.py World"),
                        Say("hello.py greets by name; `python3 hello.py World` prints hello World."),
                    ],
                )
            ],
        }
    )
