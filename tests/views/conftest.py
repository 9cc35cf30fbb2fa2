"""One real job that has seen much, for all tests of the views: they read it and change nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.views.history.job_index import JobIndex
from parley.views.history.turn_work import TurnStreams
from tests.cli.home import Home
from tests.workspaces.user_repository import git, write

# A plan that is revised, a way back from the work, a coder that dies once, two whose changes meet in one line,
# a question in words, and in the end a gate that waits for the human.
MUCH = r"""
human:
  - {match: "INTENT.md", verdict: approve, text: "yes, that"}
  - {match: "which colour", text: "blue"}
  - {match: "sound", verdict: revise, text: "say how it is tested"}
  - {match: "now", verdict: approve, text: "good"}
  - {match: "go on like this", verdict: backtrack plan, text: "plan the colours too"}
  - {match: "again sound", verdict: approve, text: "good again"}
proxy:
  - match: 'sound'
    do:
      - {predict: {verdict: approve, confidence: 0.6}}
      - {ask_human: {text: "look at the tests", found: "no tests", would: revise, confidence: 0.7, reason: "untested"}}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: INTENT.md, text: "a till\n"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "clear"}}]}
  project-lead:
    - match: '\[PLAN\]'
      visit: 1
      do:
        - {usage: {input_tokens: 900, output_tokens: 100, cost: 0.02}}
        - {write: {path: PLAN.md, text: "plan\n"}}
        - {assert: {artifact: PLAN.md, text: "is it fine?"}}
    - match: '\[ANSWER revise\]'
      do: [{write: {path: PLAN.md, text: "plan and test\n"}}, {assert: {artifact: PLAN.md, text: "and now?"}}]
    - {match: '\[ANSWER approve\]', state: PLAN, repeat: true, do: [{outcome: {outcome: APPROVED_PLAN, reason: ok}}]}
    - {match: '\[EXECUTE\]', visit: 1, do: [{ask: {text: "shall I go on like this?"}}]}
    - {match: '\[ANSWER backtrack plan\]', do: [{outcome: {outcome: REPLAN, reason: "no colours yet"}}]}
    - match: '\[PLAN\]'
      visit: 2
      do: [{write: {path: PLAN.md, text: "plan, test, colour\n"}}, {assert: {artifact: PLAN.md, text: "again sound?"}}]
    - match: '\[EXECUTE\]'
      visit: 2
      do:
        - {send: {to: coder, as: one, text: "task one"}}
        - {send: {to: coder, as: two, text: "task two"}}
    - {match: 'first is ready', do: [{close: {thread: one}}]}
    - {match: 'second is ready', do: [{close: {thread: two}}]}
    - match: '\[MERGE conflict\]'
      do:
        - {write: {path: till.py, text: "both\n"}}
        - {write: {path: WORK_SUMMARY.md, text: "work\n\n## Assumptions\n- none\n"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "is the work good?"}}
  coder:
    - {match: 'task one', do: [{write: {path: half.txt, text: "half\n"}}, {crash: 9}]}
    - match: 'task one'
      do: [{shell: "echo one > till.py; seq 30"}, {write: {path: ../out.txt, text: "no"}}, {say: "first is ready"}]
    - {match: 'task two', do: [{ask: {text: "which colour?"}}]}
    - {match: '\[ANSWER\]', do: [{write: {path: till.py, text: "two\n"}}, {say: "second is ready"}]}
"""
MUCH = MUCH.replace('"is it fine?"', '"is it sound?"')


@dataclass(frozen=True, repr=False)
class Seen:
    """The job, and all that a view is given of it."""

    home: Home
    store: SqliteStore
    row: JobRow

    @property
    def job(self) -> str:
        return self.row.job

    @property
    def folder(self) -> Path:
        return self.home.folder / ".parley" / "jobs" / self.job

    def index(self) -> JobIndex:
        made = JobIndex(self.store, self.row)
        made.read()
        return made

    def streams(self) -> TurnStreams:
        return TurnStreams(self.folder)


def repository(folder: Path) -> Home:
    """A user's repository with one file in it."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    write(folder, {"till.py": "till\n"})
    git(folder, "config", "user.name", "Someone")
    git(folder, "config", "user.email", "someone@example.org")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "A till")
    return Home(folder)


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """A job that waits at the work gate, after all that happened to it."""
    home = repository(tmp_path_factory.mktemp("views") / "work")
    done = home.run("run", "a till with colours", "--playbook", home.write("p.yaml", MUCH), "--json")
    assert done.code == 4, done
    store = SqliteStore(home.folder / ".parley")
    (row,) = store.jobs()
    yield Seen(home, store, row)
    store.close()
