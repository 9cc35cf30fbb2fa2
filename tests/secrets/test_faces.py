"""Planted secrets are in no stream and in nothing that the faces show."""

from pathlib import Path

import pytest

from tests.cli.home import Home

PLANTED = {
    "in the request": "planted-request-0001",
    "in a message": "planted-message-0002",
    "in a progress line": "planted-progress-0003",
    "in a question": "planted-question-0004",
    "in a reason": "planted-reason-0005",
    "in an answer": "planted-answer-0006",
    "beyond the cut": f"planted-{'x' * 40}-0007",
}
KEY = "sk-ant-api03-planted-0008"
PLAYBOOK = rf"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {{shell: "echo {PLANTED["in a progress line"]} > /dev/null"}}
        - {{send: {{to: researcher, as: one, text: "use {PLANTED["in a message"]} and {KEY}"}}}}
    - match: 'found'
      do:
        - {{write: {{path: INTENT.md, text: "the key is {PLANTED["in a question"]}"}}}}
        - {{assert: {{artifact: INTENT.md, text: "may I use {PLANTED["in a question"]}?"}}}}
    - match: '\[ANSWER revise\]'
      do:
        - {{outcome: {{outcome: WITHDRAW, reason: "told {PLANTED["in a reason"]}"}}}}
        - {{ask: {{text: "still {PLANTED["in a reason"]}?"}}}}
    - {{match: '\[WITHDRAW\]', do: [{{outcome: {{outcome: WITHDRAW, reason: "told {PLANTED["in a reason"]}"}}}}]}}
  researcher:
    - match: 'use'
      do:
        - {{say: "found {"y" * 175} {PLANTED["beyond the cut"]}"}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write(".env", "".join(f"VALUE_{number}='{value}'\n" for number, value in enumerate(PLANTED.values())))
    return home


def clean(text: str) -> bool:
    """Neither a secret nor the half of one."""
    assert "planted-" not in text.replace("[redacted", ""), text
    return True


def test_no_stream_and_no_face_shows_a_planted_secret(home: Home) -> None:
    request = f"do it with {PLANTED['in the request']}"
    first = home.run("run", request, "--playbook", home.write("p.yaml", PLAYBOOK))
    assert first.code == 4, first
    question = home.question()
    seen = [first.out + first.err]
    looks = [["ls"], ["inbox"]]
    job = home.jobs()[0]["id"]
    looks += [["show", job], ["tree", job], ["log", job]]
    seen += [home.here(*look, *more).out for look in looks for more in ([], ["--json"])]
    home.here("answer", question, PLANTED["in an answer"], "--revise")
    seen.append(home.run("resume", job).out)
    seen.append(home.run("answer", home.question(), PLANTED["in an answer"], "--withdraw").out)
    seen.append(home.run("resume", job).out)
    seen += [home.here(*look, *more).out for look in looks for more in ([], ["--json"])]

    assert all(clean(text) for text in seen)
    assert home.jobs()[0]["state"] == "WITHDRAWN"
    assert any("[redacted VALUE_1]" in text for text in seen)
    assert any("[redacted VALUE_4]" in text for text in seen)
    assert any("[redacted anthropic-key]" in text for text in seen)
    streams = list((home.folder / ".parley/jobs" / job).rglob("*.jsonl"))
    assert streams
    assert all(clean(path.read_text(encoding="utf-8")) for path in streams)
    assert any("[redacted VALUE_2]" in path.read_text(encoding="utf-8") for path in streams)
    assert home.here("audit", job).code == 0


def test_a_secret_of_the_environment_is_known_by_its_name(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "environment-value-77")
    home.run("run", "use environment-value-77", "--playbook", home.write("p.yaml", PLAYBOOK))

    assert "use [redacted SOME_TOKEN]" in home.here("ls").out
