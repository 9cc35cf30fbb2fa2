from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from parley.sandbox import Boundary
from tests.apis.messages import Script, Turn
from tests.claude.claude_harness import ClaudeHarness, claude_harness

Perform = Callable[..., ClaudeHarness]


@pytest.fixture(scope="session")
def boundary() -> Iterator[Boundary]:
    boundary = Boundary()
    yield boundary
    boundary.close()


@pytest.fixture
def perform(tmp_path: Path, boundary: Boundary) -> Iterator[Perform]:
    """Put an instance on stage whose model plays these turns."""
    with ExitStack() as stack:

        def perform(*turns: Turn, **settings: Any) -> ClaudeHarness:
            return stack.enter_context(claude_harness(tmp_path, boundary, Script({"coder": turns}), **settings))

        yield perform
