"""`parley allow`, `--decider`, `--answerer` and `[people]`: who answers for a job besides who started it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.cli.common import account_name, own_settings
from tests.cli.home import LEADS, Home, wait_for

ASKS = "agents:\n  intent-lead:\n    - {match: 'INTENT', do: [{ask: {text: 'which one?'}}]}\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own settings, of this test alone."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = own_settings()
    path.parent.mkdir(parents=True)
    return path


def people(home: Home, job: str) -> dict[str, str]:
    found: dict[str, str] = home.here("show", job, "--json").document["people"]
    return found


def test_a_naming_is_kept_where_no_process_works_on_the_job_and_holds_when_one_does(home: Home) -> None:
    job, me = home.start(ASKS), account_name()
    said = home.here("allow", job, "bob", "--decide")
    assert (said.code, said.out) == (
        0,
        f"{job}: kept: bob decides as soon as a process works on it; go on with: parley resume {job}\n",
    )
    assert people(home, job) == {me: "decide"}
    home.run("resume", job)
    assert people(home, job) == {me: "decide", "bob": "decide"}
    assert f"  people     {me} decides, bob decides\n" in home.here("show", job).out
    assert home.here("audit", job).code == 0


def test_the_owner_takes_a_naming_at_once_and_the_last_one_counts(home: Home) -> None:
    playbook = home.write("p.yaml", "agents:\n  intent-lead:\n    - {match: 'INTENT', do: [{sleep: 60}]}\n")
    with home.started("run", "work", "--playbook", playbook):
        wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())
        job = home.jobs()[0]["id"]
        wait_for(lambda: home.here("tree", job, "--json").document["threads"])
        assert home.here("allow", job, "bob").out == f"{job}: bob answers from now on\n"
        document = home.here("allow", job, " bob ", "--decide", "--json").document
        assert (document["note"], document["kept"], document["people"]["bob"]) == (
            "bob decides from now on",
            False,
            "decide",
        )
        assert home.here("allow", job, "bob", "--see").out == f"{job}: bob only looks from now on\n"
        assert people(home, job) == {account_name(): "decide"}
        told = [line.partition("-- ")[2] for line in home.here("log", job).out.splitlines() if "bob" in line]
        does = ("answers", "decides", "only looks")
        assert told == [f"bob {words} from now on, by {account_name()}" for words in does]
        home.here("withdraw", job)


@pytest.mark.parametrize(
    "name, why",
    [
        ("", "a person needs a name"),
        ("human", "no person can be called 'human'"),
        ("human (playbook)", "no person can be called 'human (playbook)'"),
        ("x" * 65, "64 characters at most"),
        ("a\x1b[31mb", "characters that can't be seen"),
        ("a\u202eb", "characters that can't be seen"),
    ],
)
def test_what_is_no_persons_name_is_refused_in_one_line_wherever_it_is_given(home: Home, name: str, why: str) -> None:
    job = home.start(ASKS)
    for words in (
        ("allow", job, name),
        ("run", "x", "--playbook", "p.yaml", "--decider", name),
        ("run", "x", "--playbook", "p.yaml", "--answerer", name),
        ("run", "x", "--playbook", "p.yaml", "--by", name),
    ):
        said = home.refuses(*words)
        assert why in said
        assert "\n" not in said
        assert "\x1b" not in said
    assert len(home.jobs()) == 1


def test_who_did_not_start_the_job_names_no_one(home: Home) -> None:
    job = home.start(ASKS)
    with closing(sqlite3.connect(home.folder / ".parley" / "bus.db")) as bus, bus:
        bus.execute("UPDATE jobs SET decider = 'ada'")
    assert home.refuses("allow", job, "bob").endswith("only ada, who started the job, says what others may do")
    assert home.refuses("allow", job, "ada").endswith("only ada, who started the job, says what others may do")


def test_a_job_starts_with_those_whom_the_command_and_the_users_own_settings_name(home: Home, own: Path) -> None:
    own.write_text(f'[people]\nbob = "decide"\n"Eve K." = "answer"\n{account_name()} = "answer"\n', encoding="utf-8")
    playbook = home.write("p.yaml", ASKS)
    done = home.here("run", "x", "--playbook", playbook, "--decider", "Eve K.", "--answerer", "carl", "--json")
    assert people(home, done.document["id"]) == {
        account_name(): "decide",
        "bob": "decide",
        "Eve K.": "decide",
        "carl": "answer",
    }
    assert {"setting": "[people] carl", "value": '"answer"', "source": "the command line"} in done.document["widenings"]


def test_no_repository_says_who_answers(home: Home) -> None:
    (home.folder / "parley.toml").write_text('[people]\nmallory = "decide"\n', encoding="utf-8")
    said = home.refuses("run", "x", "--playbook", home.write("p.yaml", ASKS))
    assert "people: no repository says who answers for you; move it to your own settings" in said


@pytest.mark.parametrize("line", ['"human" = "decide"', 'bob = "see"', "bob = 1", '" bob" = "answer"'])
def test_a_wrong_line_of_people_is_told_with_its_place(home: Home, own: Path, line: str) -> None:
    own.write_text(f"[people]\n{line}\n", encoding="utf-8")
    said = home.refuses("run", "x", "--playbook", home.write("p.yaml", ASKS))
    assert "parley.toml:2:" in said
    assert "[people]" in said


def test_the_page_starts_and_steers_a_job_in_a_persons_name(home: Home) -> None:
    job = home.start(LEADS, "--by", "bob", "--answerer", "eve")
    assert home.jobs()[0]["decider"] == "bob"
    question = home.question()
    assert f"answer as bob, not as {account_name()}" in home.refuses("answer", question, "--approve")
    assert "only bob, who started the job, can answer" in home.here("inbox").out
    assert home.here("allow", job, account_name(), "--see", "--by", "bob").code == 0
    assert home.run("resume", job).code == 4
    refused = home.here("withdraw", job, "enough")
    assert (refused.code, refused.out.partition(": ")[2]) == (
        1,
        f"refused: only bob, who started the job, withdraws it or a part of it; not {account_name()}\n",
    )
    assert home.here("withdraw", job, "enough", "--by", "bob").out == f"{job} is withdrawn\n"  # by a key of its own
    log = home.here("log", job, "--json").document["events"]
    assert {event["by"] for event in log if event["kind"] in ("withdraw", "transition")} == {"bob"}
    assert home.here("audit", job).code == 0
    with closing(sqlite3.connect(home.folder / ".parley" / "bus.db")) as bus:
        kinds = [(kind, by, json.loads(body).get("may")) for kind, by, body in bus.execute(_LEFT)]
    assert kinds == [("name", "bob", "see"), ("withdraw", account_name(), None), ("withdraw", "bob", None)]


_LEFT = 'SELECT kind, "by", body FROM inputs ORDER BY number'
