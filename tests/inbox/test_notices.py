"""The human is told once of each thing that starts to need them, and no service holds anything up."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.assembly import make_engine
from parley.base.redaction import Secrets
from parley.base.text import SAID, inert
from parley.features.notices import AnswerAddress, NoticeSender, sent_before, try_out
from parley.features.notices.post import covered
from parley.ports.notices import Notice
from parley.protocol.molecules import AskHuman
from parley_cfa import installation
from tests.cli.home import LEADS, Home, owner_of, wait_for
from tests.engine.job_harness import JOB, JobHarness, always, asserts, book, on, write
from tests.inbox.receiver import http, smtp

UNKNOWN = "this is no address of a service that apprise knows, or it is not complete; see docs/notifications.md"
NEWS = Notice(id="n1", job="j1", occasion="needs", title="a question for you", text="which?")


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def personal(tmp_path: Path, text: str) -> None:
    path = tmp_path / "xdg_config_home" / "parley" / "parley.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class Desktop:
    """A desktop: the program that shows notices there, which writes them down."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.shown = folder / "home", folder / "shown"
        program = folder / "bin" / "notify-send"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho \"$3\" >> '{self.shown}'\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def outbox(self, *on: str) -> NoticeSender:
        return NoticeSender(self.home, ["desktop"], on or ("needs",))

    def titles(self) -> list[str]:
        return self.shown.read_text(encoding="utf-8").splitlines() if self.shown.exists() else []

    def marks(self) -> list[str]:
        return sorted(path.name for path in (self.home / "jobs" / JOB / "notices").glob("*"))


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desktop:
    return Desktop(tmp_path, monkeypatch)


def test_what_other_users_of_the_machine_can_read_has_no_link_that_answers(desktop: Desktop) -> None:
    """The list of processes shows the words that the desktop's program is started with."""
    address = AnswerAddress("http://127.0.0.1:1/r/x/j/q/1", "http://127.0.0.1:1/answer/secret")
    program = Path(os.environ["PATH"].partition(":")[0]) / "notify-send"
    program.write_text(f"#!/bin/sh\necho \"$@\" >> '{desktop.shown}'\n", encoding="utf-8")
    with http() as receiver:
        to = ["desktop", f"json://127.0.0.1:{receiver.port}/x"]
        NoticeSender(desktop.home, to, ("needs",), address=lambda notice: address).tell(
            Notice("n", JOB, "needs", "a title", "a text")
        )
        letter = wait_for(lambda: receiver.taken and receiver.taken[0])
        shown = wait_for(lambda: desktop.shown.exists() and desktop.shown.read_text(encoding="utf-8"))

    assert letter["message"] == f"a text\nanswer it on the page: {address.link}"
    assert address.page in shown
    assert "secret" not in shown


# ---- each once -------------------------------------------------------------------------------------


def test_each_gate_of_a_job_is_told_once_and_its_end_if_asked_for(desktop: Desktop) -> None:
    stage = JobHarness(book(), notices=desktop.outbox("needs", "done")).run()
    for _ in range(3):
        stage.approve()
    stage.engine.release(JOB)

    def titles() -> list[str]:
        return sorted(title.partition(": ")[2] for title in desktop.titles())

    waits = [f"{name} waits for your verdict" for name in ("INTENT.md", "PLAN.md", "WORK_SUMMARY.md")]
    assert wait_for(lambda: len(titles()) == 4)
    assert titles() == [f"DONE: {JOB}", *waits]


@pytest.mark.parametrize("what", ["commit", ""])
def test_a_crash_repeats_no_notice(desktop: Desktop, what: str) -> None:
    stage = JobHarness(book(), notices=desktop.outbox()).run()
    for number in (1, 2):
        stage.die_at(what, number).approve()
        stage.kill()
        stage.adopt().run()

    assert wait_for(lambda: len(desktop.titles()) == 3)
    assert len(desktop.marks()) == len(set(desktop.titles())) == 3


def test_a_budget_that_is_nearly_spent_is_told_once(desktop: Desktop) -> None:
    approving = [{"match": ".", "verdict": "approve", "repeat": True}]
    limits: dict[str, Any] = {"budget": {"job": {"turns": 7}, "day": {}}}
    stage = JobHarness(book(human=approving), notices=desktop.outbox(), **limits).run()

    assert stage.live.used.turns == 7
    assert wait_for(lambda: len(desktop.titles()) == 2)
    assert sorted(title.partition(": ")[2] for title in desktop.titles()) == [
        "a budget is nearly spent",
        "a budget is spent",
    ]


def test_whoever_stands_in_is_not_notified_of(desktop: Desktop) -> None:
    stage = JobHarness(
        book(human=[{"match": ".", "verdict": "approve", "repeat": True}]), notices=desktop.outbox()
    ).run()

    assert stage.state == "DONE"
    assert desktop.marks() == []


def test_a_question_that_is_put_anew_needs_the_human_anew(desktop: Desktop) -> None:
    proxy = [always(r"\[QUESTION\]|\[HUMAN\]", {"ask_human": "please look"})]
    stage = JobHarness(book(proxy=proxy), notices=desktop.outbox()).run()
    stage.answer(None, "well").run()

    assert len(desktop.marks()) == 2
    assert stage.live.standing.asking == 1
    assert wait_for(lambda: len(desktop.titles()) == 2)


def test_two_that_send_the_same_send_it_once(desktop: Desktop) -> None:
    for _ in range(3):
        desktop.outbox().tell(NEWS)
        desktop.outbox().tell(Notice(id="n2", job="j1", occasion="needs", title="other", text="x"))

    assert wait_for(lambda: len(desktop.titles()) == 2)
    assert sorted(desktop.titles()) == ["Parley: a question for you", "Parley: other"]


# ---- services --------------------------------------------------------------------------------------


def test_a_real_job_tells_a_real_service_over_a_killed_owner(home: Home, tmp_path: Path) -> None:
    with http() as service:
        personal(tmp_path, f'[notify]\nto = "json://127.0.0.1:{service.port}/Hunter2Hunter2"\non = ["needs", "done"]\n')
        home.write("leads.yaml", LEADS)
        with home.started("run", "a till", "--playbook", "leads.yaml", "--detach") as first:
            first.wait()
        question = wait_for(lambda: home.here("inbox", "--json").document["questions"])[0]
        assert wait_for(lambda: service.titles) == ["Parley (work): INTENT.md waits for your verdict"]
        owner = wait_for(lambda: owner_of(question["job"]))
        os.kill(owner, signal.SIGKILL)
        wait_for(lambda: not owner_of(question["job"]))
        assert home.run("resume").code == 4
        assert home.here("answer", question["id"], "--approve").code == 0
        assert home.run("resume").code == 4
        assert wait_for(lambda: len(service.taken) == 2)
        home.here("withdraw", question["job"])
        assert wait_for(lambda: len(service.taken) == 3)

    assert service.titles[1:] == [
        "Parley (work): PLAN.md waits for your verdict",
        f"Parley (work): WITHDRAWN: {question['job']}",
    ]
    assert service.taken[0]["message"].splitlines() == [
        f"job {question['job']} (INTENT): a till",
        "intent-lead: INTENT.md: right?",
        f"parley inbox {question['id']}",
    ]


def test_a_service_that_hangs_holds_up_neither_the_job_nor_its_end(home: Home) -> None:
    with http(hangs=True) as service:
        home.environment["PARLEY_NOTIFY"] = f"json://127.0.0.1:{service.port}"
        home.write("leads.yaml", LEADS.replace("do: [", "do: [{shell: 'env > env.txt'}, ", 1))
        assert home.run("run", "a till", "--playbook", "leads.yaml").code == 4
        assert service.arrived.wait(30)
        assert not service.release.is_set()  # it still has not answered, and the command has ended
        service.release.set()
    agents = home.job_file(home.jobs()[0]["id"], "work/env.txt").read_text(encoding="utf-8")
    assert "PATH=" in agents
    assert "PARLEY_NOTIFY" not in agents


def test_what_a_service_does_is_told_and_no_secret_of_its_address(home: Home, tmp_path: Path) -> None:
    secret = "Hunter2Hunter2"
    personal(
        tmp_path,
        f'[notify]\nto = ["json://u:{secret}@127.0.0.1:{closed_port()}/{secret}", "bad://{secret}", "slack://{secret}"]',
    )
    tried = home.here("notify", "--test")
    told = home.here("notify", "--json")
    home.write("leads.yaml", LEADS)
    home.run("run", "a till", "--playbook", "leads.yaml")
    job = home.jobs()[0]["id"]
    log = home.job_file(job, "notices.jsonl")
    wait_for(log.exists)
    doctor = home.here("doctor").out

    assert tried.code == 1
    assert [line.partition(": ")[::2] for line in tried.out.splitlines()] == [
        ("1. json", "not sent: A Connection error occurred sending JSON notification to ***."),
        ("2. bad", f"not sent: {UNKNOWN}"),
        ("3. slack", f"not sent: {UNKNOWN}"),
    ]
    assert told.document["services"] == ["1. json", "2. bad", "3. slack"]
    assert "FAIL  notices" in doctor
    for text in (tried.out, tried.err, told.out, log.read_text(encoding="utf-8"), doctor):
        assert secret not in text


def test_mail_is_sent() -> None:
    with smtp() as server:
        address = f"mailto://127.0.0.1:{server.port}?mode=insecure&from=parley@localhost&to=ada@localhost"
        (sent,) = try_out([address], "a test", "Notices reach you here.")

    assert sent.problem == ""
    assert "Notices reach you here." in server.taken[0]["text"]


def test_what_sends_imports_nothing_of_the_folder_that_the_user_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone, or a result, may have a module of any name."""
    ran = tmp_path / "ran"
    for name in ("parley/__init__.py", "apprise.py", "json.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"open({str(ran)!r}, 'a').write({name!r})\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with http() as service:
        (sent,) = try_out([f"json://127.0.0.1:{service.port}"], "t", "x")

    assert sent.problem == ""
    assert not ran.exists()


def test_a_service_that_never_answers_is_given_up() -> None:
    with http(hangs=True) as service:
        (sent,) = try_out([f"json://127.0.0.1:{service.port}?rto=60"], "t", "x", seconds=0.5)

    assert sent.problem == "it did not answer within 0.5 seconds"


def test_a_desktop_that_hangs_leaves_nothing_behind(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    program = desktop.shown.with_name("bin") / "notify-send"
    program.write_text(f"#!/bin/sh\necho $$ > '{desktop.shown}'\nexec sleep 600\n", encoding="utf-8")
    (sent,) = try_out(["desktop"], "t", "x", seconds=3)

    assert sent.problem.startswith("it did not answer within ")
    assert not Path(f"/proc/{desktop.titles()[0]}").exists()


def test_without_the_library_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "apprise.py").write_text("raise ModuleNotFoundError('apprise')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "parley.features.notices.post"],
        input=json.dumps({"to": ["json://x"], "title": "t", "text": "x", "notice": "n", "seconds": 30}),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout)["problem"] == (
        f"apprise is not installed; install it: {installation.read().command('notify')}"
    )


def test_a_job_whose_folder_can_not_be_written_to_goes_on(desktop: Desktop) -> None:
    (desktop.home / "jobs").mkdir(parents=True)
    (desktop.home / "jobs" / JOB).write_text("no folder", encoding="utf-8")
    stage = JobHarness(book(), notices=desktop.outbox()).run()

    assert stage.approve().state == "PLAN"
    assert desktop.titles() == []


def test_what_became_of_notices_is_read_past_a_line_that_was_cut_off(tmp_path: Path) -> None:
    line = '{"time": 1.0, "notice": "n1", "service": "1. json", "problem": "no"}'
    (tmp_path / "notices.jsonl").write_text(f"{line}\n{line[:20]}\n[]\n{line}\n", encoding="utf-8")

    assert [sent.problem for sent in sent_before(tmp_path)] == ["no", "no"]
    assert sent_before(tmp_path / "none") == []


# ---- settings --------------------------------------------------------------------------------------


def test_bad_settings_are_one_clear_line_and_no_job_waits_for_them(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "xdg_config_home" / "parley" / "parley.toml"
    for text, said in (
        ('[notify]\nto = ["nonsense-token"]', "[notify] to: address 1 is none; write it as service://…, or `desktop`"),
        ("[notify]\nto = 3", "[notify] to: it must be a list of texts"),
        ('[notify]\non = ["never"]', "[notify] on: 'never' is not known; use one of: needs, done"),
        (
            "[agents.x]\ncommand = ['x']",
            "agents: this is about one repository; move it to that repository's parley.toml",
        ),
        ("[policies]\nplan = 'never'", "policies: there is no such setting; use one of: policy, limits"),
        ("[notify", "this is not valid TOML"),
    ):
        personal(tmp_path, text)
        line = home.refuses("notify", "--test")
        assert re.search(rf"{re.escape(str(path))}:\d+:\d+: {re.escape(said)}", line)
        assert "nonsense-token" not in line
    home.write("leads.yaml", LEADS)
    assert "this is not valid TOML" in home.refuses("run", "a till", "--playbook", "leads.yaml")
    personal(tmp_path, "[notify]\nto = 3")
    done = home.run("run", "a till", "--playbook", "leads.yaml")
    assert done.code == 4
    assert "until then no notices are sent" in done.err
    assert "FAIL  notices" in home.here("doctor").out


def test_nobody_is_notified_unless_it_is_said_where(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no notices are sent; say where to in " in home.refuses("notify", "--test")
    assert home.here("notify").out.startswith("no notices are sent")
    assert "ok    notices      none are sent" in home.here("doctor").out
    monkeypatch.setenv("PARLEY_NOTIFY", "ntfy://topic desktop")
    assert home.here("notify", "--json").document == {
        "from": "PARLEY_NOTIFY",
        "on": ["needs"],
        "services": ["1. ntfy", "2. desktop"],
    }


def test_a_repositorys_own_addresses_have_to_be_allowed(home: Home) -> None:
    home.write("parley.toml", '[notify]\nto = ["ntfy://elsewhere"]\n')
    assert "asks for [notify] to; see what it asks for, and allow it, with `parley trust`" in home.refuses("notify")
    assert home.here("trust", "--yes").out.endswith('  [notify] to = ["ntfy://elsewhere"]\nallowed: [notify] to\n')
    assert home.here("notify").code == 0


# ---- what is told ----------------------------------------------------------------------------------


@given(st.text(max_size=400))
def test_nothing_that_somebody_else_wrote_works_in_a_notice(text: str) -> None:
    plain = inert(text)

    assert len(plain) <= 8 * SAID  # escapes are longer than what they stand for
    assert all(char.isprintable() for char in plain)
    assert not set(plain) & set("<>@`*_[]|#\\")
    assert "://" not in plain


def test_a_notice_holds_no_secret(desktop: Desktop) -> None:
    told: list[Notice] = []

    class Kept(NoticeSender):
        def tell(self, notice: Notice) -> None:
            told.append(notice)
            super().tell(notice)

    secret = "sk-ant-REDACTED"
    stage = JobHarness(
        book(intent=[on("INTENT", write("INTENT.md", "x"), asserts("INTENT.md", f"{'y' * 100} {secret}"))]),
        notices=Kept(desktop.home, ["desktop"], ["needs"]),
    )
    world = stage.engine.world
    object.__setattr__(world, "secrets", Secrets([("KEY", secret)]))
    stage.engine = make_engine(world)
    stage.run()

    assert len(told) == 1
    assert "sk-ant" not in told[0].text
    assert told[0].text.endswith(stage.soup.of(AskHuman)[0].id)


@given(st.text(alphabet="abcXYZ019_-.", min_size=5, max_size=30), st.text(max_size=60))
def test_what_is_said_of_a_service_never_holds_its_secrets(secret: str, said: str) -> None:
    address = f"ntfy://user:{secret}@host.example/{secret}?token={secret}"

    assert secret not in covered(f"{said} {secret} {said} {address}", address)
