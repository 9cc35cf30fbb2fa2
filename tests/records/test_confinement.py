"""An audit tells how the agents of a job were confined, and what the user exempted."""

from typing import Any

import pytest

from parley.engine.confinement import Confinement

HELD = {"ok": True, "held": 49, "tried": 49, "exemptions": []}


def counted(*verdicts: object) -> Confinement:
    found = Confinement()
    for verdict in verdicts:
        found.take(verdict)
    return found


def test_turns_are_counted_by_what_stood_around_them() -> None:
    found = counted(HELD, HELD, {**HELD, "accepted": "none"}, {**HELD, "ok": False})

    assert found.document() == {"held": 2, "failed": 1, "without": 1, "exemptions": []}
    assert found.lines() == [
        "2 turns were behind a boundary that held",
        "1 turn was without a boundary, which the settings accept",
        "1 turn was lost to a boundary that did not hold",
    ]


def test_exemptions_are_named() -> None:
    found = counted({**HELD, "exemptions": ["udp"]}, {**HELD, "exemptions": ["landlock", "udp"]})

    assert found.lines() == ["2 turns were behind a boundary that held, exempt by the settings: landlock, udp"]


@pytest.mark.parametrize("odd", [None, [], "held", {}, {"ok": "true"}, {"ok": True, "exemptions": "all"}])
def test_a_verdict_that_can_not_be_read_never_counts_for_more_than_it_says(odd: Any) -> None:
    found = counted(odd)

    assert found.held == (isinstance(odd, dict) and odd.get("ok") is True)
    assert found.held + found.failed == 1
    assert found.exemptions == set()
