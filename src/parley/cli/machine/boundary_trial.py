"""Tries the boundary in a cage, for `parley doctor` and before a job begins."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from parley.base.wording import count
from parley.cli import CommandError
from parley.cli.common import Workplace
from parley.cli.running.job_runners import home_binds
from parley.cli.user_homes import known
from parley.ports.turns import BoundaryError, Site
from parley.sandbox import Boundary, Cage, CageVerdict, NotHeld, Route
from parley.sandbox.bubblewrap import ACCEPT
from parley.sandbox.inside.attempts import ATTEMPTS
from parley.sandbox.inside.launcher import CONTROLS
from parley.settings.schema import BoundarySettings

PREFIX = "parley-trial-"
NOTHING = ("/bin/sh", "-c", ":")
SENTENCES = {step.__name__: step.__doc__ or "" for step in (*ATTEMPTS, *CONTROLS.values())}
SENTENCES["landlock"] = "Draw a second wall with Landlock."


class BoundaryTrial(NamedTuple):
    """The result of trying the boundary."""

    ok: bool
    found: str
    verdict: CageVerdict
    remedy: str = ""
    program: str = ""  # the bubblewrap in use, and why this one

    def document(self) -> dict[str, Any]:
        """As JSON."""
        steps = [*self.verdict.attempts, *self.verdict.controls]
        return {
            "ok": self.ok,
            "found": self.found,
            "program": self.program,
            "accepted": self.verdict.accepted,
            "uid": self.verdict.uid,
            "milliseconds": round(self.verdict.milliseconds, 1),
            "resident_kb": self.verdict.resident_kb,
            "exemptions": list(self.verdict.exemptions),
            "attempts": [_told(step.name, step.result, step.detail) for step in steps],
        }

    def lines(self) -> list[str]:
        """For people: one line for each attempt."""
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


def preflight(settings: BoundarySettings, place: Workplace | None = None) -> None:
    """Refuse in one line, before a job is made, where no agent could be confined."""
    if settings.accept:
        return
    boundary = boundary_at(place, settings) if place is not None else Boundary(settings)
    try:
        _tried(boundary, place)
    except BoundaryError as error:
        raise CommandError(f"no job can run here: {error}") from error
    except OSError as error:
        raise CommandError(f"no job can run here: the boundary can't be tried: {_why(error)}") from error
    finally:
        boundary.close()


def try_boundary(settings: BoundarySettings, place: Workplace) -> BoundaryTrial:
    """Start a cage and make all attempts in it."""
    boundary = boundary_at(place, settings)
    try:
        verdict = _tried(boundary, place)
        if verdict.accepted:
            found = f"accepted: {verdict.accepted}: agents run without any boundary"
            return BoundaryTrial(ok=True, found=found, verdict=verdict)
        held = sum(attempt.result == "held" for attempt in verdict.attempts)
        found = (
            f"{held} of {count(len(verdict.attempts), 'escape')} held, as user {verdict.uid}, "
            f"{verdict.milliseconds:.0f} ms (a plain start: {_plain_milliseconds():.0f} ms)"
        )
        return BoundaryTrial(ok=True, found=found, verdict=verdict, program=boundary.choice().words())
    except NotHeld as error:
        remedy, program = str(error), boundary.choice().words()
        return BoundaryTrial(ok=False, found="it did not hold", verdict=error.verdict, remedy=remedy, program=program)
    except BoundaryError as error:
        return BoundaryTrial(ok=False, found="there is none", verdict=CageVerdict(), remedy=str(error))
    except OSError as error:
        return BoundaryTrial(ok=False, found="it can't be tried", verdict=CageVerdict(), remedy=_why(error))
    finally:
        boundary.close()


def _why(error: OSError) -> str:
    """Why a trial could not begin, and what to do."""
    if os.geteuid() == 0 and error.errno in {errno.EINVAL, errno.EPERM}:
        return f"Parley is root here, but may not become another user: run it as an ordinary user, {ACCEPT}"
    where = error.filename or tempfile.gettempdir()
    return f"{where}: {error.strerror}; check its free space and permissions, or name another folder with TMPDIR"


def boundary_at(place: Workplace, settings: BoundarySettings) -> Boundary:
    """The boundary of jobs at a place. It hides the user's repositories, which a cage would show below /usr, say."""
    others = known()
    return Boundary(
        settings,
        home_binds(),
        private=(place.home, *(other.home for other in others)),
        personal=(place.root, *(other.root for other in others)),
    )


def _tried(boundary: Boundary, place: Workplace | None) -> CageVerdict:
    """The verdict of a fresh cage; a BoundaryError where there can be none."""
    with _trial_folder(place) as folder:
        workspace, home = folder / "workspace", folder / "home"
        for made in (workspace, home):
            made.mkdir()
            boundary.hand_over(made)
        caged = boundary.launch(Cage(Site(str(workspace)), home, NOTHING, {"PATH": os.defpath}, route=Route()))
        caged.kill()
        for stream in (caged.process.stdin, caged.process.stdout, caged.process.stderr):
            if stream is not None:
                stream.close()
        return caged.verdict


@contextmanager
def _trial_folder(place: Workplace | None) -> Iterator[Path]:
    """A folder in the home, where jobs will run: a cage may hold in one place and not in another.

    A missing home is made for it, and deleted again. Where that fails, the trial is made among the temporary files,
    and the code that uses the home reports what is wrong with it.
    """
    with ExitStack() as held:
        folder = ""
        if place is not None:
            with contextlib.suppress(OSError):
                _make(place.home, held)
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=place.home))
        yield Path(folder or held.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX)))


def _make(home: Path, held: ExitStack) -> None:
    """Make a home with the folders above it, until the trial is over."""
    missing = [folder for folder in (home, *home.parents) if not os.path.lexists(folder)]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700)
        held.callback(_remove_empty, folder)
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(home))


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another Parley has just begun to use it
        folder.rmdir()


def _plain_milliseconds() -> float:
    begun = time.monotonic()
    subprocess.run(NOTHING, check=False)
    return (time.monotonic() - begun) * 1e3
