"""A user's own design starts a workflow, by the command line: when they say so, and not otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.workflow.files.plan import read_plan
from parley.workflow.files.status_file import IN_PROGRESS, render_status, shared_of
from parley.workflow.model.terms import PLAN, SHARED_STATUS, instructions_of
from tests.cli.home import Home
from tests.workflow.design_actions import design
from tests.workflow.test_summary import TEXT

SUMMARY = "orchestration/conversation_summary_user_management.md"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A repository with a commit."""
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "config", "user.name", "ada")
    git(folder, "config", "user.email", "ada@example.org")
    made = Home(folder)
    made.write("README.md", "hi\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return made


def drafted(home: Home, **more: Any) -> dict[str, str]:
    """The files of a design, in the user's own orchestration/."""
    made = {action["write"]["path"]: action["write"]["text"] for action in design(**more)}
    for path, text in made.items():
        home.write(path, text)
    return made


def rule(match: str, *do: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"match": match, "do": list(do), **more}


def asserts(artifact: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"write": {"path": artifact, "text": "x\n"}}, {"assert": {"artifact": artifact, "text": "right?"}}


def outcome(name: str) -> dict[str, Any]:
    return {"outcome": {"outcome": name, "reason": "approved"}}


def played(home: Home, *architect: dict[str, Any], **instead: Any) -> str:
    """A playbook whose lead has a workflow designed; the human approves as far as the plan."""
    answer = r"^\[ANSWER approve\]"
    lead = [
        rule(r"^\[PLAN\]", {"send": {"to": "architecture-group", "as": "g", "text": "design it"}}),
        rule(r"^\[DESIGN ready\]", {"close": {"thread": "g"}}),
        rule(r"^\[MERGE clean\]", *asserts("PLAN.md"), state="PLAN"),
        rule(answer, outcome("APPROVED_PLAN"), state="PLAN"),
        rule(r"^\[EXECUTE\]", {"ask": {"text": "what now?"}}),
    ]
    verifies = rule(r"^\[VERIFY\]", {"verdict": {"verdict": "verified"}}, {"say": "sound"})
    book = {
        "human": [{"match": "INTENT|PLAN", "repeat": True, "verdict": "approve", "text": "yes"}],
        "agents": {
            "intent-lead": [rule(r"^\[INTENT\]", *asserts("INTENT.md")), rule(answer, outcome("APPROVED_INTENT"))],
            "project-lead": instead.get("lead", lead),
            "workflow-architect": list(architect),
            "design-verifier": [verifies],
        },
    }
    return home.write("../play.yaml", yaml.safe_dump(book))


def told(home: Home, job: str, agent: str) -> list[str]:
    """What an agent was sent."""
    events = home.here("log", job, "--json").document["events"]
    return [event["text"] for event in events if event["kind"] == "message" and event["to"] == agent]


def start(home: Home, *words: str) -> dict[str, Any]:
    """Start a job that gets to EXECUTE and waits there."""
    done = home.run(*words, "--json")
    assert done.code == 4, done
    document: dict[str, Any] = done.document
    assert document["state"] == "EXECUTE", home.here("log", document["id"]).out
    assert home.here("audit", document["id"]).code == 0
    return {**document, "said": done.err}


WRITES = rule(r"^\[DESIGN\]", *design(), {"say": "here"})


def test_a_summary_in_the_repository_is_where_the_plan_begins(home: Home) -> None:
    home.write(SUMMARY, TEXT)
    job = start(home, "workflow", "run", "--playbook", played(home, WRITES))

    assert job["request"] == "People can be kept\nand listed."
    assert "the plan begins from orchestration: a conversation summary of yours (user_management)" in job["said"]
    (first,) = told(home, job["id"], "workflow-architect")
    assert f"The human's own summary is {SUMMARY}" in first
    assert "Alternatives considered: PostgreSQL" in told(home, job["id"], "intent-lead")[0]
    assert (home.job_file(job["id"], "work") / SUMMARY).read_text() == TEXT


def test_a_summary_elsewhere_is_named(home: Home) -> None:
    home.write("notes/talk.md", TEXT)
    job = start(home, "run", "keep users", "--workflow", "notes/talk.md", "--playbook", played(home, WRITES))

    assert job["request"] == "keep users"
    assert (home.job_file(job["id"], "work") / SUMMARY).read_text() == TEXT


def test_the_gaps_of_a_plan_go_to_the_architect(home: Home) -> None:
    made = drafted(home, without=("db",))
    mends = rule(r"^\[DESIGN\]", *[each for each in design() if each["write"]["path"] != PLAN], {"say": "mended"})
    job = start(home, "run", "--workflow", PLAN, "a service", "--playbook", played(home, mends))

    (first,) = told(home, job["id"], "workflow-architect")
    assert f"{instructions_of('db')} is not there" in first
    assert (home.job_file(job["id"], "work") / PLAN).read_text() == made[PLAN]


def test_a_whole_design_that_is_not_committed_is_verified_and_asked_about(home: Home) -> None:
    made = drafted(home)
    job = start(home, "workflow", "run", "--playbook", played(home))

    assert job["request"] == "a service"
    assert told(home, job["id"], "workflow-architect") == []
    assert len(told(home, job["id"], "design-verifier")) == 1
    asked = "\n".join(told(home, job["id"], "human"))
    assert "A design verifier has approved this very design." in asked
    assert "It is the design that you gave, word for word." in asked
    assert {path: (home.folder / path).read_text() for path in made} == made
    assert git(home.folder, "status", "--short").splitlines() == ["?? orchestration/"]


def test_what_the_user_changes_afterwards_changes_nothing(home: Home) -> None:
    made = drafted(home)
    book = played(home)
    done = home.run("workflow", "run", "--playbook", book, "--policy", "always", "--json")
    home.write(PLAN, "changed since")
    assert (home.job_file(done.document["id"], "work") / PLAN).read_text() == made[PLAN]
    assert home.here("audit", done.document["id"]).code == 0


def test_what_came_with_a_clone_is_named_and_starts_nothing(home: Home, tmp_path: Path) -> None:
    made = drafted(home)
    git(home.folder, "add", "-A")
    git(home.folder, "commit", "-qm", "a design")
    git(tmp_path, "clone", "-q", str(home.folder), "clone")
    clone = Home(tmp_path / "clone")
    answer = r"^\[ANSWER approve\]"
    lead = [
        rule(r"^\[PLAN\]", *asserts("PLAN.md")),
        rule(answer, outcome("APPROVED_PLAN"), state="PLAN"),
        rule(r"^\[EXECUTE\]", {"write": {"path": "new.txt", "text": "new\n"}}, *asserts("WORK_SUMMARY.md")),
        rule(answer, outcome("APPROVED_WORK"), state="EXECUTE"),
    ]
    done = clone.run("run", "something else", "--playbook", played(clone, lead=lead), "--yes", "--json")

    assert (done.code, done.document["state"]) == (0, "DONE")
    job = done.document["id"]
    assert "orchestration/ holds a plan of yours (service); this job leaves it alone; " in done.err
    assert "workflow run` starts from it" in done.err
    assert told(clone, job, "workflow-architect") == told(clone, job, "design-verifier") == []
    assert not (clone.job_file(job, "work") / "orchestration").exists()
    git(clone.folder, "config", "user.name", "ada")
    git(clone.folder, "config", "user.email", "ada@example.org")
    assert clone.here("merge", job).code == 0
    assert {path: (clone.folder / path).read_text() for path in made} == made
    assert (clone.folder / "new.txt").exists()


def test_a_plan_without_a_workflow_is_never_approved_then(home: Home) -> None:
    lead = [
        rule(r"^\[PLAN\]", *asserts("PLAN.md")),
        rule(r".", outcome("APPROVED_PLAN"), state="PLAN", repeat=True),
    ]
    words = ("--policy", "plan=never", "--policy", "execute=never", "--playbook", played(home, lead=lead))
    done = home.run("run", "--workflow", "build a service", *words, "--json")

    assert (done.code, done.document["state"]) == (1, "FAILURE")
    assert done.document["request"] == "build a service"
    log = home.here("log", done.document["id"]).out
    assert "the human has activated the workflow architect, and this plan has no workflow" in log


@pytest.mark.parametrize(
    "words, said",
    [
        (("run", "x", "--workflow", "none.md"), "none.md: there is no such file or folder; write `parley run"),
        (("run", "--workflow", "do it", "none.md"), "do it: there is no such file or folder; write `parley run"),
        (("run", "x", "--workflow", "bytes.md"), "bytes.md: it is not UTF-8 (byte 0); name a conversation summary"),
        (("run", "x", "--workflow", "link.md"), "link.md is a link, and links are not followed"),
        (("run", "x", "--workflow", "README.md"), "README.md:1: there is no title; begin with"),
        (("run", "x", "--workflow", "empty"), "empty: there is no orchestration/ in it"),
        (("run", "x", "--workflow", "pipe"), "pipe is no ordinary file"),
        (("run", "--workflow"), "there is nothing to begin from"),
        (("run",), "the request is missing, and there is no terminal"),
        (("workflow", "run"), "holds no plan and no conversation summary; `parley workflow init SUMMARY.md` begins"),
        (("workflow", "check", "--yes"), "--yes goes with run only"),
    ],
)
def test_what_can_not_be_begun_from_is_told_in_one_line(home: Home, words: tuple[str, ...], said: str) -> None:
    (home.folder / "bytes.md").write_bytes(b"\xff")
    (home.folder / "link.md").symlink_to("README.md")
    (home.folder / "empty").mkdir()
    subprocess.run(["mkfifo", str(home.folder / "pipe")], check=True)
    assert said in home.refuses(*words)
    assert not (home.folder / ".parley").exists()


def test_a_link_in_the_design_is_not_followed(home: Home, tmp_path: Path) -> None:
    drafted(home)
    (tmp_path / "secret.md").write_text("secret")
    (home.folder / instructions_of("db")).unlink()
    (home.folder / instructions_of("db")).symlink_to(tmp_path / "secret.md")
    assert f"{instructions_of('db')}: it is a link, and links are not followed" in home.refuses("workflow", "run")


def test_the_record_of_an_earlier_workflow_is_no_draft_unless_it_is_named(home: Home) -> None:
    made = drafted(home)
    plan, _ = read_plan(made[PLAN])
    assert plan is not None
    home.write(SHARED_STATUS, render_status(shared_of(plan, started=1727539700, status=IN_PROGRESS)))
    job = start(home, "run", "another thing", "--workflow", "--playbook", played(home, WRITES))

    assert (
        "holds the record of a workflow that was begun before (service), and the plan begins without it" in job["said"]
    )
    assert told(home, job["id"], "workflow-architect") == ["[DESIGN] design it"]
    again = start(home, "run", "another thing", "--workflow", "orchestration", "--playbook", played(home))
    assert told(home, again["id"], "workflow-architect") == []


def test_a_skeleton_that_was_not_filled_in_can_be_begun_from_and_goes_to_the_architect(home: Home) -> None:
    home.write("talk.md", TEXT)
    assert home.here("workflow", "init", "talk.md").code == 0
    job = start(home, "workflow", "run", "--playbook", played(home, WRITES))
    (first,) = told(home, job["id"], "workflow-architect")
    assert "the plan has no agent that makes anything" in first
