"""A whole job by the real program, whose telemetry a collector of ours takes; and its rows, to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.features.telemetry.job_trace import JobTrace
from parley.features.telemetry.vocabulary import Names
from tests.cli.home import Home
from tests.telemetry.otlp_receiver import Receiver, Seen

HEADER_KEY = "collector-key-0123456789abcdef"
WORD = "Pomegranate"  # stands in all that a job may hold: no byte of it may be sent
PLAY = rf"""
human:
  - {{match: 'EXECUTE', state: EXECUTE, verdict: backtrack plan, text: "{WORD} anew"}}
  - {{match: '.', repeat: true, verdict: approve, text: '{WORD} yes'}}
agents:
  intent-lead:
    - match: '^\[INTENT\]'
      do:
        - {{usage: {{input_tokens: 100, cache_read_tokens: 11, output_tokens: 7, cost: 0.25}}}}
        - {{write: {{path: INTENT.md, text: "{WORD}"}}}}
        - {{assert: {{artifact: INTENT.md, text: "{WORD}?"}}}}
    - {{match: '^\[ANSWER approve\]', do: [{{outcome: {{outcome: APPROVED_INTENT, reason: "{WORD}"}}}}]}}
  project-lead:
    - match: '^\[PLAN\]'
      repeat: true
      do: [{{write: {{path: PLAN.md, text: "{WORD}"}}}}, {{assert: {{artifact: PLAN.md, text: "{WORD}?"}}}}]
    - match: '^\[ANSWER approve\]'
      state: PLAN
      repeat: true
      do: [{{outcome: {{outcome: APPROVED_PLAN, reason: "{WORD}"}}}}]
    - match: '^\[EXECUTE\]'
      visit: 1
      do: [{{send: {{to: coder, text: "{WORD} please"}}}}, {{send: {{to: tester, text: "{WORD} please"}}}}]
    - {{match: 'done', visit: 1, do: []}}
    - match: 'done'
      visit: 1
      do:
        - {{close: {{to: coder}}}}
        - {{close: {{to: tester}}}}
        - {{write: {{path: WORK_SUMMARY.md, text: "{WORD}"}}}}
        - {{assert: {{artifact: WORK_SUMMARY.md, text: "{WORD}?"}}}}
    - {{match: 'backtrack plan', do: [{{outcome: {{outcome: REPLAN, reason: "{WORD}"}}}}]}}
    - match: '^\[EXECUTE\]'
      visit: 2
      do: [{{write: {{path: WORK_SUMMARY.md, text: "{WORD}"}}}}, {{assert: {{artifact: WORK_SUMMARY.md, text: "?"}}}}]
    - {{match: '^\[ANSWER approve\]', state: EXECUTE, do: [{{outcome: {{outcome: APPROVED_WORK, reason: "{WORD}"}}}}]}}
  coder:
    - match: 'please'
      do: [{{shell: "echo {WORD} > {WORD}.txt"}}, {{send: {{to: tester, text: "{WORD}"}}}}, {{say: "done {WORD}"}}]
  tester:
    - {{match: 'please', do: [{{crash: 9}}]}}
    - {{match: 'please', do: [{{say: "done {WORD}"}}]}}
"""
# The worker is at work until it is ended: the owner is killed in that time, and so is the next one asked to stop.
KILLED = r"""
agents:
  intent-lead: [{match: '^\[INTENT\]', do: [{send: {to: researcher, text: "look"}}]}]
  researcher: [{match: 'look', do: [{shell: "true"}, {sleep: 600}]}]
"""


@dataclass
class Traced:
    """A job that has ended, and what was sent of it."""

    home: Home
    job: str
    to: Receiver
    spans: list[Seen]

    def named(self, name: str) -> list[Seen]:
        """Spans by the beginning of their names, in the order in which they began."""
        return sorted((one for one in self.spans if one.name.startswith(name)), key=lambda one: one.began)


def own_settings(home: Home, text: str) -> None:
    """Settings of the user's own."""
    folder = Path(f"{home.folder}.config")
    (folder / "parley").mkdir(parents=True)
    (folder / "parley/parley.toml").write_text(text, encoding="utf-8")
    home.environment["XDG_CONFIG_HOME"] = str(folder)


def read_again(home: Home, job: str) -> JobTrace:
    """The job's rows made into spans by this process."""
    store = SqliteStore(home.folder / ".parley")
    try:
        trace = JobTrace(store.load(job).row, Names())
        epochs = {row.number: row.epoch for row in store.transactions(job)}
        for step in store.steps(job):
            trace.read(step, epochs[step.transaction])
    finally:
        store.close()
    return trace
