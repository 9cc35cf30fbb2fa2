"""The bench can still measure: it stands outside of what the suites run, and would break unseen."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bench.label_heights import spread
from bench.page_clients import Client, Part, parts_of
from bench.report import Section, put_sections
from bench.versions import forms_of
from parley.audit.audit import audit, read_anchor
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.views.job_view import Present

ROOT = Path(__file__).parents[2]


def test_conversations_go_on_for_as_long_as_they_are_measured(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.conversations", "--seconds", "0.5", "--dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["round_trips"] > 0


def test_a_huge_job_is_made_by_the_rules_with_backtracks_behind_it_and_questions_before_the_human(
    tmp_path: Path,
) -> None:
    words = [sys.executable, "-m", "bench.big_job", str(tmp_path / "shop"), "--instances", "60", "--steps", "1500"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    told, home = json.loads(done.stdout), tmp_path / "shop" / ".parley"
    with closing(SqliteStore(home)) as store:
        present = Present(store, told["job"])
        kinds = {asked.kind for asked in present.questions()}
        anchor = read_anchor((home / "jobs" / told["job"] / "state.json").read_text("utf-8"))
        report = audit(store, told["job"], anchor)
    assert (report.ok, report.steps) == (True, told["steps"])
    assert (told["state"], present.row.backtracks, told["instances"]) == ("EXECUTE", 2, 60)
    assert kinds == {"assert", "question"}
    assert told["at work"] > 0


def test_the_parts_of_a_page_are_those_that_follow_a_jobs_record() -> None:
    page = """<section data-live="job:r:j" hx-get="/a?x=1&amp;y=2" data-every="700"></section>
    <section data-live="job:r:j" data-on="work" hx-get="/b"></section><section hx-get="/c"></section>"""

    assert parts_of(page) == [Part("/a?x=1&y=2", 0.7)]


def test_a_page_has_seen_a_commit_once_each_part_was_asked_for_after_its_event() -> None:
    client = Client("http://localhost", "", [Part("/a"), Part("/b")])
    client.events = [1.0, 5.0]
    client.fetched = {"/a": [(1.1, 1.2), (5.1, 5.2)], "/b": [(4.9, 5.3)]}

    assert client.seen_after(6.0) is None
    assert client.seen_after(4.0) is None  # the second part was asked for before the event
    client.fetched["/b"].append((5.5, 5.75))
    assert client.seen_after(4.5) == (0.5, [pytest.approx(0.7), 1.25])


def test_sections_take_the_place_of_those_with_their_titles_and_nothing_else_changes() -> None:
    page = "# Page\n\nWords.\n\n## One\n\n| a |\n\n## Two\n\n| b |\n"
    new = put_sections(page, [Section("One", ["", "n"], [["x", 1]])])

    assert new.startswith("# Page\n\nWords.\n\n## One\n\n|")
    assert new.endswith("\n\n## Two\n\n| b |\n")
    assert "| a |" not in new
    assert put_sections(new, [Section("One", ["", "n"], [["x", 1]])]) == new
    assert put_sections(page, [Section("Three", ["", "n"], [["x", 1]])]).startswith(f"{page}\n## Three\n")


def test_another_checkout_is_measured_by_its_own_bench_in_each_form_that_it_has(tmp_path: Path) -> None:
    for name in ("bench", "src/parley", ".compiled/parley"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bench" / "conversations.py").touch()

    plain, compiled = forms_of(tmp_path)

    assert (plain.root, plain.paths) == (tmp_path, (tmp_path / "src", tmp_path))
    assert (compiled.root, compiled.paths) == (tmp_path, (tmp_path / ".compiled", tmp_path))


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no checkout of Parley"):
        forms_of(tmp_path)


@pytest.mark.parametrize(
    "heights, moved",
    [
        ([], []),
        ([0, 50], [0, 50]),
        ([10, 10], [5, 15]),
        ([0, 40, 41, 100], [0, 35.5, 45.5, 100]),
        ([10, 10, 10, 21], [-2.25, 7.75, 17.75, 27.75]),
    ],
)
def test_names_of_curves_are_moved_apart_and_no_further(heights: list[float], moved: list[float]) -> None:
    assert spread(heights, 10) == moved
