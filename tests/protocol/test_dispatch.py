"""Who sees whom, who may dispatch whom, and how many at once: on walks through whole jobs."""

from hypothesis import given
from msgspec.structs import replace

from parley.protocol.conversation import enclosing, free_slots, fresh, sees, visibility
from parley.protocol.molecules import ORCHESTRATOR, Deliver, Parent, Policy, Record, Surface, Tombstone
from parley.protocol.rules import apply
from parley.protocol.soup import Soup
from parley.verify.exploration_menu import CODER, SQUAD, Bounds
from tests.explorer.scenarios import JOB, LEAD, STATE, A, B, fire, gone, says, two_at_work, withdrawn, woken
from tests.protocol.walks import WIDE, opened, soups, steps, walks

Walk = tuple[Policy, list[int]]


def below(soup: Soup, thread: str) -> set[str]:
    """The threads sparked from a thread."""
    return {edge.child for edge in soup.of(Parent) if edge.thread == thread}


@given(walks)
def test_an_instance_sees_those_it_sparked_and_the_one_that_sparked_it(walk: Walk) -> None:
    for soup in soups(replace(WIDE, policy=walk[0]), walk[1])[-3:]:
        for surface in soup.of(Surface):
            seen = {thread for _, thread in visibility(soup, surface.agent, surface.thread)}
            installed = {other.thread for other in soup.of(Surface)}
            near = below(soup, surface.thread) | {soup.parent(surface.thread)}
            expected = installed if surface.agent == ORCHESTRATOR else installed & near
            assert seen == expected - {surface.thread}


@given(walks)
def test_siblings_do_not_see_each_other(walk: Walk) -> None:
    for soup in soups(replace(WIDE, policy=walk[0]), walk[1])[-3:]:
        for one in soup.of(Surface):
            for other in soup.of(Surface):
                parent = soup.parent(one.thread)
                siblings = one != other and parent is not None and parent == soup.parent(other.thread)
                assert not (siblings and sees(soup, one.agent, one.thread, other.agent, other.thread))


@given(walks)
def test_visibility_grows_by_sparks_and_questions_alone(walk: Walk) -> None:
    growing = {"spark", "ask", "send-ask", "open"}
    for before, firing, after in steps(replace(WIDE, policy=walk[0]), walk[1]):
        if firing.rule in growing:
            continue
        for surface in before.of(Surface):
            old = visibility(before, surface.agent, surface.thread)
            assert visibility(after, surface.agent, surface.thread) <= old


@given(walks)
def test_only_the_team_of_a_role_is_dispatched(walk: Walk) -> None:
    for before, firing, after in steps(replace(WIDE, policy=walk[0]), walk[1]):
        if firing.rule == "spark":
            agent, thread = firing.at
            (new,) = set(after.of(Surface)) - set(before.of(Surface))
            assert new.agent in before.need(Surface, thread, agent).team
            assert Parent(new.thread, thread) in after
            assert fresh(before, new.thread)


@given(walks)
def test_nobody_has_more_dispatches_open_than_the_cap(walk: Walk) -> None:
    bounds = replace(WIDE, policy=walk[0], fan_out=1, threads=4)
    for soup in soups(bounds, walk[1]):
        for surface in soup.of(Surface):
            if surface.thread != JOB:
                assert free_slots(soup, surface.thread) >= 0


def test_questions_do_not_use_up_slots_and_a_dying_child_frees_its_own() -> None:
    soup = opened(Bounds(fan_out=2), two_at_work())

    assert free_slots(soup, STATE) == 0
    asked = apply(soup, fire("withdraw", A, choice=withdrawn(A).choice))
    assert free_slots(asked, STATE) == 1
    assert Tombstone(A) not in asked


def test_the_dead_are_seen_by_nobody_and_their_threads_are_not_new() -> None:
    soup = opened(Bounds(), (*two_at_work(), *gone(CODER, A)))

    assert (CODER, A) not in visibility(soup, LEAD, STATE)
    assert (CODER, B) in visibility(soup, LEAD, STATE)
    assert not fresh(soup, A)
    assert fresh(soup, "dispatch:z")


def test_a_thread_works_for_the_nearest_live_record_above_it() -> None:
    then = (
        *two_at_work(SQUAD, CODER),
        says(SQUAD, A, Deliver(CODER, "dispatch:c", "mc")),
        fire("spark", SQUAD, A),
        woken(CODER, "dispatch:c"),
    )
    soup = opened(Bounds(nested=True), then)

    assert enclosing(soup, "dispatch:c").id == A
    assert enclosing(soup, B).id == "j"
    assert enclosing(soup, JOB) == soup.need(Record, "j")
