"""Times as the files of a workflow write them: UTC, to the second."""

from __future__ import annotations

from datetime import UTC, datetime

LAST = 253402300799  # the last second of the year 9999
_FORM = "%Y-%m-%dT%H:%M:%SZ"


def moment(time: int) -> str:
    """A time for people and programs. What no calendar holds is shown as the nearest that one does."""
    return datetime.fromtimestamp(min(max(time, 0), LAST), UTC).strftime(_FORM)


def time_of(text: str) -> int:
    """The time that a moment names; ValueError if it names none."""
    return int(datetime.strptime(text, _FORM).replace(tzinfo=UTC).timestamp())
