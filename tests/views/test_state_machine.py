"""The state machine as it was walked."""

from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.molecules import Record
from parley.protocol.states import TRANSITIONS
from parley.protocol.transitions import make_initial_state, transition
from parley.views.history.state_machine import state_machine
from parley.views.job_view import Present
from tests.views.conftest import Seen


@given(data=st.data())
def test_every_walk_is_told_with_all_its_ways_and_visits(data: st.DataObject) -> None:
    record, time = make_initial_state("j", "lead"), 1.0
    for _ in range(data.draw(st.integers(0, 12))):
        if ways := sorted(TRANSITIONS[record.state]):
            time += data.draw(st.floats(0, 100))
            record = transition(record, data.draw(st.sampled_from(ways)), lead="lead", at=time, reason="why")

    machine = state_machine(record, begun=1.0, now=time + 5.0)

    assert sum(edge.taken for edge in machine.edges) == len(machine.walked) == len(record.history)
    assert [node.name for node in machine.nodes if node.here] == [str(record.state)]
    assert sum(node.visits for node in machine.nodes) == record.visit
    assert len(machine.backtracks) == record.backtrack_count
    arrived = {node.name: 0 for node in machine.nodes} | {"INTENT": 1}
    for edge in machine.edges:
        arrived[edge.after] += edge.taken
    assert {node.name: node.visits for node in machine.nodes} == arrived
    live = 5.0 if record.live else 0.0
    assert abs(sum(node.spent for node in machine.nodes) - (time - 1.0 + live)) < 1e-6


def test_a_real_backtrack_has_its_reason(seen: Seen) -> None:
    record = Present(seen.store, seen.job).soup.need(Record, seen.job)

    (back,) = state_machine(record).backtracks

    assert (back.before, back.after, back.reason) == ("EXECUTE", "PLAN", "no colours yet")
    assert back.visit == 4


def test_a_job_that_has_not_begun_stands_at_its_beginning() -> None:
    machine = state_machine(None)

    assert machine.here == "INTENT"
    assert [node.visits for node in machine.nodes] == [1, 0, 0, 0, 0, 0]
