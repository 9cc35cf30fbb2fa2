"""Every molecule has a slot, and what is kept beside the soup is told from molecules by its slot."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.bus import slots
from parley.bus.slots import holds_handle, holds_molecule, rider_of, slot
from parley.protocol.molecules import Hold, Idle, Molecule, Run
from parley.workflow.host.design_gates import VERIFIED, design_slot
from parley.workflow.model.flow_slots import CURRENT

RIDERS = slots.riders_slot("a", "dispatch:1")
BESIDE = [
    RIDERS,
    slots.handle_slot("a", "dispatch:1"),
    slots.advice_slot("a", "dispatch:1"),
    slots.role_slot("a"),
    slots.tree_slot("dispatch:1"),
    slots.clone_slot("escalation:1"),
    slots.sent_slot("dispatch:1"),
    design_slot("dispatch:1"),
    VERIFIED,
    CURRENT,
]


# No moment is infinite: a term with such a number is refused.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


@pytest.mark.parametrize("kind", get_args(Molecule), ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=5)
def test_every_molecule_has_a_slot_that_says_so(kind: type[Molecule], data: st.DataObject) -> None:
    assert holds_molecule(slot(data.draw(st.from_type(kind))))


@pytest.mark.parametrize("where", BESIDE)
def test_what_is_kept_beside_the_soup_is_no_molecule(where: str) -> None:
    assert not holds_molecule(where)
    assert holds_handle(where) == where.startswith("handle ")
    assert rider_of(where) == (("a", "dispatch:1") if where == RIDERS else None)


def test_what_there_can_be_one_of_has_one_slot() -> None:
    found = {slot(m) for m in (Idle("a", "t"), Run("a", "t", "m1", "t1"))}

    assert found == {"life a t"}


def test_a_hold_of_a_whole_job_names_no_thread() -> None:
    assert slot(Hold("job:1", '["pause"]')) == 'hold ["pause"]'
    assert slot(Hold("dispatch:1", '["stall","t1",2.5]')) == 'hold dispatch:1 ["stall","t1",2.5]'
