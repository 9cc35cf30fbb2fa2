"""The settings of the user's git, read as text, each with the file that it stands in. Nothing is run.

They tell which hooks git would run, which filters may run, who signs, and which files of the checkout it obeys.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from parley.ports.workspaces import WorkspaceError
from parley.workspaces.checkout.source_repository import SourceRepository
from parley.workspaces.checkout.users_git import UsersGit

# What git runs in the course of a merge.
MERGE_HOOKS = (
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-merge",
    "post-index-change",
    "post-checkout",
    "reference-transaction",
)
# How files are written into a checkout and compared with what is committed. None of these makes git run anything.
CHECKOUT = (
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.trustctime",
    "core.checkstat",
    "core.checkroundtripencoding",
    "core.bigfilethreshold",
    "core.protecthfs",
    "core.protectntfs",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
)
# Programs that run other files, by name or in the folder that they are started in.
_INTERPRETERS = re.compile(
    r"(ba|da|z|k|fi|c|tc|a)?sh|busybox|env|sudo|doas|nice|nohup|timeout|time|xargs|exec|eval|command|python[\d.]*|pypy[\d.]*"
    r"|node|nodejs|deno|bun|perl[\d.]*|ruby[\d.]*|php[\d.]*|lua[\d.]*|tclsh[\d.]*|java|make|npm|npx|pnpm|yarn|uv|uvx|poetry|pipx"
    r"|cargo|go|git|ssh|docker|podman|nix|nix-shell|direnv|mise|asdf"
)
_OPERATORS = frozenset(";&|<>()")
_HOOK_BYTES = 64 * 1024
_MOST_HOOKS = 100
# Files of other tools that call scripts. A change of such a file is reported anyway; this finds the scripts.
_CALLERS = (
    ".envrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    ".vscode/tasks.json",
    ".devcontainer/devcontainer.json",
    ".devcontainer.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
    "mise.toml",
    ".mise.toml",
)
_SCRIPTS, _SCRIPTS_TABLE = "package.json", re.compile(r'"scripts"\s*:\s*\{([^}]*)\}')
_TOOLS_OWN = "_"  # Husky's
_PLACES = re.compile(r"(path|dir|file|program|command|helper|hook|driver|cmd)$")
_FILTER = re.compile(r"filter\.(.+)\.(clean|smudge|process|required)")
_INCLUDE = re.compile(r"include(if\..+)?\.path", re.DOTALL)
# Settings that make git run other programs. Filters, hooks and the monitor are handled separately.
_COMMANDS = re.compile(
    r"(command|program|helper|askpass|gitproxy|editor|pager|textconv|driver|external|uploadpack|receivepack)$"
    r"|^lfs\.(customtransfer\..+\.path|extension\..+\.(clean|smudge))$"
)
# Of these, what git runs for a push.
_PUSHES = re.compile(
    r"^(credential\.(.+\.)?helper|core\.(sshcommand|askpass|gitproxy)|remote\..+\.receivepack|gpg\.(.+\.)?program)$"
)
_REMOTE = re.compile(r"remote\.(.+)\.(?:url|pushurl)")
_TRUE = ("true", "yes", "on", "1", "")


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of the user's: the commands that may run, and whether the user has marked it as required."""

    commands: Mapping[str, str]
    refused: Mapping[str, str]  # commands that may lie in the checkout
    required: bool = False


class GitSetting(NamedTuple):
    """A setting of the user's git, and the file that it stands in; None: it stands in no file."""

    key: str
    value: str
    file: Path | None


class UsersGitSettings:
    """The settings of the user's git for one work tree."""

    def __init__(self, source: SourceRepository) -> None:
        self._source = source
        self._root = source.root.resolve()
        self.git = UsersGit(source.root, source.common)
        self._values = list(self._read())

    def _read(self) -> Iterator[GitSetting]:
        """Each setting, in order of precedence."""
        done = self.git("config", "--list", "-z", "--show-origin", "--includes", plain=True)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise WorkspaceError(
                f"your git's settings can't be read: {(said or ['git config failed'])[-1]}; repair them"
            )
        parts = os.fsdecode(done.stdout).split("\0")
        for origin, entry in zip(parts[::2], parts[1::2], strict=False):
            name, _, value = entry.partition("\n")
            kind, _, place = origin.partition(":")
            yield GitSetting(name, value, (self._source.root / place).resolve() if kind == "file" else None)

    def get(self, name: str) -> str:
        """A setting's value; empty where it has none."""
        return next((one.value for one in reversed(self._values) if one.key == name), "")

    def has(self, name: str) -> bool:
        """Whether a setting is switched on."""
        found = [one.value for one in self._values if one.key == name]
        return bool(found) and found[-1].lower() in _TRUE

    def remotes(self) -> list[str]:
        """The remotes by name."""
        found = (_REMOTE.fullmatch(key) for key, _, _ in self._values)
        return list(dict.fromkeys(one[1] for one in found if one))

    def checkout(self) -> dict[str, str]:
        """How files are written into the checkout."""
        return {one.key: one.value for one in self._values if one.key in CHECKOUT}

    # ---- hooks ---------------------------------------------------------------------------------

    @property
    def hooks_folder(self) -> Path:
        """Where git looks for hooks."""
        named = self.get("core.hookspath")
        return self._place(named) if named else self._source.common / "hooks"

    def hooks(self) -> list[str]:
        """The hooks of the user's that git would run for a merge."""
        here = [name for name in MERGE_HOOKS if os.access(self.hooks_folder / name, os.X_OK)]
        events = {one.value for one in self._values if one.key.startswith("hook.") and one.key.endswith(".event")}
        return [*here, *(name for name in MERGE_HOOKS if name in events and name not in here)]

    # ---- commands ------------------------------------------------------------------------------

    def filters(self) -> dict[str, Filter]:
        """The filters of the user's: what may run of them, and what may not."""
        found: dict[str, dict[str, GitSetting]] = {}
        for one in self._values:
            if matched := _FILTER.fullmatch(one.key):
                found.setdefault(matched[1], {})[matched[2]] = one
        made = {}
        for name, said in found.items():
            wanted = said.pop("required", None)
            required = wanted is not None and wanted.value.lower() in _TRUE
            given = {kind: one for kind, one in said.items() if one.value}
            fine = {kind: one.value for kind, one in given.items() if self._may_run(one.value, one.file)}
            refused = {kind: one.value for kind, one in given.items() if kind not in fine}
            # all commands of a filter or none: one alone would change the files
            made[name] = Filter({} if refused else fine, refused, required)
        return made

    def signs(self) -> bool:
        """Whether the user's commits are signed. WorkspaceError where the program that signs may be an agent's."""
        if not self.has("commit.gpgsign"):
            return False
        form = self.get("gpg.format") or "openpgp"
        for key, value, origin in self._values:
            command = key == "gpg.ssh.defaultkeycommand" and form == "ssh"
            if not (command or key in (f"gpg.{form}.program", *(("gpg.program",) if form == "openpgp" else ()))):
                continue
            if not (self._may_run(value, origin) if command else self._outside(value) and not self._inside(origin)):
                raise WorkspaceError(
                    f"your commits are signed by {value!r} ({key}), which may lie in what an agent has changed; "
                    "name a program outside the repository by its whole path"
                )
        return True

    def barred(self) -> dict[str, str]:
        """Settings that keep git, where a filter starts it, from commands that may lie in the checkout."""
        found = {}
        for key, value, origin in self._values:
            command = value.removeprefix("!")  # a shell command, as in an alias or a helper
            told = command != value or (command and _COMMANDS.search(key))
            if told and not self._may_run(command, origin):
                found[key] = "" if key.endswith("helper") else "false"  # an empty value resets the list of helpers
        return found

    def leading_in(self) -> list[str]:
        """The settings by which a push would run what lies in the checkout."""
        found = []
        for key, value, origin in self._values:
            if not _PUSHES.search(key) or not value:
                continue
            first, *rest = [*re.split(r"[\s'\"=;&|<>()]+", value.removeprefix("!").strip())]
            named = [word for word in (first, *rest) if "/" in word] + rest
            if self._inside(origin) or any(
                self._inside(place.resolve()) and place.is_file() for place in map(self._place, filter(None, named))
            ):
                found.append(key)
        return found

    def _may_run(self, command: str, origin: Path | None) -> bool:
        """Whether a command runs a program that lies elsewhere, and nothing of the checkout."""
        if self._inside(origin) or set("$`\n\\!*?[{") & set(command):
            return False
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        try:
            words = list(lexer)
        except ValueError:
            return False
        if not words or any(set(word) <= _OPERATORS for word in words):
            return False
        first, *rest = words
        lfs = first == "git" and rest[:1] == ["lfs"]
        if not lfs and (_INTERPRETERS.fullmatch(Path(first).name.lower()) or not self._outside(first)):
            return False
        return not any(self._names_a_file(word) for word in rest)

    def _outside(self, name: str) -> bool:
        """Whether a program lies outside the checkout, wherever links lead."""
        if "/" in name and not name.startswith(("/", "~")):
            return False
        found = shutil.which(str(self._place(name)) if "/" in name else name, path=self.git.path)
        return found is not None and not self._inside(Path(found)) and not self._inside(Path(found).resolve())

    def _inside(self, path: Path | None) -> bool:
        """Whether a file lies in the checkout, but not in its git folder."""
        if path is None:
            return False
        own = (self._source.git_dir.resolve(), self._source.common.resolve())
        return path.is_relative_to(self._root) and not any(path.is_relative_to(folder) for folder in own)

    def _names_a_file(self, word: str) -> bool:
        """Whether a word of a command is a file of the checkout, or a whole path in it: the result may bring that."""
        whole = (f"{start}{word.partition(start)[2]}" for start in ("/", "~/") if start in word)  # also `-f/path`
        return any(self._inside(self._place(part).resolve()) for part in whole) or any(
            os.path.lexists(self._place(part)) for part in _path_parts(word)
        )

    def _place(self, path: str) -> Path:
        if path.startswith("~/"):
            return self.git.home / path[2:]
        if path.startswith("~"):
            return self._root / os.path.expanduser(path)  # noqa: PTH111 - a user who is not known stands for a name
        return self._root / (path.removeprefix("%(prefix)/"))

    # ---- attributes ----------------------------------------------------------------------------

    def attributes(self) -> str:
        """The user's attributes for all repositories: they go before those of this one."""
        named = self.get("core.attributesfile")
        base = os.environ.get("XDG_CONFIG_HOME", "") if self.git.owner is None else ""
        own = self._place(named) if named else (Path(base) if base else self.git.home / ".config") / "git/attributes"
        return "".join(f"{_text(place).rstrip()}\n" for place in (Path("/etc/gitattributes"), own) if place.is_file())

    def own_attributes(self) -> str:
        """This repository's attributes that are in no commit: they go after all others."""
        return _text(self._source.common / "info" / "attributes")

    # ---- what git obeys of the checkout --------------------------------------------------------

    def obeyed(self, paths: Iterable[str]) -> dict[str, str]:
        """Those of these paths that are run or read here because a setting, a hook or a file of a tool says so."""
        found: dict[str, str] = {}
        named, below = self._named()
        folders = self._relative(self.hooks_folder)
        texts = self._texts()
        for path in paths:
            above = _above(path)
            if path in named:
                found[path] = f"git: {named[path]} names it"
            elif any("/" not in path if folder == "." else folder in above for folder in folders):
                found[path] = "git: a hook (core.hooksPath)"
            elif folder := next((folder for folder in above if folder in below), ""):
                found[path] = f"git: {below[folder]} names {folder}"
            elif by := next((name for name, text in texts.items() if _names(text, path)), ""):
                found[path] = f"{by} names it"
        return found

    def _named(self) -> tuple[dict[str, str], dict[str, str]]:
        """The files of the checkout that settings name, or stand in, or that are hooks; and the folders they name."""
        found, below = {}, {}
        for key, value, origin in self._values:
            for word in re.split(r"[\s'\"=;&|<>()]+", value):
                for part in _path_parts(word):
                    inside = self._relative(self._place(part)) - {"."}
                    found.update(dict.fromkeys(inside, key))
                    # a single word may be a branch or a name, unless the setting is about a path
                    if "/" in part or _PLACES.search(key):
                        below.update(dict.fromkeys(inside, key))
            if origin is not None and _INCLUDE.fullmatch(key):  # also one that is not there yet
                place = origin.parent / value if not value.startswith("~") else self._place(value)
                found.update(dict.fromkeys(self._relative(place), "include.path"))
            if origin is not None:
                found.update(dict.fromkeys(self._relative(origin), "include.path"))
        for hook in self._hook_files():
            if hook.is_symlink():
                found.update(dict.fromkeys(self._relative(hook), f"your hook {hook.name}"))
        return found, below

    def _relative(self, path: Path) -> set[str]:
        """What a path is in the checkout, from its root: as it is written, and where links lead."""
        places = (Path(os.path.normpath(path)), Path(os.path.realpath(path)))
        return {place.relative_to(self._root).as_posix() for place in places if self._inside(place)}

    def _hook_files(self) -> list[Path]:
        """The hooks, and those that they call in the folder above, as Husky does."""
        folder = self.hooks_folder
        folders = (folder, *([folder.parent] if folder.name == _TOOLS_OWN else []))
        found = (path for one in folders if one.is_dir() for path in sorted(one.iterdir()))
        return [path for path in found if path.suffix != ".sample" and path.is_file()][:_MOST_HOOKS]

    def _texts(self) -> dict[str, str]:
        """Texts of commands that run by themselves, by source: git's hooks and commands, and other tools'."""
        hooks = {f"git: your hook {path.name}": _text(path, _HOOK_BYTES) for path in reversed(self._hook_files())}
        commands = {
            f"git: {one.key}": one.value for one in self._values if one.value.startswith("!") or " " in one.value
        }
        tools = {name: _text(self._root / name, _HOOK_BYTES) for name in _CALLERS}
        tools[_SCRIPTS] = "".join(_SCRIPTS_TABLE.findall(_text(self._root / _SCRIPTS)))
        return {**hooks, **commands, **tools}


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def _names(text: str, path: str) -> bool:
    """Whether a hook names a file: by its path, by an unmistakable name, or as a Python module."""
    folder, _, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    said = (path, name) if dot and stem else (path,)
    if any(one in text and re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", text) for one in said):
        return True
    module = (folder if stem == "__main__" else f"{folder}/{stem}".lstrip("/")).rpartition("/")[2]
    if suffix != "py" or "-m" not in text or module not in text:
        return False
    return re.search(rf"-m\s+(?:\w+\.)*{re.escape(module)}(?![\w-])", text) is not None


def _path_parts(word: str) -> Iterator[str]:
    """What in a word of a command may be a path: all of it, or what follows a `=`."""
    for part in (word.lstrip("!-"), word.partition("=")[2]):
        if part and part not in (".", "/"):
            yield part


def _text(path: Path, most: int = 1 << 20) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(most).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
