"""What is said of a PostgreSQL bus that fails: one line, with what to do."""

from __future__ import annotations

import re

import psycopg

from parley.base.text import cut
from parley.bus.rows import BusError, Duplicate, LostOwnership

_LONGEST = 300  # characters of what the server says
_NOTHING = "nothing of it was written"

# The codes of schema.sql's functions.
LOST, OUT_OF_ORDER, NOT_OUT, NO_INPUT, OTHER_SCHEMA, NO_JOB, JOB_KNOWN, KEY_USED = (
    f"PY00{number}" for number in range(1, 9)
)

_CAUSES = (
    ("28", "the server refuses this user; see to the user and the password in your own settings"),
    ("3D000", "the server has no such database; make it, or name another in your own settings"),
    ("42501", "this user may not do that; let the database's owner grant it (see docs/postgres.md)"),
    ("53100", "the server's disk is full; nothing of this was written: free some space and go on with the job"),
    ("53", "the server has no room left for this; nothing of it was written: see to it and go on with the job"),
    ("55P03", "another process holds the bus too long; end that process, or try again"),
    ("57014", "the server cancelled it; nothing of it was written"),
    ("25006", "the server only lets it be read: it is a standby, or its database is read-only; name the primary"),
)  # fmt: skip

# What the server or libpq says when it does not let a client in. Neither gives a code for it. Where a server speaks
# another language, the same is told once it was waited for as if it were away.
_REFUSAL = re.compile(
    r"authentication failed|pg_hba\.conf|no password supplied|certificate|does not match host name|does not support SSL"
    r"|(role|database) .* does not exist|is not permitted to log in|permission denied"
)


def is_refusal(error: psycopg.Error) -> bool:
    """Whether a server that could not be connected with is there, and refuses, or is not the one that was meant."""
    return (error.sqlstate or "").startswith(("28", "3D", "42")) or _REFUSAL.search(str(error)) is not None


def refused(error: Exception, where: str) -> BusError:
    """Say that the server does not let this process in."""
    return BusError(
        f"{where}: the PostgreSQL server can't be used; see to the user, the password and the certificates in your own "
        f"settings ({one_line(error)})"
    )


def explain(error: Exception, where: str) -> BusError:
    """Say in one line what is wrong with the bus and what to do."""
    said = one_line(error)
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    if code == LOST:
        return LostOwnership("another owner has taken the job, or this process's lease has ended; nothing was written")
    if code == OTHER_SCHEMA:
        return BusError(
            f"{where}: another Parley has brought it to schema {said} meanwhile; update Parley, and start anew"
        )
    if isinstance(error, psycopg.errors.UniqueViolation):
        return Duplicate(f"{where}: the bus has this already; {_NOTHING} ({said})")
    for start, cause in _CAUSES:
        if code.startswith(start):
            return BusError(f"{where}: {cause} ({said})")
    return BusError(f"{where}: the bus refused it; {_NOTHING} ({code or type(error).__name__}: {said})")


def unreachable(error: Exception, where: str) -> BusError:
    """Say that the server does not answer."""
    return BusError(
        f"{where}: the PostgreSQL server can't be reached; what was committed stands: see that it runs, and that the "
        f"address in your own settings is right ({one_line(error)})"
    )


def one_line(error: Exception) -> str:
    """What an error says, in one line."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return cut(" ".join((primary or str(error) or type(error).__name__).split()), _LONGEST)
