"""The user's consent to what a place's own files ask for, given by `parley trust --yes`."""

from collections.abc import Mapping
from pathlib import Path

from tests.cli.fork_server import run_parley


def allow(folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Say `parley trust --yes` in a folder."""
    done = run_parley(["trust", "--yes"], folder, environment)
    assert done.returncode == 0, done
