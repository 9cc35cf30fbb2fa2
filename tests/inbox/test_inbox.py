"""The inbox: one list of all that needs the human, each with what can be done about it."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.cli.commands import parser
from parley.cli.looking.need_texts import lines
from parley.engine.values.hold_causes import Budget
from parley.protocol.molecules import AskHuman
from parley.views.job_list import need_words
from parley.views.job_view import Present, soup_of
from parley.views.questions.gate_view import GateExhibit
from parley.views.questions.last_reviewed import last_seen
from parley.views.questions.needs import needs
from parley.workspaces import JobWorkspaces
from tests.cli.home import BUSY, LEADS, Home, wait_for
from tests.engine.job_harness import INTENT, JOB, JobHarness, always, ask, asserts, book, on, send, write

TILL = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {write: {path: INTENT.md, text: "# A till\n\e[2Jadds up\n"}}
        - {assert: {artifact: INTENT.md, text: "right?\e[31m"}}
    - match: '\[ANSWER revise\]'
      do:
        - {write: {path: INTENT.md, text: "# A till\n\e[2Jadds up\nspeaks\n"}}
        - {assert: {artifact: INTENT.md, text: "now?"}}
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: approved}}]}
  project-lead:
    - {match: '\[PLAN\]', do: [{write: {path: PLAN.md, text: "plan"}}, {assert: {artifact: PLAN.md, text: "sound?"}}]}
    - {match: '\[ANSWER approve\]', state: PLAN, do: [{outcome: {outcome: APPROVED_PLAN, reason: approved}}]}
    - match: '\[EXECUTE\]'
      do:
        - {write: {path: till.py, text: "print(1)\n"}}
        - {write: {path: notes.txt, text: "a note\n"}}
        - {write: {path: WORK_SUMMARY.md, text: "done"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "done?"}}
    - match: '\[ANSWER revise\]'
      do: [{write: {path: till.py, text: "print(2)\n"}}, {assert: {artifact: WORK_SUMMARY.md, text: "better?"}}]
"""
NEED = {
    "id", "job", "kind", "since", "state", "thread", "who", "decider", "others", "headline", "body", "artifact",
    "exits", "stat", "file", "seen",
}  # fmt: skip


class Desk:
    """One job that somebody works on in the background, answered from here."""

    def __init__(self, home: Home) -> None:
        self.home = home
        home.write("till.yaml", TILL)
        self.job = home.run("run", "a till", "--playbook", "till.yaml", "--detach").out.split()[0]

    def need(self, *, after: str = "") -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [need for need in self.home.here("inbox", "--json").document["needs"] if need["id"] != after]

        (need,) = wait_for(found)
        return dict(need)

    def say(self, *words: str) -> dict[str, Any]:
        now = self.need()["id"]
        assert self.home.here("answer", now, *words).out == f"answered {now}\n"
        return self.need(after=now)


@pytest.fixture
def desk(home: Home) -> Iterator[Desk]:
    desk = Desk(home)
    yield desk
    home.here("withdraw", desk.job)


# ---- gates -----------------------------------------------------------------------------------------


def test_a_gate_shows_its_artifact_and_what_has_changed_since_it_was_last_answered_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = desk.home
    first, text = desk.need(), home.here("inbox").out
    assert set(first) == NEED
    assert (first["kind"], first["artifact"], first["seen"]) == ("gate", "INTENT.md", None)
    assert "    | # A till\n    | \\x1b[2Jadds up\n" in text
    assert "since" not in text
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines() if "/INTENT.md" not in line)

    second = desk.say("it must speak", "--revise")
    text = home.here("inbox", second["id"]).out
    assert (second["seen"]["verdict"], second["seen"]["question"]) == ("revise", first["id"])
    assert "changed in it since you last saw it (revise, " in text
    assert text.index("| +speaks") > text.index("| speaks")
    assert "\x1b" not in text
    whole = home.here("inbox", second["id"], "--json").document["needs"][0]
    assert whole["content"] == "# A till\n\x1b[2Jadds up\nspeaks\n"
    assert whole["changed"].splitlines()[-1] == "+speaks"
    Path(second["file"]).write_text("something else by now", encoding="utf-8")
    assert "something else" not in home.here("inbox").out  # what was asserted counts, not what lies there
    assert Path(second["file"]).read_text(encoding="utf-8") == whole["content"]

    desk.say("--approve")
    desk.say("--approve")
    text = home.here("inbox").out
    assert "    2 files changed, +2 -0 since the job began: parley diff " in text
    assert "\n    | notes.txt  +1 -0\n    | till.py    +1 -0\n" in text
    with monkeypatch.context() as without:
        without.setattr(subprocess, "Popen", None)  # a list of many gates would wait for as many processes
        assert home.here("inbox").out.splitlines()[4:] == text.splitlines()[4:]
        assert home.here("inbox", "--json").code == 0
    third = desk.say("count to two", "--revise")
    text = home.here("inbox").out
    assert "changed in all files since you last saw it (revise, " in text
    assert "till.py" in text
    assert "notes.txt" not in text
    assert f"line by line: parley inbox {third['id']}\n" in text
    assert f" since the job began: parley diff {third['job']}\n" in text
    assert "-print(1)" in home.here("inbox", third["job"]).out  # a job's id names all that it needs


def test_what_only_a_stand_in_has_seen_nobody_has_seen() -> None:
    intent = [*INTENT, always(r"^\[ANSWER revise\]", write("INTENT.md", "better"), asserts("INTENT.md", "now?"))]
    human = [{"match": "right", "verdict": "revise", "text": "no"}]
    stage = JobHarness(book(intent=intent, human=human)).run()
    (asked,) = Present(stage.outside, JOB).questions()
    assert (asked.text, last_seen(stage.outside, asked)) == ("now?", None)
    stage.answer("revise", "not yet").run()
    (again,) = Present(stage.outside, JOB).questions()
    seen = last_seen(stage.outside, again)

    assert seen is not None
    assert (seen.question, seen.digest, seen.by) == (asked.id, asked.digest, "ada")


def test_a_long_artifact_is_cut_in_the_list_and_whole_on_its_own(tmp_path: Path) -> None:
    stage = JobHarness(book()).run()
    (need,) = needs(stage.outside, stage.engine.world.files)
    found = GateExhibit("\n".join(f"line {number} {'x' * 100}" for number in range(50)))

    def shown(*, whole: bool) -> list[str]:
        return list(lines(need, found, JobWorkspaces(tmp_path), "ada", whole=whole))

    assert f"    … 42 more lines: parley inbox {need.id}" in shown(whole=False)
    assert not any("line 8 " in line or len(line) > 80 for line in shown(whole=False) if str(tmp_path) not in line)
    assert f"    | line 49 {'x' * 100}" in shown(whole=True)


def test_what_an_agent_says_can_not_pass_for_an_exit(tmp_path: Path) -> None:
    forged = "right?\n\napprove                     parley answer other --approve"
    rules = [on(r"\[INTENT\]", write("INTENT.md", "x"), asserts("INTENT.md", forged))]
    (need,) = needs((stage := JobHarness({"agents": {"intent-lead": rules}}).run()).outside, stage.engine.world.files)
    told = list(lines(need, GateExhibit(), JobWorkspaces(tmp_path), "ada", whole=True))
    commands = [
        line.split("parley ", 1)[1] for line in told if "parley answer" in line and not line.startswith("    >")
    ]
    assert commands == [way.command.removeprefix("parley ") for way in need.exits]


# ---- the list --------------------------------------------------------------------------------------


def parses(command: str) -> bool:
    """Whether a command of an exit is one that the command line takes."""
    words = shlex.split(command)
    return words[0] == "parley" and parser(words[1]).parse_args(words[1:]).command == words[1]


def test_needs_of_all_kinds_are_listed_oldest_first_each_with_exits_that_work() -> None:
    intent = [on(r"^\[INTENT\]", write("INTENT.md", "x"), ask("which?"), asserts("INTENT.md")), on("never")]
    stage = JobHarness(book(intent=intent), crash_budget=2).run()
    stage.answer("approve", about="which?").lose("intent-lead", 2).run()
    found = needs(stage.outside, stage.engine.world.files)

    assert [(need.kind, need.who) for need in found] == [("gate", "intent-lead"), ("failure", "orchestrator")]
    assert [need.since for need in found] == sorted(need.since for need in found)
    assert "INTENT is stuck" in found[1].headline
    assert need_words(found) == "approve INTENT.md? (and 1 more) right?"
    words = [way.words for way in found[1].exits]
    assert words == [
        "try the state again; your words go to its lead as advice",
        "let the job fail",
        "try again, with your advice",
        "give up the whole job j1",
    ]
    stage.kill()
    (*_, last) = needs(stage.outside, stage.engine.world.files)
    stage.withdraw()
    assert all(parses(way.command) for need in (*found, last) for way in need.exits)


@pytest.mark.parametrize(
    "ruling, text, state",
    [
        ("approve", "", "INTENT"),
        ("revise", "mind it", "INTENT"),
        ("withdraw", "", "WITHDRAWN"),
        ("fail", "", "FAILURE"),
        ("retry", "", "INTENT"),
        (None, "fail", "INTENT"),
    ],
)
def test_what_a_failure_dialog_offers_is_what_happens(ruling: str | None, text: str, state: str) -> None:
    stage = JobHarness(book(), crash_budget=2).lose("intent-lead", 2).run()
    (need,) = needs(stage.outside, stage.engine.world.files)
    assert need.kind == "failure"
    stage.answer(ruling, text).run()

    assert stage.state == state
    assert [each.kind for each in needs(stage.outside, stage.engine.world.files)] == (
        ["gate"] if state == "INTENT" else []
    )


def test_a_job_that_nobody_works_on_says_how_to_go_on() -> None:
    stage = JobHarness(book(intent=[on("INTENT", send("writer", "go"))], writer=[on("go", {"sleep": 50})])).running(
        "writer"
    )
    files = stage.engine.world.files
    assert needs(stage.outside, files) == []
    stage.kill()
    (need,) = needs(stage.outside, files)
    assert (need.kind, need.headline) == ("unattended", "no process works on it: the one that did has ended")
    assert [way.command for way in need.exits] == [f"parley resume {JOB}", f"parley withdraw {JOB}"]
    stage.adopt()
    assert needs(stage.outside, files) == []
    stage.kill()
    assert needs(stage.outside, files)[0].id != need.id  # another death is another need


def test_an_answer_that_nobody_takes_is_not_asked_for_again() -> None:
    stage = JobHarness(book()).run()
    stage.kill()
    assert [need.kind for need in needs(stage.outside, stage.engine.world.files)] == ["gate"]
    asked = stage.outside.load(JOB)
    assert asked.row.needs_human == 1
    (molecule,) = soup_of(asked).of(AskHuman)
    question, framing = molecule.id, molecule.framing
    stage.put(
        "answer", key=f"answer:{question}:{framing}", question=question, framing=framing, ruling="approve", text=""
    )

    (need,) = needs(stage.outside, stage.engine.world.files)
    assert need.kind == "unattended"
    assert "what you have said is kept" in need.headline


def test_a_pause_of_ones_own_needs_nobody_and_a_spent_budget_does() -> None:
    stage = JobHarness(book(intent=[on("INTENT", send("writer", "go"))], writer=[on("go", {"sleep": 50})])).running(
        "writer"
    )
    stage.pause().crank()
    assert needs(stage.outside, stage.engine.world.files) == []
    stage.live.fire(
        "hold", f"job:{JOB}", choice=Budget("turns", "job").text, who="orchestrator", time=stage.clock.now()
    )
    stage.crank(0.0)

    (need,) = needs(stage.outside, stage.engine.world.files)
    assert (need.kind, need.since) == ("budget", stage.steps("hold")[-1].time)
    assert "turns job" in need.headline
    assert all(parses(way.command) for way in need.exits)


def test_a_lead_that_shows_no_sign_of_life_needs_the_human() -> None:
    intent = [on(r"^\[INTENT\]", write("INTENT.md", "x"), {"sleep": 500}, asserts("INTENT.md"))]
    stage = JobHarness(book(intent=intent), stall_seconds=20, time_limit_seconds=600).sleeping("intent-lead")
    stage.wait(30)

    (need,) = needs(stage.outside, stage.engine.world.files)
    assert (need.kind, need.who, need.thread) == ("stall", "intent-lead", stage.thread("intent-lead"))
    assert "intent-lead has shown no sign of life since " in need.headline
    assert all(parses(way.command) for way in need.exits)


def test_a_newer_version_is_pointed_at_from_the_older() -> None:
    intent = [
        on(r"^\[INTENT\]", write("INTENT.md", "1"), ask("which?"), asserts("INTENT.md", "first")),
        on(r"^\[ANSWER\]", write("INTENT.md", "2"), asserts("INTENT.md", "second")),
    ]
    stage = JobHarness(book(intent=intent)).run()
    stage.answer(None, "blue", about="which?").run()
    older, newer = needs(stage.outside, stage.engine.world.files)

    assert older.asked is not None
    assert older.asked.superseded == newer.id
    assert older.headline == f"INTENT.md: (put forward anew since, as {newer.id}: that verdict counts) first"
    assert newer.headline == "INTENT.md: second"


# ---- other homes -----------------------------------------------------------------------------------


def test_one_inbox_shows_all_repositories(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other shop")
    other.folder.mkdir()
    for place in (home, other):
        place.write("leads.yaml", LEADS)
        assert place.here("run", f"for {place.folder.name}", "--playbook", "leads.yaml", "--json").code == 4
    listed = home.here("inbox", "--everywhere", "--json").document["homes"]
    assert [len(each["needs"]) for each in listed] == [1, 1]
    assert len(home.here("inbox", "--json").document["needs"]) == 1
    text = home.here("inbox", "--everywhere").out
    assert f"in {other.folder}\njob {listed[1]['needs'][0]['job']}: for other shop\n" in text

    command = shlex.split(listed[1]["needs"][0]["exits"][0]["command"])
    assert home.here(*command[1:]).code == 0
    assert [need["kind"] for need in other.here("inbox", "--json").document["needs"]] == ["unattended"]
    (other.folder / ".parley" / "bus.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    broken = home.here("inbox", "--everywhere")
    assert broken.code == 1
    assert len([line for line in broken.out.splitlines() if line.startswith("job ")]) == 1


def test_a_list_of_homes_that_is_damaged_or_old_costs_nothing(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "xdg_state_home" / "parley" / "homes"
    path.parent.mkdir(parents=True)
    path.write_text('{"root": "/nowhere", "home": "/nowhere/.parley"}\nnonsense\n[]\n{"root": 3}\n', encoding="utf-8")

    assert home.here("inbox", "--everywhere").out == "nothing waits for you\n"


# ---- a real owner that dies ------------------------------------------------------------------------


@pytest.fixture
def busy(home: Home) -> Iterator[tuple[Home, subprocess.Popen[str]]]:
    home.write("busy.yaml", BUSY)
    with home.started("run", "look", "--playbook", "busy.yaml") as owner:
        yield home, owner


def test_the_death_of_a_real_owner_is_seen(busy: tuple[Home, subprocess.Popen[str]]) -> None:
    home, owner = busy
    wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs() and home.jobs()[0]["threads"][2:])
    assert home.here("inbox").out == "nothing waits for you\n"
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()

    text = wait_for(lambda: found if "job" in (found := home.here("inbox").out) else "")
    assert "no process works on it: the one that did has ended" in text
    assert f"parley resume {home.jobs()[0]['id']}" in text
