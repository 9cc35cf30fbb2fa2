"""Molecules and choices as JSON: what is written is read back, and no other text is read as a term."""

import json
import math
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.codec import decode_as, decode_choice, decode_molecule, encode_term
from parley.protocol.errors import ProtocolError
from parley.protocol.molecules import (
    Charter,
    Entry,
    Idle,
    Interrupt,
    Mailbox,
    Molecule,
    Policy,
    Record,
    Role,
    Run,
    Send,
    Surface,
)
from parley.protocol.rule import Broadcast, Choice, Passage
from parley.protocol.soup import Soup
from parley.protocol.states import Action, State
from parley.protocol.term import Term
from parley.verify.exploration_menu import phases

# Fields are filled from their types: any text that a row can hold, any number that JSON has.
MOMENTS = st.floats(allow_nan=False, allow_infinity=False)
st.register_type_strategy(Entry, st.builds(Entry, timestamp=MOMENTS))
st.register_type_strategy(Passage, st.builds(Passage, timestamp=MOMENTS))
MOLECULES: st.SearchStrategy[Molecule] = st.one_of(*(st.from_type(kind) for kind in get_args(Molecule)))
CHOICES: st.SearchStrategy[Choice] = st.one_of(*(st.from_type(kind) for kind in get_args(Choice)))


@given(MOLECULES)
def test_a_molecule_is_read_back(molecule: Molecule) -> None:
    again = decode_molecule(encode_term(molecule))
    assert again == molecule
    assert type(again) is type(molecule)
    assert hash(again) == hash(molecule)
    assert Soup([again]) == Soup([molecule])


@given(CHOICES)
def test_a_choice_is_read_back(choice: Choice) -> None:
    assert decode_choice(encode_term(choice)) == choice


@given(st.one_of(MOLECULES, CHOICES))
def test_a_term_is_one_line_of_json_that_begins_with_its_name(term: Molecule | Choice) -> None:
    text = encode_term(term)
    assert "\n" not in text
    read = json.loads(text)
    if isinstance(term, Term):
        assert (read[0], len(read)) == (type(term).__name__, 1 + len(type(term).__struct_fields__))


def test_each_kind_has_a_name_of_its_own() -> None:
    kinds = [kind for kind in (*get_args(Molecule), *get_args(Choice)) if issubclass(kind, Term)]
    assert len({kind.__struct_config__.tag for kind in kinds}) == len(set(kinds))


def test_sets_are_written_in_order_and_members_of_enumerations_by_value() -> None:
    surface = Surface(agent="a", thread="state:j/1", team=frozenset("zyxab"), tools=(), messages=(), workspace="job:j")
    assert encode_term(surface) == '["Surface","a","state:j/1",["a","b","x","y","z"],[],[],"job:j",[],"own"]'
    again = decode_molecule(encode_term(Charter("j", (Role("b"),), phases(Policy.NEVER))))
    assert isinstance(again, Charter)
    assert again.phases[0].policy is Policy.NEVER


@given(MOLECULES, st.data())
def test_a_term_with_a_field_too_few_or_too_many_is_refused(molecule: Molecule, data: st.DataObject) -> None:
    whole = json.loads(encode_term(molecule))
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], [*whole, None]):
        with pytest.raises(ProtocolError, match="not a term"):
            decode_molecule(json.dumps(wrong, ensure_ascii=False, separators=(",", ":")))


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def same_or_refused(read: Callable[[str], Molecule | Choice], text: str) -> bool:
    """Whether a text is refused in one line, or is what is written of what was read."""
    try:
        return encode_term(read(text)) == text
    except ProtocolError as error:
        return len(str(error).splitlines()) == 1


@given(MOLECULES, ANYTHING, st.data())
def test_what_is_read_after_a_change_is_written_as_it_was_read(
    molecule: Molecule, instead: Any, data: st.DataObject
) -> None:
    """Whatever stands in a field's place, the text is refused in one line or is a term's own."""
    changed = json.loads(encode_term(molecule))
    changed[data.draw(st.integers(0, len(changed) - 1))] = instead
    text = json.dumps(changed, ensure_ascii=False, separators=(",", ":"))
    assert same_or_refused(decode_molecule, text)


@given(st.text(max_size=20))
def test_no_text_fails_in_another_way(text: str) -> None:
    assert same_or_refused(decode_molecule, text)
    assert same_or_refused(decode_choice, text)


@pytest.mark.parametrize(
    "text, why",
    [
        ('["Nobody","a","t"]', "Invalid value 'Nobody'"),
        ('{"Idle":["a","t"]}', "Expected `array`, got `object`"),
        ('["Idle","a"]', "at least length 3"),
        ('["Idle","a","t","x"]', "at most length 2"),
        ('["Idle","a",7]', "Expected `str`, got `int`"),
        ('["Mailbox","a","t"]', "as it is written"),
        ('["Mailbox","a","t","m1"]', "Expected `array`, got `str`"),
        ('["Hold","t",null]', "Expected `str`, got `null`"),
        ('["Terminate","t","boredom"]', "Invalid enum value 'boredom'"),
        ('["Crashed","a","t",1.0]', "Expected `int`, got `float`"),
        ('["Crashed","a","t",true]', "Expected `int`, got `bool`"),
        ('["Interrupt","t","m",1,false]', "Expected `bool`, got `int`"),
        ('["Surface","a","t",["y","x"],[],[],"w",[],"own"]', "as it is written"),
        ('["Surface","a","t",["x","x"],[],[],"w",[],"own"]', "as it is written"),
        ('["Idle", "a", "t"]', "as it is written"),
        ('["Idle","\\u0061","t"]', "as it is written"),
        ('["Idle","\\ud800","t"]', "surrogate"),
        ('["Idle","\ud800","t"]', "surrogate"),
        ('["Idle","a","t"]["Idle","a","t"]', "trailing characters"),
        ("[" * 100_000, "not a term"),
        ("", "not a term"),
    ],
)
def test_a_bad_molecule_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_molecule(text)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("moment", ["NaN", "Infinity", "1e999", "null", "1"])
def test_a_bad_moment_is_refused(moment: str) -> None:
    good = encode_term(Passage(Action.WITHDRAW, "human", 1.5))
    with pytest.raises(ProtocolError, match="not a term"):
        decode_choice(good.replace("1.5", moment))


@pytest.mark.parametrize("moment", [math.nan, math.inf, -math.inf, 7])
def test_no_term_is_made_that_could_not_be_read_again(moment: float) -> None:
    with pytest.raises(ProtocolError, match="is no finite float"):
        Passage(Action.WITHDRAW, "human", moment)
    with pytest.raises(ProtocolError, match="is no finite float"):
        Entry(State.PLAN, Action.REPLAN, "project-lead", moment)
    with pytest.raises(ProtocolError, match="lone surrogate"):
        encode_term(Idle("\ud800", "job:j"))


def test_a_choice_is_of_the_kind_that_its_rule_takes() -> None:
    text = encode_term(Broadcast(()))
    assert decode_as(Broadcast, text) == Broadcast(())
    assert decode_as(str, '"m1"') == "m1"
    with pytest.raises(ProtocolError, match="expected a Passage"):
        decode_as(Passage, text)


def test_a_term_does_not_change() -> None:
    for term in (Idle("a", "t"), Record("j"), Send("a", "t", ()), Mailbox("a", "t")):
        with pytest.raises(AttributeError):
            term.thread = "u"  # type: ignore[misc] # that is what is tried
    grown = Mailbox("a", "t", ("m1",)).grown("m2")
    assert grown == Mailbox("a", "t", ("m1", "m2"))


def test_terms_of_two_kinds_are_never_equal() -> None:
    interrupted = Run(agent="a", thread="t", message="m", turn="", interrupt=Interrupt("t", "m"))
    assert len({Run("a", "t", "m"), interrupted, Send("a", "t", ()), Mailbox("a", "t", ())}) == 4
    assert msgspec.structs.replace(interrupted, interrupt=None) == Run("a", "t", "m")
