"""`python -m parley`. Ctrl-C is taken care of before anything else is imported."""

import sys

from parley.cli import ctrl_c


def main() -> int:
    """Run one command; the exit code."""
    ctrl_c.watch()
    from parley.cli.main import main as run_command  # noqa: PLC0415 - it takes a while, and Ctrl-C may come meanwhile

    return ctrl_c.run(run_command)


if __name__ == "__main__":
    sys.exit(main())
