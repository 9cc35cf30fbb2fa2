"""`parley memory`, as people use it, on a memory that rehearsals have filled and on ones that can't be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parley.features.proxy.decision_store import SqliteDecisions
from parley.ports.decisions import Decided
from tests.cli.home import LEADS, Home

VIEW = '{text: "I think so", verdict: approve, confidence: 0.9, reason: "it has all parts"}'
PLAYED = (
    r"""
human:
  - {match: 'PLAN PLAN.md', verdict: revise, text: 'where is the vault?'}
  - {match: '.', repeat: true, verdict: approve, text: 'yes'}
proxy:
  - match: '\[QUESTION\]'
    repeat: true
    do: [{predict: {verdict: approve, confidence: 0.6}}, {answer: """
    + VIEW
    + r"""}]
"""
    + LEADS
    + r"""    - match: '\[ANSWER revise\]'
      repeat: true
      do: [{write: {path: PLAN.md, text: "plan, with a vault"}}, {assert: {artifact: PLAN.md, text: "and now?"}}]
"""
)
REHEARSE = "[proxy]\nrehearse = true\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PARLEY_MEMORY", f"{tmp_path}.db")
    return Home(tmp_path, {"PARLEY_MEMORY": f"{tmp_path}.db"})


def test_what_was_decided_is_listed_shown_explained_corrected_and_forgotten(home: Home) -> None:
    home.settings(REHEARSE)
    job = home.start(PLAYED, "--policy", "when_unsure")
    assert home.here("show", job, "--json").document["state"] == "DONE"
    found = home.here("memory", "list", "--json").document["decisions"]
    assert [(one["state"], one["verdict"], one["agreed"]) for one in found] == [
        ("EXECUTE", "approve", True),
        ("PLAN", "approve", True),
        ("PLAN", "revise", False),
        ("INTENT", "approve", True),
    ]
    refused = found[2]["id"]
    listed = home.here("memory", "list", "--state", "plan", "--limit", "1").out
    assert f"{found[1]['id']}  " in listed
    assert "PLAN PLAN.md  you: approve  expected: approve 90%  (unsure)\n    and now?\n" in listed
    assert [one["id"] for one in home.here("memory", "search", "vault", "--json").document["decisions"]] == [
        refused,
        found[1]["id"],
    ]
    shown = home.here("memory", "show", refused[:6]).out
    assert "before reading: approve (60% sure)\n" in shown
    assert "after reading: approve: I think so (90% sure); it has all parts\n" in shown
    assert "you said: revise: where is the vault?\n  as expected: no\n" in shown
    _explained(home, job, found[1]["question"], refused)
    _put_right(home, refused, found[1]["id"], job)


def _explained(home: Home, job: str, question: str, refused: str) -> None:
    """Why, for one question and for all of a job."""
    why = home.here("memory", "why", question).out
    assert f"it was reminded of {refused}, " in why
    assert "PLAN PLAN.md: revise: where is the vault? (sound?)" in why
    assert "weighed: you were asked; " in why
    assert "human (playbook) said: approve: yes\n  the answer, by the human: approve: yes\n" in why
    assert "  the proxy's remarks:\n    It proposed to the human: approve: I think so\n" in why
    assert home.here("memory", "why", job).out.count("question ") == 4
    every = home.here("memory", "why", job, "--json").document
    assert [one["weighed"]["answer"] for one in every["questions"]] == [False] * 4
    assert list(every["decisions"]) == [refused]


def _put_right(home: Home, refused: str, other: str, job: str) -> None:
    """Corrections are history, what is forgotten is gone, and an export has the rest."""
    told = home.here("memory", "correct", refused, "--verdict", "approve", "--text", "on second thoughts")
    assert told.out == f"{refused} is approve now; it was: revise\n"
    shown = home.here("memory", "show", refused, "--json").document
    assert (shown["verdict"], shown["said"], shown["how"], shown["agreed"]) == (
        "approve",
        "on second thoughts",
        "corrected",
        True,
    )
    assert [(old["verdict"], old["said"]) for old in shown["history"]] == [("revise", "where is the vault?")]
    assert home.here("memory", "forget", other).out == "forgot 1 decision\n"
    lines = [json.loads(line) for line in home.here("memory", "export").out.splitlines()]
    assert refused in {line["id"] for line in lines}
    assert other not in {line["id"] for line in lines}
    assert home.here("memory", "export", "kept.jsonl").code == 0
    assert (home.folder / "kept.jsonl").read_text(encoding="utf-8").splitlines() == [json.dumps(line) for line in lines]
    assert "there is such a file already; name another" in home.refuses("memory", "export", "kept.jsonl")
    assert "nowhere/kept.jsonl: it can't be written (" in home.refuses("memory", "export", "nowhere/kept.jsonl")
    assert home.here("memory", "forget", "--job", job).out == "forgot 3 decisions\n"
    assert home.here("memory", "list").out.startswith("nothing is remembered yet (")
    assert "which was forgotten since" in home.here("memory", "why", job).out


def test_a_rehearsal_leaves_no_memory_unless_it_is_asked_to(home: Home) -> None:
    job = home.start(PLAYED, "--policy", "when_unsure")
    assert home.here("show", job, "--json").document["state"] == "DONE"
    assert home.here("memory", "list").out == f"nothing is remembered yet ({home.folder}.db)\n"
    assert not Path(f"{home.folder}.db").exists()


def test_the_log_says_in_whose_name_an_answer_is(home: Home) -> None:
    job = home.start(PLAYED, "--policy", "intent=when_unsure,plan=always,execute=never")
    log = home.here("log", job).out
    assert log.count(", in the proxy's name\n") == 2
    assert log.count(", in the human's name\n") == 2
    assert "  answers    2 by the human, 2 by the proxy\n" in home.here("show", job).out


def test_a_damaged_memory_is_told_and_the_job_goes_on(home: Home) -> None:
    home.settings(REHEARSE)
    damaged = Path(f"{home.folder}.db")
    damaged.write_text("this is no memory", encoding="utf-8")
    done = home.run("run", "x", "--playbook", home.write("p.yaml", PLAYED), "--policy", "when_unsure", "--json")
    assert (done.code, done.document["state"]) == (0, "DONE")
    assert done.err.startswith(f"parley: {damaged}: the memory is damaged (")
    assert done.err.endswith("; the job does without it, and asks you\n")
    job = done.document["id"]
    assert damaged.read_text(encoding="utf-8") == "this is no memory"
    assert "asked without a record: " in home.here("log", job).out
    assert "FAIL  memory       " in home.here("doctor").out
    line = home.refuses("memory", "list", code=1)
    assert "the memory is damaged (file is not a database) and was left as it is; put a copy back, or move it" in line


@pytest.mark.parametrize(
    "words,said",
    [
        (["forgt"], "there is no `parley memory forgt`; use one of: list, show, why, search, correct, forget, export"),
        (["show"], "name a decision by its ID; `parley memory list` lists them"),
        (["show", "beef"], "there is no decision 'beef'; `parley memory list` lists them"),
        (["list", "x"], "`parley memory list` takes no 'x'; see `parley memory --help`"),
        (["list", "--state", "limbo"], "there is no state 'limbo'; use one of: intent, plan, execute"),
        (["list", "--limit", "0"], "--limit 0: it must be a whole number from 1 to 100000"),
        (["list", "--limit", "many"], "argument --limit: invalid int value: 'many'; see `parley memory --help`"),
        (["search"], "say what to look for: `parley memory search TEXT`"),
        (["why"], "name a question or a job: `parley memory why ID`"),
        (["correct", "a"], "say what is right: --verdict with one of: approve, revise,"),
        (["correct", "a", "--verdict", "yes"], "'yes' is not a verdict: --verdict with one of: approve, revise,"),
        (["forget"], "say what to forget: an ID, --job JOB, or --all"),
        (["forget", "a", "--all"], "say what to forget: an ID, --job JOB, or --all"),
        (["forget", "--job", "j"], "nothing is remembered of a job 'j'; `parley memory list --json` names the jobs"),
        (["export", "--all"], "`parley memory export` takes no --all; see `parley memory --help`"),
    ],
)
def test_bad_use_is_told_in_a_line(home: Home, words: list[str], said: str) -> None:
    assert said in home.refuses("memory", *words)


def test_why_needs_a_bus(home: Home) -> None:
    assert "there is no job in" in home.refuses("memory", "why", "x")


@pytest.mark.parametrize(
    "line,said",
    [
        ("false_approval = -1", "[proxy] false_approval: it must be a number; write one from 0 to 1000"),
        ("checked = 1.5", "[proxy] checked: it must be a number; write one from 0 to 1"),
        ("checked = nan", "[proxy] checked: it must be a number; write one from 0 to 1"),
        ("fresh_days = true", "[proxy] fresh_days: it must be a number; write one from 1 to 36500"),
        ("fresh_days = 0", "[proxy] fresh_days: it must be a number; write one from 1 to 36500"),
        ('memory = "yes"', "[proxy] memory: it must be true or false; write memory = true"),
        ("remember = true", "[proxy] remember: there is no such setting; use one of: false_approval, checked,"),
    ],
)
def test_a_setting_that_can_not_be_used_is_told_in_a_line(home: Home, line: str, said: str) -> None:
    home.write("parley.toml", f"[proxy]\n{line}\n")
    assert said in home.refuses("run", "x", "--playbook", home.write("p.yaml", LEADS))


@pytest.mark.parametrize("policy", ["sometimes", "plan=sometimes", "planning=never", "plan="])
def test_an_unknown_policy_is_told_in_a_line(home: Home, policy: str) -> None:
    said = home.refuses("run", "x", "--playbook", home.write("p.yaml", LEADS), "--policy", policy)
    assert "use one of: " in said


def test_all_is_forgotten_at_once(home: Home) -> None:
    memory = SqliteDecisions(Path(f"{home.folder}.db"))
    memory.remember(
        [
            Decided(
                time=1.0,
                human="me",
                repository="r",
                job="j",
                question=f"q{n}",
                framing="",
                state="PLAN",
                kind="question",
                asked="how?",
            )
            for n in range(3)
        ]
    )
    memory.close()
    assert home.here("memory", "forget", "--all", "--json").document == {"forgotten": 3}
    assert home.here("memory", "export").out == ""
