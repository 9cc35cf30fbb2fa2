"""How many requests, bytes and turns a job takes, beside plain Claude Code doing the same work.

Both talk to a scripted API on loopback: no key is needed. The scripted model behaves plainly: one tool call in a
response, and of the protocol only what the prompts ask for. The human approves each gate at once. The work is the same
on both sides: the same files with the same commands, then the same check.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import Section, render_text
from parley.runners.claude import find_program
from parley.settings.schema import ClaudeSettings
from tests.apis.messages import Block, Exchange, MessagesAPI, Request, Script, Turn
from tests.apis.script import Say, Use

PARLEY = Path(sys.executable).with_name("parley")
SECONDS = 300.0
REQUESTS = {
    "one file": "Write area.py with a function area(width, height).",
    "two coders": "Write area.py with area(width, height) and volume.py with volume(width, height, depth).",
}
WRITES = {
    "area.py": "printf 'def area(width, height):\\n    return width * height\\n' > area.py",
    "volume.py": "printf 'def volume(width, height, depth):\\n    return width * height * depth\\n' > volume.py",
}
CHECKS = {
    "area.py": 'python3 -c "from area import area; assert area(2, 3) == 6"',
    "volume.py": 'python3 -c "from volume import volume; assert volume(2, 3, 4) == 24"',
}


# ---- the scripted model ----------------------------------------------------------------------------


def _shell(command: str) -> Use:
    return Use("Bash", {"command": command})


def _document(path: str, text: str) -> Use:
    return _shell(f"cat > {path} <<'END'\n{text}\nEND")


def _assert(artifact: str, text: str) -> Use:
    return Use("AskQuestion", {"kind": "assert", "artifact": artifact, "text": text})


def _outcome(name: str) -> Use:
    record = json.dumps({"outcome": name, "reason": "approved by the human"})
    return _shell(f"mkdir -p .parley && printf '%s' '{record}' > .parley/outcome.json")


def _work(*files: str) -> list[Block]:
    return [*(_shell(WRITES[file]) for file in files), *(_shell(CHECKS[file]) for file in files)]


def _lead(*files: str) -> list[Turn]:
    """The lead of PLAN and EXECUTE; with several files it gives each to a coder."""
    summary: list[Block] = [
        _document("WORK_SUMMARY.md", "# Work\nWritten and checked."),
        _assert("WORK_SUMMARY.md", "Is the work right?"),
    ]

    def approved(talk: Exchange) -> Sequence[Block]:
        work = any("[EXECUTE]" in prompt for prompt in talk.prompts)
        return [_outcome("APPROVED_WORK" if work else "APPROVED_PLAN")]

    def closing(number: int) -> Use:
        def thread(talk: Exchange) -> Mapping[str, Any]:
            opened = re.findall(r"sent to coder on (dispatch:\w+)", "\n".join(talk.earlier))
            return {"thread": opened[number]}

        return Use("CloseConversation", thread)

    plan = _document("PLAN.md", "# Plan\nWrite the files, run their checks.")
    turns = [Turn(r"\[PLAN\]", [_shell("cat INTENT.md"), plan, _assert("PLAN.md", "Is the plan sound?")])]
    if len(files) == 1:
        turns.append(Turn(r"\[EXECUTE\]", [_shell("cat PLAN.md"), *_work(*files), *summary]))
    else:
        sends = [Use("Send", {"to": "coder", "text": f"Write {file}. {REQUESTS['two coders']}"}) for file in files]
        turns.append(Turn(r"\[EXECUTE\]", [_shell("cat PLAN.md"), *sends, Say("They are at work.")]))
        turns += [Turn(f"{file} is written", [closing(n), Say("Closed.")]) for n, file in enumerate(files)]
        turns.append(Turn(r"^\[MERGE clean\]", [*(_shell(CHECKS[file]) for file in files), *summary]))
    return [*turns, Turn(r"\[ANSWER approve\]", approved, repeat=True)]


def _proxy() -> list[Turn]:
    """Says what it expects, looks at what is put forward, and asks the human."""

    def passes_on(talk: Exchange) -> Mapping[str, Any]:
        found = re.match(r"\[HUMAN ?([a-z ]*)\] ?(.*)", talk.prompt, re.DOTALL)
        return {"text": found[2] if found else "", "confidence": 0.9, "verdict": found[1] if found else ""}

    expects = Use("Predict", {"verdict": "approve", "confidence": 0.8})
    asks = Use("AskHuman", {"text": "It is as asked for.", "would": "approve", "confidence": 0.9})
    return [
        Turn(r"\[QUESTION\]", [expects, _shell("ls; cat *.md"), asks], repeat=True),
        Turn(r"\[HUMAN", [Use("Answer", passes_on)], repeat=True),
    ]


def _team(*files: str) -> Script:
    intent = _document("INTENT.md", "# Intent\nThe files that were asked for.")
    coder = [Turn(f"(?m)^Write {file}", [*_work(file), Say(f"{file} is written and checked.")]) for file in files]
    return Script(
        {
            "intent-lead": [
                Turn(r"\[INTENT\]", [_shell("ls"), intent, _assert("INTENT.md", "Is this what you want?")]),
                Turn(r"\[ANSWER approve\]", [_outcome("APPROVED_INTENT")]),
            ],
            "project-lead": _lead(*files),
            "coder": coder,
            "proxy": _proxy(),
        }
    )


# ---- measuring -------------------------------------------------------------------------------------


def measure() -> list[dict[str, Any]]:
    """A row for each job and for plain Claude Code doing its work."""
    rows: list[dict[str, Any]] = []
    for name, files in (("one file", ("area.py",)), ("two coders", ("area.py", "volume.py"))):
        with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
            rows += [_ours(Path(folder), name, files), _plain(Path(folder), name, files)]
    return rows


def _repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "README.md").write_text("# Geometry\n", encoding="utf-8")
    (folder / "CLAUDE.md").write_text("Python 3.11, no dependencies.\n", encoding="utf-8")
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "begin")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def _environment(api: MessagesAPI, home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": api.url,
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _ours(folder: Path, name: str, files: tuple[str, ...]) -> dict[str, Any]:
    repository = _repository(folder / "parley")
    with MessagesAPI(_team(*files)) as api:
        words = [str(PARLEY), "run", REQUESTS[name], "--agent", "claude", "--yes"]
        environment = _environment(api, folder / "home")
        done = subprocess.run(
            words, cwd=repository, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the job ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        (job,) = json.loads(_parley(repository, environment, "ls", "--json"))["jobs"]
        shown = json.loads(_parley(repository, environment, "show", job["id"], "--json"))
        return _row(f"{name}: Parley", [*api.requests, *api.asides], int(shown["cost"]["turns"]))


def _parley(repository: Path, environment: Mapping[str, str], *words: str) -> str:
    command = [str(PARLEY), *words]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=True).stdout


def _plain(folder: Path, name: str, files: tuple[str, ...]) -> dict[str, Any]:
    """The same program as its users start it, without anything of Parley's."""
    repository = _repository(folder / "plain")
    program = find_program(ClaudeSettings(), {"PATH": ""}).binds[0].source
    work = Turn(".", [*_work(*files), Say("Written and checked.")])
    script = Script({"": [work]})  # its prompt names no agent
    with MessagesAPI(script) as api:
        words = [program, "--print", REQUESTS[name], "--allowedTools", "Bash"]
        environment = _environment(api, folder / "plain-home")
        subprocess.run(
            words, cwd=repository, env=environment, check=True, capture_output=True, timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        missing = [file for file in files if not (repository / file).is_file()]
        if missing:
            raise RuntimeError(f"plain Claude Code did not write {missing}")
        return _row(f"{name}: plain Claude Code", [*api.requests, *api.asides], 1)


def _row(what: str, requests: Sequence[Request], turns: int) -> dict[str, Any]:
    sent = [len(request.body) for request in requests]
    proxys = sum(request.agent == "proxy" for request in requests)
    return {
        "what": what,
        "turns": turns,
        "requests": len(sent),
        "of the proxy": proxys,
        "bytes": sum(sent),
        "largest": max(sent),
    }


TEXT = """
The same work, done by a job whose human approves each gate at once, and by the same program without Parley in its
default configuration. Bytes are what all requests send together; most of each request repeats the one before, which
the API's cache makes cheap. What Parley's requests buy besides the files: three gates, a record and, with two coders,
a tree for each. `python -m bench.requests` shows this table alone.
"""


def section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """The page's table."""
    columns = ["", "turns", "requests", "of the proxy", "bytes", "largest request"]
    return Section("Requests, bytes and turns of a job", columns, [list(row.values()) for row in rows], TEXT)


if __name__ == "__main__":
    print(render_text([section(measure())]))
