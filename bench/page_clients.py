"""Many open pages without browsers: each holds an event stream, and fetches its parts anew when an event comes.

A client does what the page's script does: it fetches all parts that are due at once, each at most every so many
milliseconds, says which version of each it has, gets those that changed, and counts the bytes.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

FINE = 200  # the status of an answer that shows what was asked for
BUNDLE = "/parts"  # where several parts are fetched at once
QUIET_SECONDS = 0.3  # between two fetches of one part, as the page's script has it
_LIVE = re.compile(r"<[^>]*\bdata-live=[^>]*>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


class Part(NamedTuple):
    """A part of a page that is fetched anew: its address, and how seldom."""

    address: str
    every: float = QUIET_SECONDS


class Answer(NamedTuple):
    """What a request came back with."""

    status: int
    headers: dict[str, str]
    body: bytes
    size: int  # bytes on the wire


def parts_of(page: str) -> list[Part]:
    """The parts of a page that follow a job's record."""
    found = []
    for tag in _LIVE.findall(page):
        said = dict(_ATTRIBUTE.findall(tag))
        if "hx-get" in said and "record" in said.get("data-on", "record").split():
            address = said["hx-get"].replace("&amp;", "&")
            found.append(Part(address, float(said.get("data-every", QUIET_SECONDS * 1e3)) / 1e3))
    return found


class Connection:
    """One connection to a server, kept open from request to request."""

    def __init__(self, origin: str, cookie: str = "") -> None:
        split = urlsplit(origin)
        self._host, self._port = split.hostname or "", split.port or 80
        self._cookie = cookie
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, method: str, path: str, **headers: str) -> asyncio.StreamReader:
        """Send a request; where to read its answer."""
        if self._reader is None or self._writer is None or self._writer.is_closing():
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        lines = {"host": f"{self._host}:{self._port}", "cookie": self._cookie, "accept-encoding": "gzip", **headers}
        told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items() if value)
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{told}\r\n".encode())
        await self._writer.drain()
        return self._reader

    async def get(self, path: str, **headers: str) -> Answer:
        """Fetch something."""
        return await answer(await self.send("GET", path, **headers))

    async def post(self, path: str) -> Answer:
        """Post nothing."""
        return await answer(await self.send("POST", path, content_length="0"))

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()


async def answer(reader: asyncio.StreamReader) -> Answer:
    """Read an answer whose length is told."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(int(first.split(" ")[1]), headers, body, len(head) + len(body))


@dataclass(slots=True)
class Client:
    """One open page."""

    origin: str
    cookie: str
    parts: Sequence[Part]
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[float] = field(default_factory=list)  # when each came
    fetched: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # of each part: when it began and ended
    tags: dict[str, str] = field(default_factory=dict)  # the version of each part that it has
    size: int = 0  # bytes on the wire
    failures: int = 0

    async def live(self) -> None:
        """Listen, and fetch anew, until it is cancelled."""
        stream, wire, woken = (
            Connection(self.origin, self.cookie),
            Connection(self.origin, self.cookie),
            asyncio.Event(),
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(wire, woken))
                tasks.create_task(self._listen(stream, woken))
        finally:
            stream.close()
            wire.close()

    async def _listen(self, stream: Connection, woken: asyncio.Event) -> None:
        reader = await stream.send("GET", "/events", accept="text/event-stream")
        while line := await reader.readline():
            self.size += len(line)
            if line.startswith(b"event: hello"):
                self.listening.set()
            elif line.startswith(b"event: change"):
                self.events.append(time.time())
                woken.set()
        self.failures += 1  # the stream ended

    async def _follow(self, wire: Connection, woken: asyncio.Event) -> None:
        """Fetch all parts after each event, those together that may be fetched again."""
        due, begun = set[Part](), dict.fromkeys(self.parts, 0.0)
        while True:
            if not due:
                await woken.wait()
            if woken.is_set():
                woken.clear()
                due |= set(self.parts)
            ready = [part for part in self.parts if part in due and begun[part] + part.every <= time.time()]
            if not ready:
                await asyncio.sleep(max(0.0, min(begun[part] + part.every for part in due) - time.time()))
                continue
            due.difference_update(ready)
            began = time.time()
            begun.update(dict.fromkeys(ready, began))
            await self._fetch(wire, ready)
            for part in ready:
                self.fetched.setdefault(part.address, []).append((began, time.time()))

    async def _fetch(self, wire: Connection, ready: Sequence[Part]) -> None:
        asked = [("part", part.address) for part in ready] + [
            ("tag", self.tags.get(part.address, "")) for part in ready
        ]
        got = await wire.get(f"{BUNDLE}?{urlencode(asked)}")
        self.size += got.size
        self.failures += got.status != FINE
        if got.status == FINE and got.body:
            text = gzip.decompress(got.body) if got.headers.get("content-encoding") == "gzip" else got.body
            self.tags.update({address: tag for address, tag, _ in json.loads(text)})

    def seen_after(self, commit: float) -> tuple[float, list[float]] | None:
        """How long after a commit its event was here, and each part as it is since; None where one was never."""
        event = next((at for at in self.events if at >= commit), None)
        if event is None:
            return None
        ends = [next((end for begun, end in done if begun >= event), None) for done in self.fetched.values()]
        if None in ends:
            return None
        return event - commit, [end - commit for end in ends if end is not None]
