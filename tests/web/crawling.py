"""Goes through the whole page by its own links, as a program does that wants to see all of it."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

from starlette.routing import compile_path

from parley.web.pages import PAGES
from tests.web.raw_http import Answer


def crawl(look: Callable[[str], Answer], values: Mapping[str, str], each: int = 1) -> dict[str, Answer]:
    """Every address that is known, or that a page leads to, so many of each kind that show something: what they show.

    `values` are what the names in addresses stand for.
    """
    routes = [address for address, methods, _ in PAGES if "GET" in methods and not address.startswith("/answer")]
    waiting = [re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: values.get(found[1], "x"), route) for route in routes]
    patterns = [compile_path(route)[0] for route in routes]
    found, kinds = dict[str, Answer](), Counter[int]()
    while waiting:
        address = waiting.pop(0)
        kind = next((at for at, one in enumerate(patterns) if one.match(urlsplit(unquote(address)).path)), -1)
        if address in found or kinds[kind] == each:
            continue
        answer = found[address] = look(address)
        assert answer.status < HTTPStatus.INTERNAL_SERVER_ERROR, (address, answer.text[:500])
        kinds[kind] += answer.status == HTTPStatus.OK
        if answer.header("content-type").startswith("text/html"):
            links = re.findall(r'(?:href|hx-get|data-src)="(/[^"]*)"', answer.text)
            waiting += [link for one in links if _is_page(link := html.unescape(one).partition("#")[0])]
    return found


def _is_page(link: str) -> bool:
    return not link.startswith(("/static", "/events", "//")) and urlsplit(link).path != "/"
