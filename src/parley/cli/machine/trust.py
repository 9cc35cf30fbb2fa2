"""`parley trust`: lets the user allow what a place's own files ask for beyond the user's settings.

A parley.toml, and a role file, may have come with a clone, through a merge, or out of a job; where it lies says nothing
about who wrote it. The user has to allow what would widen the boundary, run a program of its choice, show agents more
than committed files, send a job's texts elsewhere, ask the human less, or raise a limit. They allow it for this place
and this very content: the same bytes elsewhere are asked about again, and so is another content here. Only the user's
own settings need no permission, unless they lie in a repository themselves.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parley.base.output import OUTPUT_SECRETS
from parley.base.text import printable
from parley.cli import OK, WAITING, CommandError
from parley.cli.common import Workplace, agrees, can_ask, own_settings, place_of, print_json, work_tree
from parley.cli.machine.trust_book import AllowedEntry, allow, allowed_at, prepare, revoke
from parley.cli.user_homes import known
from parley.machine.discovery import NoWorkTree
from parley.roles import FOLDER, PACKAGE, RoleFile, defined, shipped
from parley.runners.scripted.playbook import PROXY
from parley.settings import load
from parley.settings.schema import FILE, NotifySettings, RoleSettings, Settings
from parley.settings.widening import Wish, text_of, widenings

REMEDY = "see what it asks for, and allow it, with `parley trust`"


class TrustRequest(NamedTuple):
    """One file, or one role, that asks for what only the user may allow."""

    file: str  # its name for people
    place: str  # the real path of the folder, or of the user's own file, for which it is allowed
    digest: str  # of the very content that is used
    wishes: tuple[Wish, ...]

    @property
    def names(self) -> list[str]:
        """What is asked for, on one line, with nothing that a terminal would obey."""
        return list(dict.fromkeys(printable(wish.name) for wish in self.wishes))

    def is_allowed(self) -> bool:
        """Whether the user has allowed this content here, and has seen each wish as it is now."""
        asked = {wish.name: wish.value for wish in self.wishes}
        return any(
            known.digest == self.digest and all(known.values.get(name) == value for name, value in asked.items())
            for known in allowed_at(self.place)
        )


class Layers(NamedTuple):
    """The settings of a place: the user's own alone, and with the place's over them."""

    own: Settings
    given: Settings


def settings_of(place: Workplace) -> Settings:
    """The settings of a place, over the user's own, unless they ask for what the user has not allowed."""
    return layers_of(place).given


def layers_of(place: Workplace) -> Layers:
    """The same, with the user's own by themselves."""
    prepare()
    layers, asking = _asking(place.root)
    _refuse(asking)
    return layers


def unallowed(place: Workplace) -> list[str]:
    """What the settings ask for that only the user may allow, and has not."""
    return [name for asked in _asking(place.root)[1] if not asked.is_allowed() for name in asked.names]


def refuse_roles(root: Path, roles: Mapping[str, RoleFile], settings: Settings) -> None:
    """Refuse roles that ask for what the user has not allowed; judged as they were read for use."""
    _refuse(asking_roles(root, roles, settings))


def _refuse(asking: Iterable[TrustRequest]) -> None:
    for asked in asking:
        if not asked.is_allowed():
            OUTPUT_SECRETS.show(*asked.names, f"{asked.file} asks for", REMEDY)
            raise CommandError(f"{asked.file} asks for {', '.join(asked.names)}; {REMEDY}")


# ---- what is asked for ------------------------------------------------------------------------------


def _asking(root: Path) -> tuple[Layers, list[TrustRequest]]:
    """The settings of a folder, and what they ask for. Each file is read once, so what is judged is what is used."""
    path = own_settings()
    settled, content = load.own_content(path), load.place_content(root)
    shared = _is_shared(path)
    own = load.read_own(path, settled, notify=shared)
    given = load.parse(root, content, settled, path)
    found: list[TrustRequest] = []
    if shared and (wishes := widenings(Settings(), own)):
        found.append(_of_own(path, settled, wishes))
    if wishes := widenings(own, given):
        found.append(TrustRequest(FILE, _real(root), _digest(content), tuple(wishes)))
    return Layers(own, given), found


def _of_own(path: Path, settled: bytes, wishes: Iterable[Wish]) -> TrustRequest:
    """What the user's own file asks for where a job could have put it there."""
    name = f"{printable(str(path))} lies where jobs can put files, and"
    return TrustRequest(name, _real(path), _digest(settled), tuple(wishes))


def own_notify() -> NotifySettings | None:
    """Where the user's own settings send notices; nowhere until the user has allowed that file.

    Read and judged here, since giving a job up, or finishing after a crash, needs no other setting.
    """
    path = own_settings()
    settled = load.own_content(path)
    return load.read_own_notify(path, settled) if _is_own(path, settled) else None


def own_is_trusted() -> bool:
    """Whether nothing in the user's own file waits to be allowed."""
    path = own_settings()
    return _is_own(path, load.own_content(path))


def _is_own(path: Path, settled: bytes) -> bool:
    if not _is_shared(path):
        return True
    wishes = widenings(Settings(), load.read_own(path, settled))
    return not wishes or _of_own(path, settled, wishes).is_allowed()


def asking_roles(root: Path, roles: Mapping[str, RoleFile], settings: Settings) -> list[TrustRequest]:
    """What the roles of a folder ask for: who runs them, how long they take, what a file tells them, and the proxy.

    The proxy answers for the human, so every change of it has to be allowed.
    """
    bases, found = shipped(), []
    longest = {"turn_seconds": settings.time_limit_seconds, "stall_seconds": settings.stall_seconds}
    for name, role in roles.items():
        said, base = settings.roles.get(name, RoleSettings()), bases.get(name)
        if role.origin == PACKAGE:
            continue
        file = role.source.removeprefix(f"{root}/")
        wishes: list[Wish] = []
        if name == PROXY:
            wishes.append(Wish(f"{file} the proxy's role", _digest_of(role), private=True))
        if _leads_out(role, root):
            wishes.append(Wish(f"{file} a link", text_of(os.path.relpath(_real(root / file), _real(root)))))
        if said.runner is None and role.runner != (base.runner if base else ""):
            wishes.append(Wish(f"{file} runner", text_of(role.runner)))
        for key, seconds in role.limits.items():
            if key not in said.limits and seconds > max(longest[key], base.limits.get(key, 0) if base else 0):
                wishes.append(Wish(f"{file} limits.{key}", text_of(seconds)))
        if said.prompt is not None:  # any file of the folder, committed or not
            wishes.append(Wish(f"[roles.{name}] prompt", text_of(said.prompt)))
        if wishes:
            where = FILE if file in (PACKAGE, FILE) else printable(file)
            found.append(TrustRequest(where, _real(root), _digest_of(role), tuple(wishes)))
    return found


def _leads_out(role: RoleFile, root: Path) -> bool:
    """Whether a role's file is a link to another, perhaps uncommitted one, which it would show to agents."""
    path = Path(role.source)
    return path.is_absolute() and not Path(_real(path)).is_relative_to(_real(root / FOLDER.parent))


def _is_shared(own: Path) -> bool:
    """Whether the user's own file lies where a merge or a job's result could put it: with git or without."""
    real = Path(_real(own))
    if not real.exists():
        return False
    try:
        return work_tree(real.parent) is not None or any(real.is_relative_to(_real(place.root)) for place in known())
    except NoWorkTree:
        return True


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(role: RoleFile) -> str:
    return _digest(json.dumps(_signed(role), sort_keys=True).encode())


def _signed(role: RoleFile) -> dict[str, Any]:
    """What a consent to a role covers. Its form stays: another one would void every consent that was given."""
    return {
        "name": role.name,
        "team": sorted(role.team),
        "tools": list(role.tools),
        "description": role.description,
        "prompt": role.prompt,
        "model": role.model,
        "runner": role.runner,
        "limits": dict(role.limits),
        "messages": None if role.messages is None else list(role.messages),
    }


# ---- the command ------------------------------------------------------------------------------------


def run(words: argparse.Namespace) -> int:
    """Show what the files ask for, and allow it if the user agrees; or revoke all of it."""
    place = place_of(words.repo)
    if words.revoke:
        return _take_back(place, words)
    layers, asking = _asking(place.root)
    asking += asking_roles(place.root, defined(place.root, layers.given), layers.given)
    new = [asked for asked in asking if not asked.is_allowed()]
    if not words.json:
        _show(place, asking, new)
    if new:
        if not words.yes and not can_ask():
            raise CommandError(
                "nothing is allowed yet, with no terminal to ask on; allow it: parley trust --yes", WAITING
            )
        if not words.yes and not agrees("Allow this?"):
            print("nothing is allowed; jobs do not start here until it is, or parley.toml asks for less")
            return WAITING
        record(new)
    names = [name for asked in asking for name in asked.names]
    if words.json:
        values = [{"name": wish.name, "value": wish.value} for asked in asking for wish in asked.wishes]
        OUTPUT_SECRETS.show(*(text for asked in asking for wish in asked.wishes for text in (wish.name, wish.value)))
        print_json({"allowed": names, "values": values})
    elif new:
        print(f"allowed: {', '.join(name for asked in new for name in asked.names)}")
    return OK


def _take_back(place: Workplace, words: argparse.Namespace) -> int:
    where = _real(place.root)
    known = list(dict.fromkeys(name for entry in allowed_at(where) for name in entry.values))
    if known:
        revoke(where)
    if words.json:
        print_json({"revoked": known})
    else:
        said = ", ".join(map(printable, known))
        print(f"not allowed here any more: {said}" if known else f"nothing was allowed in {place.root}")
    return OK


def record(asking: Iterable[TrustRequest]) -> None:
    """Record what the user has allowed."""
    for asked in asking:
        allow(AllowedEntry(asked.place, asked.file, asked.digest, {wish.name: wish.value for wish in asked.wishes}))


def record_own() -> None:
    """Allow the user's own settings, which they have just had written and which may lie in a repository."""
    path = own_settings()
    settled = load.own_content(path)
    wishes = widenings(Settings(), load.read_own(path, settled))
    if wishes and _is_shared(path):
        record([_of_own(path, settled, wishes)])


def _show(place: Workplace, asking: list[TrustRequest], new: list[TrustRequest]) -> None:
    """Print what is asked for, each with its value and the value that was allowed before."""
    if not asking:
        print(f"{FILE} asks for nothing that has to be allowed")
    for asked in asking:
        state = "what only you may allow" if asked in new else "this, which you have allowed"
        OUTPUT_SECRETS.show(f"asks for {state}", *(line_of(wish) for wish in asked.wishes))
        name = asked.file if asked.place != _real(place.root) else printable(str(place.root / asked.file))
        print(f"{name} asks for {state}:")
        before = _before(asked) if asked in new else {}
        for wish in asked.wishes:
            print(f"  {line_of(wish)}{_change(wish, before)}")
        for name in before.keys() - {wish.name for wish in asked.wishes}:
            print(printable(f"  {name}: not asked for any more  (before: {before[name]})"))


def line_of(wish: Wish) -> str:
    """A wish on one line, escaped: a repository may have put anything into it."""
    return printable(f"{wish.name} = {wish.value}")


def _before(asked: TrustRequest) -> Mapping[str, str]:
    """What was allowed last of the same file."""
    return next((one.values for one in reversed(allowed_at(asked.place)) if one.file == asked.file), {})


def _change(wish: Wish, before: Mapping[str, Any]) -> str:
    old = before.get(wish.name)
    if not before or old == wish.value:
        return ""
    return "  (new)" if old is None else printable(f"  (before: {old})")
