"""`parley run`: how a job ends, and what the process says of it."""

import pytest

from parley.settings.option_words import with_policy
from parley.settings.schema import Settings
from tests.cli.home import APPROVES, LEADS, Home


def test_a_job_that_is_approved_ends_with_0_and_says_where_the_result_is(home: Home) -> None:
    done = home.run("run", "do it", "--playbook", home.write("p.yaml", APPROVES + LEADS))

    assert done.code == 0
    assert done.err == ""
    (job,) = home.jobs()
    assert f"{job['id']} DONE: all good" in done.out
    assert f"the result: {home.job_file(job['id'], 'work')}" in done.out
    assert home.job_file(job["id"], "work/WORK_SUMMARY.md").read_text() == "work"
    # each message and transition is told once
    assert done.out.count("INTENT -> PLAN (APPROVED_INTENT): clear") == 1
    assert done.out.count("the request: do it") == 1
    assert done.out.count("human (playbook): approve. yes") == 3


def test_a_job_that_is_done_says_in_the_end_what_was_left_out_of_it(home: Home) -> None:
    slow = "  researcher:\n    - {match: '.', do: [{sleep: 600}]}\n"
    own = "do: [{write: {path: INTENT.md"
    hurried = LEADS.replace(own, own.replace("[", "[{send: {to: researcher, text: look}}, "))

    done = home.run("run", "do it", "--playbook", home.write("p.yaml", APPROVES + hurried + slow))

    assert done.code == 0
    ended = done.out.rpartition(" DONE: all good")[2]
    assert "\nleft out: researcher on dispatch:" in ended
    assert " was ended with its phase in mid-turn, at work since " in ended
    assert ended.count("left out: ") == 1

    clean = home.run("run", "do it", "--playbook", home.write("p.yaml", APPROVES + LEADS))
    assert "left out" not in clean.out


def test_a_withdrawn_job_ends_with_3(home: Home) -> None:
    human = "human:\n  - {match: '.', verdict: withdraw, text: 'never mind'}\n"

    done = home.run("run", "do it", "--playbook", home.write("p.yaml", human + LEADS))

    assert done.code == 3
    assert home.jobs()[0]["state"] == "WITHDRAWN"


def test_a_failed_job_ends_with_1(home: Home) -> None:
    playbook = home.write("p.yaml", "agents: {intent-lead: []}")
    home.write("parley.toml", "[limits]\nretry_budget = 1\n")

    done = home.run("run", "do it", "--playbook", playbook, "--policy", "never")

    assert done.code == 1
    assert home.jobs()[0]["state"] == "FAILURE"


def test_without_a_terminal_it_runs_until_the_human_is_needed(home: Home) -> None:
    done = home.run("run", "do it", "--playbook", home.write("p.yaml", LEADS))

    assert done.code == 4
    question, job = home.question(), home.jobs()[0]["id"]
    assert f"parley answer {question} --approve" in done.out
    assert done.out.endswith(f"then go on with: parley resume {job}\n")
    assert home.jobs()[0]["status"] == "needs you"


def test_answers_and_resumes_lead_to_the_end(home: Home) -> None:
    job = home.start()
    codes = []
    for _ in range(3):
        assert home.here("answer", home.question(), "--approve").code == 0
        codes.append(home.run("resume", job).code)

    assert codes == [4, 4, 0]
    assert home.here("audit", job).code == 0


def test_yes_approves_whatever_is_asked_and_json_is_one_document(home: Home) -> None:
    done = home.run("run", "do it", "--playbook", home.write("p.yaml", LEADS), "--yes", "--json")

    assert done.err == ""
    assert done.document["state"] == "DONE"
    assert done.document["phase"] == "execution"
    assert done.document["cost"] == {"turns": 9}
    assert done.document["backtracks"] == 0
    assert [entry["action"] for entry in done.document["history"]] == [
        "APPROVED_INTENT",
        "APPROVED_PLAN",
        "APPROVED_WORK",
    ]


@pytest.mark.parametrize(
    "given, policies",
    [
        ([], ("always", "when_unsure", "always")),
        (["never"], ("never", "never", "never")),
        (["plan=never,execute=when_unsure"], ("always", "never", "when_unsure")),
        (["never", "plan=always"], ("never", "always", "never")),
    ],
)
def test_policies_of_the_command_line_go_before_those_of_the_settings(
    given: list[str], policies: tuple[str, ...]
) -> None:
    settings = Settings(policies=("always", "when_unsure", "always"))
    for policy in given:
        settings = with_policy(settings, policy)

    assert settings.policies == policies


def test_settings_and_roles_are_those_of_the_start(home: Home) -> None:
    home.write("parley.toml", '[policy]\nplan = "never"\n[roles.intent-lead]\nteam = ["scout"]\n')
    home.allow()
    home.write(".claude/agents/scout.md", "---\nname: scout\nteam: coder, tester\n---\nYou look around.\n")
    job = home.start()
    home.write("parley.toml", "this is not TOML")

    assert home.here("show", job, "--json").document["policies"]["plan"] == "never"


def test_the_home_may_be_elsewhere(home: Home) -> None:
    home.environment["PARLEY_HOME"] = str(home.folder.parent / "elsewhere")

    job = home.start()

    assert (home.folder.parent / "elsewhere" / "jobs" / job / "state.json").is_file()
    assert not (home.folder / ".parley").exists()


def test_repo_names_the_folder(home: Home) -> None:
    job = home.start()

    done = home.run("ls", "--json", "--repo", str(home.folder), cwd="/")

    assert [entry["id"] for entry in done.document["jobs"]] == [job]
