"""The parser of the command line, and how its help is laid out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from parley.cli import CommandError


class HelpParser(argparse.ArgumentParser):
    """A parser whose help lists the commands in groups, and whose errors are one line like all others."""

    commands: Mapping[str, argparse.ArgumentParser] = {}
    groups: Mapping[str, Sequence[argparse.Action]] = {}  # the commands as help lists them, by their headings

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, formatter_class=HelpFormatter)
        self.color = False  # since Python 3.14 help is coloured

    def format_help(self) -> str:
        """The help; of all commands, in groups."""
        if not self.groups:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for heading, listed in (*self.groups.items(), ("options", self._optionals._group_actions)):  # noqa: SLF001 - as above
            formatter.start_section(heading)
            formatter.add_arguments(listed)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def help_of(self, command: str) -> str:
        """The help of one of its commands."""
        return self.commands[command].format_help()

    def error(self, message: str) -> NoReturn:
        """Say it like every other error."""
        raise CommandError(f"{message}; see `{self.prog} --help`")


class HelpFormatter(argparse.HelpFormatter):
    """Help that reads the same on every Python version."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=80)

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        """The command, its options, and its arguments, which start a new line where one is too short."""
        start = f"{'usage: ' if prefix is None else prefix}{self._prog}"
        shown = [action for action in actions if action.help is not argparse.SUPPRESS]
        options = list(self._options([action for action in shown if action.option_strings], groups))
        arguments = [self._format_args(action, action.dest) for action in shown if not action.option_strings]
        if len(line := " ".join([start, *options, *arguments])) <= self._width:
            return f"{line}\n\n"
        lines = [start]
        for parts in (options, arguments):
            for number, part in enumerate(parts):
                if (number == 0 and parts is arguments) or len(f"{lines[-1]} {part}") > self._width:
                    lines.append(" " * len(start))
                lines[-1] += f" {part}"
        return "\n".join(lines) + "\n\n"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """A paragraph is filled; lines that stand under one another, like examples, stay as they are."""
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _options(
        self, actions: Iterable[argparse.Action], groups: Iterable[argparse._MutuallyExclusiveGroup]
    ) -> Iterator[str]:
        exclusive = [group._group_actions for group in groups]  # noqa: SLF001 - a group tells its options nowhere else
        for action in actions:
            group = next((group for group in exclusive if action in group), [action])
            text = action.option_strings[0]
            if action.nargs != 0:
                text += f" {self._format_args(action, action.dest.upper())}"
            text = f"[{text}" if action is group[0] else text
            yield f"{text}]" if action is group[-1] else f"{text} |"

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """The option's forms, then its value once."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"


class CommandParsers:
    """The commands' parsers. Where one command is named, only its parser is made, to save time."""

    def __init__(self, top: HelpParser, only: str | None) -> None:
        self._commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=HelpParser)
        self._only = only
        self._made = top.commands = dict[str, argparse.ArgumentParser]()
        self._groups = top.groups = dict[str, list[argparse.Action]]()

    def group(self, heading: str) -> None:
        """The commands that are added from here on belong together."""
        self._groups[heading] = []

    def add(
        self,
        name: str,
        text: str,
        fill: Callable[[argparse.ArgumentParser], object],
        *,
        json: bool = True,
        examples: Sequence[str] = (),
    ) -> None:
        """Add a command; `json` gives it `--json`."""
        if self._only not in (None, name):
            return
        shown = "\n".join(("examples:", *(f"  {one}" for one in examples))) if examples else None
        about = f"{text[0].upper()}{text[1:]}."
        made = self._commands.add_parser(name, help=text, description=about, epilog=shown)
        self._made[name] = made
        self._groups[next(reversed(self._groups))].append(self._commands._choices_actions[-1])  # noqa: SLF001 - its line
        fill(made)
        made.add_argument("--repo", metavar="DIR", help="the folder to work in (default: the current one)")
        if json:
            made.add_argument("--json", action="store_true", help="one JSON document instead of text")
