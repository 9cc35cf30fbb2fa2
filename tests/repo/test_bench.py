"""The bench can still measure: it stands outside of what the suites run, and would break unseen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.label_heights import spread
from bench.versions import forms_of

ROOT = Path(__file__).parents[2]


def test_conversations_go_on_for_as_long_as_they_are_measured(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.conversations", "--seconds", "0.5", "--dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["round_trips"] > 0


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
