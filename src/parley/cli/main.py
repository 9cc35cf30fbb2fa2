"""Runs one command: reads its words, calls its module, and tells every error in one line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper

from parley import __version__
from parley.base import output
from parley.base.wording import near
from parley.cli import BAD_USE, COMPLETE, HELP, MODULES, OK, SERVE_ENGINE, CommandError, ctrl_c
from parley.cli.commands import parser
from parley.machine import stop_signals

EXTRAS = {"psycopg": "postgres", "temporalio": "temporal"}  # what the commands for many hosts need besides


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Every error is one line and no traceback."""
    searched = os.environ.get("PATH")  # a command may remove a checkout from it
    _open_closed_streams()
    with output.redacted_output():
        try:
            ctrl_c.command_begins()
            return _main(sys.argv[1:] if argv is None else argv)
        except KeyboardInterrupt as stop:
            # It names a job at most. It is not redacted: Ctrl-C may have left the modules for that half imported.
            print(f"parley: {ctrl_c.interrupted_line()}", file=output.raw_stream(sys.stderr))
            return int(getattr(stop, "code", ctrl_c.CODE))
        finally:
            ctrl_c.command_ended()
            if searched is not None:
                os.environ["PATH"] = searched


def _open_closed_streams() -> None:
    """Put the null device in the place of standard streams that were closed, as by `<&-`.

    Else Python has none of that name, and the next file that is opened gets the stream's number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so the stream's own
            setattr(sys, name, os.fdopen(opened, mode, encoding="utf-8"))


def _main(argv: Sequence[str]) -> int:
    """Run one command, and print the error that ends it as one line."""
    for stream in map(output.raw_stream, (sys.stdout, sys.stderr)):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has printed its help
        return stop.code if isinstance(stop.code, int) else OK
    except BrokenPipeError:
        # The reader of our output has gone: no error of ours, but Python would complain at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return OK
    except Exception as error:
        if number := stop_signals.asked():  # Python and libraries may turn the exception into other errors
            raise stop_signals.exception_of(number) from error
        if isinstance(error, CommandError):
            _say(str(error))
            return error.code
        explain = import_module("parley.cli.error_lines").explain
        text, code = explain(error)
        _say(text)
        return int(code)


def _run(argv: Sequence[str]) -> int:
    """Parse the arguments, and call the `run` of the command's module."""
    if argv and argv[0] == COMPLETE:
        output.OUTPUT_SECRETS.look(lambda: import_module("parley.cli.common").secrets_here(None))
        return int(import_module("parley.cli.machine.completion").complete(argv[1:]))
    if argv and argv[0] == SERVE_ENGINE:
        return int(import_module("parley.cli.running.serve_engine").run(argv[1:]))
    words = _read(_asking_for_help(argv) if argv and argv[0] == HELP else argv)
    if words.version:
        print(f"parley {__version__}")
        return OK
    if words.command is None:
        parser().print_help()
        return BAD_USE
    output.OUTPUT_SECRETS.look(lambda: import_module("parley.cli.common").secrets_here(getattr(words, "repo", None)))
    try:
        module = import_module(f"parley.cli.{MODULES[words.command]}")
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRAS:
            raise
        raise CommandError(
            f"{missing.name} is missing: install Parley with the extra `{EXTRAS[missing.name]}`"
        ) from missing
    return int(module.run(words))


def _asking_for_help(argv: Sequence[str]) -> list[str]:
    """`parley help COMMAND` as `parley COMMAND --help`."""
    named = [word for word in argv[1:] if not word.startswith("-")]
    if named and named[0] not in MODULES:
        raise CommandError(_no_command(named[0]))
    return [*named[:1], "--help"]


_FREE: Mapping[str, str | None] = {"text": "", "request": None}  # arguments that may follow an option


def _read(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. argparse itself accepts no TEXT after an option."""
    first = argv[0] if argv else ""
    if first and first not in MODULES and first not in ("-h", "--help", "-V", "--version"):
        raise CommandError(_no_command(first))
    known = parser(first if first in MODULES else None)
    words, rest = known.parse_known_args(argv)
    free = next((name for name, empty in _FREE.items() if getattr(words, name, rest) == empty), "")
    if len(rest) == 1 and free and (rest[0][:1] != "-" or " " in rest[0] or rest == ["-"]):
        setattr(words, free, rest[0])
    elif isinstance(getattr(words, "what", None), list) and not any(map(_is_option, rest)):
        words.what += rest
    elif rest and any(name in words for name in _FREE) and not any(map(_is_option, rest)):
        said = next(f"{getattr(words, name)} " for name in _FREE if name in words) + " ".join(rest)
        raise CommandError(f'put your words in quotes: "{said}"; see `parley {words.command} --help`')
    elif rest:
        command = f" {words.command}" if words.command else ""
        flag = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        meant = near(flag, re.findall(r"--[a-z-]+", known.help_of(words.command))) if flag else ""
        hint = f"did you mean {meant}? " if meant else ""
        raise CommandError(f"unrecognized arguments: {' '.join(rest)}; {hint}see `parley{command} --help`")
    return words


def _is_option(word: str) -> bool:
    return word.startswith("-") and " " not in word


def _no_command(word: str) -> str:
    if word.startswith("-"):
        return f"{word!r} stands before the command; write `parley COMMAND {word}`, and see `parley --help`"
    meant = near(word, (*MODULES, HELP))
    return f"there is no command {word!r}; {f'did you mean `parley {meant}`? ' if meant else ''}see `parley --help`"


def _say(text: str) -> None:
    line = " ".join(text.split())
    try:
        print(f"parley: {line}", file=sys.stderr, flush=True)
    except OSError:
        return  # standard error is closed
