"""What the tests of the command runner share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command.command_harness import CommandHarness


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., CommandHarness]]:
    """Make stages that are cleared away at the end."""
    made: list[CommandHarness] = []

    def make(agents: dict[str, Any], **more: Any) -> CommandHarness:
        made.append(CommandHarness(tmp_path, agents, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
