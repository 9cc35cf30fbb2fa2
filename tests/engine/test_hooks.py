"""Features hang on the engine by hooks: what each hook is there for, shown by small features of a test's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from parley.engine.hooks import Feature, Guest, Guests, Reply
from parley.engine.outbox import Effect
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.running_turn import CallNote, Turn
from parley.engine.turn.stages import Start, TurnEnd, Waking
from parley.engine.world import World
from parley.ports.turns import Called, Ended
from parley.protocol.errors import Refused
from parley.workflow.host.workflow_guest import WorkflowGuest
from tests.engine import job_harness
from tests.engine.job_harness import JOB, JobHarness, always, book, on, say, send

LOOK = [
    on(r"^\[INTENT\]", send("writer", "look", "w")),
    on("seen", job_harness.write("INTENT.md", "the intent"), job_harness.asserts("INTENT.md")),
    job_harness.INTENT[1],
]


class Probe(Feature):
    """Gives every job one guest of a test's own."""

    def __init__(self, guest: Guest, **signs: Any) -> None:
        super().__init__(**signs)
        self.guest = guest

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        return (self.guest,)


def played(feature: Feature, **more: Any) -> JobHarness:
    """A job whose lead dispatches a writer, in an engine with one feature more."""
    play = book(intent=LOOK, writer=[always("look", say("seen"))], human=job_harness.YES)
    return JobHarness(play, more_features=[lambda world: feature], **more).start()


def test_a_guest_may_keep_a_turn_from_starting_until_there_is_room() -> None:
    class Closed(Guest):
        open = False

        def before_start(self, job: OwnedJob, waking: Waking) -> bool:
            if waking.agent == "writer" and not self.open:
                job.queue(waking.agent, waking.thread)
                return False
            return True

        def has_room(self, job: OwnedJob) -> bool:
            return self.open

    guest = Closed()
    stage = played(Probe(guest))
    stage.until(lambda s: bool(s.live.agenda.queued))
    assert stage.started("writer") == 0
    guest.open = True
    stage.run()
    assert (stage.started("writer"), stage.state) == (1, "DONE")


def test_a_guest_may_refuse_a_dispatch_and_tell_an_agent_something_with_its_message() -> None:
    class Strict(Guest):
        def before_spark(self, job: OwnedJob, turn: Turn) -> None:
            raise Refused("do it yourself")

        def prepare(self, job: OwnedJob, start: Start) -> None:
            start.remarks.append("(mind the gap)")

    stage = played(Probe(Strict()))
    stage.until(lambda s: bool(s.replies))
    assert stage.replies[0] == (False, "do it yourself")
    assert stage.told("intent-lead")[0].endswith("(mind the gap)")


def test_a_guest_may_refuse_any_call_of_a_tool() -> None:
    class Strict(Guest):
        def before_call(self, job: OwnedJob, turn: Turn, event: Called) -> None:
            if event.tool == "Send" and event.arguments["to"] == "writer":
                raise Refused("the writer is away")

    stage = played(Probe(Strict())).until(lambda s: bool(s.replies))
    assert stage.replies == [(False, "the writer is away")]
    assert stage.started("writer") == 0


def test_a_lost_turn_is_over_and_has_not_ended() -> None:
    class Counting(Guest):
        over: ClassVar[list[str]] = []
        ended: ClassVar[list[str]] = []

        def turn_over(self, job: OwnedJob, turn: Turn, event: Ended) -> None:
            self.over.append(turn.agent)

        def turn_ended(self, job: OwnedJob, ending: TurnEnd) -> None:
            self.ended.append(ending.turn.agent)

    stage = played(Probe(Counting())).lose("writer").run()
    assert stage.state == "DONE"
    assert (Counting.over.count("writer"), Counting.ended.count("writer")) == (2, 1)


def test_a_tool_of_a_features_own_is_called_like_any_other() -> None:
    def note(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
        turn.calls.append(CallNote("Note", str(arguments.get("text"))))
        return Reply("heard")

    class Listening(Guest):
        def __init__(self) -> None:
            self.tools = {"Note": note}

    stage = played(Probe(Listening()))
    assert stage.live.guests.tools["Note"] is note


class Shown(Effect, frozen=True):
    """Something to be shown outside."""

    text: str


def test_an_effect_is_performed_after_its_commit_and_again_while_it_can_not_be() -> None:
    shown: list[tuple[str, int]] = []

    def show(job: OwnedJob, world: World, effect: Shown) -> bool:
        assert not job.dirty, "what caused it is committed"
        shown.append((effect.text, job.counters.transaction))
        return len(shown) > 1

    class Telling(Guest):
        def turn_started(self, job: OwnedJob, turn: Turn) -> None:
            if turn.agent == "writer":
                job.ask(Shown("the writer starts"))
                job.ask(Shown("the writer starts"))

    stage = played(Probe(Telling(), effects={Shown: show})).run()
    assert [text for text, _ in shown] == ["the writer starts"] * 2  # once in vain
    assert stage.state == "DONE"


def test_what_a_crash_may_have_left_undone_is_asked_for_again() -> None:
    class Remembering(Guest):
        restores = 0

        def restored(self, job: OwnedJob) -> None:
            self.restores += 1

    guest = Remembering()
    stage = played(Probe(guest))
    stage.until(lambda s: s.started("writer") == 1)
    stage.kill()
    stage.adopt()
    assert guest.restores == 1


class Mine(Struct, frozen=True):
    """What a job's settings say of the probe."""

    mine: bool = False


@pytest.mark.parametrize("sign", ["slot", "setting"])
def test_a_dormant_feature_comes_with_its_sign_and_no_sooner(sign: str) -> None:
    guest = Guest()
    signs: dict[str, Any] = {"slots": ("mine ",)} if sign == "slot" else {"setting": Mine}
    stage = played(Probe(guest, dormant=True, **signs), **({"mine": True} if sign == "setting" else {}))
    assert (stage.live.guests.find(Guest) is guest) is (sign == "setting")
    if sign == "slot":
        stage.live.kept["mine x"] = "here"
        Guests.begin(stage.live.guests, stage.live)
        assert stage.live.guests.find(Guest) is guest


def test_a_job_without_a_workflow_has_no_guest_of_workflows() -> None:
    stage = JobHarness(book(human=job_harness.YES)).start().run()
    assert stage.state == "DONE"
    assert stage.live.guests.find(WorkflowGuest) is None


def test_a_hook_that_no_guest_overrides_is_empty() -> None:
    class Quiet(Guest):
        """It overrides nothing."""

    stage = JobHarness(book(human=job_harness.YES)).start()
    before = stage.live.guests.turn_heard
    stage.live.guests.add(Quiet())
    assert stage.live.guests.turn_heard == before
    assert JOB in stage.engine.jobs
