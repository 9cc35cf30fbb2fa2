"""The terminal: one program with screens over jobs, for `parley watch` and for `parley run`."""

from parley.tui.launch import RunView, watch_all
from parley.tui.overview import left_out_words, plain_list

__all__ = ["RunView", "left_out_words", "plain_list", "watch_all"]
