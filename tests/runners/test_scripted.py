"""The scripted agent: the player's effects, one by one, and the process that carries them out."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parley
from parley.runners.scripted.playbook import parse
from parley.runners.scripted.scripted_agent import (
    NO_ANSWER,
    Call,
    CallReply,
    Crash,
    Effect,
    OrderError,
    PlayEnding,
    PlayOrder,
    Shell,
    Sleep,
    Write,
    play,
    read_order,
)

SOURCE = Path(parley.__file__).parents[1]
OK = CallReply(ok=True, text="", data={})
REFUSED = CallReply(ok=False, text="the cap is reached", data={})


def rule(match: str, *actions: dict[str, Any], **conditions: Any) -> dict[str, Any]:
    return {"match": match, "do": list(actions), **conditions}


def order(*rules: dict[str, Any], message: str = "go", **more: Any) -> PlayOrder:
    fields = {"agent": "lead", "state": "PLAN", "visit": 1, "handle": {}, **more}
    return PlayOrder(rules=rules, message=message, **fields)


def proxy(message: str, *, may_ask: bool = True, kind: str = "question") -> PlayOrder:
    return PlayOrder(
        agent="proxy",
        rules=None,
        message=f"[QUESTION] {message}\n\n[BRIEFING] look" if kind == "question" else message,
        state="PLAN",
        visit=1,
        handle={},
        may_ask=may_ask,
        kind=kind,
        asked=message if kind == "question" else "",
    )


def threads() -> Callable[[Effect], CallReply]:
    """Accept everything; number the threads that Sends open."""
    opened = 0

    def reply(effect: Effect) -> CallReply:
        nonlocal opened
        if isinstance(effect, Call) and effect.tool == "Send" and "to" in effect.args:
            opened += 1
            return CallReply(ok=True, text="", data={"thread": f"dispatch:{opened}"})
        return OK

    return reply


def run(turn: PlayOrder, reply: Callable[[Effect], CallReply] | None = None) -> tuple[list[Effect], PlayEnding]:
    """Play a turn to its end; what it asked for and how it ended."""
    answer = reply or threads()
    player = play(turn)
    effects: list[Effect] = []
    try:
        effect = next(player)
        while True:
            effects.append(effect)
            effect = player.send(answer(effect))
    except StopIteration as stop:
        return effects, stop.value


# Which rule


def test_the_first_rule_found_in_the_message_acts() -> None:
    turn = order(rule("^stop", {"say": "a"}), rule("o+", {"say": "b"}), rule("go", {"say": "c"}))
    assert run(turn) == ([], PlayEnding("b", {"used": [1], "names": {}, "opened": {}}, ()))


def test_no_rule_found_ends_with_an_empty_text_and_the_handle_unchanged() -> None:
    handle = {"used": [3]}
    assert run(order(rule("stop", {"say": "a"}), handle=handle)) == ([], PlayEnding("", handle, ()))
    assert run(order(handle=handle, default="nothing to do"))[1] == PlayEnding("nothing to do", handle, ())


def test_a_rule_acts_once_unless_it_repeats() -> None:
    rules = (rule("go", {"say": "once"}), rule("go", {"say": "always"}, repeat=True))
    handle: dict[str, Any] = {}
    said = []
    for _ in range(3):
        ending = run(order(*rules, handle=handle))[1]
        handle = ending.handle
        said.append(ending.text)
    assert said == ["once", "always", "always"]


def test_a_rule_that_died_gives_way_to_the_next_and_acts_again_where_there_is_none() -> None:
    dies, dies_too = rule("go", {"crash": 9}), rule("go", {"send": {"to": "coder", "text": "x"}}, {"crash": 11})
    lives, other = rule("go", {"say": "alive"}), rule("stop", {"say": "no"})

    def tries(*rules: dict[str, Any]) -> list[int | str]:
        handle: dict[str, Any] = {"used": [7]}
        seen: list[int | str] = []
        for _ in range(4):
            effects, ending = run(order(*rules, handle=handle))
            died = next((effect for effect in effects if isinstance(effect, Crash)), None)
            seen.append(died.signal if died else ending.text)
            handle = died.handle if died else ending.handle
            assert 7 in handle["used"]
            assert handle["opened"] == {}  # what a lost turn had opened is not there
        return seen

    assert tries(dies, dies_too, other, lives) == [9, 11, "alive", 9]
    assert tries(dies, other) == [9, 9, 9, 9]
    assert tries({**dies, "repeat": True}, lives) == [9, 9, 9, 9]


@pytest.mark.parametrize(
    "state, visit, text",
    [("PLAN", 1, "plan"), ("EXECUTE", 1, "rest"), ("EXECUTE", 2, "execute 2"), ("INTENT", 2, "second")],
)
def test_state_and_visit_narrow_a_rule(state: str, visit: int, text: str) -> None:
    rules = (
        rule("go", {"say": "plan"}, state="PLAN"),
        rule("go", {"say": "execute 2"}, state="EXECUTE", visit=2),
        rule("go", {"say": "second"}, state=None, visit=2),
        rule("go", {"say": "rest"}),
    )
    assert run(order(*rules, state=state, visit=visit))[1].text == text


def test_a_pattern_that_is_none_is_told() -> None:
    with pytest.raises(OrderError, match="rule 1 of lead: 'match' is not a regular expression"):
        run(order(rule("[")))


# What it does


@pytest.mark.parametrize(
    "action, effect",
    [
        ({"write": {"path": "a", "text": "b"}}, Write("a", "b")),
        ({"shell": "true"}, Shell("true")),
        ({"sleep": 0.2}, Sleep(0.2)),
        ({"crash": 9}, Crash(9, {"used": [], "names": {}, "opened": {}, "fatal": [0]})),
        ({"ask": {"text": "which?"}}, Call("AskQuestion", {"text": "which?", "kind": "question"})),
        (
            {"assert": {"artifact": "PLAN.md", "text": "ok?"}},
            Call("AskQuestion", {"text": "ok?", "kind": "assert", "artifact": "PLAN.md"}),
        ),
        ({"note": {"id": 1, "x": [None]}}, Call("Note", {"id": 1, "x": [None]})),
        ({"ask_human": "look"}, Call("AskHuman", {"text": "look"})),
        ({"answer": {"text": "plain"}}, Call("Answer", {"text": "plain"})),
        (
            {"answer": {"text": "ok", "verdict": "approve", "confidence": 0.9}},
            Call("Answer", {"text": "ok", "verdict": "approve", "confidence": 0.9}),
        ),
        (
            {"outcome": {"outcome": "X", "reason": "é"}},
            Write(".parley/outcome.json", '{"outcome": "X", "reason": "é"}\n'),
        ),
        ({"outcome": "{broken"}, Write(".parley/outcome.json", "{broken")),
        ({"send": {"to": "coder", "text": "t"}}, Call("Send", {"to": "coder", "text": "t"})),
        (
            {"send": {"thread": "dispatcher", "text": "t"}},
            Call("Send", {"thread": "dispatcher", "text": "t"}),
        ),
        (
            {"send": {"thread": "dispatch:9", "text": "t"}},
            Call("Send", {"thread": "dispatch:9", "text": "t"}),
        ),
        ({"close": {"thread": "dispatch:9"}}, Call("CloseConversation", {"thread": "dispatch:9"})),
    ],
)
def test_each_action_has_its_effect(action: dict[str, Any], effect: Effect) -> None:
    effects, ending = run(order(rule("go", action)))
    assert effects == [effect]
    assert type(effects[0]) is type(effect)
    assert ending.refusals == ()


def test_the_last_say_is_the_final_text() -> None:
    assert run(order(rule("go", {"say": "a"}, {"say": "b"})))[1].text == "b"


def send(text: str, **address: str) -> dict[str, Any]:
    return {"send": {**address, "text": text}}


def test_a_named_thread_is_gone_on_with_and_closed_in_later_turns() -> None:
    rules = (
        rule("one", send("a", to="coder", **{"as": "c1"}), send("b", to="coder", **{"as": "c2"})),
        rule("two", send("c", thread="c1"), {"close": {"thread": "c2"}}, send("d", thread="c2")),
    )
    reply = threads()
    first = run(order(*rules, message="one"), reply)[1]
    assert first.handle["names"] == {"c1": "dispatch:1", "c2": "dispatch:2"}
    effects, ending = run(order(*rules, message="two", handle=first.handle), reply)
    assert effects == [
        Call("Send", {"thread": "dispatch:1", "text": "c"}),
        Call("CloseConversation", {"thread": "dispatch:2"}),
        Call("Send", {"thread": "dispatch:2", "text": "d"}),
    ]
    assert ending.handle["opened"] == {"coder": ["dispatch:1"]}


def test_a_recipient_stands_for_the_newest_open_thread_to_it() -> None:
    turn = order(
        rule(
            "go",
            send("a", to="coder"),
            send("b", to="coder"),
            send("c", thread="coder"),
            {"close": {"to": "coder"}},
            send("d", thread="coder"),
            {"close": {"to": "coder"}},
        )
    )
    assert run(turn)[0][2:] == [
        Call("Send", {"thread": "dispatch:2", "text": "c"}),
        Call("CloseConversation", {"thread": "dispatch:2"}),
        Call("Send", {"thread": "dispatch:1", "text": "d"}),
        Call("CloseConversation", {"thread": "dispatch:1"}),
    ]


def test_a_refused_close_leaves_the_thread_open() -> None:
    handle = {"opened": {"coder": ["dispatch:1"]}}
    turn = order(rule("go", {"close": {"to": "coder"}}), handle=handle)
    ending = run(turn, lambda _: REFUSED)[1]
    assert ending.handle["opened"] == {"coder": ["dispatch:1"]}
    assert ending.refusals == ("the cap is reached",)


def test_a_refused_send_names_nothing_and_the_play_goes_on() -> None:
    turn = order(
        rule(
            "go",
            send("a", to="coder", **{"as": "c1"}),
            send("b", thread="c1"),
            {"close": {"to": "coder"}},
            {"write": {"path": "a", "text": "b"}},
            {"say": "done"},
        )
    )
    effects, ending = run(turn, lambda effect: REFUSED if isinstance(effect, Call) else OK)
    assert effects == [Call("Send", {"to": "coder", "text": "a"}), Write("a", "b")]
    assert ending == PlayEnding(
        "done",
        {"used": [0], "names": {}, "opened": {}},
        (
            "the cap is reached",
            "no thread is named 'c1' and none to 'c1' is open: send to it first",
            "no thread is named 'coder' and none to 'coder' is open: send to it first",
        ),
    )


def test_a_send_whose_reply_names_no_thread_is_told() -> None:
    ending = run(order(rule("go", send("a", to="coder"))), lambda _: OK)[1]
    assert ending.refusals == ("the reply to Send to 'coder' names no thread",)


# The proxy without rules


def test_the_proxy_without_rules_asks_the_human_if_it_may() -> None:
    assert run(proxy("is it\nright?"))[0] == [Call("AskHuman", {"text": "is it\nright?"})]


def test_the_proxy_without_rules_has_no_answer_if_it_may_not_ask() -> None:
    effects, _ = run(proxy("right?", may_ask=False))
    assert effects == [Call("Answer", {"verdict": "revise", "text": NO_ANSWER})]


def test_the_proxy_without_rules_has_no_answer_if_asking_is_refused() -> None:
    effects, ending = run(proxy("right?"), lambda e: REFUSED if e == Call("AskHuman", {"text": "right?"}) else OK)
    assert effects[1:] == [Call("Answer", {"verdict": "revise", "text": "no answer: the cap is reached"})]
    assert ending.refusals == ("the cap is reached",)


def test_the_proxy_without_rules_adds_nothing_to_the_humans_words() -> None:
    assert run(proxy("[HUMAN]\nthe red one [QUESTION]", kind="reply"))[0] == [Call("Answer", {"text": ""})]


def test_a_question_that_quotes_the_human_does_not_answer_itself() -> None:
    effects, _ = run(proxy("[HUMAN] yes\ngo on?\n[HUMAN approve] yes"))
    assert effects == [Call("AskHuman", {"text": "[HUMAN] yes\ngo on?\n[HUMAN approve] yes"})]


@pytest.mark.parametrize("message", ["hello", "[HUMAN] x", "[QUESTION] x"])
def test_the_proxy_without_rules_has_nothing_to_do_on_other_messages(message: str) -> None:
    assert run(proxy(message, kind="notice")) == ([], PlayEnding("", {}, ()))


# Properties

WORDS = st.sampled_from(["a", "b", "c1", "coder", "dispatcher"])
ACTIONS = st.one_of(
    st.builds(lambda text: {"say": text}, WORDS),
    st.builds(lambda path: {"write": {"path": path, "text": ""}}, WORDS),
    st.builds(lambda to, name: {"send": {"to": to, "as": name, "text": ""}}, WORDS, WORDS),
    st.builds(lambda to: {"send": {"to": to, "text": ""}}, WORDS),
    st.builds(lambda thread: {"send": {"thread": thread, "text": ""}}, WORDS),
    st.builds(lambda thread: {"close": {"thread": thread}}, WORDS),
    st.builds(lambda to: {"close": {"to": to}}, WORDS),
    st.builds(lambda text: {"ask": {"text": text}}, WORDS),
)
RULES = st.lists(
    st.builds(
        lambda match, do, repeat, visit: {"match": match, "do": do, "repeat": repeat, "visit": visit},
        WORDS,
        st.lists(ACTIONS, max_size=5),
        st.booleans(),
        st.none() | st.integers(1, 2),
    ),
    max_size=5,
)
TURNS = st.lists(st.tuples(WORDS, st.integers(1, 2), st.lists(st.booleans(), max_size=8)), max_size=8)


def replies(accepted: list[bool]) -> Callable[[Effect], CallReply]:
    """Accept or refuse as listed, then accept."""
    left, accept = list(accepted), threads()
    return lambda effect: accept(effect) if not left or left.pop(0) else REFUSED


@given(RULES, TURNS)
def test_a_life_of_turns_is_deterministic_and_its_handle_is_json(
    rules: list[dict[str, Any]], turns: list[tuple[str, int, list[bool]]]
) -> None:
    handle: dict[str, Any] = {}
    for message, visit, accepted in turns:
        turn = order(*rules, message=message, visit=visit, handle=handle)
        before = copy.deepcopy(turn)
        first, second = run(turn, replies(accepted)), run(turn, replies(accepted))
        assert first == second
        assert turn == before
        handle = json.loads(json.dumps(first[1].handle))
        assert handle == first[1].handle


@given(RULES, TURNS)
def test_a_rule_is_never_used_twice_by_one_instance_unless_it_repeats(
    rules: list[dict[str, Any]], turns: list[tuple[str, int, list[bool]]]
) -> None:
    tagged = [{**rule, "do": [{"say": str(index)}]} for index, rule in enumerate(rules)]
    handle: dict[str, Any] = {}
    acted: list[int] = []
    for message, visit, _ in turns:
        ending = run(order(*tagged, message=message, visit=visit, handle=handle))[1]
        handle = ending.handle
        acted += [int(ending.text)] if ending.text else []
    once = [index for index in acted if not rules[index]["repeat"]]
    assert len(once) == len(set(once))


@given(RULES, st.lists(WORDS, max_size=6))
def test_only_threads_that_were_opened_are_ever_addressed(rules: list[dict[str, Any]], messages: list[str]) -> None:
    reply, handle, opened = threads(), dict[str, Any](), {"dispatcher"}

    def note(effect: Effect) -> CallReply:
        assert isinstance(effect, Call | Write)
        answer = reply(effect)
        if isinstance(effect, Call) and "thread" in effect.args:
            assert effect.args["thread"] in opened
        opened.update(answer.data.values())
        return answer

    for message in messages:
        handle = run(order(*rules, message=message, handle=handle), note)[1].handle


# The order


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"agent": 5}, "the order's 'agent' is of the wrong type (int)"),
        ({"rules": {}}, "the order's 'rules' is of the wrong type (dict)"),
        ({"rules": [5]}, "rule 1 is not an object with a text 'match'"),
        ({"rules": [{"match": "x"}]}, "rule 1 has no list 'do'"),
        ({"rules": [rule("x", {"fly": 1})]}, "action 1 of rule 1 is not an object with one known action"),
        ({"rules": [rule("x", {"say": "a", "shell": "b"})]}, "action 1 of rule 1 is not an object with one"),
        (
            {"rules": [rule("x", {"write": {"path": "a"}})]},
            "action 1 of rule 1: 'write' has a wrong or missing",
        ),
        (
            {"rules": [rule("x", {"send": {"text": "a"}})]},
            "action 1 of rule 1: 'send' has a wrong or missing",
        ),
        ({"rules": [rule("x", {"send": {"to": 1, "text": "a"}})]}, "action 1 of rule 1: 'send' has a wrong"),
        ({"rules": [rule("x", {"crash": 99})]}, "action 1 of rule 1: 'crash' has a wrong or missing value"),
        ({"rules": [rule("x", {"sleep": -1})]}, "action 1 of rule 1: 'sleep' has a wrong or missing value"),
        ({"handle": {"used": "x"}}, "the order's 'handle' is not one that a turn of this agent ended with"),
    ],
)
def test_a_bad_order_is_told(change: dict[str, Any], problem: str) -> None:
    data = {"agent": "a", "rules": [], "message": "", "workspace": "/"}
    with pytest.raises(OrderError) as caught:
        read_order(data | change)
    assert str(caught.value).startswith(problem)


def test_every_action_of_a_playbook_makes_a_good_order() -> None:
    book = parse(
        """
proxy:
  - {match: x, do: [{ask_human: look}, {answer: plainly}, {answer: {verdict: approve, confidence: 1}}]}
agents:
  a:
  - match: x
    state: PLAN
    visit: 1
    do: [{write: {path: a, text: b}}, {shell: c}, {send: {to: d, as: e, text: f}},
         {send: {thread: e, text: g}}, {close: {thread: e}}, {close: {to: d}}, {ask: {text: h}},
         {assert: {artifact: i, text: j}},
         {note: {k: l}}, {outcome: {m: n}}, {outcome: raw}, {sleep: 0}, {sleep: 0.5}, {crash: 9}, {say: o}]
""",
        "p",
    )
    for name in ("proxy", "a", "nobody"):
        rules = book.rules(name)
        assert rules is not None
        assert read_order({"agent": name, "rules": rules, "message": "x"}).rules == tuple(rules)


# The process


class Process:
    """A scripted agent's process, spoken to by lines."""

    def __init__(self, workspace: Path, *rules: dict[str, Any], **more: Any) -> None:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "parley.runners.scripted.agent_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        assert self.popen.stderr is not None
        self.stdin, self.stdout, self.stderr = self.popen.stdin, self.popen.stdout, self.popen.stderr
        head = {"turn": "t1", "token": "secret", "agent": "lead", "rules": list(rules), "message": "go"}
        place = {"state": "PLAN", "visit": 1, "handle": {}, "may_ask": True}
        self.say({**head, **place, "workspace": str(workspace), "limits": {}, **more})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def say(self, data: Any) -> None:
        self.write(json.dumps(data).encode() + b"\n")

    def write(self, line: bytes) -> None:
        self.stdin.write(line)
        self.stdin.flush()

    def hear(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.stdout.readline())
        return data

    def progress(self) -> list[str]:
        """What it reports until its end: what it does, or what came of it."""
        return list(self._progress())

    def _progress(self) -> Iterator[str]:
        while (data := self.hear())["line"] == "progress":
            yield ": ".join(text for text in (data["text"], data.get("result", "")) if text)
        assert data["line"] == "end"
        self.end = data["report"]

    def leave(self) -> tuple[int, str]:
        """Its exit code, and what it said on standard error."""
        self.popen.wait()
        return self.popen.returncode, self.stderr.read().decode()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_turn_by_lines_of_json(tmp_path: Path) -> None:
    actions = (send("t", to="coder", **{"as": "c1"}), {"ask": {"text": "q"}}, {"say": "bye"})
    with Process(tmp_path, rule("go", *actions)) as agent:
        assert agent.hear() == {
            "line": "call",
            "number": 1,
            "token": "secret",
            "tool": "Send",
            "args": {"to": "coder", "text": "t"},
        }
        agent.say({"reply": 1, "ok": True, "text": "sent", "data": {"thread": "dispatch:1"}})
        question = {"text": "q", "kind": "question"}
        assert agent.hear() == {
            "line": "call",
            "number": 2,
            "token": "secret",
            "tool": "AskQuestion",
            "args": question,
        }
        agent.say({"reply": 1, "ok": True, "text": "late", "data": {}})
        agent.say({"reply": 2, "ok": False, "text": "not now", "data": {}})
        assert agent.hear() == {
            "line": "end",
            "report": {
                "text": "bye",
                "handle": {"used": [0], "names": {"c1": "dispatch:1"}, "opened": {"coder": ["dispatch:1"]}},
                "refusals": ["not now"],
                "usage": {"turns": 1},
            },
        }
        assert agent.leave() == (0, "")


def test_an_outcome_is_written(tmp_path: Path) -> None:
    outcome = {"outcome": "APPROVED_PLAN", "reason": "“fine”"}
    with Process(tmp_path, rule("go", {"outcome": outcome})) as agent:
        assert agent.progress() == [".parley/outcome.json"]
    assert json.loads((tmp_path / ".parley/outcome.json").read_text()) == outcome


def test_a_raw_outcome_is_written_as_it_is(tmp_path: Path) -> None:
    with Process(tmp_path, rule("go", {"outcome": "{not json"})) as agent:
        agent.progress()
    assert (tmp_path / ".parley/outcome.json").read_text() == "{not json"


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("old")
    script.chmod(0o755)
    with Process(tmp_path, rule("go", {"write": {"path": "run", "text": "ä"}})) as agent:
        agent.progress()
    assert script.read_text() == "ä"
    assert script.stat().st_mode & 0o777 == 0o755
    assert names(tmp_path) == ["run"]


@pytest.mark.parametrize(
    "path, reason",
    [
        ("/etc/x", "it is not relative to the workspace"),
        ("../x", "it leads outside the workspace"),
        ("inside/../../x", "it leads outside the workspace"),
        (".", "it leads outside the workspace"),
        ("out/x", "it leads outside the workspace"),
        ("new/../out/x", "it leads outside the workspace"),
        ("dangling", "it leads outside the workspace"),
        ("inside", "Is a directory"),
        ("a\0b", "the path contains NUL"),
    ],
)
def test_a_write_that_leaves_the_workspace_or_cannot_be_done_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    (workspace / "inside").mkdir(parents=True)
    outside.mkdir()
    (workspace / "out").symlink_to(outside)
    (workspace / "dangling").symlink_to(outside / "new")
    actions = ({"write": {"path": path, "text": "x"}}, {"write": {"path": "after", "text": "y"}})
    with Process(workspace, rule("go", *actions)) as agent:
        assert agent.progress() == [f"{path}: {reason}", "after"]
        assert agent.end["refusals"] == [f"write {path}: {reason}"]
    assert list(outside.iterdir()) == []
    assert names(tmp_path) == ["outside", "workspace"]
    assert names(workspace) == ["after", "dangling", "inside", "out"]


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "link").symlink_to("docs")
    with Process(tmp_path, rule("go", {"write": {"path": "link/a.md", "text": "x"}})) as agent:
        agent.progress()
        assert agent.end["refusals"] == []
    assert (tmp_path / "docs/a.md").read_text() == "x"


def test_a_command_runs_in_the_workspace_and_its_failure_stops_nothing(tmp_path: Path) -> None:
    command = "pwd; cat; echo bad >&2; exit 3"
    with Process(tmp_path, rule("go", {"shell": command}, {"shell": "kill -9 $$"}, {"say": "on"})) as agent:
        assert agent.progress() == [
            command,
            f"exit 3\n{tmp_path.resolve()}\nbad",
            "kill -9 $$",
            "killed by signal 9",
        ]
        assert agent.end["text"] == "on"
        assert agent.end["refusals"] == []


def test_of_a_long_output_the_tail_is_reported(tmp_path: Path) -> None:
    command = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
    with Process(tmp_path, rule("go", {"shell": command})) as agent:
        report = agent.progress()[1]
    assert len(report) == 2000
    assert report.startswith("exit 0\n…")
    assert report.startswith("exit 0\n")
    assert report.endswith("line 19998\nline 19999")


@pytest.mark.parametrize("background", ["sleep 60", "yes"])
def test_what_a_command_leaves_in_the_background_does_not_hold_the_turn(tmp_path: Path, background: str) -> None:
    with Process(tmp_path, rule("go", {"shell": f"{background} & echo $! >pid"})) as agent:
        try:
            assert agent.progress()[1].startswith("exit 0")
            assert agent.leave()[0] == 0
        finally:
            # `yes` dies by itself of its closed output
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_command_is_of_the_agents_group_and_session(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'import os; print(os.getpgid(0), os.getsid(0))'"
    with Process(tmp_path, rule("go", {"shell": command})) as agent:
        expected = f"exit 0\n{os.getpgid(agent.popen.pid)} {os.getsid(agent.popen.pid)}"
        assert agent.progress()[1] == expected


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGSEGV])
def test_a_crash_is_a_death_by_that_signal(tmp_path: Path, number: signal.Signals) -> None:
    actions = (
        {"write": {"path": "before", "text": ""}},
        {"crash": int(number)},
        {"write": {"path": "after", "text": ""}},
    )
    with Process(tmp_path, rule("go", *actions)) as agent:
        assert agent.leave() == (-number, "")
    assert names(tmp_path) == ["before"]


def test_a_crash_by_a_signal_that_kills_nobody_is_an_end_all_the_same(tmp_path: Path) -> None:
    with Process(tmp_path, rule("go", {"crash": int(signal.SIGCHLD)})) as agent:
        assert agent.leave() == (128 + signal.SIGCHLD, "")


@pytest.mark.parametrize("action", [{"ask": {"text": "q"}}, {"sleep": 60}, {"shell": "exec sleep 60"}])
def test_the_end_of_the_engine_ends_the_turn_at_once_and_quietly(tmp_path: Path, action: dict[str, Any]) -> None:
    with Process(tmp_path, rule("go", action, {"write": {"path": "after", "text": ""}})) as agent:
        agent.hear()
        agent.stdin.close()
        assert agent.leave() == (1, "")
    assert names(tmp_path) == []


def test_a_closed_output_ends_the_turn_quietly(tmp_path: Path) -> None:
    with Process(tmp_path, rule("go", {"ask": {"text": "q"}}, {"sleep": 0})) as agent:
        agent.hear()
        agent.stdout.close()
        agent.say({"reply": 1, "ok": True, "text": "", "data": {}})
        assert agent.leave() == (1, "")


def test_a_sleep_lasts_while_the_engine_speaks(tmp_path: Path) -> None:
    with Process(tmp_path, rule("go", {"sleep": 0.05}, {"ask": {"text": "q"}})) as agent:
        assert agent.hear() == {"line": "progress", "text": "sleep 0.05", "pause": True}
        agent.say({"reply": 1, "ok": True, "text": "early", "data": {}})
        assert agent.hear()["tool"] == "AskQuestion"
        assert agent.hear()["report"]["refusals"] == []


@pytest.mark.parametrize(
    "line, problem",
    [
        (b"", "no order came in: one line of JSON is expected on standard input"),
        (b"{\n", "the order is not one line of JSON ("),
        (b"\xff\n", "the order is not one line of JSON ("),
        (b"[" * 100_000 + b"\n", "the order is not one line of JSON ("),
        (b"5\n", "the order is not a JSON object"),
        (b'{"agent": "a"}\n', "the order has no 'rules'"),
        (b'{"agent": "a", "rules": [], "message": ""}\n', "the order has no 'workspace'"),
        (
            b'{"agent": "a", "rules": [], "message": "", "workspace": "/no/such"}\n',
            "the order's workspace '/no/such' can't be entered (",
        ),
        (
            b'{"agent": "a", "rules": [{"match": "[", "do": []}], "message": "", "workspace": "/"}\n',
            "rule 1 of a: 'match' is not a regular expression (",
        ),
    ],
)
def test_a_bad_order_is_one_line_on_standard_error(line: bytes, problem: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "parley.runners.scripted.agent_process"],
        input=line,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (2, b"")
    assert said.startswith(f"scripted agent: {problem}")
    assert said.count("\n") == 1


def test_a_reply_that_is_none_is_told(tmp_path: Path) -> None:
    with Process(tmp_path, rule("go", {"ask": {"text": "q"}})) as agent:
        agent.hear()
        agent.write(b"yes\n")
        code, said = agent.leave()
    assert code == 2
    assert said.startswith("scripted agent: the reply is not one line of JSON (")


def test_the_process_imports_nothing_slow() -> None:
    """A process is started for every turn."""
    slow = ["asyncio", "dataclasses", "inspect", "pathlib", "subprocess", "tempfile", "yaml"]
    code = f"import sys, parley.runners.scripted.agent_process; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.stdout == b"[]\n"
