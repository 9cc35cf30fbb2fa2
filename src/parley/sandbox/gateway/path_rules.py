"""Which paths of the upstream a cage may ask for."""

from __future__ import annotations

import re

# What another program may decode, resolve or cut off: dots, slashes, NUL, line ends, parameters, and the percent sign.
_AMBIGUOUS = re.compile(r"%2e|%2f|%5c|%00|%0a|%0d|%25|%3b|;|\\|#|//|/\.\.?(/|$)", re.IGNORECASE)


def path_allowed(target: str, paths: tuple[str, ...]) -> bool:
    """Whether a request's target is a listed path, however it is read; one listed with `*` at its end is a prefix."""
    path = target.partition("?")[0]
    if not path.startswith("/") or _AMBIGUOUS.search(path) or "#" in target:
        return False
    return any(path.startswith(one[:-1]) if one.endswith("*") else path == one for one in paths)
