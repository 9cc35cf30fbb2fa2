"""Reads a job's request: from the command's words, standard input, a file, or the user's own editor."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from parley.cli import FAILED, CommandError, ctrl_c
from parley.cli.common import GIT_SECONDS, TEXT_LIMIT, can_ask, check_text, one_line, users_folder
from parley.cli.error_lines import explain
from parley.machine import stop_signals

STDIN, FROM_FILE = "-", "@"
NO_PROGRAM = (126, 127)  # the codes of a shell that can't start a command
MOST_BYTES = 4 * TEXT_LIMIT  # UTF-8 has four bytes a character at most
FORMS = "say it in words, or use `-` for standard input, or `--file FILE`"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
EMPTY = "the request is empty, so nothing was started; say in a few words what is to be done"
BELOW = "# ---- the request ends here: nothing from this line on is part of it ----"
EXPLAINED = (
    "# Write above what is to be done, in your words: the goal, what must hold at",
    "# the end, what to leave alone.",
    "# Lines of your own may begin with #: only this note is left out.",
    "# Save and leave the editor to start the job. An empty request starts nothing.",
)


@dataclass(slots=True)
class RequestText:
    """What is to be done. `draft`: the file that keeps a text from the editor until a job has it."""

    text: str
    draft: Path | None = None

    def is_draft(self) -> bool:
        """Whether no job has an edited text yet."""
        return self.draft is not None

    def taken(self) -> None:
        """A job has it now."""
        if self.draft is not None:
            with suppress(OSError):
                self.draft.unlink()
            self.draft = None

    @contextmanager
    def kept(self, command: str) -> Iterator[None]:
        """Where the start is refused, name the file that keeps an edited text; `command` starts from it again."""
        if not self.is_draft():
            yield
            return
        hint = f"your text is kept: {command} --file {shlex.quote(str(self.draft))}"
        ctrl_c.set_interrupted_hint(lambda: hint)
        try:
            yield
        except Exception as error:
            if not self.is_draft() or stop_signals.asked():  # a job has it; or Ctrl-C, which has its own line
                raise
            text, code = (str(error), error.code) if isinstance(error, CommandError) else explain(error)
            raise CommandError(f"{text}; {hint}", code) from error


def is_given(words: argparse.Namespace) -> bool:
    """Whether a command says where its request comes from."""
    return words.request is not None or words.file is not None or bool(words.edit)


def read_request(words: argparse.Namespace, about: Sequence[str] = ()) -> RequestText:
    """The request that a command names; on a terminal it is written in an editor where none is named.

    `about`: lines for the editor's note.
    """
    if words.request is not None and words.file is not None:
        raise CommandError(f"there are two requests, {one_line(words.request, 40)!r} and --file; name one of them")
    if not is_given(words) and not can_ask():
        raise CommandError(f"the request is missing, and there is no terminal to write it on; {FORMS}")
    text = _from_file(words.file) if words.file is not None else _said(words.request or "")
    if words.edit or not is_given(words):
        return _edited(text, about)
    return RequestText(checked(text))


def checked(text: str) -> str:
    """A request that is not empty and not too long."""
    if not check_text(text).strip():
        raise CommandError(EMPTY)
    return text


def _said(word: str) -> str:
    """The words themselves; or what `-` and `@FILE` stand for."""
    if word == STDIN:
        if sys.stdin.isatty():
            print("parley: type the request, then Ctrl-D on a line of its own", file=sys.stderr, flush=True)
        return _read(sys.stdin.buffer, "standard input")
    if not word.startswith(FROM_FILE) or len(os.fsencode(word)) > os.pathconf("/", "PC_PATH_MAX"):
        return word
    if os.path.isfile(word[1:]):  # noqa: PTH113 - any word may stand here, also one that no path can be
        return _from_file(word[1:])
    if len(word.split()) == 1:
        raise CommandError(f"{word[1:]!r}: there is no such file; name another after @, or say the request in words")
    return word


def _from_file(name: str) -> str:
    if name == STDIN:
        return _said(STDIN)
    shown = one_line(name, 200)
    try:
        with Path(name).open("rb") as file:
            return _read(file, shown).partition(f"{BELOW}\n")[0]  # it may be a draft that was kept
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "this can't be a file's name"
        raise CommandError(f"{shown}: {why}; name a file that holds the request") from error


def _read(stream: BinaryIO, where: str) -> str:
    """A text of bounded size: UTF-8, with line ends of any system, and without other control characters."""
    try:
        data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{where} can't be read: {error.strerror}; name a file that holds the request") from error
    if len(data) > MOST_BYTES:
        raise CommandError(f"{where} has more than {TEXT_LIMIT} characters; make the request shorter")
    return _decoded(data, where)


def _decoded(data: bytes, where: str) -> str:
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{where} is not UTF-8 (line {line}); write the request in UTF-8") from error
    if len(text) > TEXT_LIMIT:
        raise CommandError(f"{where} has {len(text)} characters, {TEXT_LIMIT} at most; make the request shorter")
    if found := _CONTROL.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise CommandError(
            f"{where} has the control character 0x{ord(found[0]):02x} in line {line}; write the request as plain text"
        )
    return text.strip("\n")


# ---- the editor ----------------------------------------------------------------------------------


def _edited(text: str, about: Sequence[str]) -> RequestText:
    """What the user makes of a text in their editor."""
    if not can_ask():
        raise CommandError(f"--edit needs a terminal, and there is none; {FORMS}")
    note = [BELOW, *EXPLAINED, *(f"# {one_line(line, 200)}" for line in about)]
    draft = _draft_file()
    draft.write_text("\n".join([text.rstrip("\n"), "", *note, ""]), encoding="utf-8")
    asked = RequestText("", draft)
    try:
        _run_editor(draft)
        with draft.open("rb") as file:
            asked.text = checked(_without_note(_read(file, "it"), note))
        draft.write_text(asked.text, encoding="utf-8")
    except FileNotFoundError as error:
        raise CommandError(EMPTY) from error
    except CommandError as error:
        if str(error) == EMPTY:
            asked.taken()
            raise
        if not _is_written(draft, note):
            asked.taken()
            raise CommandError(f"{error}; nothing was started", error.code) from error
        raise CommandError(f"{error}; nothing was started, and your text is kept in {draft}", error.code) from error
    return asked


def _without_note(text: str, note: Sequence[str]) -> str:
    """The text above the note; where the user has deleted its first line, the text without what is left of it."""
    above, found, _ = text.partition(f"{BELOW}\n")
    kept = above if found else "".join(line for line in text.splitlines(keepends=True) if line.rstrip() not in note)
    return kept.strip("\n")


def _is_written(draft: Path, note: Sequence[str]) -> bool:
    """Whether a draft holds a text besides the note."""
    try:
        return bool(_without_note(draft.read_text(encoding="utf-8", errors="replace"), note).strip())
    except FileNotFoundError:
        return False


def _draft_file() -> Path:
    """A new file of the user's own, beside Parley's other state: a request outlives a restart of the machine."""
    base = users_folder("XDG_STATE_HOME", "~/.local/state")
    folder = base / "parley" / "requests" if base is not None else None
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(prefix="request-", suffix=".md", dir=folder)
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror}; make it writable, or use --file FILE", FAILED) from error
    os.close(handle)
    return Path(name)


def editor() -> str:
    """The user's editor, as a shell's words: VISUAL or EDITOR, else the one of git.

    git is asked outside of every repository: the settings of a checkout must not choose a program.
    """
    visual = os.environ.get("VISUAL", "") if os.environ.get("TERM", "dumb") != "dumb" else ""
    if named := visual.strip() or os.environ.get("EDITOR", "").strip():
        return named
    outside = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    try:
        asked = subprocess.run(
            ["git", "var", "GIT_EDITOR"],
            cwd="/",
            env={**outside, "GIT_DIR": os.devnull},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return "vi"
    return asked.stdout.strip() or "vi"


def _run_editor(path: Path) -> None:
    """Let the user edit a file. As with git, the editor's words are the shell's, and Ctrl-C is the editor's own."""
    named = editor()
    before = signal.getsignal(signal.SIGINT)
    try:
        with subprocess.Popen(["sh", "-c", f'{named} "$@"', named, str(path)]) as process:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if code in NO_PROGRAM:
        raise CommandError(f"the editor ({one_line(named, 80)}) can't be started; name yours with $EDITOR", FAILED)
    if code:
        raise CommandError(f"the editor ({one_line(named, 80)}) ended with {code}", FAILED)
