"""`make compiled`: plays the same simulated runs in both forms of Parley and compares what comes out.

A run of the simulator hangs on nothing but its seed, and the head of its job's chain on every row that was written: two
forms that come to the same heads did the same, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parent.parent
SEEDS = 300


def play(form: str, *paths: Path) -> list[str]:
    """The line of each seed, with Parley from the first of the paths that has it; it has to be in the form."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(path.resolve()) for path in (*paths, ROOT))}
    words = [sys.executable, "-m"]
    said = subprocess.run([*words, "parley", "--version"], env=env, capture_output=True, text=True, check=True).stdout
    if not said.endswith(f", {form}\n"):
        raise SystemExit(f"parley should be {form} here, and says: {said.strip()}")
    words += ["simulator", "--seeds", str(SEEDS), "--heads"]
    done = subprocess.run(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"a simulated run failed in the {form} form")
    return done.stdout.splitlines()


def main() -> int:
    """Compare, and name the first difference."""
    parser = argparse.ArgumentParser(prog="tools.compiled", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the compiled form is")
    options = parser.parse_args()
    plain, compiled = play("interpreted", ROOT / "src"), play("compiled", options.folder)
    for ours, theirs in zip_longest(plain, compiled):
        if ours != theirs:
            print(f"the forms differ:\n  interpreted: {ours}\n  compiled:    {theirs}", file=sys.stderr)
            return 1
    print(f"{SEEDS} simulated runs came to the same in both forms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
