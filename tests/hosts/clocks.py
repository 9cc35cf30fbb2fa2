"""Clocks that are off, by libfaketime."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.home import Home
from tests.hosts.many_hosts import CI

AHEAD, BEHIND = "+600", "-600"  # seconds


def clock(off: str) -> dict[str, str]:
    """The variables that set a program's clock off, and its children's."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        line = "faketime is missing, and the tests of clocks with it: `make system` installs it"
        if CI:
            pytest.fail(line)
        pytest.skip(line)
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": off,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # it is no clock that can be set
        "PYTHONPATH": str(Path(__file__).with_name("set_off_python")),
    }


@contextmanager
def set_off(home: Home, off: str) -> Iterator[None]:
    """What a home starts has a clock that is off."""
    variables = clock(off)
    home.environment.update(variables)
    try:
        yield
    finally:
        for variable in variables:
            del home.environment[variable]
