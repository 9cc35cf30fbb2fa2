"""`parley workflow`: the files of a workflow are begun, checked and shown, and nothing is overwritten."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from parley.workflow.design.design_check import check_design
from parley.workflow.design.placeholders import unwritten
from parley.workflow.files.plan import read_plan
from parley.workflow.files.session import render_session
from parley.workflow.files.status_file import IN_PROGRESS, render_status, shared_of
from parley.workflow.model.terms import (
    PLAN,
    SHARED_STATUS,
    Category,
    Note,
    NoteStatus,
    Session,
    Status,
    WorkerStanding,
    instructions_of,
    session_of,
)
from tests.cli.home import LEADS, Home, wait_for
from tests.workflow.complete_design import ROLES, good
from tests.workflow.plan_strategies import PLAN_TEXT
from tests.workflow.test_summary import TEXT

DB = "database_agent"
SUMMARY = "orchestration/conversation_summary_user_management.md"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A folder with a summary in it."""
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    made = Home(folder)
    made.write("summary.md", TEXT)
    return made


def files(folder: Path) -> dict[str, str]:
    """What a folder holds."""
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()
    }


def in_the_middle(home: Home) -> None:
    """A workflow where one agent is blocked."""
    plan, _ = read_plan(PLAN_TEXT)
    assert plan is not None
    note = Note(
        note_id="note_001",
        timestamp=1727539900,
        description="Which hash\x1b[31m",
        context="Passwords",
        status=NoteStatus.ESCALATED,
        category=Category.SECURITY,
        escalation_reason="not mine",
    )
    session = Session("create_user_table_1727539200", 1727539800, (note,))
    where = [WorkerStanding(DB, Status.BLOCKED, 1727540000, session=session, version=1)]
    home.write(PLAN, PLAN_TEXT)
    home.write(session_of(DB), render_session(session))
    home.write(SHARED_STATUS, render_status(shared_of(plan, where, started=1727539700, status=IN_PROGRESS)))


# ---- init ----------------------------------------------------------------------------------------


def test_a_summary_becomes_the_whole_structure(home: Home) -> None:
    done = home.here("workflow", "init", "summary.md")

    assert done.code == 0
    made = files(home.folder / "orchestration")
    assert set(made) == {
        "conversation_summary_user_management.md",
        "workflow_coordination_plan.md",
        "shared_status.json",
        "agents/archival_agent/agent_instructions.md",
        "agents/archival_agent/archive_index.json",
        "agents/archival_agent/cleanup_log.json",
    }
    assert made["conversation_summary_user_management.md"] == TEXT
    assert "## To be filled in" in made["workflow_coordination_plan.md"]
    assert done.out.splitlines()[3:] == [
        "made orchestration/conversation_summary_user_management.md",
        "made orchestration/shared_status.json",
        "made orchestration/workflow_coordination_plan.md",
        "next: fill in what it names, then `parley workflow check .`",
        "`parley workflow run .` starts a job from it; the architect adds what it lacks",
    ]


def test_a_plan_that_is_there_is_kept_and_its_agents_get_their_folders(home: Home) -> None:
    home.write(PLAN, PLAN_TEXT)
    home.write(SUMMARY, TEXT)
    done = home.here("workflow", "init", SUMMARY, "--json")

    assert done.code == 0
    assert done.document["task"] == "user_management"
    assert (home.folder / PLAN).read_text() == PLAN_TEXT
    assert "orchestration/agents/api_agent/agent_instructions.md" in done.document["made"]
    assert (home.folder / "orchestration/agents/api_agent/task_output").is_dir()
    assert list(json.loads((home.folder / SHARED_STATUS).read_text())["agents"]) == [DB, "api_agent", "frontend_agent"]


@pytest.mark.parametrize("there", [SHARED_STATUS, SUMMARY, "orchestration/agents/archival_agent/cleanup_log.json"])
def test_what_is_there_is_kept_as_it_is_and_the_rest_is_made(home: Home, there: str) -> None:
    home.write(there, "mine")
    done = home.here("workflow", "init", "summary.md")

    assert done.code == 0
    assert f"kept {there}" in done.out.splitlines()
    assert (home.folder / there).read_text() == "mine"
    assert (home.folder / PLAN).is_file()


def test_a_second_init_changes_nothing_and_says_what_is_there(home: Home) -> None:
    home.here("workflow", "init", "summary.md")
    before = files(home.folder)
    again = home.here("workflow", "init", "summary.md", "--json")

    assert (again.code, again.document["made"]) == (0, [])
    assert set(again.document["kept"]) == {f"orchestration/{path}" for path in files(home.folder / "orchestration")}
    assert files(home.folder) == before
    assert home.here("workflow", "init").code == 0  # it knows the summary that it has
    assert files(home.folder) == before


def test_init_after_the_plan_was_filled_in_adds_what_its_agents_need(home: Home) -> None:
    home.here("workflow", "init", "summary.md")
    home.write(PLAN, PLAN_TEXT)
    done = home.here("workflow", "init", "summary.md", "--json").document

    assert (home.folder / PLAN).read_text() == PLAN_TEXT
    assert instructions_of("api_agent") in done["made"]
    assert SHARED_STATUS in done["made"]  # nothing had happened in it, and now it has the plan's agents
    assert list(json.loads((home.folder / SHARED_STATUS).read_text())["agents"]) == [DB, "api_agent", "frontend_agent"]
    mine = home.write(instructions_of("api_agent"), "written")
    home.here("workflow", "init", "summary.md")
    assert Path(mine).read_text() == "written"


def test_a_status_in_which_something_has_happened_is_kept(home: Home) -> None:
    home.here("workflow", "init", "summary.md")
    in_the_middle(home)
    before = (home.folder / SHARED_STATUS).read_text()
    home.here("workflow", "init", "summary.md")

    assert (home.folder / SHARED_STATUS).read_text() == before


# ---- what is not filled in -----------------------------------------------------------------------


def uncommented(plan: str) -> str:
    """A skeleton whose example somebody has taken over as it is."""
    lines = [line for line in plan.split("\n") if line not in ("stages: []", "agents: {}")]
    begin = lines.index("# stages:")
    return "\n".join(
        line.removeprefix("# ") if at >= begin and line.startswith("# ") else line for at, line in enumerate(lines)
    )


def test_a_skeleton_never_passes_nor_does_its_example_as_it_is(home: Home) -> None:
    home.here("workflow", "init", "summary.md")
    skeleton = (home.folder / PLAN).read_text()
    assert home.here("workflow", "check").code == 1
    home.write(PLAN, uncommented(skeleton))
    plan, findings = read_plan((home.folder / PLAN).read_text())
    assert plan is not None
    assert (findings, list(plan.workers)) == ([], ["example_doer", "example_reader", "example_verifier"])
    home.here("workflow", "init", "summary.md")
    done = home.here("workflow", "check", "--json").document
    unwritten = {(one["agent"], one["text"]) for one in done["findings"] if one["rule"] == "placeholder"}
    assert ("example_doer", "example_doer is the name of the example") in unwritten
    assert ("example_reader", "its objective is not written yet: 'To be defined'") in unwritten
    assert ("", "escalation is not written yet: 'To be defined'") in unwritten


SPELLINGS = [
    "To be defined",
    "TO BE DEFINED",
    "to  be\n defined",
    "**To be** defined",
    "to-be-defined",
    "tbd",
    "T.B.D.",
    "To be decided.",
    "to be filled in",
    "_To be determined_",
]


@pytest.mark.parametrize("said", SPELLINGS)
def test_what_is_not_written_is_found_in_any_case_and_spacing(said: str) -> None:
    assert unwritten(f"It is {said}")
    assert unwritten(said)


@pytest.mark.parametrize(
    "said", ["keep a todo list", "a well-defined schema", "tools to behave", "the example in docs"]
)
def test_what_is_written_is_not_taken_for_a_gap(said: str) -> None:
    assert not unwritten(said)


def written(name: str, old: str, new: str) -> dict[str, str]:
    made = dict(good())
    assert old in made[name], old
    return {**made, name: made[name].replace(old, new, 1)}


@pytest.mark.parametrize(
    "file, old, new",
    [
        (PLAN, "goal: a service that keeps users", "goal: TO BE DEFINED"),
        (PLAN, "objective: the users table", "objective: To be defined."),
        (PLAN, "boundaries: no other tables", "boundaries: tbd"),
        (PLAN, "deliverable: docs/users.md", "deliverable: To be Decided"),
        (PLAN, "on_failure: back to database", "on_failure: To be defined"),
        (PLAN, 'commands: ["python -m pytest -q tests/api"]', 'commands: ["To be defined"]'),
        (instructions_of("api_verifier"), "\n", "\nTo Be Defined: when it is verified.\n"),
    ],
)
def test_no_field_of_a_design_passes_unwritten(file: str, old: str, new: str) -> None:
    assert check_design(good(), ROLES) == []
    found = check_design(written(file, old, new), ROLES)
    assert {one.rule for one in found} & {"placeholder", "unclear-criteria"}, found


def test_no_link_leads_out_of_the_folder(home: Home, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (home.folder / "orchestration").symlink_to(tmp_path / "outside")
    line = home.refuses("workflow", "init", "summary.md", code=1)

    assert "it is no folder" in line
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_summary_that_is_not_one_is_told_line_by_line_and_nothing_is_made(home: Home) -> None:
    home.write("summary.md", TEXT.replace("- A: Yes\n", "").replace("## Open Items", "## Open"))
    done = home.here("workflow", "init", "summary.md")

    assert done.code == 1
    assert done.out.splitlines() == [
        "summary.md: there is no section 'Open Items'; add `## Open Items` [missing-section]",
        "summary.md:20: this question has no answer; add `- A: …` below it, or move it to Open Items [wrong-item]",
        "2 findings in 1 file of summary.md",
    ]
    assert list(files(home.folder)) == ["summary.md"]


def test_what_can_not_be_begun_is_told_in_one_line(home: Home, tmp_path: Path) -> None:
    (home.folder / "bytes.md").write_bytes(b"\xff\xfe")
    home.write("broken/orchestration/workflow_coordination_plan.md", "---\ntask: [\n---\n")

    assert "name the conversation summary" in home.refuses("workflow", "init")
    assert "it can't be read (No such file or directory)" in home.refuses("workflow", "init", "none.md")
    assert "it is not UTF-8 (byte 0)" in home.refuses("workflow", "init", "bytes.md")
    assert "there is no such folder" in home.refuses("workflow", "init", "summary.md", "--dir", "nowhere")
    assert "is there already and can't be used" in home.refuses("workflow", "init", "summary.md", "--dir", "broken")
    assert "--dir goes with init only" in home.refuses("workflow", "check", "--dir", "x")
    assert "one word too many" in home.refuses("workflow", "init", "summary.md", "more")
    assert "use one of: init, check, status, restore" in home.refuses("workflow", "begin")


# ---- check ---------------------------------------------------------------------------------------


def test_findings_are_told_one_by_one_and_counted(home: Home) -> None:
    in_the_middle(home)
    home.write(PLAN, PLAN_TEXT.replace("goal:", "gaol:"))
    home.write(session_of("api_agent"), "{")
    done = home.here("workflow", "check")

    lines = done.out.splitlines()
    assert done.code == 1
    assert any(line.startswith(f"{PLAN}:3: 'gaol' is not a key") and "did you mean 'goal'?" in line for line in lines)
    assert [line for line in lines if line.startswith(f"{session_of('api_agent')}:1: api_agent: this is not JSON")]
    assert lines[-1] == f"{len(lines) - 1} findings in 4 files of ."

    document = home.here("workflow", "check", "orchestration", "--json").document
    assert document["count"] == len(document["findings"]) == len(lines) - 1
    assert {"file", "line", "agent", "rule", "text", "remedy"} == set(document["findings"][0])


def test_what_is_no_file_of_text_is_told(home: Home) -> None:
    in_the_middle(home)
    os.mkfifo(home.folder / "orchestration/pipe")
    (home.folder / "orchestration/link.md").symlink_to("/etc/passwd")
    (home.folder / "orchestration/notes.md").write_bytes(b"\xff")
    (home.folder / "orchestration/large.md").write_bytes(b"x" * 1_000_001)
    (home.folder / "orchestration/a\x1b[31m.json").write_text("{}")
    out = home.here("workflow", "check").out

    assert "orchestration/pipe: it is no ordinary file" in out
    assert "orchestration/link.md: it is a link, and links are not followed" in out
    assert "orchestration/notes.md: it is not UTF-8 (byte 0)" in out
    assert "orchestration/large.md: it is larger than 1000000 bytes" in out
    assert "orchestration/a\\x1b[31m.json: it is no file of the structure" in out
    assert "\x1b" not in out


def test_a_folder_that_is_a_link_is_no_workflow(home: Home, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home.folder / "orchestration").symlink_to(tmp_path / "elsewhere")

    assert "there is no orchestration/ in it" in home.refuses("workflow", "check")


def test_a_place_without_a_workflow_is_bad_use(home: Home) -> None:
    assert "there is no orchestration/ in it" in home.refuses("workflow", "check")
    assert "there is no such folder" in home.refuses("workflow", "check", "some/where")
    assert "there is no job in" in home.refuses("workflow", "check", "abc")
    assert "there is no orchestration/ in it" in home.refuses("workflow", "status")


def test_a_design_without_gaps_is_clean(home: Home) -> None:
    for path, text in good().items():
        home.write(path, text)
    done = home.here("workflow", "check")

    assert (done.code, done.out) == (0, "no findings in 7 files of .\n")


def test_gaps_of_the_design_are_told_with_their_line_and_agent(home: Home) -> None:
    for path, text in good().items():
        home.write(path, text.replace("    verifier: api_verifier\n    inputs: [agents", "    inputs: [agents"))
    (home.folder / instructions_of("docs")).unlink()
    done = home.here("workflow", "check")
    found = [(each["rule"], each["agent"]) for each in home.here("workflow", "check", "--json").document["findings"]]

    assert done.code == 1
    assert ("missing-verifier", "api") in found
    assert ("missing-instructions", "docs") in found
    assert done.out.splitlines()[-1] == f"{len(found)} findings in 6 files of ."


def test_what_was_begun_is_not_clean_until_it_is_filled_in(home: Home) -> None:
    assert home.here("workflow", "init", "summary.md").code == 0
    assert home.here("workflow", "check").code == 1


# ---- status --------------------------------------------------------------------------------------


def test_the_status_is_a_table_of_agents_notes_gates_and_versions(home: Home) -> None:
    in_the_middle(home)
    done = home.here("workflow", "status")

    assert done.code == 0
    assert done.out == (
        "user_management: in_progress, overall_completion_drive_gate blocked  (.)\n"
        "agent           status   notes             version  verifier           waits for       "
        "last update           last progress\n"
        "database_agent  blocked  1 (1 unresolved)  1        database_verifier  -               "
        "2024-09-28T16:13:20Z  -\n"
        "api_agent       pending  0                 -        api_verifier       database_agent  -   "
        "                  -\n"
        "frontend_agent  pending  0                 -        api_verifier       database_agent  -   "
        "                  -\n"
        "\n"
        "verifier           status   agents\n"
        "database_verifier  pending  database_agent\n"
        "api_verifier       pending  api_agent, frontend_agent\n"
        "database_agent note_001 escalated (security): Which hash\\x1b[31m\n"
    )


def test_the_status_is_one_document_too(home: Home) -> None:
    in_the_middle(home)
    document = home.here("workflow", "status", str(home.folder / "orchestration"), "--json").document

    assert (document["task"], document["status"], document["gate"]) == ("user_management", "in_progress", "blocked")
    assert document["agents"][0] == {
        "name": DB,
        "status": "blocked",
        "notes": 1,
        "unresolved": 1,
        "pending": 0,
        "version": 1,
        "verifier": "database_verifier",
        "dependencies": [],
        "last_update": "2024-09-28T16:13:20Z",
        "last_progress": None,
        "unsettled": [
            {
                "note_id": "note_001",
                "status": "escalated",
                "category": "security",
                "description": "Which hash\x1b[31m",
            }
        ],
    }


def test_a_plan_alone_shows_who_will_take_part(home: Home) -> None:
    home.write(PLAN, PLAN_TEXT)
    document = home.here("workflow", "status", "--json").document

    assert document["status"] == "pending"
    assert [agent["status"] for agent in document["agents"]] == ["pending"] * 3


def test_a_status_that_can_not_be_read_is_told_in_one_line(home: Home) -> None:
    home.write(PLAN, "")
    assert "shared_status.json is not there" in home.refuses("workflow", "status")
    home.write(SHARED_STATUS, "{")
    assert "this is not JSON" in home.refuses("workflow", "status", code=1)


# ---- of a job ------------------------------------------------------------------------------------


def playbook() -> str:
    """A job whose workflow waits for the human: its first doer does not know what a user is."""
    writes = [{"write": {"path": path, "text": text}} for path, text in good().items()]
    plan = [*writes, {"write": {"path": "PLAN.md", "text": "plan"}}, {"assert": {"artifact": "PLAN.md", "text": "?"}}]
    doubt = {
        "description": "Is the address unique?",
        "context": "the table",
        "category": "requirements",
        "status": "escalated",
        "escalation_reason": "only the user knows",
    }
    book = yaml.safe_load(LEADS)
    book["agents"]["project-lead"][0]["do"] = plan
    book["agents"]["project-lead"][2]["do"] = [{"send": {"to": "workflow-executor", "text": "run it"}}]
    book["agents"]["database"] = [{"match": ".", "do": [{"note": doubt}, {"say": "blocked"}]}]
    book["agents"]["workflow-architect"] = [{"match": ".", "do": [{"ask": {"text": "Is the address unique?"}}]}]
    book["human"] = [{"match": "right|[?]", "verdict": "approve", "text": "yes"}] * 2
    return str(yaml.safe_dump(book))


def test_the_workflow_of_a_job_is_shown_from_the_bus_and_checked_in_its_tree(home: Home) -> None:
    job = home.start(playbook())
    done = home.here("workflow", "status", job)
    document = home.here("workflow", "status", "--json").document

    assert done.code == 0
    assert done.out.startswith(f"user_management: in_progress, overall_completion_drive_gate blocked  (job {job})\n")
    assert "database note_001 escalated (requirements): Is the address unique?" in done.out
    assert document["place"] == f"job {job}"
    assert [(agent["name"], agent["status"]) for agent in document["agents"]] == [
        ("database", "blocked"),
        ("api", "pending"),
        ("docs", "pending"),
    ]
    assert document["agents"][0]["rounds"] == []
    assert document["agents"][0]["unresolved"] == 1

    checked = home.here("workflow", "check", job)
    assert (checked.code, checked.out.splitlines()[-1].rpartition(" of ")[2]) == (0, f"job {job}"), checked.out


def test_the_last_progress_of_who_is_at_work_is_that_of_its_stream(home: Home) -> None:
    book = yaml.safe_load(playbook())
    book["agents"]["database"] = [{"match": ".", "do": [{"sleep": 1.5}, {"sleep": 60}]}]
    home.write("p.yaml", yaml.safe_dump(book))

    def later() -> bool:
        done = home.here("workflow", "status", "--json")
        first = done.document["agents"][0] if done.code == 0 else {}
        return bool(first.get("last_progress")) and first["last_progress"] > first["last_update"]

    with home.started("run", "a request", "--playbook", "p.yaml"):
        assert wait_for(later)


def test_a_job_without_a_workflow_is_told_as_such(home: Home) -> None:
    job = home.start()

    assert f"job {job} has no workflow" in home.refuses("workflow", "check", job)
    assert f"job {job} has no workflow" in home.refuses("workflow", "status", job)
    assert "there is no job 'zzz'" in home.refuses("workflow", "status", "zzz")
    assert "there is no orchestration/ in it" in home.refuses("workflow", "status")
