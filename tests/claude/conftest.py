from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.boundary import Boundary
from tests.apis.messages import Script, Turn
from tests.claude.stage import Stage, staged

Perform = Callable[..., Stage]


@pytest.fixture(scope="session")
def boundary() -> Iterator[Boundary]:
    boundary = Boundary()
    yield boundary
    boundary.close()


@pytest.fixture
def perform(tmp_path: Path, boundary: Boundary) -> Iterator[Perform]:
    """Put an instance on stage whose model plays these turns."""
    with ExitStack() as stack:

        def perform(*turns: Turn, **settings: Any) -> Stage:
            return stack.enter_context(staged(tmp_path, boundary, Script({"coder": turns}), **settings))

        yield perform
