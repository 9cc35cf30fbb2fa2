"""A constructor for frozen dataclasses that costs half of their own: a turn makes some twenty of them.

Python's own sets each field by its name, through `object.__setattr__`; this one fills the slots directly. It
takes the same arguments, and what it makes is as frozen as before.
"""

from __future__ import annotations

from dataclasses import fields
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")


def quick(cls: type[T]) -> type[T]:
    """Give a frozen dataclass with slots its quick constructor. None of its fields may have a factory."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type] # T is a dataclass
    slow = cls.__init__
    code = _FILLERS[len(names)].__code__.replace(
        co_name="__init__", co_qualname=slow.__qualname__, co_varnames=("self", *names)
    )
    setters = {f"set_{number}": getattr(cls, name).__set__ for number, name in enumerate(names)}
    made = FunctionType(code, {"__name__": cls.__module__, **setters}, "__init__", slow.__defaults__)
    made.__annotations__ = slow.__annotations__
    cls.__init__ = made  # type: ignore[method-assign] # that is the point
    return cls


# What fills so many slots. Their names are put in for the letters, the slots' own setters for `set_0` and so on.


def _setter(thing: Any, value: Any) -> None:
    """Stands for a slot's own."""


set_0 = set_1 = set_2 = set_3 = set_4 = _setter


def _fill_2(self: Any, a: Any, b: Any) -> None:
    set_0(self, a)
    set_1(self, b)


def _fill_3(self: Any, a: Any, b: Any, c: Any) -> None:
    set_0(self, a)
    set_1(self, b)
    set_2(self, c)


def _fill_4(self: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    set_0(self, a)
    set_1(self, b)
    set_2(self, c)
    set_3(self, d)


def _fill_5(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
    set_0(self, a)
    set_1(self, b)
    set_2(self, c)
    set_3(self, d)
    set_4(self, e)


_FILLERS = {2: _fill_2, 3: _fill_3, 4: _fill_4, 5: _fill_5}
