"""`make docs`: refreshes the blocks of the docs that are made from the code's own tables."""

from __future__ import annotations

from pathlib import Path

from parley.adapters.boundary.attempts import ATTEMPTS
from parley.core.catalogue import BLOCK, fill

DOCS = Path(__file__).parent.parent / "docs"


def attempts_table() -> str:
    """The escapes that are tried, with what each does."""
    rows = [f"| `{attempt.__name__}` | {(attempt.__doc__ or '').strip()} |" for attempt in ATTEMPTS]
    return "\n".join(["| attempt | what it does |", "| --- | --- |", *rows])


def fill_boundary(text: str) -> str:
    """The boundary's page with its table made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{attempts_table()}\n\n{found[3]}", text)


PAGES = {"rules.md": fill, "boundary.md": fill_boundary}


def main() -> None:
    """Write the pages anew."""
    for name, refresh in PAGES.items():
        page = DOCS / name
        page.write_text(refresh(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"refreshed {page.name}")


if __name__ == "__main__":
    main()
