"""Parley's distribution, `parley-cfa`: the command `parley` starts here, in a package that no other project has.

The name `parley` on the package registry is another project's. Where that package is installed over ours, `import
parley` finds the wrong one; this module says so instead of failing with a traceback.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; the exit code."""
    try:
        from parley.cli import ctrl_c

        ctrl_c.watch()  # before the rest is imported, which takes a while
        from parley.cli.main import main as run
    except Exception:
        from parley_cfa.installation import find_stranger, read

        stranger = find_stranger()
        if stranger is None:
            raise
        print(f"parley: {stranger}: {read().without_stranger()}", file=sys.stderr)
        return 1
    return ctrl_c.run(run)
