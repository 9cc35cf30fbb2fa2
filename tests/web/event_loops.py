"""Runs a test's coroutine in a thread: the test's own may have Playwright's event loop already."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_coroutine(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run it to its end; what it raises is raised here."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, coroutine).result()
