"""The templates, and what they may call: times, ids, numbers, agents' texts. Everything is escaped by default."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from parley.base import wording
from parley.base.text import printable, safe_lines
from parley.base.wording import count
from parley.engine.protocol_messages import excerpt
from parley.web.drawing.markdown import markdown

HERE = Path(__file__).parent
STATIC = HERE / "static"


class Templates:
    """The environment of all templates."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            line=one_line,
            lines=safe_lines,
            excerpt=lambda text, length=160: one_line(excerpt(text, length)),
            markdown=markdown,
            ago=ago,
            since=since,
            until=until,
            lasted=duration,
            money=money,
        )
        self._environment.globals.update(static=static_address, count=count, copyable=copyable)

    def render(self, name: str, **values: Any) -> str:
        """Make a text from a template."""
        return self._environment.get_template(name).render(**values)

    def add(self, **helpers: Callable[..., Any]) -> None:
        """Give the templates more to call."""
        self._environment.globals.update(helpers)


def one_line(text: str) -> str:
    """A text of an agent's on one line, with nothing that hides or reverses what stands there."""
    return printable(" ".join(str(text).split()))


_HASHES: dict[str, str] = {}


def static_address(name: str) -> str:
    """The address of a file that comes with the page; another content has another address."""
    if name not in _HASHES:
        _HASHES[name] = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={_HASHES[name]}"


def ago(moment: float) -> Markup:
    """A time, relative to now, with the exact one on hover; the page keeps it right."""
    exact = datetime.fromtimestamp(moment, UTC)
    shown = exact.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        exact.isoformat(timespec="seconds"), shown, f"{duration(time.time() - moment)} ago"
    )


def since(moment: float) -> Markup:
    """How long something lasts that began then; the page keeps it right."""
    exact = datetime.fromtimestamp(moment, UTC)
    shown = exact.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    return Markup('<time datetime="{}" title="since {}" data-for>{}</time>').format(
        exact.isoformat(timespec="seconds"), shown, duration(time.time() - moment)
    )


def until(moment: float) -> Markup:
    """How long it is until then, with the exact time on hover."""
    exact = datetime.fromtimestamp(moment, UTC)
    shown = exact.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(timespec="seconds"), shown, f"in {duration(moment - time.time())}"
    )


def duration(seconds: float) -> str:
    """How long, in a few characters, as the page writes it."""
    return wording.duration(seconds, " ")


def money(micros: int) -> str:
    """An amount in millionths of a dollar, in dollars."""
    return f"${micros / 1e6:,.2f}"


_COPY = Markup(
    '<span class="id"><code>{shown}</code><button type="button" class="copy" data-copy="{text}" title="copy {text}">'
    '<span class="visually-hidden">copy {text}</span></button></span>'
)


def copyable(text: str, label: str = "") -> Markup:
    """An id with a button that copies it."""
    return _COPY.format(shown=one_line(label or text), text=one_line(text))
