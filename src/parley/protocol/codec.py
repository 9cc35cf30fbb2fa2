"""Molecules and choices as the JSON of a row, and back: each has one text, and no other text is read as it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from parley.protocol.errors import ProtocolError
from parley.protocol.molecules import Molecule
from parley.protocol.rule import Choice

T = TypeVar("T")

ENCODER = msgspec.json.Encoder(order="deterministic")  # a set is written in its order
_MOLECULES: msgspec.json.Decoder[Molecule] = msgspec.json.Decoder(Molecule)
_CHOICES: msgspec.json.Decoder[Choice] = msgspec.json.Decoder(Choice)


def encode_term(term: Molecule | Choice) -> str:
    """The JSON of a molecule or of a choice."""
    try:
        return ENCODER.encode(term).decode()
    except UnicodeEncodeError as error:
        raise ProtocolError(f"a {type(term).__name__} holds a lone surrogate, which no row can hold") from error


def decode_molecule(text: str) -> Molecule:
    """The molecule that `encode_term` made the text from."""
    return _decoded(_MOLECULES, text)


def decode_choice(text: str) -> Choice:
    """The choice that `encode_term` made the text from."""
    return _decoded(_CHOICES, text)


def decode_as(kind: type[T], text: str) -> T:
    """The choice of a step whose rule takes that kind of choice."""
    choice = decode_choice(text)
    if not isinstance(choice, kind):
        raise ProtocolError(f"expected a {kind.__name__}, got {text!a:.120}")
    return choice


def _decoded(decoder: msgspec.json.Decoder[T], text: str) -> T:
    try:
        term = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ProtocolError(f"not a term: {str(error)!a:.120}: {text!a:.120}") from error
    # The decoder fills in a field that is missing where it has a default, and takes a set's members in any order.
    if ENCODER.encode(term).decode() != text:
        raise ProtocolError(f"not a term as it is written: {text!a:.120}")
    return term
