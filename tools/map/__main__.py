"""`make map`: draws docs/map.md; with --check it says instead whether the page is what would be drawn."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from tools.map.page import page

PAGE = Path(__file__).parents[2] / "docs" / "map.md"


def main() -> int:
    """Draw the page, or compare it; the exit code."""
    parser = argparse.ArgumentParser(prog="tools.map", description=__doc__)
    parser.add_argument("--check", action="store_true", help="leave the page alone; fail where it has drifted")
    options = parser.parse_args()
    drawn = page()
    if not options.check:
        PAGE.write_text(drawn, encoding="utf-8")
        print(f"drew {PAGE.name}")
        return 0
    there, now = PAGE.read_text(encoding="utf-8").splitlines(), drawn.splitlines()
    drift = list(difflib.unified_diff(there, now, "docs/map.md", "what `make map` draws", n=0, lineterm=""))
    if drift:
        print("\n".join(["docs/map.md has drifted from the code; draw it anew with `make map`:", *drift]))
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
