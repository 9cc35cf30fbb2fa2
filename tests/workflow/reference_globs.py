"""Patterns and paths to try, and a plain, slow reference matcher for the pattern language."""

import re
from functools import cache
from itertools import product

from hypothesis import strategies as st

CHARS = "ab.x"


def paths(longest: int = 5) -> list[str]:
    """Every path over a small alphabet."""
    texts = ("".join(text) for size in range(1, longest + 1) for text in product(CHARS + "/", repeat=size))
    return [text for text in texts if not {"", ".", ".."} & set(text.split("/"))]


atoms = st.sampled_from([*"aabb.", "*", "*", "?", "[ab]", "[!a]", "[.x]", "[!b.]", "[a-b]", "{a,b}", "{,a}", "{*.,b}"])
names = st.one_of(st.just("**"), st.lists(atoms, min_size=1, max_size=3).map("".join))
patterns = st.builds(
    lambda parts, end: "/".join(parts) + end,
    st.lists(names, min_size=1, max_size=3),
    st.sampled_from(["", "", "", "/"]),
)


def agrees(pattern: str, path: str) -> bool:
    """Whether a path matches, by trying every way."""
    return any(_names(_finished(one), tuple(path.split("/"))) for one in alternatives(pattern))


@cache
def alternatives(pattern: str) -> list[str]:
    """What the braces make of a pattern."""
    found = re.search(r"\{([^}]*)\}", pattern)
    if not found:
        return [pattern]
    return [
        one
        for choice in found[1].split(",")
        for one in alternatives(pattern[: found.start()] + choice + pattern[found.end() :])
    ]


@cache
def _finished(pattern: str) -> tuple[str, ...]:
    """The names of a pattern, where `**` is none or more, `*/**` one or more."""
    *first, last = (pattern + "**" if pattern.endswith("/") else pattern).split("/")
    if last == "**":
        return (*first, "*", "**")
    return (*first, last) if re.search(r"[*?\[]|.\.", last) else (*first, last, "**")


@cache
def _names(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return _names(pattern[1:], path) or (bool(path) and _names(pattern, path[1:]))
    return bool(path) and _name(pattern[0], path[0]) and _names(pattern[1:], path[1:])


@cache
def _name(pattern: str, name: str) -> bool:
    expression = re.sub(r"\[!", "[^", re.sub(r"(?<!\[)\.(?![^\[]*\])", r"[.]", pattern))
    parts = re.split(r"(\[[^\]]*\])", expression)
    made = "".join(part if part[:1] == "[" else part.replace("*", ".*").replace("?", ".") for part in parts)
    return re.fullmatch(made, name, re.DOTALL) is not None
