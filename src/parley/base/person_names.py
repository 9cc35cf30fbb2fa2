"""What a person may be called: the name under which they answer for a job, in the record and on every face."""

from __future__ import annotations

import unicodedata

from parley.base.text import printable

LONGEST = 64  # characters
PARTS = ("human", "proxy", "orchestrator")  # who takes part in every job: no person is called so
STAND_IN = "human ("  # how the name begins of what answers in the human's place


class BadName(ValueError):
    """What is wrong with a person's name, in one line."""


def person_name(text: str) -> str:
    """A person's name, without the blanks around it; BadName if no person can be called so."""
    name = text.strip()
    if not name:
        raise BadName("a person needs a name; write one")
    if len(name) > LONGEST:
        raise BadName(f"a person's name has {LONGEST} characters at most, and this one has {len(name)}; shorten it")
    if printable(name) != name:
        raise BadName(
            f"{printable(name)} can't be a person's name: it has characters that can't be seen; leave them out"
        )
    if unicodedata.normalize("NFKC", name) != name:
        raise BadName(f"{name} can't be a person's name: it looks like another one; write it with plain letters")
    if name.casefold() in PARTS or name.casefold().startswith(STAND_IN):
        raise BadName(f"no person can be called {name!r}: a part of every job is called so; use another name")
    return name


def is_person_name(text: str) -> bool:
    """Whether a text is a person's name as it stands."""
    try:
        return person_name(text) == text
    except BadName:
        return False
