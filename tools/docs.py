"""`make docs`: refreshes what the pages show of the code: rules, escapes, roles, and the help of every command."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout
from pathlib import Path

from parley.cli import MODULES
from parley.cli.main import main as parley
from parley.roles import shipped
from parley.sandbox.inside.attempts import ATTEMPTS
from tools.catalogue import BLOCK, fill

DOCS = Path(__file__).parent.parent / "docs"


def attempts_table() -> str:
    """The escapes that are tried, with what each does."""
    rows = [f"| `{attempt.__name__}` | {(attempt.__doc__ or '').strip()} |" for attempt in ATTEMPTS]
    return "\n".join(["| attempt | what it does |", "| --- | --- |", *rows])


def fill_boundary(text: str) -> str:
    """The boundary's page with its table made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{attempts_table()}\n\n{found[3]}", text)


def fill_help(text: str) -> str:
    """The page with the help of each command as it is; a command that it lacks comes at the end."""
    for command in ("", *MODULES):
        words = [command, "--help"] if command else ["--help"]
        start = f"$ parley {' '.join(words)}\n"
        said = io.StringIO()
        with redirect_stdout(said):
            parley(words)
        if start not in text:
            text = f"{text.rstrip()}\n\n### {command}\n\n```\n{start}```\n"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{said.getvalue()}```{rest.partition('```')[2]}"
    return text


def roles_table() -> str:
    """The roles that come with Parley."""
    rows = [
        f"| `{role.name}` | {role.description} | {', '.join(sorted(role.team)) or '-'} | {', '.join(role.tools)} |"
        for role in shipped().values()
    ]
    return "\n".join(["| role | what it does | team | tools |", "| --- | --- | --- | --- |", *rows])


def fill_roles(text: str) -> str:
    """The roles' page with its table made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{roles_table()}\n\n{found[3]}", text)


PAGES = {"rules.md": fill, "boundary.md": fill_boundary, "cli.md": fill_help, "roles.md": fill_roles}


def main() -> None:
    """Write the pages anew."""
    os.environ.pop("COLUMNS", None)
    for name, refresh in PAGES.items():
        page = DOCS / name
        page.write_text(refresh(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"refreshed {page.name}")


if __name__ == "__main__":
    main()
