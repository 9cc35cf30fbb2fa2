"""What the tests of the command runner share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Make stages that are cleared away at the end."""
    made: list[Stage] = []

    def make(agents: dict[str, Any], **more: Any) -> Stage:
        made.append(Stage(tmp_path, agents, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
