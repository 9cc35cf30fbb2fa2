"""`parley bus invite` and `parley bus join`: another home of the same user, on another host, gets the same bus.

The bus's key goes along in a file that the user copies; no server and no repository ever holds it.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
from pathlib import Path
from typing import Any

from parley.bus import key_files
from parley.bus.key_files import Key
from parley.bus.sqlite import safe_open
from parley.cli import BAD_USE, FAILED, OK, CommandError, home_bus
from parley.cli.common import hide_home_from_git, make_home, place_of, print_json
from parley.cli.open_bus import refuse_foreign_home
from parley.cli.user_homes import remember

_FORM = 1
_LARGEST = 4096
_PRIVATE = 0o077
_REMEDY = "make one with `parley bus invite FILE` on the host that has the bus, and copy it here"


def run(words: argparse.Namespace) -> int:
    """Write an invitation, or accept one."""
    if words.to is None:
        raise CommandError(f"name the file: `parley bus {words.action} FILE`", BAD_USE)
    return _invite(words) if words.action == "invite" else _join(words)


def _invite(words: argparse.Namespace) -> int:
    place, path = place_of(words.repo), Path(words.to)
    key = home_bus.on_server(place.home)
    if key is None:
        raise CommandError(
            f"the bus of {place.home} is not on a server, and no other host can use it; move it with `parley bus copy`",
            FAILED,
        )
    document = {"parley-invitation": _FORM, "id": key.id, "secret": key.secret.hex(), "server": key.server}
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            json.dump(document, file)
            file.write("\n")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; name a file that is not there yet", FAILED) from error
    if words.json:
        print_json({"home": str(place.home), "file": str(path), "server": key.server})
    else:
        print(
            f"{path}: who has this file can answer in your name. Copy it to the other host, run `parley bus join` with "
            "it there, then delete it in both places"
        )
    return OK


def _join(words: argparse.Namespace) -> int:
    place = place_of(words.repo)
    key = _read(Path(words.to), os.path.realpath(place.home))
    make_home(place)
    refuse_foreign_home(place)
    if home_bus.exists(place.home):
        raise CommandError(
            f"{place.home} has a bus of its own; name another home with PARLEY_HOME, or move its folder away", FAILED
        )
    known = key_files.read(key.id)
    if known is not None and known != key:
        raise CommandError("a home of this host has this bus already; `parley ls` there shows its jobs", FAILED)
    home_bus.open_on_server(place.home, key).close()  # it is there, and this user may use it
    if known is None:  # else a crash came before the next step
        key_files.keep(key)
    safe_open.identify(place.home, key)
    hide_home_from_git(place.home)
    remember(place)
    if words.json:
        print_json({"home": str(place.home), "server": key.server})
    else:
        print(f"{place.home}: its bus is the one on {key.server} now; delete {words.to}")
    return OK


def _read(path: Path, home: str) -> Key:
    """The key in an invitation, for a home of this host."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _PRIVATE:
                raise CommandError(f"{path}: it must be a file of yours that no other user can read: chmod 600", FAILED)
            document = json.loads(file.read(_LARGEST))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; {_REMEDY}", FAILED) from error
    except ValueError as error:
        raise CommandError(f"{path} is no invitation; {_REMEDY}", FAILED) from error
    try:
        return _key(document, home)
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"{path} is no invitation that this Parley knows; {_REMEDY}", FAILED) from error


def _key(document: dict[str, Any], home: str) -> Key:
    if document["parley-invitation"] != _FORM or not key_files.ID.fullmatch(document["id"]) or not document["server"]:
        raise ValueError
    secret = bytes.fromhex(document["secret"])
    if len(secret) != key_files.SECRET_BYTES:
        raise ValueError
    return Key(document["id"], secret, home, 0, server=str(document["server"]))
