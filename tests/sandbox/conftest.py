import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.sandbox import Boundary
from tests.sandbox.cage_harness import CageHarness, lay_out


@pytest.fixture(scope="session")
def boundary() -> Iterator[Boundary]:
    boundary = Boundary()
    yield boundary
    boundary.close()


@pytest.fixture
def yard(boundary: Boundary) -> Iterator[CageHarness]:
    """In a place that every user can reach: only the cage may be in the way."""
    with tempfile.TemporaryDirectory(prefix="parley-yard-") as folder:
        Path(folder).chmod(0o777)
        yield lay_out(Path(folder), boundary)
