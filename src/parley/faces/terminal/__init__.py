"""The live view in a terminal."""

from parley.faces.terminal.view import TerminalView

__all__ = ["TerminalView"]
