"""Where secrets are: in the environment, and in files such as `.env`. Nothing found here is kept anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from parley.base.redaction import LONG, Secrets

FILE_BYTES = 256 * 1024
PLAIN_LETTERS = 12  # a short word of letters alone, under a name that promises no secret, is none: `production`

_WORDS = ("key", "token", "secret", "passw", "pass", "pwd", "credential", "auth", "cookie", "dsn")
_PROMISES = r"(?:key|token|secret|password|passwd|passphrase|pwd|pass|credential|auth|cookie|dsn)s?\d*(?=_|$)"
_PLACE = r"_(?:file|path|dir|sock|socket|host|port|user|name|id|type|url|uri)$"
_NOT = frozenset({"pwd", "oldpwd", "gpg_agent_info", "ssh_auth_sock"})
_TRIVIAL = frozenset({"true", "false", "none", "null", "default", "undefined"})
_SAMPLES = (".example", ".sample", ".template", ".dist", ".defaults")
_LINE = (
    r"(?ms)^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=[ \t]*"
    r"(?:\"((?:[^\"\\]|\\.){0,16384})\"|'([^']{0,16384})'|([^\n]*))"
)
_BUS_URL = "PARLEY_BUS_URL"
_IN_URL = r"://[^/@:]*:([^/@]+)@"
_ESCAPE = r"(?s)\\(.)"
_COLLECTOR = re.compile(r"OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS")  # name=value, and so on: keys of a collector


def secrets_of(root: Path, environment: Mapping[str, str], copied: Iterable[str] = ()) -> Secrets:
    """The secrets of a repository: the environment's, those of `.env` files at its root, and of files that are copied.

    `copied` are the paths, from the root, that a fresh worktree gets besides what is committed.
    """
    own = [*from_environment(environment)]
    places = (root, *(root / name for name in copied))
    return Secrets((*own, *from_files(secret_files(places))), (value for _, value in own))


def names_a_secret(name: str) -> bool:
    """Whether a variable's name says that its value is secret, as that of `API_KEY` or `DB_PASSWORD` does."""
    if not any(word in name.lower() for word in _WORDS):
        return False
    low = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")
    return low not in _NOT and not re.search(_PLACE, low) and re.search(_PROMISES, low) is not None


def from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables whose names look secret."""
    for name, value in environment.items():
        if names_a_secret(name) and value.lower() not in _TRIVIAL:
            yield name, value
        elif name == _BUS_URL and (found := re.search(_IN_URL, value)):
            yield name, found[1]
        elif _COLLECTOR.fullmatch(name):
            yield from ((name, header.partition("=")[2].strip()) for header in value.split(","))


def from_files(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """What files of `NAME=value` lines hold. What can't be read holds nothing."""
    for path in paths:
        try:
            if path.is_file():  # a pipe of that name would never end
                with path.open("rb") as file:
                    yield from from_text(file.read(FILE_BYTES).decode("utf-8", "replace"))
        except OSError:
            continue


def from_text(text: str) -> Iterator[tuple[str, str]]:
    """The secrets in `NAME=value` lines: all values that are long, and short ones whose name says so."""
    for name, double, single, bare in re.findall(_LINE, text):
        plain = re.split(r"\s#", bare, maxsplit=1)[0].strip()
        for value in dict.fromkeys((_unescaped(double), double, single, plain)):
            if value and _counts(name, value):
                yield name, value


def _counts(name: str, value: str) -> bool:
    if value.lower() in _TRIVIAL:
        return False
    if names_a_secret(name):
        return True
    return len(value) >= LONG and not (value.isalpha() and len(value) <= PLAIN_LETTERS)


def _unescaped(text: str) -> str:
    return re.sub(_ESCAPE, lambda found: {"n": "\n", "r": "\r", "t": "\t"}.get(found[1], found[1]), text)


def secret_files(places: Iterable[Path]) -> Iterator[Path]:
    """The files that may hold secrets: `.env` files in these folders, and those of these that are files."""
    for folder in places:
        if folder.is_dir():
            try:
                with os.scandir(folder) as entries:
                    names = sorted(entry.name for entry in entries)
            except OSError:
                continue  # what can't be read holds nothing
            found = (name for name in names if name.startswith(".env") or name.endswith(".env"))
            yield from (folder / name for name in found if not name.endswith(_SAMPLES))
        elif folder.is_file():
            yield folder
