"""The boundary's part of `parley doctor`: a real cage is started, and what was tried in it is shown."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from parley.adapters.boundary import Boundary, Cage, NotHeld, Route, Verdict
from parley.adapters.boundary.attempts import ATTEMPTS
from parley.adapters.boundary.launcher import CONTROLS
from parley.config import BoundarySettings
from parley.ports import BoundaryError, Site
from parley.wording import count

SENTENCES = {step.__name__: step.__doc__ or "" for step in (*ATTEMPTS, *CONTROLS.values())}
SENTENCES["landlock"] = "Draw a second wall with Landlock."


class Trial(NamedTuple):
    """What came of trying the boundary."""

    ok: bool
    found: str
    verdict: Verdict
    remedy: str = ""

    def document(self) -> dict[str, Any]:
        """For programs."""
        steps = [*self.verdict.attempts, *self.verdict.controls]
        return {
            "ok": self.ok,
            "found": self.found,
            "accepted": self.verdict.accepted,
            "uid": self.verdict.uid,
            "milliseconds": round(self.verdict.milliseconds, 1),
            "resident_kb": self.verdict.resident_kb,
            "exemptions": list(self.verdict.exemptions),
            "attempts": [_told(step.name, step.result, step.detail) for step in steps],
        }

    def lines(self) -> list[str]:
        """For people: one line an attempt."""
        return [
            f"      {_word(step.name, step.result):<8} {step.name:<18} {SENTENCES[step.name]}"
            + (f" {step.detail}" if step.result in {"escaped", "broken", "exempt"} else "")
            for step in (*self.verdict.attempts, *self.verdict.controls)
        ] + [f"      exempt   {exemption}" for exemption in self.verdict.exemptions]


def _word(name: str, result: str) -> str:
    return "works" if name not in _NAMES and result == "held" else result


_NAMES = {attempt.__name__ for attempt in ATTEMPTS}


def _told(name: str, result: str, detail: str) -> dict[str, str]:
    return {"name": name, "result": result, "what": SENTENCES[name], "detail": detail}


def hold(settings: BoundarySettings) -> Trial:
    """Start a cage and have it tried."""
    boundary = Boundary(settings)
    try:
        with tempfile.TemporaryDirectory(prefix="parley-doctor-") as folder:
            return _tried(boundary, Path(folder))
    except NotHeld as error:
        return Trial(ok=False, found="it did not hold", verdict=error.verdict, remedy=str(error))
    except BoundaryError as error:
        return Trial(ok=False, found="there is none", verdict=Verdict(), remedy=str(error))
    finally:
        boundary.close()


def _tried(boundary: Boundary, folder: Path) -> Trial:
    places = [folder / name for name in ("workspace", "home")]
    for place in places:
        place.mkdir()
        boundary.hand_over(place)
    cage = Cage(Site(str(places[0])), places[1], ("true",), {"PATH": os.defpath}, route=Route())
    caged = boundary.launch(cage)
    caged.kill()
    plain = _plain_milliseconds()
    for stream in (caged.process.stdin, caged.process.stdout, caged.process.stderr):
        if stream is not None:
            stream.close()
    verdict = caged.verdict
    if verdict.accepted:
        return Trial(ok=True, found=f"accepted: {verdict.accepted}: agents run without any boundary", verdict=verdict)
    held = sum(attempt.result == "held" for attempt in verdict.attempts)
    found = (
        f"{held} of {count(len(verdict.attempts), 'escape')} held, as user {verdict.uid}, "
        f"{verdict.milliseconds:.0f} ms (a plain start: {plain:.0f} ms)"
    )
    return Trial(ok=True, found=found, verdict=verdict)


def _plain_milliseconds() -> float:
    begun = time.monotonic()
    subprocess.run(["true"], check=False)
    return (time.monotonic() - begun) * 1e3
