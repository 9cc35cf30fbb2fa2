"""What people see is clean: whatever agents name and write, no command prints what a terminal obeys, or a secret."""

import json
import re
from pathlib import Path

import pytest

from parley.cli import MODULES
from tests.cli.home import PARLEY, Home
from tests.cli.terminal import terminal

SECRET = "Zq7Xw2Lm9Tn4Rk8Vb5Yc1Hd6"
PIECES = tuple(SECRET[at : at + 8] for at in range(len(SECRET) - 7))
NASTY = "\x1b]0;own\x07\x1b[31m\u202e\u2066\u200b\x9b2J\u2028\x7f\rparley: approved"
NAME = f"x\x1b[2J\u202e\nparley: {SECRET}.txt"
# what a terminal would obey or hide: control characters of both sets, whatever has no form, separators of lines
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
TEXT = f"{NASTY} {'y' * 60} {SECRET} {NASTY}\n[INTERVENE authoritative] {SECRET}"
PLANT = (
    "import os; n = os.fsencode(" + repr(NAME) + "); open(n, 'w').write('plain'); os.symlink('nowhere', n + b'.link');"
    "open(b'bad\\xff.txt', 'w').write('plain')"
)


def playbook(*, waits: bool) -> str:
    """A job whose every field that an agent fills is hostile; it ends, or waits at its last gate."""
    approve = {"verdict": "approve", "text": TEXT}
    gate = {"match": "INTENT|PLAN.md", **approve} if waits else {"match": ".", **approve}

    def phase(mark: str, artifact: str, outcome: str) -> list[object]:
        return [
            {
                "match": rf"\[{mark}\]",
                "repeat": True,
                "do": [
                    {"write": {"path": artifact, "text": TEXT}},
                    {"assert": {"artifact": artifact, "text": TEXT}},
                ],
            },
            {
                "match": r"\[ANSWER approve\]",
                "state": mark,
                "repeat": True,
                "do": [{"note": {"assumption": TEXT, TEXT: TEXT}}, {"outcome": {"outcome": outcome, "reason": TEXT}}],
            },
        ]

    send = {"send": {"to": "coder", "as": "c1", "text": TEXT}}
    execute = phase("EXECUTE", "WORK_SUMMARY.md", "APPROVED_WORK")
    first, *rest = execute
    assert isinstance(first, dict)
    return json.dumps(
        {
            "agents": {
                "intent-lead": phase("INTENT", "INTENT.md", "APPROVED_INTENT"),
                "project-lead": [
                    *phase("PLAN", "PLAN.md", "APPROVED_PLAN"),
                    {"match": r"\[EXECUTE\]", "do": [send]},
                    {"match": r"\[REPORT\]", "do": [{"close": {"thread": "c1"}}, *first["do"]]},
                    *rest,
                ],
                "coder": [
                    {"match": ".", "do": [{"shell": f'python3 -c "{PLANT}"'}, {"note": {"x": TEXT}}, {"say": TEXT}]}
                ],
            },
            "human": [{**gate, "repeat": True}],
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Two jobs: one that is done, one that waits at a gate."""
    home = Home(tmp_path_factory.mktemp("clean"), {"PLANTED_TOKEN": SECRET})
    for number, waits in enumerate((False, True)):
        words = (
            "run",
            f"use {SECRET} \x1b[31m\u202e{NASTY}",
            "--playbook",
            home.write(f"{number}.json", playbook(waits=waits)),
        )
        done = home.run(*words)
        assert done.code == (4 if waits else 0), done
        check(done.out + done.err, "run")
    return home


def check(text: str, what: str) -> None:
    """Nothing of all that is in it."""
    found = FORBIDDEN.search(text.replace("\r\n", "\n"))
    assert found is None, (what, found, text[max(0, found.start() - 80) : found.end() + 80])
    assert not [piece for piece in PIECES if piece in text], (what, text)
    assert not re.search(r"^(parley: approved|\[INTERVENE)", text, re.MULTILINE), (what, text)


def looks(done: str, waiting: str, question: str) -> dict[str, list[list[str]]]:
    """For each command, how it is called to look at the two jobs. A command that is not here fails the test."""
    bad, both = f"{NASTY}{SECRET}", (done, waiting)

    def each(command: str, *more: str) -> list[list[str]]:
        return [[command, job, *more, *how] for job in both for how in ([], ["--json"])]

    return {
        "run": [["run", bad, "--playbook", f"{bad}.yaml"], ["run", "x", "--agent", bad]],
        "continue": [["continue", bad, NASTY], ["continue", waiting, bad]],
        "pr": [["pr", bad], ["pr", waiting], ["pr", waiting, "--json"]],
        "completion": [["completion", bad]],
        "demo": [],  # a job of its own, in which nothing is hostile
        "ls": [["ls"], ["ls", "--json"], ["ls", "--state", bad], ["ls", "--older-than", bad], ["ls", bad]],
        "show": each("show"),
        "tree": each("tree"),
        "log": [*each("log"), *each("log", "--work"), ["log", done, "--thread", bad], ["log", done, "--since", bad]],
        "cost": [["cost"], ["cost", "--json"], ["cost", "--by", "model"], ["cost", "--by", bad], ["cost", bad]],
        "watch": [["watch"]],
        "serve": [["serve", bad], ["serve", "--host", bad], ["serve", "--name", bad], ["serve", "--cert", bad]],
        "allow": [["allow", bad, "ann", "--see"], ["allow", done, bad, "--see"], ["allow", done, "ann", "--see"]],
        "people": [
            ["people"],
            ["people", "--json"],
            ["people", bad],
            ["people", "add", bad],
            ["people", "remove", bad],
        ],
        "hosts": [["hosts"], ["hosts", "--json"]],
        "worker": [["worker", "--name", bad], ["worker", "--slots", bad], ["worker", "--label", bad]],
        "inbox": [["inbox"], ["inbox", "--json"], ["inbox", question], ["inbox", question, "--json"], ["inbox", bad]],
        "answer": [["answer", bad, NASTY], ["answer", bad, "--json"]],
        "notify": [["notify"], ["notify", "--json"]],
        "intervene": [["intervene", bad, NASTY]],
        "pause": [["pause", bad], ["pause", done], ["pause", done, "--json"]],
        "resume": [["resume", bad], ["resume", done]],
        "withdraw": [["withdraw", bad], ["withdraw", done], ["withdraw", done, waiting, bad]],
        "memory": [["memory", "list"], ["memory", "list", "--json"], ["memory", "why", done], ["memory", bad]],
        "audit": each("audit"),
        "export": [["export", done], ["export", waiting], ["export", bad]],
        "diff": [*each("diff", "--stat"), ["diff", bad]],
        "merge": [["merge", waiting], ["merge", done, "--dry-run"], ["merge", bad]],
        "gc": [["gc", "--dry-run"], ["gc", "--dry-run", "--json"], ["gc", "--older", bad]],
        "roles": [["roles"], ["roles", bad]],
        "workflow": [["workflow", "check", waiting], ["workflow", "status", waiting], ["workflow", bad]],
        "doctor": [["doctor", "--agent", bad]],
        "setup": [["setup", "--policy", bad]],
        "trust": [["trust"], ["trust", "--json"]],
        "bus": [["bus", bad], ["bus", "adopt"], ["bus", "adopt", "--json"]],
        "tool": [["tool", "Send", bad]],
    }


def test_no_command_prints_what_a_terminal_obeys_or_a_secret(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in home.env().items():
        monkeypatch.setenv(name, value)
    waiting, done = sorted(home.jobs(), key=lambda job: str(job["state"]) == "DONE")
    table = looks(done["id"], waiting["id"], home.question())
    assert set(table) == set(MODULES)
    for calls in table.values():
        for words in calls:
            said = home.here(*words)
            check(said.out + said.err, " ".join(words))
            if "--json" in words and said.out:
                json.loads(said.out)
    assert "\\x1b" in home.run("log", done["id"]).out  # what was there is shown, not dropped


@pytest.mark.parametrize(
    "words", [["ls"], ["show"], ["log"], ["inbox"], ["diff"], ["diff", "--stat"], ["show", "--json"]]
)
def test_a_terminal_is_not_told_more_than_a_pipe(home: Home, words: list[str]) -> None:
    job = next(str(job["id"]) for job in home.jobs() if job["state"] == "DONE")
    command, *rest = words
    about = [] if command in ("ls", "inbox") else [job]
    unpaged = {**home.env(), "PAGER": "cat"}
    with terminal([str(PARLEY), command, *about, *rest], home.folder, unpaged, 200, 50) as screen:
        screen.end()
    check(screen.everything, " ".join(words))


def test_the_branch_of_a_job_holds_no_secret(home: Home) -> None:
    branches = {home.run("diff", job["id"], "--json").document["branch"] for job in home.jobs()}
    assert not [branch for branch in branches for piece in PIECES if piece.lower() in branch.lower()]


def test_an_export_holds_no_secret_in_the_name_of_a_file(home: Home, tmp_path: Path) -> None:
    for job in home.jobs():
        path = tmp_path / f"{job['id']}.export"
        assert home.run("export", job["id"], "-o", str(path)).code == 0
        text = path.read_text(encoding="utf-8")
        assert not [piece for piece in PIECES if piece in text]
        assert home.run("audit", str(path)).code == 0
