"""What agents write is read in proportion to its length: no line of theirs keeps the engine or a command waiting."""

import time
from collections.abc import Callable

import pytest

from parley.views.job_result import assumptions
from parley.workflow.design.instructions import _title, _without_comments
from parley.workflow.design.placeholders import lines_unwritten, unwritten

LENGTH = 100_000
READERS: dict[str, Callable[[str], object]] = {
    "a summary": lambda text: list(assumptions(text)),
    "a heading": _title,
    "comments": _without_comments,
    "placeholders": lines_unwritten,
}
TEXTS = [
    f"# a{' ' * LENGTH}b",
    f"# a{' #' * LENGTH}b",
    f"**{'** ' * LENGTH}b",
    "<!--" * LENGTH,
    "\n" * LENGTH + "b",
    "." * LENGTH + "b",
    ".\n" * LENGTH + "b",
    "… " * LENGTH + "b",
    "TBD\n" * LENGTH,
    "to" + " " * LENGTH,
]


@pytest.mark.parametrize("name", READERS)
def test_a_long_text_is_read_once(name: str) -> None:
    begun = time.thread_time()
    for text in TEXTS:
        READERS[name](text)
    assert time.thread_time() - begun < 5  # each of these took minutes


@pytest.mark.parametrize(
    "line, title",
    [
        ("# Inputs", "Inputs"),
        ("   ## Inputs and outputs ##  ", "Inputs and outputs"),
        ("**Inputs**:", "Inputs"),
        ("# C#", "C"),
        ("#", None),
        ("# ", None),
        ("#Inputs", None),
        ("    # Inputs", None),
        ("**Inputs** are these", None),
    ],
)
def test_a_heading_is_known(line: str, title: str | None) -> None:
    assert _title(line) == title


def test_comments_go_and_lines_stay() -> None:
    assert _without_comments("a<!-- b\nc -->d\n<!-- e") == "a\nd\n<!-- e"


@pytest.mark.parametrize(
    "text, found",
    [("a\n ... \nb", "..."), ("- …", "- …"), ("wait ... for it", ""), ("…a", ""), ("to be\ndecided", "to be decided")],
)
def test_a_line_of_dots_is_not_written_yet(text: str, found: str) -> None:
    assert unwritten(text) == found
