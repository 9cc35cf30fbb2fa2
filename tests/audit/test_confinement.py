"""An audit tells how the agents of a job were confined, and what the user exempted."""

from dataclasses import replace

import pytest

from parley.audit.audit import sandbox_integrity
from parley.audit.confinement import Confinement
from parley.audit.replay import Replay
from parley.audit.row_checks import Found
from parley.base.json_codec import Unreadable
from parley.engine.values import step_extra
from parley.ports.turns import Confined
from parley.protocol.rules import RULES

HELD = Confined(ok=True, held=49, tried=49)


def counted(*verdicts: Confined) -> Confinement:
    found = Confinement()
    for verdict in verdicts:
        found.take(verdict)
    return found


def test_turns_are_counted_by_what_stood_around_them() -> None:
    found = counted(HELD, HELD, replace(HELD, accepted="none"), replace(HELD, ok=False))

    assert found.document() == {"held": 2, "failed": 1, "without": 1, "exemptions": []}
    assert found.lines() == [
        "2 turns were behind a boundary that held",
        "1 turn was without a boundary, which the settings accept",
        "1 turn was lost to a boundary that did not hold",
    ]


def judged(*verdicts: Confined | None) -> str:
    """What the audit says of turns that count, each ended by a step of the next number."""
    replay = Replay("j", RULES)
    for number, verdict in enumerate(verdicts, 1):
        if verdict is not None:
            replay.confinement.take(verdict)
        replay.confinement.counts(number, verdict)
    try:
        sandbox_integrity(replay)
    except Found as found:
        return str(found.finding)
    return ""


def test_a_turn_counts_only_behind_a_boundary_that_was_verified_and_held() -> None:
    accepted, broken = replace(HELD, ok=False, accepted="none"), replace(HELD, ok=False, faults=("read /etc", "x"))
    assert judged(HELD, accepted, HELD) == ""
    assert judged(None, None) == ""  # played in a test, where nothing is confined
    assert "steps 2" in judged(HELD, None, HELD)
    assert "nothing says that its boundary was verified" in judged(None, HELD)
    assert "behind a boundary that did not hold: read /etc; x" in judged(HELD, HELD, broken)
    assert "no reason is recorded" in judged(replace(HELD, ok=False))


def test_exemptions_are_named() -> None:
    found = counted(replace(HELD, exemptions=("udp",)), replace(HELD, exemptions=("landlock", "udp")))

    assert found.lines() == ["2 turns were behind a boundary that held, exempt by the settings: landlock, udp"]


def test_a_verdict_that_says_nothing_never_counts_as_held() -> None:
    said = step_extra.read('{"boundary":{}}').boundary

    assert said is not None
    assert counted(said).document() == {"held": 0, "failed": 1, "without": 0, "exemptions": []}


@pytest.mark.parametrize("odd", ["[]", '"held"', '{"ok":"true"}', '{"ok":true,"exemptions":"all"}'])
def test_a_verdict_that_another_program_has_written_is_not_read(odd: str) -> None:
    with pytest.raises(Unreadable):
        step_extra.read(f'{{"boundary":{odd}}}')
