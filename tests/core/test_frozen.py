"""The quick constructor makes what the slow one makes."""

from dataclasses import FrozenInstanceError, dataclass, replace
from inspect import signature

import pytest

from parley.core.frozen import quick


@dataclass(frozen=True, slots=True)
class Slow:
    """A letter."""

    sender: str
    number: int
    words: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    """A letter."""

    sender: str
    number: int
    words: tuple[str, ...] = ()


def test_it_takes_the_same_arguments() -> None:
    assert Quick("a", 1) == Quick("a", number=1, words=()) == Quick(words=(), number=1, sender="a")
    assert hash(Quick("a", 1, ("w",))) == hash(Slow("a", 1, ("w",)))
    assert repr(Quick("a", 1, ("w",))) == "Quick(sender='a', number=1, words=('w',))"
    assert replace(Quick("a", 1), words=("x",)) == Quick("a", 1, ("x",))
    assert str(signature(Quick)) == str(signature(Slow))


@pytest.mark.parametrize("kind", [Slow, Quick])
def test_it_refuses_the_same(kind: type[Slow] | type[Quick]) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'number'"):
        kind("a")  # type: ignore[call-arg]  # that is what is tried
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        kind("a", 1, other=2)  # type: ignore[call-arg]  # that is what is tried
    with pytest.raises(FrozenInstanceError):
        kind("a", 1).number = 2  # type: ignore[misc]  # that is what is tried
