"""The least that a server of a page can do on this machine: Starlette and uvicorn with bytes that are there already.

`python -m bench.bare_page FOLDER` serves FOLDER/page.html as the page, FOLDER/part as every part of it, both compressed
already, and server-sent events that go to every listener when a client posts to /tick. It prints its address.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from parley.web.templating import STATIC

EVENT = 'id: 1\nevent: change\ndata: [["bench", "bench", "record"]]\n\n'
BACKLOG = 1024


class Broadcast:
    """One event to all who listen."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    async def tick(self, request: Request) -> Response:
        """Wake all."""
        for woken in self._waiting:
            woken.set()
        return Response(status_code=204)

    async def listen(self, request: Request) -> Response:
        """A stream of events."""
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        woken = asyncio.Event()
        self._waiting.add(woken)
        try:
            yield "event: hello\ndata: bench\n\n"
            while True:
                await woken.wait()
                woken.clear()
                yield EVENT
        finally:
            self._waiting.discard(woken)


def app_of(folder: Path) -> Starlette:
    """The application."""
    page = gzip.compress((folder / "page.html").read_bytes())
    largest = (folder / "part").read_text(encoding="utf-8")
    parts = gzip.compress(json.dumps([["/part", "1", largest]]).encode())
    headers = {"content-encoding": "gzip", "content-type": "text/html; charset=utf-8"}
    broadcast = Broadcast()

    async def show_page(request: Request) -> Response:
        return Response(page, headers=headers)

    async def show_parts(request: Request) -> Response:
        return Response(parts, headers={**headers, "content-type": "application/json"})

    async def missed(request: Request) -> Response:
        return JSONResponse({"mark": "", "reset": False, "changes": []})

    return Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/events", broadcast.listen),
            Route("/events/since", missed),
            Route("/tick", broadcast.tick, methods=["POST"]),
            Route("/parts", show_parts),
            Route("/{rest:path}", show_page),
        ]
    )


def main() -> None:
    """Serve until the process is ended."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # each piece is sent at once
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
    config = uvicorn.Config(
        app_of(Path(sys.argv[1])), http="h11", ws="none", lifespan="off", log_config=None, access_log=False
    )
    asyncio.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main()
