"""The terminal: the live view of a job that is run here, and the watch over all jobs."""

from parley.faces.terminal.program import standing, watch_all
from parley.faces.terminal.sight import Exhibit, Sight
from parley.faces.terminal.tty import Ended
from parley.faces.terminal.view import TerminalView

__all__ = ["Ended", "Exhibit", "Sight", "TerminalView", "standing", "watch_all"]
