"""What a job hands over at its end: what changed, what it cost, what was assumed."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli.common import Workplace
from parley.cli.results.delivered import cost_words, delivered, lines
from parley.ports.workspaces import Change
from parley.views.job_result import assumptions, delivery
from parley.workspaces import JobWorkspaces
from tests.cli.home import APPROVES, LEADS, Home

SUMMARY = (
    r"# Work\n\nDone.\n\n## Assumptions\n\n- UTF-8 is read.\n- The token is planted-in-env-1\n  and it wraps.\n\n"
    r"## Left out\n- x\n"
)
DONE = APPROVES + LEADS.replace('text: "work"', f'text: "{SUMMARY}"')


def test_the_end_says_what_it_cost_and_what_was_assumed(home: Home) -> None:
    home.write(".env", "PLANTED=planted-in-env-1\n")
    done = home.run("run", "a request", "--playbook", home.write("p.yaml", DONE))

    assert done.code == 0
    assert "no file changed\nwhat it cost\n  9 turns\n" in done.out
    assert "what was assumed\n  - UTF-8 is read.\n  - The token is [redacted PLANTED] and it wraps.\n" in done.out
    assert "planted-in-env-1" not in done.out
    job = home.jobs()[0]["id"]
    shown = home.here("show", job, "--json").document["delivery"]
    assert shown["assumptions"] == ["UTF-8 is read.", "The token is [redacted PLANTED] and it wraps."]
    assert shown["cost"]["turns"] == 9
    assert shown["commands"] == [f"parley diff {job} --all", f"parley continue {job}"]
    assert "has changed no files; --all shows what it wrote" in home.here("diff", job).err
    assert home.here("merge", job).out == f"there is nothing to merge: {job} has changed no files\n"
    assert "what was assumed\n" in home.here("show", job).out


def test_a_job_that_is_not_done_hands_nothing_over(waiting: Home) -> None:
    assert waiting.here("show", waiting.jobs()[0]["id"], "--json").document["delivery"] is None


class Changed(JobWorkspaces):
    """A workspace whose job has changed files."""

    def changes(self, job: str, tree: str = "", *, whole: bool = False) -> list[Change]:
        return [Change("logo.png", None, None), *(Change(f"src/{number}.py", number, 1) for number in range(30))]


def test_changes_are_counted_and_the_longest_list_is_cut(home: Home, tmp_path: Path) -> None:
    job = home.start(DONE)
    store = SqliteStore(home.folder / ".parley")
    try:
        found = delivered(store, Changed(tmp_path), job, tmp_path, str)
    finally:
        store.close()
    document, text = found.document(), lines(found, Workplace(home.folder, home.folder / ".parley"))

    assert (document["added"], document["removed"], len(document["changes"])) == (435, 30, 31)
    assert text[0] == "what changed"
    assert text[1].split() == ["logo.png", "not", "text"]
    assert text[2].split() == ["src/0.py", "+0", "-1"]
    assert text[21:23] == ["  … and 11 more", "  31 files, 435 lines added, 30 removed"]


def test_a_summary_that_is_no_ordinary_file_is_not_read(home: Home, tmp_path: Path) -> None:
    job = home.start(DONE)
    (tmp_path / "secret.md").write_text("# Assumptions\n- outside\n")
    (tmp_path / "WORK_SUMMARY.md").symlink_to(tmp_path / "secret.md")
    store = SqliteStore(home.folder / ".parley")
    try:
        assert delivery(store, JobWorkspaces(tmp_path), job, tmp_path).assumptions == ()
    finally:
        store.close()


def test_assumptions_are_items_or_paragraphs_of_that_section_alone() -> None:
    text = (
        "## Notes\n- no\n### Assumptions made ###\n1. one\n   goes on\n2) two\n\nThree is\na paragraph.\n"
        "#### Deeper\n* four\n### Next\n- no\n"
    )

    assert list(assumptions(text)) == ["one goes on", "two", "Three is a paragraph.", "four"]
    assert list(assumptions("# Assumptions\nNone.\n")) == []
    assert list(assumptions("# Other\n- x\n")) == []


@given(st.text(max_size=300))
def test_any_summary_can_be_read(text: str) -> None:
    for found in assumptions(f"# Assumptions\n{text}"):
        assert found
        assert len(found) <= 300
        assert "\n" not in found


def test_cost_is_told_in_turns_tokens_and_money() -> None:
    cost = {"turns": 1, "input_tokens": 12000, "output_tokens": 0, "cost_usd": 0.5, "context_used": 0.9, "minutes": 3}

    assert cost_words(cost) == "1 turn; tokens 12,000 in; 0.50 USD; 3 minutes"
