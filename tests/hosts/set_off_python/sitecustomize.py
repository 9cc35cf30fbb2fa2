"""For programs under libfaketime: its `clock_nanosleep` refuses the deadlines by which `time.sleep` waits."""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep  # type: ignore[assignment]  # no caller of ours gives it anything else
