"""The user's consent to what a place's own files ask for, given by `parley trust --yes`."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PARLEY = Path(sys.executable).with_name("parley")


def allow(folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Say `parley trust --yes` in a folder."""
    words = [str(PARLEY), "trust", "--yes"]
    done = subprocess.run(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
