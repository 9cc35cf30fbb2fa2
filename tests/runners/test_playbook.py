"""Playbooks are read as their format says, and whatever is wrong is told in one line with its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parley.base.documents.node import MAX_DEPTH, DocumentError
from parley.runners.scripted.playbook import (
    MAX_BYTES,
    STATES,
    VERDICTS,
    HumanRule,
    PlayAction,
    Playbook,
    PlayRule,
    load,
    parse,
)

FULL = r"""
human:
  - {match: "INTENT", verdict: approve, text: "yes"}
  - {match: "which", text: "the red one", repeat: true, state: PLAN, visit: 2}
proxy:
  - {match: '\[QUESTION\]', repeat: true, do: [{ask_human: "please look"}]}
  - {match: '\[HUMAN approve\]', repeat: true, do: [{answer: {verdict: approve, text: ok, confidence: 0.9}}]}
  - {match: 'x', do: [{answer: "plainly"}]}
agents:
  project-lead:
    - match: "regex over the incoming message"
      state: EXECUTE
      visit: 1
      do:
        - {write: {path: PLAN.md, text: "…"}}
        - {shell: "pytest -q"}
        - {send: {to: coder, as: c1, text: "a"}}
        - {send: {thread: c1, text: "b"}}
        - {send: {to: tester, text: "c"}}
        - {close: {thread: c1}}
        - {close: {to: tester}}
        - {ask: {text: "which?"}}
        - {assert: {artifact: PLAN.md, text: "d"}}
        - {note: {id: 1, tags: [x, null, 2.5, true], when: 2024-01-01}}
        - {outcome: {outcome: APPROVED_PLAN, reason: "e"}}
        - {outcome: "not json"}
        - {sleep: 0.2}
        - {crash: 9}
        - {say: "final text"}
  coder: []
"""


def agent(actions: str) -> str:
    return f"agents: {{a: [{{match: x, do: [{actions}]}}]}}"


def actions_of(text: str) -> tuple[PlayAction, ...]:
    return parse(text, "p").agents["a"][0].do


def failure(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse(text, "p.yaml")
    return str(caught.value)


def test_every_form_of_the_format_is_read() -> None:
    book = parse(FULL, "full")
    assert book.human == (
        HumanRule("INTENT", verdict="approve", text="yes"),
        HumanRule("which", repeat=True, state="PLAN", visit=2, verdict=None, text="the red one"),
    )
    assert book.proxy == (
        PlayRule(r"\[QUESTION\]", repeat=True, do=(PlayAction("ask_human", "please look"),)),
        PlayRule(
            r"\[HUMAN approve\]",
            repeat=True,
            do=(PlayAction("answer", {"verdict": "approve", "text": "ok", "confidence": 0.9}),),
        ),
        PlayRule("x", do=(PlayAction("answer", {"text": "plainly"}),)),
    )
    assert book.agents["coder"] == ()
    (rule,) = book.agents["project-lead"]
    assert (rule.match, rule.repeat, rule.state, rule.visit) == (
        "regex over the incoming message",
        False,
        "EXECUTE",
        1,
    )
    assert [action.to_json() for action in rule.do] == [
        {"write": {"path": "PLAN.md", "text": "…"}},
        {"shell": "pytest -q"},
        {"send": {"to": "coder", "as": "c1", "text": "a"}},
        {"send": {"thread": "c1", "text": "b"}},
        {"send": {"to": "tester", "text": "c"}},
        {"close": {"thread": "c1"}},
        {"close": {"to": "tester"}},
        {"ask": {"text": "which?"}},
        {"assert": {"artifact": "PLAN.md", "text": "d"}},
        {"note": {"id": 1, "tags": ["x", None, 2.5, True], "when": "2024-01-01"}},
        {"outcome": {"outcome": "APPROVED_PLAN", "reason": "e"}},
        {"outcome": "not json"},
        {"sleep": 0.2},
        {"crash": 9},
        {"say": "final text"},
    ]


def test_a_playbook_survives_the_way_through_json() -> None:
    book = parse(FULL, "full")
    data = json.loads(json.dumps(book.to_json()))
    assert Playbook.from_json(data) == book


def test_json_is_a_playbook_too() -> None:
    book = parse(FULL, "full")
    assert parse(json.dumps(book.to_json()), "json") == book


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    assert actions_of(agent(r'{say: "\ud83d\ude00"}')) == (PlayAction("say", "\U0001f600"),)


def test_recipients_are_those_whom_an_agent_sends_to() -> None:
    book = parse(FULL, "full")
    assert book.recipients("project-lead") == {"coder", "tester"}
    assert book.recipients("coder") == frozenset()
    assert book.recipients("nobody") == frozenset()
    assert book.recipients("proxy") == frozenset()


def test_rules_are_given_in_the_form_that_the_scripted_agent_takes() -> None:
    book = parse("agents: {a: [{match: x, do: [{say: hi}]}]}", "p")
    assert book.rules("a") == [{"match": "x", "repeat": False, "do": [{"say": "hi"}]}]
    assert book.rules("b") == []
    assert book.rules("proxy") is None


def test_parts_that_are_absent_are_told_from_parts_that_are_empty() -> None:
    assert parse("agents: {}", "p") == Playbook()
    assert parse("human: []", "p") == Playbook(human=())
    assert parse("proxy: []", "p") == Playbook(proxy=None)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_is_known(verdict: str) -> None:
    book = parse(f"human: [{{match: x, verdict: {verdict}, text: t}}]", "p")
    assert book.human == (HumanRule("x", verdict=verdict, text="t"),)


@pytest.mark.parametrize("rule", ["{match: x, verdict: revise}", "{match: x, verdict: revise, text: ' '}"])
def test_a_revise_of_the_human_needs_words(rule: str) -> None:
    with pytest.raises(DocumentError, match=r"p:1:.*'revise' needs words; add 'text: …'"):
        parse(f"human: [{rule}]", "p")


@pytest.mark.parametrize("verdict", ["none", "null", "~"])
def test_no_verdict_is_a_plain_answer(verdict: str) -> None:
    book = parse(f"human: [{{match: x, verdict: {verdict}, text: t}}]", "p")
    assert book.human == (HumanRule("x", verdict=None, text="t"),)


@pytest.mark.parametrize("word", ["true", "yes", "no", "42", "1.5", "2024-01-01"])
def test_a_text_is_taken_as_it_is_written(word: str) -> None:
    assert actions_of(agent(f"{{shell: {word}}}, {{say: {word}}}")) == (
        PlayAction("shell", word),
        PlayAction("say", word),
    )


@pytest.mark.parametrize(
    "outcome",
    ["{outcome: NO_SUCH}", "{outcome: 5, extra: [1]}", "{}", '"{broken"', '""'],
)
def test_an_outcome_may_be_anything_to_try_what_a_broken_one_does(outcome: str) -> None:
    assert actions_of(agent(f"{{outcome: {outcome}}}"))[0].value == yaml.safe_load(outcome)


def test_the_humans_rules_are_taken_in_order_and_once_unless_they_repeat() -> None:
    book = parse(
        """
human:
  - {match: x, text: one}
  - {match: x, text: two, state: PLAN, visit: 2}
  - {match: x, text: many, repeat: true}
""",
        "p",
    )
    assert book.human is not None
    assert book.answer("x", "PLAN", 1, ()) == (0, book.human[0])
    assert book.answer("x", "PLAN", 2, {0}) == (1, book.human[1])
    assert book.answer("x", "PLAN", 1, {0}) == (2, book.human[2])
    assert book.answer("x", "INTENT", 2, {0, 1, 2}) == (2, book.human[2])
    assert book.answer("y", "PLAN", 1, ()) is None
    assert Playbook().answer("x", "PLAN", 1, ()) is None


def test_an_anchor_may_be_used_again() -> None:
    book = parse("agents: {a: &rules [{match: x, do: [{say: hi}]}], b: *rules}", "p")
    assert book.agents["a"] == book.agents["b"]


def test_a_byte_order_mark_is_no_part_of_the_playbook(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbfagents: {}")
    assert load(path) == Playbook()


AGENT_KEYS = "match, repeat, state, visit, do"
ERRORS = [
    # YAML
    ("", "1:1: the playbook is empty; give rules under 'agents'"),
    ("# nothing\n", "1:1: the playbook is empty; give rules under 'agents'"),
    ("agents: [", "1:10: this is not valid YAML (while parsing a flow node, expected the node content"),
    ("agents: {}\n---\nagents: {}", "2:1: this is not valid YAML (expected a single document"),
    ("agents: {}\n\x07", "2:1: this character is not allowed in YAML"),
    ('agents: "\\UFFFFFFFF"', "1:12: this is not valid YAML ("),
    ("agents: *a", "1:9: this is not valid YAML (found undefined alias 'a'); correct it here"),
    ("agents: " + "[" * 100, f"1:58: nested deeper than {MAX_DEPTH} levels; make it flatter"),
    # The top
    ("[]", "1:1: a playbook must be a mapping; write {key: value, …}"),
    ("agnets: {}", "1:1: unknown key 'agnets' in a playbook; did you mean 'agents'?"),
    ("x1y2: {}", "1:1: unknown key 'x1y2' in a playbook; use one of: human, proxy, agents"),
    ("agents: {}\nagents: {}", "2:1: the key 'agents' is given twice in a playbook; remove one of them"),
    ("agents: []", "1:9: 'agents' must be a mapping; write {key: value, …}"),
    ("agents:", "1:8: 'agents' must be a mapping; write {key: value, …}"),
    ("human: {}", "1:8: 'human' must be a list; write '- …' lines, or [] for none"),
    ("proxy: x", "1:8: 'proxy' must be a list; write '- …' lines, or [] for none"),
    ("? [a]\n: b", "1:3: a key must be a text; put it in quotes"),
    # Agents
    ("agents: {Coder: []}", "1:10: 'Coder' is not an agent's name; begin with a-z and go on with a-z, 0-9"),
    ("agents:\n  a b: []", "2:3: 'a b' is not an agent's name; begin with a-z"),
    ("agents: {proxy: []}", "1:10: 'proxy' is not one of the agents; move it to the top level"),
    ("agents: {human: []}", "1:10: 'human' is not one of the agents; move it to the top level"),
    ("agents: {a: {}}", "1:13: the rules of 'a' must be a list; write '- …' lines, or [] for none"),
    # Rules
    ("agents: {a: [x]}", "1:14: a rule must be a mapping; write {key: value, …}"),
    ("agents: {a: [{mach: x, do: []}]}", "1:15: unknown key 'mach' in a rule; did you mean 'match'?"),
    ("agents: {a: [{<<: x, do: []}]}", "1:15: '<<' does not merge mappings here; write the keys out"),
    ("agents: {a: [{q: x}]}", f"1:15: unknown key 'q' in a rule; use one of: {AGENT_KEYS}"),
    ("agents: {a: [{do: []}]}", "1:14: 'match' is missing in a rule; add 'match: …'"),
    ("agents: {a: [{match: x}]}", "1:14: 'do' is missing in a rule; add 'do: …'"),
    (
        "agents: {a: [{match: 5, do: []}]}",
        "1:22: 'match' must be a text; put the regular expression in quotes",
    ),
    ("agents: {a: [{match: [x], do: []}]}", "1:22: 'match' must be a text; put the regular expression"),
    ("agents: {a: [{match: '[', do: []}]}", "1:22: 'match' is not a regular expression (unterminated"),
    ("agents: {a: [{match: x, do: {}}]}", "1:29: 'do' must be a list; write '- …' lines, or [] for none"),
    ("agents: {a: [{match: x, do: [], repeat: maybe}]}", "1:41: 'repeat' must be true or false; write"),
    ("agents: {a: [{match: x, do: [], state: PLANN}]}", "1:40: unknown state 'PLANN'; did you mean 'PLAN'?"),
    (
        "agents: {a: [{match: x, do: [], state: DONE}]}",
        "1:40: unknown state 'DONE'; use one of: INTENT, PLAN",
    ),
    (
        "agents: {a: [{match: x, do: [], visit: two}]}",
        "1:40: 'visit' must be a whole number; write 1 or more, without quotes",
    ),
    (
        "agents: {a: [{match: x, do: [], visit: 0}]}",
        "1:40: 'visit' must be a whole number; write 1 or more",
    ),
    ("agents: {a: [{match: x, do: [], visit: 1.5}]}", "1:40: 'visit' must be a whole number; write 1 or more"),
    # The human
    ("human: [{verdict: approve}]", "1:9: 'match' is missing in a rule of 'human'; add 'match: …'"),
    ("human: [{match: x}]", "1:9: a rule of 'human' needs 'verdict' or 'text'; add what the human answers"),
    ("human: [{match: x, verdict: aprove}]", "1:29: unknown verdict 'aprove'; did you mean 'approve'?"),
    ("human: [{match: x, verdict: [approve]}]", "1:29: verdict must be a text; put it in quotes"),
    ("human: [{match: x, text: y, do: []}]", "1:29: unknown key 'do' in a rule of 'human'; use one of"),
    ("human: [{match: x, text: [y]}]", "1:26: 'text' must be a text; put it in quotes"),
    (
        'human: [{match: x, text: "\\ud800"}]',
        "1:26: this has half of a surrogate pair; write the character",
    ),
    # Actions
    (agent("x"), "1:30: an action must be a mapping; write {key: value, …}"),
    (agent("{}"), "1:30: an action has one key, not 0; write one '- …' for each action"),
    (agent("{say: a, shell: b}"), "1:30: an action has one key, not 2; write one '- …' for each action"),
    (agent("{wirte: {}}"), "1:31: unknown action 'wirte'; did you mean 'write'?"),
    (
        agent("{fly: {}}"),
        "1:31: unknown action 'fly'; use one of: write, shell, send, close, ask, assert, note",
    ),
    (agent("{answer: ok}"), "1:31: 'answer' is only for the proxy; move it to 'proxy'"),
    (agent("{ask_human: ok}"), "1:31: 'ask_human' is only for the proxy; move it to 'proxy'"),
    (agent("{write: PLAN.md}"), "1:38: 'write' must be a mapping; write {key: value, …}"),
    (agent("{write: {path: a}}"), "1:38: 'text' is missing in 'write'; add 'text: …'"),
    (agent("{write: {path: '', text: a}}"), "1:45: 'path' is empty; fill it in"),
    (agent("{write: {pat: a, text: b}}"), "1:39: unknown key 'pat' in 'write'; did you mean 'path'?"),
    (agent("{write: {path: a, text: {b: c}}}"), "1:54: 'text' must be a text; put it in quotes"),
    (
        agent("{write: {path: a, path: b, text: c}}"),
        "1:48: the key 'path' is given twice in 'write'; remove one of them",
    ),
    (agent("{shell: }"), "1:37: 'shell' must be a text; put it in quotes"),
    (agent("{shell: !cmd x}"), "1:38: the tag '!cmd' is not known here; leave it out"),
    (
        agent("{send: {text: a}}"),
        "1:37: 'send' has neither 'to' nor 'thread'; add 'to: AGENT' or 'thread: NAME'",
    ),
    (agent("{send: {to: b, thread: c, text: a}}"), "1:45: 'send' has both 'to' and 'thread'; remove one"),
    (agent("{send: {to: B, text: a}}"), "1:42: 'B' is not an agent's name; begin with a-z"),
    (agent("{send: {to: b}}"), "1:37: 'text' is missing in 'send'; add 'text: …'"),
    (
        agent("{send: {thread: b, as: c, text: a}}"),
        "1:49: 'as' names a new thread, not an old one; remove it",
    ),
    (agent("{send: {to: b, as: dispatcher, text: a}}"), "1:49: 'dispatcher' can't name a thread; choose one"),
    (agent("{send: {to: b, as: 'job:1', text: a}}"), "1:49: 'job:1' can't name a thread; choose one"),
    (agent("{close: {}}"), "1:38: 'close' has neither 'to' nor 'thread'; add 'to: AGENT' or 'thread: NAME'"),
    (agent("{close: {to: b, text: c}}"), "1:46: unknown key 'text' in 'close'; use one of: to, thread"),
    (agent("{ask: which}"), "1:36: 'ask' must be a mapping; write {key: value, …}"),
    (agent("{assert: {text: a}}"), "1:39: 'artifact' is missing in 'assert'; add 'artifact: …'"),
    (agent("{note: text}"), "1:37: 'note' must be a mapping; write {key: value, …}"),
    (agent("{note: {a: .inf}}"), "1:41: '.inf' is not a finite number; put it in quotes"),
    (agent("{note: {a: !!int x}}"), "1:41: 'x' is not a value that YAML knows; put it in quotes"),
    (agent("{note: {a: !!bool x}}"), "1:41: 'x' is not a value that YAML knows; put it in quotes"),
    (agent("{note: {a: !!set {b}}}"), "1:41: the tag '!!set' is not known here; leave it out"),
    (agent("{outcome: [a]}"), "1:40: 'outcome' must be a text; put it in quotes"),
    (agent("{sleep: long}"), "1:38: 'sleep' must be a number; write one from 0 to 1000000000, without quotes"),
    (agent("{sleep: -1}"), "1:38: 'sleep' must be a number; write one from 0 to 1000000000"),
    (agent("{sleep: .nan}"), "1:38: 'sleep' must be a number; write one from 0 to 1000000000"),
    (agent("{crash: KILL}"), "1:38: 'crash' must be a whole number; write one from 1 to 64, without quotes"),
    (agent("{crash: 0}"), "1:38: 'crash' must be a whole number; write one from 1 to 64"),
    (agent("{crash: 32}"), "1:38: 32 is not a signal here; use one like 9 (KILL) or 15 (TERM)"),
    (agent("{say: [a]}"), "1:36: 'say' must be a text; put it in quotes"),
    # The proxy's actions
    ("proxy: [{match: x, do: [{answer: {}}]}]", "1:34: 'answer' needs 'verdict' or 'text'; add one"),
    ("proxy: [{match: x, do: [{answer: {verdict: no}}]}]", "1:44: unknown verdict 'no'; use one of: approve"),
    ("proxy: [{match: x, do: [{answer: {text: a, confidence: 2}}]}]", "1:56: 'confidence' must be a number"),
    (
        "proxy: [{match: x, do: [{ask_human: [a]}]}]",
        "1:37: 'ask_human' must be a text; put it in quotes",
    ),
    (
        "proxy: [{match: x, do: [{ask_human: {found: a}}]}]",
        "1:37: 'text' is missing in 'ask_human'; add 'text: …'",
    ),
    (
        "proxy: [{match: x, do: [{predict: {verdict: approve, confidence: 1.5}}]}]",
        "1:66: 'confidence' must be a number; write one from 0 to 1",
    ),
]


@pytest.mark.parametrize("text, problem", ERRORS)
def test_what_is_wrong_is_told_with_its_place(text: str, problem: str) -> None:
    message = failure(text)
    assert message.startswith(f"p.yaml:{problem}")
    assert "; " in message
    assert "\n" not in message


def test_lines_and_columns_count_from_one_in_a_file_of_many_lines() -> None:
    assert failure(FULL.replace("{sleep: 0.2}", "{slep: 0.2}")).startswith("p.yaml:27:12: unknown action 'slep'")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(DocumentError, match=r"none\.yaml:1:1: the playbook can't be read \(No such file"):
        load(path)


def test_a_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r":1:1: the playbook can't be read \(Is a directory\); give"):
        load(tmp_path)


def test_bytes_that_are_not_utf8_are_told_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes("agents: {}\n# ü".encode() + b"\xff")
    with pytest.raises(DocumentError, match=r"p\.yaml:2:4: this is not UTF-8; save the file as UTF-8"):
        load(path)


@pytest.mark.parametrize("character", ["#", "ü"])
def test_a_huge_file_is_refused(tmp_path: Path, character: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("#" + character * (MAX_BYTES // len(character.encode())))
    with pytest.raises(DocumentError, match=r"p\.yaml:1:1: the playbook is larger than 1 MiB; make it smaller"):
        load(path)
    with pytest.raises(DocumentError, match="larger than 1 MiB"):
        parse(path.read_text(), "p")


def test_an_error_is_one_line_whatever_the_file_is_called() -> None:
    with pytest.raises(DocumentError) as caught:
        parse("", "a\nb")
    assert str(caught.value).startswith("a?b:1:1: ")


def test_an_alias_bomb_is_refused() -> None:
    levels = ", ".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 10)}]" for n in range(1, 10))
    message = failure(agent(f"{{note: {{k0: &k0 [x], {levels}}}}}"))
    assert re.match(r"p\.yaml:1:\d+: the aliases make this too large; write out", message)


def test_a_mapping_that_holds_itself_is_refused() -> None:
    assert failure(agent("{note: &n {a: *n}}")).startswith("p.yaml:1:41: nested deeper than 50 levels; make it")


def test_a_snapshot_is_read_as_strictly_as_a_file() -> None:
    with pytest.raises(DocumentError, match="unknown action 'fly'"):
        Playbook.from_json({"agents": {"a": [{"match": "x", "do": [{"fly": "high"}]}]}})


# Properties

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FILLED = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True).filter(lambda name: name not in ("human", "proxy"))
THREADS = FILLED.filter(lambda name: ":" not in name and name != "dispatcher")
WHOLE = st.integers(-(2**63), 2**63 - 1)  # a larger number is refused in every document
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def one(name: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: value})


def table(
    required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional or {})


AGENT_ACTIONS = st.one_of(
    one("write", table({"path": FILLED, "text": TEXTS})),
    one("shell", FILLED),
    one("send", table({"to": NAMES, "text": TEXTS}, {"as": THREADS})),
    one("send", table({"thread": FILLED, "text": TEXTS})),
    one("close", table({"thread": FILLED}) | table({"to": NAMES})),
    one("ask", table({"text": TEXTS})),
    one("assert", table({"artifact": FILLED, "text": TEXTS})),
    one("note", st.dictionaries(TEXTS, JSON, max_size=3)),
    one("outcome", st.dictionaries(TEXTS, JSON, max_size=3) | TEXTS),
    one("sleep", st.integers(0, 9) | st.floats(0, 9)),
    one("crash", st.sampled_from([1, 9, 11, 15])),
    one("say", TEXTS),
)
PROXY_ACTIONS = AGENT_ACTIONS | st.one_of(
    one("ask_human", TEXTS),
    one("ask_human", table({"text": TEXTS}, {"found": TEXTS, "would": TEXTS, "reason": TEXTS})),
    one("predict", table({"verdict": st.sampled_from(VERDICTS)}, {"confidence": st.floats(0, 1)})),
    one(
        "answer",
        table({"text": TEXTS}, {"verdict": st.sampled_from(VERDICTS), "confidence": st.floats(0, 1)}),
    ),
)
CONDITIONS = {
    "repeat": st.booleans(),
    "state": st.sampled_from(STATES),
    "visit": st.integers(1, 1000),
}
PATTERNS = TEXTS.map(re.escape)


def rules(actions: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(table({"match": PATTERNS, "do": st.lists(actions, max_size=4)}, CONDITIONS), max_size=3)


HUMAN_RULES = st.lists(
    table({"match": PATTERNS, "text": TEXTS}, {"verdict": st.sampled_from(VERDICTS), **CONDITIONS}).filter(
        lambda rule: rule.get("verdict") != "revise" or rule["text"].strip()
    ),
    max_size=3,
)
PLAYBOOKS = table(
    {"agents": st.dictionaries(NAMES, rules(AGENT_ACTIONS), max_size=3)},
    {"human": HUMAN_RULES, "proxy": rules(PROXY_ACTIONS)},
)


@given(PLAYBOOKS)
def test_what_is_written_as_yaml_is_read_the_same_and_survives_json(data: dict[str, Any]) -> None:
    book = parse(yaml.safe_dump(data), "p")
    snapshot = book.to_json()
    assert Playbook.from_json(json.loads(json.dumps(snapshot))) == book
    assert Playbook.from_json(data) == book
    for name, given_rules in data["agents"].items():
        assert [rule["do"] for rule in snapshot["agents"][name]] == [rule["do"] for rule in given_rules]


def complaint(text: str) -> str | None:
    try:
        parse(text, "p")
    except DocumentError as error:
        return str(error)
    return None


def is_one_line_with_a_place(message: str | None) -> bool:
    return message is None or re.fullmatch(r"[^\n]*:[1-9]\d*:[1-9]\d*: .+; .+", message) is not None


@given(st.text() | st.text("agents: {}[]\n-&*!|>'\"%,x#?<=~0.").map(lambda tail: f"agents: {tail}"))
def test_any_text_is_a_playbook_or_one_line_with_a_place(text: str) -> None:
    assert is_one_line_with_a_place(complaint(text))


@given(st.integers(0, len(FULL)), st.integers(0, 4), st.text(max_size=4))
def test_a_damaged_playbook_is_a_playbook_or_one_line_with_a_place(at: int, cut: int, put: str) -> None:
    assert is_one_line_with_a_place(complaint(FULL[:at] + put + FULL[at + cut :]))


@given(st.binary())
def test_any_file_is_a_playbook_or_one_line_with_a_place(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(content)
    message = None
    try:
        load(path)
    except DocumentError as error:
        message = str(error)
    assert is_one_line_with_a_place(message)
