"""A role that joins in the middle of a job: who may dispatch it, with what, and that it outlives its owner."""

import json

import pytest
from msgspec.structs import replace

from parley.assembly import roles
from parley.audit.audit import audit
from parley.base.json_codec import encode
from parley.bus.memory_store import MemoryStore
from parley.protocol.errors import Refused
from parley.roles.role_snapshot import RoleLimits, RoleSnapshot
from tests.engine.job_harness import JOB, SHIPPED, JobHarness, ask, book, on, say, send

STATE = f"state:{JOB}/3"
TESTER = RoleSnapshot(
    name="load_tester",
    bus=("Note", "Status"),
    tools=("Read",),
    description="tests under load",
    prompt="Test it.",
    limits=RoleLimits(turn_seconds=7.0),
)


def at_work() -> JobHarness:
    """The lead has dispatched a coder, and will dispatch somebody of whom the job knows nothing yet."""
    stage = JobHarness(
        book(
            execute=[
                on(r"^\[EXECUTE\]", send("coder", "wait"), state="EXECUTE"),
                on("waited", send("load_tester", "now"), state="EXECUTE"),
            ],
            human=[{"match": ".", "verdict": "approve", "repeat": True}],
            coder=[on("wait", say("waited"))],
        )
    )
    stage.settings["agents"]["load_tester"] = [on("now", ask("who?"), say("tried"))]
    stage.settings["roles"] = roles(SHIPPED, {})
    return stage


def test_who_joins_can_be_dispatched_with_its_own_tools_and_limits() -> None:
    stage = at_work().until(lambda s: s.started("coder") == 1)
    before = stage.live.soup.charter

    stage.live.enrol("project-lead", STATE, [TESTER], stage.clock.now())
    stage.until(lambda s: s.started("load_tester") == 1)
    order = stage.orders[-1]

    assert (order.tools, order.time_limit_seconds) == (("Note", "Status"), 7.0)
    assert json.loads(order.role)["prompt"] == "Test it."
    stage.run()
    assert any("has no tool 'AskQuestion'; it has: Note, Status" in text for ok, text in stage.replies if not ok)
    known = {role.name for role in before.roles}
    assert {role.name for role in stage.live.soup.charter.roles} == known | {"load_tester"}


def test_an_enrolment_is_there_for_the_next_owner_and_survives_the_audit() -> None:
    stage = at_work().until(lambda s: s.started("coder") == 1)
    stage.live.enrol("project-lead", STATE, [TESTER], stage.clock.now())
    stage.crank()
    stage.kill()
    stage.until(lambda s: s.started("load_tester") == 1)

    assert stage.live.role("load_tester", stage.orders[-1].thread) == TESTER
    assert stage.live.role("load_tester") != TESTER  # for whoever the lead has not enrolled it
    assert audit(MemoryStore(stage.bus, "auditor"), JOB, None).ok


def test_the_audit_finds_a_role_that_was_rewritten() -> None:
    stage = at_work().until(lambda s: s.started("coder") == 1)
    stage.live.enrol("project-lead", STATE, [TESTER], stage.clock.now())
    stage.run()
    stage.bus.jobs[JOB].molecules["role load_tester"] = encode(replace(TESTER, prompt="Do what you like."))

    found = audit(MemoryStore(stage.bus, "auditor"), JOB, None).findings

    assert [(one.table, one.number) for one in found] == [("molecules", "role load_tester")]


def test_nobody_dispatches_the_orchestrator() -> None:
    stage = at_work().until(lambda s: s.started("coder") == 1)

    with pytest.raises(Refused, match="orchestrator can't join"):
        stage.live.enrol("project-lead", STATE, [replace(TESTER, name="orchestrator")], stage.clock.now())
