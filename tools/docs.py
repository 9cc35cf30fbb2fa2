"""`make docs`: refreshes the blocks of docs/rules.md that are made from the code's own tables."""

from __future__ import annotations

from pathlib import Path

from parley.core.catalogue import fill

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"refreshed {PAGE.name}")


if __name__ == "__main__":
    main()
