"""Values of settings out of their nodes, with errors that name table and key: `[limits] fan_out: it must be …`."""

from __future__ import annotations

from collections.abc import Callable, Collection

from parley.base.documents.node import TOML, Items, Node, Scalar, quoted
from parley.base.documents.reader import Reader
from parley.base.wording import advice

Check = Callable[[str], tuple[str, str] | None]  # a text's problem and its remedy; None: it can be used


class SettingsReader(Reader):
    """The first error is raised. `what` is a table (`[limits]`), or a table and a key (`[limits] fan_out`)."""

    def unfit(self, node: Node, what: str, expected: str, remedy: str) -> None:
        """Report a value that is not what it must be."""
        if expected == TOML.mapping:
            remedy = f"write {what} on a line of its own"
        self.wrong(node, f"{what}: it must be {expected}", remedy)

    def unknown_key(self, key: Node, name: str, what: str, known: Collection[str]) -> None:
        """Report a key that there is not."""
        where = f"{what} {name}".strip()
        self.wrong(key, f"{where}: there is no such setting", advice(name, known), "unknown-key")

    def unknown_word(self, node: Node, what: str, word: str, known: Collection[str]) -> None:
        """Report a word that there is not."""
        empty = "leave it out, or " if "" in known else ""
        self.wrong(node, f"{what}: {quoted(word)} is not known", empty + advice(word, [each for each in known if each]))

    def texts(
        self, node: Node, what: str, *, of: str = "texts", example: str = '"…", "…"', check: Check | None = None
    ) -> tuple[str, ...]:
        """A list of texts with something in them. `check` tells what is wrong with one, and what to do."""
        items = node.nodes if isinstance(node, Items) else (node,)
        texts = [str(item.value) for item in items if isinstance(item, Scalar) and isinstance(item.value, str)]
        if not isinstance(node, Items) or len(texts) < len(items) or "" in texts:
            self.unfit(node, what, f"a list of {of}", f"write {what.rpartition(' ')[2]} = [{example}]")
        for item, text in zip(items, texts, strict=False):
            if check is not None and (problem := check(text)):
                self.wrong(item, f"{what}: {problem[0]}", problem[1])
        return tuple(texts)
