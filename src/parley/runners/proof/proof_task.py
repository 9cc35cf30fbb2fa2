"""What a proof is asked for: commands, and how long each may take. An agent may have written it."""

from __future__ import annotations

from dataclasses import dataclass

from parley.base.documents.json_text import read_json
from parley.base.documents.node import DocumentError, Items, Node, Scalar
from parley.base.documents.reader import Reader

SECONDS = 600.0  # that a command may take where nothing else is said
MOST_COMMANDS = 100
MOST_CHARACTERS = 50_000  # of all commands
_FORM = 'send {"commands": ["..."], "seconds": 600}'


@dataclass(frozen=True, slots=True)
class ProofTask:
    """Commands to be run, one after another."""

    commands: tuple[str, ...]
    seconds: float  # for each


class _TaskReader(Reader):
    def report(self, error: DocumentError) -> None:
        """Every error tells the whole form."""
        raise DocumentError(error.place, error.problem, _FORM)


_READER = _TaskReader()


def read_task(message: str) -> ProofTask:
    """The task that a message holds; what the protocol has added behind it is not looked at."""
    try:
        node = read_json(message, "the message", rest=True)
    except DocumentError as error:
        raise DocumentError(error.place, error.problem, _FORM) from error
    fields = _READER.fields(node, "a task")
    seconds = _READER.seconds(fields["seconds"], "`seconds`") if "seconds" in fields else SECONDS
    return ProofTask(_commands(fields.get("commands")), seconds)


def _commands(node: Node) -> tuple[str, ...]:
    items = node.nodes if isinstance(node, Items) else ()
    commands = [item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str)]
    if not commands or len(commands) < len(items):
        raise node.error("`commands` must be a list of texts, with one at least", _FORM)
    if len(commands) > MOST_COMMANDS or sum(map(len, commands)) > MOST_CHARACTERS:
        problem = f"`commands` may be {MOST_COMMANDS} of {MOST_CHARACTERS} characters in all"
        raise node.error(problem, "put more into a script")
    for item, command in zip(items, commands, strict=True):
        if not command.strip():
            raise item.error("a command is empty", "leave it out")
    return tuple(commands)
