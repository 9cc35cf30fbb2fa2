"""The forms of names and ids in a workflow: one definition for every file, tool and command.

All readers accept and refuse the same, in the same words. So a value that passes the design check can't stop an agent
later.
"""

from __future__ import annotations

import re

from parley.base.options import JUDGEMENTS
from parley.protocol.molecules import AGENT_NAME, LONGEST_NAME

LONGEST_SLUG = 64
SLUG_FORM = f"a slug of up to {LONGEST_SLUG} small letters, digits, _ and -, as in user_management"
TASK_ID_FORM = "a slug, _ and Unix seconds, as in create_user_table_1727539200 or create-user-table_1727539200"
NAME_FORM = f"a small letter, then small letters, digits, _ and -, up to {LONGEST_NAME} in all"
NOTE_ID_FORM = "note_001, note_002, …"
VERDICTS = JUDGEMENTS  # of a verifier

_SLUG = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")
_TASK_ID = re.compile(r"(.+)_[0-9]{9,10}")
_NOTE_ID = re.compile(r"note_[0-9]{3,4}")


def is_slug(text: str) -> bool:
    """Whether a text can name a task, and with it files: words of letters and digits, one _ or - between two."""
    return len(text) <= LONGEST_SLUG and _SLUG.fullmatch(text) is not None


def is_task_id(text: str) -> bool:
    """Whether a text is the id of a worker's task: `{slug}_{Unix seconds}`."""
    found = _TASK_ID.fullmatch(text)
    return found is not None and is_slug(found[1])


def is_name(text: str) -> bool:
    """Whether a text can be an agent's name."""
    return AGENT_NAME.fullmatch(text) is not None


def is_note_id(text: str) -> bool:
    """Whether a text can name a note of a session."""
    return _NOTE_ID.fullmatch(text) is not None
