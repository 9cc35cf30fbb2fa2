"""`python -m parley`. Ctrl-C is taken care of before anything else is imported."""

import sys

from parley.faces import interrupt


def main() -> int:
    """Run one command; the exit code."""
    interrupt.watch()
    from parley.faces import cli  # noqa: PLC0415 - it takes a while, and Ctrl-C may come meanwhile

    return interrupt.run(cli.main)


if __name__ == "__main__":
    sys.exit(main())
