"""What a person is shown who is to answer: the artifact, what changed, and what the proxy thinks of it."""

from pathlib import Path

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.machine.job_files import JobFiles
from parley.ports.decisions import Decided
from parley.views.history.job_index import JobIndex
from parley.views.questions.gate_view import GatePage, gate_page, recalled_decision
from parley.views.questions.needs import needs
from parley.workspaces import JobWorkspaces
from tests.cli.home import Home
from tests.views.conftest import MUCH, Seen, repository

# The same job, but a real human looks at the plan.
ASKS = MUCH.replace('  - {match: "sound", verdict: revise, text: "say how it is tested"}\n', "").replace(
    '  - {match: "now", verdict: approve, text: "good"}\n', ""
)


def page_of(home: Home, *, indexed: bool = True) -> GatePage:
    store = SqliteStore(home.folder / ".parley")
    try:
        (need,) = [need for need in needs(store, JobFiles(home.folder / ".parley")) if need.asked is not None]
        (row,) = store.jobs()
        index = JobIndex(store, row)
        index.read()
        texts = JobWorkspaces(home.folder / ".parley", home.folder)
        page = gate_page(store, need, texts, str, index=index if indexed else None)
        assert page is not None
        return page
    finally:
        store.close()


def test_the_work_gate_shows_what_the_job_changed_and_who_may_answer(seen: Seen) -> None:
    page = page_of(seen.home)

    assert page.asked.artifact == "WORK_SUMMARY.md"
    assert page.may_answer == (seen.row.decider,)
    assert page.stat is not None
    assert page.stat.files == 1
    assert page.exhibit.changed is not None
    assert "+both" in page.exhibit.changed
    assert {choice.ruling for choice in page.choices.values()} >= {"approve", "revise", "withdraw", "backtrack plan"}


def test_a_gate_shows_what_the_proxy_thinks_and_after_a_revise_what_changed(tmp_path: Path) -> None:
    home = repository(tmp_path / "asked")
    job = home.start(ASKS)

    for indexed in (True, False):
        page = page_of(home, indexed=indexed)
        proxy = page.proxy
        assert (page.kind, page.exhibit.content, page.exhibit.seen) == ("gate", "plan\n", None)
        assert proxy.found == "no tests"
        assert proxy.would is not None
        assert (proxy.would.verdict, proxy.would.confidence, proxy.would.reason) == ("revise", 0.7, "untested")
        assert proxy.predicted is not None
        assert proxy.predicted.verdict == "approve"
        assert proxy.has_view
        assert proxy.why_asked

    assert home.run("answer", home.question(), "say how it is checked", "--revise").code == 0
    assert home.run("resume", job).code == 4

    after = page_of(home).exhibit
    assert after.content == "plan and test\n"
    assert after.seen is not None
    assert after.seen.ruling == "revise"
    assert after.changed is not None
    assert {"-plan", "+plan and test"} <= set(after.changed.splitlines())


def test_a_decision_that_was_recalled_is_told_or_said_to_be_forgotten() -> None:
    known = Decided(
        time=1.0, human="me", repository="r", job="j", question="q", framing="", state="PLAN", kind="assert", asked="?"
    )

    assert recalled_decision("d1", known).about == "assert"
    assert not recalled_decision("d1", None).known
