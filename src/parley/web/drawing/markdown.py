"""Markdown that agents wrote, as HTML that does nothing: no scripts, no styles, no images from elsewhere, no live HTML.

The Markdown reader leaves HTML in it as text; what it makes is cleaned once more by an allow-list, so that a fault in
the one is caught by the other. A text that takes too long, or is nested too deeply, is shown as it was written. So is
one that would not show all of its words: Markdown can hide some, and people approve what they see.
"""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from functools import lru_cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markupsafe import Markup

from parley.base.text import safe_lines

LONGEST = 100_000  # characters that are rendered; a longer text is shown as text
MOST_SECONDS = 0.5  # of rendering
MOST_DELIMITERS = 5_000  # that are paired with one another in one paragraph
DEEPEST = 20  # lists and quotations in one another
BELOW = 2  # headings of the page that stand above a text: its own begin one level lower
KEPT_TEXTS = 32  # that were rendered last: an open page asks for the same one again and again
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_SCHEMES = ("http", "https", "mailto")
_DEADLINE = "deadline"
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"^[ \t>*+-]*\d{1,9}[.)]", re.MULTILINE)  # of a list: it is drawn, and not among the words
_HEADING = re.compile(r"<(/?)h([1-6])>")
_SCROLLED = {
    "<pre>": '<pre tabindex="0">',
    "<table>": '<div class="scroll" tabindex="0"><table>',
    "</table>": "</table></div>",
}
_ADDRESS = re.compile(r'<a [^>]*href="([^"]*)"')
_TAG = re.compile(r"<[^>]*>")


class _TooHard(Exception):
    """The text is not worth the time that its rendering takes."""


def _check(env: Any) -> None:
    """Give up once the time is over; the reader asks at every step."""
    if time.monotonic() > env[_DEADLINE]:
        raise _TooHard


def _check_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    _check(state.env)
    if state.level >= DEEPEST - 1:  # the reader would leave out what stands below
        raise _TooHard
    return False


def _check_inline(state: StateInline, silent: bool) -> bool:
    _check(state.env)
    return False


def _check_pairs(state: StateInline) -> None:
    _check(state.env)
    if len(state.delimiters) > MOST_DELIMITERS:
        raise _TooHard


def _check_core(state: StateCore) -> None:
    _check(state.env)


def _leads_out(address: str) -> bool:
    """Whether a link leads to the web: none leads into this page, since an agent's words are no part of it."""
    return address.lower().startswith(tuple(f"{scheme}:" for scheme in _SCHEMES))


class _Reader(MarkdownIt):
    """Leaves a link that leads elsewhere than to the web as it was written."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the reader's own name
        """Whether it becomes a link."""
        return _leads_out(url)


def _reader() -> MarkdownIt:
    reader = _Reader("commonmark", {"html": False, "linkify": False, "maxNesting": DEEPEST})
    reader.enable(["table", "strikethrough"])
    reader.disable(["image", "reference"])  # a definition of a reference is drawn nowhere
    chains = RuleOptionsType(alt=["paragraph", "blockquote", "list", "table"])
    reader.block.ruler.before("table", _DEADLINE, _check_block, chains)
    reader.inline.ruler.before("text", _DEADLINE, _check_inline)
    reader.inline.ruler2.before("balance_pairs", _DEADLINE, _check_pairs)
    reader.core.ruler.push(_DEADLINE, _check_core)
    return reader


_READER = _reader()


def markdown(text: str) -> Markup:
    """A text as safe HTML. Links lead only to the web, in a page of their own that learns nothing of this one."""
    shown = safe_lines(text)
    return _as_written(shown) if len(shown) > LONGEST else _rendered(shown)


def _as_written(text: str) -> Markup:
    return Markup('<pre class="text">{}</pre>').format(text)


@lru_cache(KEPT_TEXTS)
def _rendered(text: str) -> Markup:
    try:
        raw = _READER.render(text, {_DEADLINE: time.monotonic() + MOST_SECONDS})
    except (_TooHard, RecursionError):
        return _as_written(text)
    made = nh3.clean(
        raw,
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        attribute_filter=_kept,
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    body = Markup('<div class="markdown">{}</div>').format(Markup(_fitted(made)))  # noqa: S704 - cleaned above
    if not _hides(text, made):
        return body
    return body + Markup("<p>Not all of it shows above. As it was written:</p>") + _as_written(text)


def _fitted(made: str) -> str:
    """Cleaned HTML as a part of a page: its headings stand below the page's own, and the keyboard scrolls what is wide.

    The cleaning has left no attribute at these tags, and no such tag in a text.
    """
    lower = _HEADING.sub(lambda found: f"<{found[1]}h{min(6, int(found[2]) + BELOW)}>", made)
    for tag, wrapped in _SCROLLED.items():
        lower = lower.replace(tag, wrapped)
    return lower


def _kept(tag: str, attribute: str, value: str) -> str | None:
    return value if attribute != "href" or _leads_out(value) else None


def _hides(text: str, made: str) -> bool:
    """Whether words of a text are missing in what was made of it. One word after a fence is its language."""
    shown = html.unescape(_TAG.sub(" ", made) + " ".join(_ADDRESS.findall(made)))
    written = re.sub(r"^([ \t>]*(?:```+|~~~+))[ \t]*[\w+#.-]{1,20}[ \t]*$", r"\1", text, flags=re.MULTILINE)
    return bool(_words(_NUMBER.sub(" ", html.unescape(written))) - _words(shown))


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text))
