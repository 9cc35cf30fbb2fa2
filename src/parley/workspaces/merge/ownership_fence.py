"""The ownership fence: which of the paths that an agent changed it does not own."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from parley.ports.workspaces import Scope


def outside(paths: Iterable[str], scope: Scope) -> dict[str, str]:
    """Those of the changed paths that a scope does not allow, with the reason.

    With each goes what is in its way, a link in place of its folder or a folder in place of it: else it could not be
    restored.
    """
    changed = list(paths)
    refused = {path: why for path in changed if (why := scope.allowed(path.rstrip("/")))}
    over = {above: f"{path}: {why}" for path, why in refused.items() for above in _above(path)}
    found = {}
    for path in changed:
        near = (f"{one}: {refused[one]}" for one in _above(path) if one in refused)
        if why := refused.get(path) or over.get(path) or next(near, ""):
            found[path] = why
    return found


def _above(path: str) -> Iterator[str]:
    """The folders that a path lies in."""
    here = posixpath.dirname(path.rstrip("/"))
    while here:
        yield here
        here = posixpath.dirname(here)
