"""Whatever is put in: one clear line, the right exit code, nothing lost."""

import ctypes
import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import account_name
from tests.cli.home import APPROVES, LEADS, PARLEY, Home, wait_for


def test_an_empty_request(home: Home) -> None:
    assert "the request is empty" in home.fails("run", " \n", "--playbook", home.write("p.yaml", LEADS))


def test_a_request_that_is_not_utf8(home: Home) -> None:
    assert "not UTF-8" in home.refuses("run", "caf\udce9", "--playbook", home.write("p.yaml", LEADS))


def test_a_request_that_is_too_long(home: Home) -> None:
    playbook = home.write("p.yaml", LEADS)

    assert "100000 at most" in home.refuses("run", "x" * 100_001, "--playbook", playbook)


def test_a_folder_that_is_not_there(home: Home) -> None:
    playbook = home.write("p.yaml", LEADS)

    assert "no such folder" in home.refuses("run", "x", "--playbook", playbook, "--repo", "/no/such/folder")


def _without_privileges() -> None:
    """Root may write everywhere, but for those of its capabilities that say so."""
    drop = 24  # PR_CAPBSET_DROP
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


def test_a_folder_that_is_not_writable(home: Home) -> None:
    playbook = home.write("p.yaml", LEADS)
    home.folder.chmod(0o500)
    try:
        said = home.fails("run", "x", "--playbook", playbook, preexec_fn=_without_privileges)
    finally:
        home.folder.chmod(0o700)

    assert "work/.parley (not writable, not made yet); make it writable" in said
    assert "PARLEY_HOME" in said


def test_a_home_that_can_not_be_made(home: Home) -> None:
    home.write(".parley", "this is a file")
    playbook = home.write("p.yaml", LEADS)

    said = home.refuses("run", "x", "--playbook", playbook)

    assert "work/.parley: this is no folder" in said
    assert "PARLEY_HOME" in said


def test_a_playbook_that_is_broken_is_told_with_line_and_column(home: Home) -> None:
    path = home.write("p.yaml", "agents:\n  coder:\n    - {match: '(', do: []}\n")

    assert f"{path}:3:15: " in home.refuses("run", "x", "--playbook", path)


def test_a_playbook_that_is_not_there(home: Home) -> None:
    assert "none.yaml:1:1: " in home.refuses("run", "x", "--playbook", "none.yaml")


def test_no_playbook(home: Home) -> None:
    assert "the scripted agent needs a playbook" in home.refuses("run", "x", "--agent", "scripted")


def test_a_set_up_command_that_fails_is_told_at_once(home: Home) -> None:
    home.write("parley.toml", '[workspace]\nsetup = "echo no luck >&2; exit 3"\n')
    done = home.run("run", "x", "--policy", "never", "--playbook", home.write("p.yaml", LEADS))

    assert done.code == 1
    assert "FAILURE: the set-up command `echo no luck >&2; exit 3` failed: no luck" in done.out
    assert done.out.count("lost its turn") == 1, "trying again would end the same way"


def test_nobody_to_do_the_work(home: Home) -> None:
    said = home.fails("run", "x")

    assert "Claude Code has no login: set ANTHROPIC_API_KEY" in said
    assert "--playbook FILE" in said


def test_an_agent_that_is_not_known(home: Home) -> None:
    said = home.refuses("run", "x", "--agent", "robot", "--playbook", home.write("p.yaml", LEADS))

    assert "there is no agent 'robot'; use one of: scripted" in said


@pytest.mark.parametrize("policy", ["sometimes", "plan=sometimes", "later=never", ""])
def test_a_policy_that_is_not_known(home: Home, policy: str) -> None:
    playbook = home.write("p.yaml", LEADS)

    assert "use one of: " in home.refuses("run", "x", "--playbook", playbook, "--policy", policy)


def test_a_state_has_one_policy(home: Home) -> None:
    playbook = home.write("p.yaml", LEADS)
    said = home.refuses("run", "x", "--playbook", playbook, "--policy", "plan=never,plan=always")
    assert "plan is given twice" in said


@pytest.mark.parametrize(
    "words",
    [["show"], ["fly"], ["run", "x", "--nonsense"], ["answer", "q", "--approve", "--revise"], ["doctor", "more"]],
)
def test_words_that_make_no_command(home: Home, words: list[str]) -> None:
    assert "--help`" in home.refuses(*words)


@pytest.mark.parametrize(
    "text, said",
    [
        ("[limits]\nfan_outt = 3\n", "[limits] fan_outt: there is no such setting"),
        ("[limits]\nfan_out = 0\n", "[limits] fan_out: it must be a whole number"),
        ("[limits]\ntime_limit_seconds = true\n", "[limits] time_limit_seconds"),
        ("[policy]\nplan = 'maybe'\n", "[policy] plan: 'maybe' is not known"),
        ("[bus]\ndurability = 'none'\n", "[bus] durability"),
        ("[roles.coder]\nteam = 'tester'\n", "[roles.coder] team: it must be a list"),
        ("policy = 3\n", "[policy]: it must be a table"),
        ("colour = 'red'\n", "colour: there is no such setting"),
        ("[limits\n", ":1:8: this is not valid TOML"),
    ],
)
def test_settings_that_are_wrong(home: Home, text: str, said: str) -> None:
    path = home.write("parley.toml", text)

    line = home.refuses("run", "x", "--playbook", home.write("p.yaml", LEADS))

    assert re.match(rf"parley: {re.escape(str(path))}:\d+:\d+: ", line)
    assert said in line


@pytest.mark.parametrize(
    "text, said",
    [
        ("You code.\n", ":1:1: there is no front matter"),
        ("---\nname: coder\n", ":2:1: the front matter does not end"),
        ("---\nname: coder\nteam: [a\n---\n", ":3:9: this is not valid YAML"),
        ("---\nname: Not A Name\n---\n", ":2:7: 'Not A Name' can't be a role's name"),
        ("---\nname: coder\nteam: {a: b}\n---\n", ":3:7: `team` must be names"),
        ("---\n- coder\n---\n", ":2:1: the front matter must be a mapping"),
    ],
)
def test_roles_that_are_wrong(home: Home, text: str, said: str) -> None:
    path = home.write(".claude/agents/coder.md", text)

    assert f"{path}{said}" in home.refuses("run", "x", "--playbook", home.write("p.yaml", LEADS))


@pytest.mark.parametrize("command", ["show", "tree", "log", "pause", "resume", "withdraw", "audit", "export"])
def test_a_job_that_is_not_known(waiting: Home, command: str) -> None:
    assert "there is no job 'nope'; `parley ls` lists them" in waiting.refuses(command, "nope")


@pytest.mark.parametrize("command", [["show", "x"], ["answer", "x", "y"], ["resume"], ["withdraw", "x"], ["log", "x"]])
def test_a_home_without_jobs(home: Home, command: list[str]) -> None:
    assert "start one with `parley run`" in home.refuses(*command)
    assert not (home.folder / ".parley").exists()


def test_a_prefix_that_several_jobs_have(asked: Home) -> None:
    first = asked.job()
    twin = first[:-1] + ("x" if first[-1] != "x" else "y")
    store = SqliteStore(asked.folder / ".parley")
    store.create(replace(store.jobs()[0], job=twin))
    store.close()

    said = asked.fails("show", first[:3])

    assert f"{first[:3]!r} matches several jobs" in said
    assert first in said
    assert twin in said
    assert asked.run("show", first).code == 0


def test_a_question_that_is_not_known(waiting: Home) -> None:
    assert "there is no open question 'nope'" in waiting.refuses("answer", "nope", "--approve")


def test_an_answer_without_anything_in_it(waiting: Home) -> None:
    assert "needs words or a verdict" in waiting.refuses("answer", waiting.question())


def test_an_answer_given_twice(asked: Home) -> None:
    job = asked.job()
    question = asked.question()
    assert asked.here("answer", question, "--approve").code == 0

    assert f"question {question} was answered before: approve, by " in asked.fails("answer", question, "--approve")
    asked.run("resume", job)
    assert f"question {question} was answered before" in asked.refuses("answer", question[:4], "--revise", "no")
    assert [entry["state"] for entry in asked.jobs()] == ["PLAN"]


def test_an_answer_to_a_question_of_a_job_that_has_ended(asked: Home) -> None:
    job = asked.job()
    question = asked.question()
    asked.here("withdraw", job)

    said = asked.refuses("answer", question, "x")
    assert f"question {question} is closed: {account_name()} withdrew the job at " in said


def test_going_back_to_where_there_is_nothing(waiting: Home) -> None:
    said = waiting.refuses("answer", waiting.question(), "--backtrack", "plan")

    assert "INTENT can't go back to plan: it is the first state" in said


def test_a_bus_that_is_not_a_database(asked: Home) -> None:
    (asked.folder / ".parley" / "bus.db").write_bytes(b"this is not a database" * 1000)
    for name in ("bus.db-wal", "bus.db-shm"):
        (asked.folder / ".parley" / name).unlink(missing_ok=True)

    for command in (["ls"], ["inbox"], ["resume"]):
        assert "it is not a database" in asked.refuses(*command, code=1)


def test_a_bus_that_is_damaged(asked: Home) -> None:
    job = asked.job()
    database = asked.folder / ".parley" / "bus.db"
    with sqlite3.connect(database) as bus:
        bus.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bus.close()
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    database.write_bytes(content)

    assert "damaged" in asked.fails("show", job, code=1)
    assert "damaged" in asked.refuses("ls", code=1)


def test_a_job_whose_row_is_gone_from_the_bus_is_audited_all_the_same(asked: Home) -> None:
    job = asked.job()
    with closing(sqlite3.connect(asked.folder / ".parley" / "bus.db")) as bus, bus:
        bus.execute("DELETE FROM jobs")

    assert asked.jobs() == []
    for name in (job, job[:5]):
        found = asked.here("audit", name)
        assert (found.code, found.err) == (1, "")
        assert f"the first row that does not fit: jobs {job}: the row is missing" in found.out
    assert "there is no job 'nobody'" in asked.refuses("audit", "nobody")


def test_a_bus_that_somebody_holds(asked: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SqliteStore.__init__.__kwdefaults__, "busy_seconds", 0.1)  # type: ignore[arg-type]  # it has keyword defaults
    question = asked.question()
    bus = sqlite3.connect(asked.folder / ".parley" / "bus.db", isolation_level=None)
    try:
        bus.execute("BEGIN IMMEDIATE")

        assert "another process holds the bus too long" in asked.refuses("answer", question, "--approve", code=1)
        assert asked.here("ls").code == 0  # reading goes on
    finally:
        bus.close()
    assert asked.here("answer", question, "--approve").code == 0


def test_a_disk_that_refuses_to_take_more_loses_nothing(home: Home) -> None:
    job = home.start(LEADS, "--policy", "always")
    home.here("answer", home.question(), "--approve")
    size = (home.folder / ".parley" / "bus.db").stat().st_size

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, size + 4096))

    said = home.run("resume", job, preexec_fn=limit)
    assert said.code == 1
    assert len(said.err.splitlines()) == 1

    assert home.run("resume", job).code == 4
    assert home.jobs()[0]["state"] == "PLAN"
    assert home.here("audit", job).code == 0


def _may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


# An agent that fills the disk, and then goes on as if nothing had happened.
FILLS = LEADS.replace(
    "do: [{write: {path: INTENT.md",
    "do: [{shell: 'head -c 60000000 /dev/urandom > fill; true'}, {write: {path: INTENT.md",
)


def on_small_disk(home: Home, tmp_path: Path, size: str, script: str) -> subprocess.CompletedProcess[str]:
    """A shell script in a folder on a disk of a size; `$parley` is the command."""
    small = tmp_path / "small"
    small.mkdir()
    root = os.geteuid() == 0
    # who mounts is root here; who runs Parley must not seem to be, where nobody else is known
    parley = f"{PARLEY}" if root else f"unshare --user --map-user=1000 --map-group=1000 {PARLEY}"
    mounted = f"mount -t tmpfs -o size={size} none {small} && cd {small} || exit 99; parley='{parley}'; {script}"
    return subprocess.run(
        ["unshare", "-m" if root else "-rm", "sh", "-c", mounted],
        capture_output=True,
        text=True,
        env=home.env(),
        check=False,
    )


def ends(done: subprocess.CompletedProcess[str], *names: str) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(names)]


@pytest.mark.skipif(not _may_mount(), reason="a small filesystem can't be mounted here")
def test_a_disk_that_fills_up_loses_nothing(home: Home, tmp_path: Path) -> None:
    """The agent loses turns by it, until the job has failed or the run ends for want of room: that depends on when."""
    playbook = home.write("p.yaml", APPROVES + FILLS)
    script = (
        f"$parley run x --playbook {playbook}; echo first $?; mount -o remount,size=600m .; "
        "$parley resume; echo second $?; $parley audit $(basename .parley/jobs/*); echo third $?; $parley ls"
    )

    done = on_small_disk(home, tmp_path, "40m", script)

    assert len(done.stderr.splitlines()) <= 1, done
    assert done.stderr.startswith("parley: ") or not done.stderr
    assert "Traceback" not in done.stderr
    assert ends(done, "first", "second", "third") == ["first 1", "second 0", "third 0"], done.stdout + done.stderr
    assert ("done" if done.stderr else "failed") in done.stdout.splitlines()[-1]


@pytest.mark.skipif(not _may_mount(), reason="a small filesystem can't be mounted here")
def test_no_job_starts_on_a_disk_that_is_full_and_doctor_says_so(home: Home, tmp_path: Path) -> None:
    playbook = home.write("p.yaml", APPROVES + LEADS)
    script = f"$parley run x --playbook {playbook}; echo first $?; $parley doctor; echo second $?; ls -A"

    done = on_small_disk(home, tmp_path, "8m", script)

    assert re.fullmatch(
        r"parley: disk: \S+/small has 8\.\d MB left, and a job needs 16\.8 MB at least; "
        r"free some space, or name a home on another disk with PARLEY_HOME\n",
        done.stderr,
    ), done
    assert ends(done, "first", "second") == ["first 1", "second 1"]
    assert "FAIL  disk         " in done.stdout
    assert done.stdout.endswith("second 1\n")  # no file was left


@pytest.mark.skipif(not _may_mount(), reason="a small filesystem can't be mounted here")
def test_no_job_starts_on_a_disk_that_takes_no_more_files(home: Home, tmp_path: Path) -> None:
    playbook = home.write("p.yaml", APPROVES + LEADS)

    done = on_small_disk(home, tmp_path, "40m,nr_inodes=300", f"$parley run x --playbook {playbook}; echo first $?")

    assert "has room for 299 files, and a job needs 1000 at least; delete some files, or name a home" in done.stderr
    assert ends(done, "first") == ["first 1"]


BAD_OUTCOMES = {
    "is not JSON": "{outcome: 'hurray'}",
    "1:32: unknown key 'mood' in the outcome record and 'reason' is missing": (
        """{outcome: '{"outcome": "APPROVED_INTENT", "mood": "good"}'}"""
    ),
    "'outcome' is missing in the outcome record; write": "{outcome: {reason: early}}",
    "'reason' is missing in the outcome record; write": "{outcome: {outcome: APPROVED_INTENT}}",
    "'outcome' is missing in the outcome record and 'reason' is missing": "{outcome: '{}'}",
    "'reason' is empty": """{outcome: '{"outcome": "APPROVED_INTENT", "reason": "  "}'}""",
    "'outcome' is empty": """{outcome: '{"outcome": "", "reason": "early"}'}""",
    "the outcome record must be an object; write": "{outcome: '[1]'}",
    "'outcome' must be a text and 'reason' must be a text; write": """{outcome: '{"outcome": 1, "reason": null}'}""",
    'the key "reason" is given twice': """{outcome: '{"outcome": "APPROVED_INTENT", "reason": "", "reason": ""}'}""",
    "1:1: this is not UTF-8": "{shell: 'mkdir -p .parley; printf \"\\\\377\" > .parley/outcome.json'}",
    "APPROVED_WORK": "{outcome: {outcome: APPROVED_WORK, reason: early}}",
    "'HURRAY' is not an outcome": "{outcome: {outcome: HURRAY, reason: early}}",
    "has 100000 bytes": "{shell: 'mkdir -p .parley; head -c 100000 /dev/zero > .parley/outcome.json'}",
    "must be an ordinary file": "{shell: 'mkdir -p .parley; ln -s /etc/passwd .parley/outcome.json'}",
}


def test_outcome_records_that_do_not_count(home: Home) -> None:
    """Each is told to the lead in one line, is kept, and costs nothing but a try."""
    home.settings("[limits]\nretry_budget = 20\n")
    first, *others = BAD_OUTCOMES.values()
    rules = [f"    - {{match: 'ANSWER approve', do: [{first}]}}"]
    rules += [f"    - {{match: 'VIOLATION', do: [{action}]}}" for action in others]
    good = "{outcome: {outcome: APPROVED_INTENT, reason: mended}}"
    rules += [f"    - {{match: 'VIOLATION', do: [{good}]}}"]
    human = "human: [{match: INTENT.md, verdict: approve}]\n"
    playbook = LEADS.replace("  project-lead:", "\n".join([*rules, "  project-lead:"]), 1)
    playbook = playbook.replace("{match: '\\[ANSWER approve\\]', do: [{outcome", "{match: 'never', do: [{outcome", 1)

    job = home.start(human + playbook)

    told = [line for line in home.here("log", job).out.splitlines() if "[VIOLATION]" in line]
    assert len(told) == len(BAD_OUTCOMES)
    for said, line in zip(BAD_OUTCOMES, told, strict=True):
        assert said in line
    kept = [json.loads(path.read_text()) for path in sorted(home.job_file(job, "outcomes").iterdir())]
    assert [outcome.get("reason") for outcome in kept][-1] == "mended"
    assert len(kept) == len(BAD_OUTCOMES) + 1
    assert home.jobs()[0]["state"] == "PLAN"
    assert home.here("audit", job).code == 0


def test_an_interrupt_is_quiet_and_says_how_to_go_on(home: Home) -> None:
    with home.started(
        "run", "x", "--playbook", home.write("p.yaml", LEADS.replace("[{write", "[{sleep: 60}, {write"))
    ) as process:
        job = wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())[0]["id"]
        wait_for(lambda: home.here("tree", job, "--json").document["threads"][-1]["state"] == "running")
        before = time.time()
        process.send_signal(2)
        out, err = process.communicate(timeout=20)

    assert process.returncode == 130
    assert err == f"parley: interrupted; go on with: parley resume {job}\n"
    assert "Traceback" not in out
    shown = home.here("show", job, "--json").document
    assert shown["created"] + shown["seconds"] >= before - 0.1
    assert home.here("show", job, "--json").document["seconds"] == shown["seconds"]  # it does not go on
    assert " so far" in home.here("show", job).out


def test_a_reader_that_goes_away_is_no_error(asked: Home) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{PARLEY} log $({PARLEY} ls | awk '/INTENT/ {{print $1}}') | true; {PARLEY} --help | head -1"],
        cwd=asked.folder, env=asked.env(), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stderr == ""
    assert done.stdout.startswith("usage: parley")
