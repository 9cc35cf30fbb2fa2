"""`parley trust`: allow what a place's own files ask for beyond what you have allowed everywhere.

A parley.toml, and a role file, may have come with a clone, through a merge, or out of a job; where it lies says nothing
about who wrote it. What would widen the boundary, run a program of its choice, show agents more than committed files,
send what a job says elsewhere, ask the human less, or raise a limit, waits for the user's word. That word is about this
place and this very content: the same bytes elsewhere are asked about, and so is another content here. Only the user's
own settings need none, unless they lie in a repository themselves.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parley import config
from parley.adapters.discovery import NoWorkTree
from parley.adapters.playbook import PROXY
from parley.adapters.roles import FOLDER, RoleFile, defined, shipped, to_json
from parley.faces.cli import OK, WAITING, Trouble
from parley.faces.cli.desk import Place, agrees, can_ask, own_settings, place_of, print_json, work_tree
from parley.faces.cli.homes import known
from parley.faces.cli.trust_book import Allowed, allow, allowed_at, prepare, revoke
from parley.output import NET
from parley.text import printable
from parley.widening import Wish, text_of, widenings

REMEDY = "see what it asks for, and allow it, with `parley trust`"


class Asking(NamedTuple):
    """One file, or one role, that asks for what only the user may allow."""

    file: str  # as people are told of it
    place: str  # what it was allowed for: the real path of the folder, or of the user's own file
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

    own: config.Settings
    given: config.Settings


def settings_of(place: Place) -> config.Settings:
    """The settings of a place, over the user's own, unless they ask for what the user has not allowed."""
    return layers_of(place).given


def layers_of(place: Place) -> Layers:
    """The same, with the user's own by themselves."""
    prepare()
    layers, asking = _asking(place.root)
    _refuse(asking)
    return layers


def unallowed(place: Place) -> list[str]:
    """What the settings ask for that only the user may allow, and has not."""
    return [name for asked in _asking(place.root)[1] if not asked.is_allowed() for name in asked.names]


def refuse_roles(root: Path, roles: Mapping[str, RoleFile], settings: config.Settings) -> None:
    """Refuse roles that ask for what the user has not allowed. They are judged as they are used: nothing is reread."""
    _refuse(asking_roles(root, roles, settings))


def _refuse(asking: Iterable[Asking]) -> None:
    for asked in asking:
        if not asked.is_allowed():
            NET.show(*asked.names, f"{asked.file} asks for", REMEDY)
            raise Trouble(f"{asked.file} asks for {', '.join(asked.names)}; {REMEDY}")


# ---- what is asked for ------------------------------------------------------------------------------


def _asking(root: Path) -> tuple[Layers, list[Asking]]:
    """The settings of a folder, and what they ask for. Each file is read once: what is judged is what is used."""
    path = own_settings()
    settled, content = config.own_content(path), config.place_content(root)
    shared = _is_shared(path)
    own = config.read_own(path, settled, notify=shared)
    given = config.parse(root, content, settled, path)
    found: list[Asking] = []
    if shared and (wishes := widenings(config.Settings(), own)):
        found.append(_of_own(path, settled, wishes))
    if wishes := widenings(own, given):
        found.append(Asking(config.FILE, _real(root), _digest(content), tuple(wishes)))
    return Layers(own, given), found


def _of_own(path: Path, settled: bytes, wishes: Iterable[Wish]) -> Asking:
    """What the user's own file asks for where a job could have put it there."""
    name = f"{printable(str(path))} lies where jobs can put files, and"
    return Asking(name, _real(path), _digest(settled), tuple(wishes))


def own_notify() -> config.NotifySettings | None:
    """Where the user's own settings send notices; nowhere as long as that file waits for the user's word.

    Read and judged at once, since giving a job up, or finishing what a crash left, asks for no other setting.
    """
    path = own_settings()
    settled = config.own_content(path)
    return config.read_personal(path, settled).notify if _is_own(path, settled) else None


def own_is_trusted() -> bool:
    """Whether nothing in the user's own file waits for their word."""
    path = own_settings()
    return _is_own(path, config.own_content(path))


def _is_own(path: Path, settled: bytes) -> bool:
    if not _is_shared(path):
        return True
    wishes = widenings(config.Settings(), config.read_own(path, settled))
    return not wishes or _of_own(path, settled, wishes).is_allowed()


def asking_roles(root: Path, roles: Mapping[str, RoleFile], settings: config.Settings) -> list[Asking]:
    """What the roles of a folder ask for: who runs them, how long they take, what a file tells them, and the proxy.

    The proxy answers for the human, so nothing of it is the folder's to say.
    """
    bases, found = shipped(), []
    longest = {"turn_seconds": settings.time_limit_seconds, "stall_seconds": settings.stall_seconds}
    for name, role in roles.items():
        said, base = settings.roles.get(name, {}), bases.get(name)
        if role.source == "package":
            continue
        file = role.source.removesuffix(f" + {config.FILE}").removeprefix(f"{root}/")
        wishes: list[Wish] = []
        if name == PROXY:
            wishes.append(Wish(f"{file} the proxy's role", _digest_of(role)))
        if _leads_out(role, root):
            wishes.append(Wish(f"{file} a link", text_of(os.path.relpath(_real(root / file), _real(root)))))
        if "runner" not in said and role.runner != (base.runner if base else ""):
            wishes.append(Wish(f"{file} runner", text_of(role.runner)))
        for key, seconds in role.limits.items():
            if key not in said.get("limits", {}) and seconds > max(
                longest[key], base.limits.get(key, 0) if base else 0
            ):
                wishes.append(Wish(f"{file} limits.{key}", text_of(seconds)))
        if "prompt" in said:  # any file of the folder, committed or not
            wishes.append(Wish(f"[roles.{name}] prompt", text_of(said["prompt"])))
        if wishes:
            where = config.FILE if file in ("package", config.FILE) else printable(file)
            found.append(Asking(where, _real(root), _digest_of(role), tuple(wishes)))
    return found


def _leads_out(role: RoleFile, root: Path) -> bool:
    """Whether a role's file is another one, which may not be committed: a link is enough to show it to agents."""
    path = Path(role.source.removesuffix(f" + {config.FILE}"))
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
    return _digest(json.dumps(to_json(role), sort_keys=True).encode())


# ---- the command ------------------------------------------------------------------------------------


def run(words: argparse.Namespace) -> int:
    """Show what the files ask for as they are now, and allow it if the user says so; or take all of it back."""
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
            raise Trouble("nothing is allowed yet, with no terminal to ask on; allow it: parley trust --yes", WAITING)
        if not words.yes and not agrees("Allow this?"):
            print("nothing is allowed; jobs do not start here until it is, or until parley.toml asks for less")
            return WAITING
        record(new)
    names = [name for asked in asking for name in asked.names]
    if words.json:
        values = [{"name": wish.name, "value": wish.value} for asked in asking for wish in asked.wishes]
        NET.show(*(text for asked in asking for wish in asked.wishes for text in wish))
        print_json({"allowed": names, "values": values})
    elif new:
        print(f"allowed: {', '.join(name for asked in new for name in asked.names)}")
    return OK


def _take_back(place: Place, words: argparse.Namespace) -> int:
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


def record(asking: Iterable[Asking]) -> None:
    """Keep the user's word."""
    for asked in asking:
        allow(Allowed(asked.place, asked.file, asked.digest, {wish.name: wish.value for wish in asked.wishes}))


def record_own() -> None:
    """Keep the user's word about their own settings, which they have just had written: they may lie in a repository."""
    path = own_settings()
    settled = config.own_content(path)
    wishes = widenings(config.Settings(), config.read_own(path, settled))
    if wishes and _is_shared(path):
        record([_of_own(path, settled, wishes)])


def _show(place: Place, asking: list[Asking], new: list[Asking]) -> None:
    """What is asked for, each with its value, and with what was allowed in its place before."""
    if not asking:
        print(f"{config.FILE} asks for nothing that has to be allowed")
    for asked in asking:
        state = "what only you may allow" if asked in new else "this, which you have allowed"
        NET.show(f"asks for {state}", *(line_of(wish) for wish in asked.wishes))
        name = asked.file if asked.place != _real(place.root) else printable(str(place.root / asked.file))
        print(f"{name} asks for {state}:")
        before = _before(asked) if asked in new else {}
        for wish in asked.wishes:
            print(f"  {line_of(wish)}{_change(wish, before)}")
        for name in before.keys() - {wish.name for wish in asked.wishes}:
            print(printable(f"  {name}: not asked for any more  (before: {before[name]})"))


def line_of(wish: Wish) -> str:
    """A wish on one line, with nothing that a terminal would obey: a repository may have put anything into it."""
    return printable(f"{wish.name} = {wish.value}")


def _before(asked: Asking) -> Mapping[str, str]:
    """What was allowed last of the same file."""
    return next((one.values for one in reversed(allowed_at(asked.place)) if one.file == asked.file), {})


def _change(wish: Wish, before: Mapping[str, Any]) -> str:
    old = before.get(wish.name)
    if not before or old == wish.value:
        return ""
    return "  (new)" if old is None else printable(f"  (before: {old})")
