"""What a message is to its recipient, how long it may be, and the files that go along with a task."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from parley.audit.audit import audit
from parley.engine.owned_job import OwnedJob
from parley.engine.values import message_meta, step_extra
from parley.engine.values.message_meta import SentFiles
from parley.ports.workspaces import CHILDREN, REPORTS
from parley.protocol.molecules import AskHuman, MessageKind
from tests.engine.job_harness import (
    JOB,
    YES,
    Action,
    JobHarness,
    Rule,
    ask,
    asserts,
    book,
    on,
    say,
    send,
    tell,
    write,
)

ASSERT = [write("INTENT.md", "x"), asserts("INTENT.md")]
LONG = "word " * 4000 + "the end"
SEEN = [on("look", say("seen"))]


def opening(*do: Action, more: list[Rule] | None = None, **agents: Any) -> JobHarness:
    """A stage whose first lead does that first."""
    return JobHarness(book(intent=[on(r"^\[INTENT\]", *do), *(more or [])], **{"writer": SEEN, **agents}))


def taking(stage: JobHarness, name: str, *kinds: str) -> JobHarness:
    """The same, with a role that takes these kinds alone."""
    taken = tuple(map(MessageKind, kinds))
    crew = stage.settings["roles"]
    stage.settings["roles"] = [replace(role, messages=taken) if role.name == name else role for role in crew]
    return stage


def along(to: str, text: str, *files: str) -> Action:
    return {"send": {"to": to, "text": text, "files": list(files)}}


# ---- kinds -----------------------------------------------------------------------------------------


def test_every_message_says_what_it_is_to_its_recipient() -> None:
    more = [on("seen", tell("w", "more, please")), on("all", ask("which?")), on("ANSWER", *ASSERT)]
    writer = [on("look", say("seen")), on("more", say("all"))]
    stage = opening(send("writer", "look", "w"), more=more, writer=writer)
    stage.run().answer(None, "this one").run()

    kinds = [(row.sender, row.agent, row.kind) for row in stage.messages()]
    assert kinds[:6] == [
        ("human", "orchestrator", "request"),
        ("orchestrator", "intent-lead", "task"),
        ("intent-lead", "writer", "task"),
        ("writer", "intent-lead", "report"),
        ("intent-lead", "writer", "message"),
        ("writer", "intent-lead", "report"),
    ]
    assert ("intent-lead", "proxy", "question") in kinds
    assert ("proxy", "human", "question") in kinds
    assert ("human", "proxy", "reply") in kinds
    assert ("proxy", "intent-lead", "answer") in kinds


def test_outcomes_notices_and_interventions_are_told_apart() -> None:
    stage = JobHarness(book(human=YES)).run()
    assert {row.kind for row in stage.messages("orchestrator", "intent-lead")} == {"outcome"}

    stage = opening().run()
    assert "notice" in {row.kind for row in stage.messages("intent-lead", "orchestrator")}
    stage = opening(*ASSERT).run().intervene("be quick").run()
    assert [row.kind for row in stage.messages(sender="human")][1:] == ["intervention"]


def test_a_role_that_takes_its_task_alone_is_sent_nothing_else() -> None:
    more = [on("seen", tell("w", "more"), {"close": {"thread": "w"}}, *ASSERT)]
    stage = taking(opening(send("writer", "look", "w"), tell("w", "and this"), more=more), "writer", "task").run()

    thread = stage.order("writer").thread
    assert stage.refusals == [
        "writer takes no message after its task; put all of it into the task",
        f"writer takes no message on {thread}; close it, and dispatch another for what is new",
    ]
    assert stage.started("writer") == 1


def test_a_role_that_takes_no_task_is_not_dispatched_and_one_without_answers_does_not_ask() -> None:
    writer = [on("look", ask("which?"), say("seen"))]
    stage = taking(opening(send("writer", "look"), writer=writer), "writer", "task", "report").run()
    assert stage.refusals == ["you take no answer, so you can't ask; say it in your report"]

    stage = taking(opening(send("writer", "look"), *ASSERT), "writer", "message").run()
    assert stage.refusals == ["writer takes no task; dispatch another"]


def test_an_intervention_on_one_that_takes_none_is_refused_and_changes_nothing() -> None:
    writer = [on("look", {"sleep": 30}, say("seen"))]
    stage = taking(opening(send("writer", "look"), writer=writer), "writer", "task").running("writer")
    thread = stage.order("writer").thread
    stage.intervene("be quick", thread).crank()

    (note,) = stage.notes()
    assert note.startswith(f"refused: writer takes no interventions on {thread}; ")
    assert stage.fired("intervene") == 0
    stage.run()


def test_the_proxy_takes_questions_and_replies_alone() -> None:
    stage = opening(*ASSERT).run()
    (asked,) = stage.soup.of(AskHuman)
    stage.intervene("say yes", f"escalation:{asked.id}").crank()

    (note,) = stage.notes()
    assert note.startswith("refused: proxy takes no interventions")


def test_a_message_that_says_another_kind_is_found_by_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine with a bug: its chain is sound, and what it says of a task is not."""
    honest = OwnedJob.write

    def lies(self: OwnedJob, *words: Any, kind: MessageKind, **more: Any) -> str:
        return honest(self, *words, kind=MessageKind.MESSAGE if kind is MessageKind.TASK else kind, **more)

    monkeypatch.setattr(OwnedJob, "write", lies)
    stage = opening(*ASSERT).until(lambda s: s.started("intent-lead"))

    (finding,) = audit(stage.outside, JOB, None).findings
    assert finding.table == "messages"
    assert "it says that it is a 'message', and step" in finding.what
    assert finding.what.endswith("sends a task")


# ---- length ----------------------------------------------------------------------------------------


def test_a_message_that_is_too_long_is_refused_with_what_to_do() -> None:
    more = [on("seen", tell("w", LONG), ask(LONG), *ASSERT)]
    writer = [on("look", tell("dispatcher", LONG), say("seen"))]
    stage = opening(send("writer", LONG), send("writer", "look", "w"), more=more, writer=writer).run()

    long, thread = f"the text has {len(LONG)} characters, 16000 at most ([limits] message); write it to a file", ""
    thread = stage.order("writer").thread.partition(":")[2]
    assert stage.refusals == [
        f'{long} and name that: Send(…, files=["notes.md"])',
        f"{long}, and say here what it is called: your dispatcher finds it below {CHILDREN}/{thread}/",
        f'{long}, and open another conversation with it: Send(to=…, files=["notes.md"])',
        f"{long} of your workspace, and name that in the question",
    ]


def test_the_bound_is_a_setting_and_the_request_and_the_humans_words_have_none() -> None:
    intent = [on(r"^\[INTENT\]", ask("which?")), on("ANSWER", send("writer", "x" * 101), *ASSERT)]
    stage = JobHarness(book(intent=intent), sending={"message": 100}).run().answer(None, LONG).run()

    assert any(LONG in told for told in stage.told("intent-lead"))
    (refusal,) = stage.refusals
    assert refusal.startswith("the text has 101 characters, 100 at most ([limits] message); ")


def test_a_final_text_that_is_too_long_is_moved_to_a_file_whole() -> None:
    stage = opening(send("writer", "look"), more=[on("REPORT", *ASSERT)], writer=[on("look", say(LONG))]).run()

    (report,) = stage.bodies("intent-lead", "writer")
    order = stage.order("writer")
    path = f"{REPORTS}/{order.turn}.md"
    assert stage.files(order.thread)[path] == LONG
    assert len(report) < 16_000 // 2
    assert report.splitlines()[0].endswith("(changed: no file)")
    assert report.splitlines()[1].startswith("word word")
    assert f"All {len(LONG)} characters: {CHILDREN}/{order.thread.partition(':')[2]}/{path}" in report
    kept = step_extra.read(next(step.extra for step in stage.steps("send-step") if step.who == "writer")).tree
    assert stage.disk.trees[kept][path] == LONG  # so the record rebuilds it


# ---- files -----------------------------------------------------------------------------------------


def test_files_go_along_as_they_were_when_they_were_sent() -> None:
    do = [write("notes.md", "first"), along("writer", "look", "notes.md"), write("notes.md", "second")]
    stage = opening(*do, more=[on("seen", *ASSERT)]).run()

    thread = stage.order("writer").thread
    assert stage.files(thread)["notes.md"] == "first"
    (task,) = stage.messages("writer")
    assert task.body.endswith("in the place of what your tree had under such a name: notes.md")
    (sent,) = message_meta.read_as(SentFiles, task).files
    assert (sent.path, sent.mode, sent.size) == ("notes.md", "100644", 5)


@pytest.mark.parametrize("number", range(1, 12))
def test_files_are_there_whenever_the_process_dies(number: int) -> None:
    do = [write("notes.md", "first"), along("writer", "look", "notes.md")]
    stage = opening(*do, more=[on("seen", *ASSERT)]).die_at("", number).run()

    assert stage.files(stage.order("writer").thread)["notes.md"] == "first"
    assert len(stage.messages("writer")) == 1


@pytest.mark.parametrize(
    "files, why",
    [
        (["none.md"], "'none.md' can't be sent"),
        ("notes.md", "files must be a list of paths"),
        ([7], "files must be a list of paths"),
        ([""], "files must be a list of paths"),
        (["a\nb"], "a name that can be printed"),
        ([f"f{n}" for n in range(51)], "too many files are named (51), 50 at most ([limits] sent_files)"),
    ],
)
def test_files_that_can_not_go_along_are_refused_at_the_call(files: Any, why: str) -> None:
    stage = opening({"sleep": 30}, *ASSERT).until(lambda s: s.slept("intent-lead"))
    stage.call(stage.order("intent-lead"), "Send", to="writer", text="look", files=files).crank()

    assert len(stage.refusals) == 1
    assert why in stage.refusals[0]


def test_files_go_along_with_a_task_alone() -> None:
    more = [on("seen", {"send": {"thread": "w", "text": "more", "files": ["INTENT.md"]}}, *ASSERT)]
    stage = opening(write("INTENT.md", "x"), send("writer", "look", "w"), more=more).run()

    assert stage.refusals == [
        "files go along with a task, which opens a conversation: use `to`, or name them in the text"
    ]
