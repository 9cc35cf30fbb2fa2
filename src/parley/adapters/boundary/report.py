"""What the launcher says about its cage, weighed against what was seen outside."""

from __future__ import annotations

import socket
import time

from parley.adapters.boundary import attempts, bubblewrap, launcher
from parley.adapters.boundary.cage import BROKEN, ESCAPED, EXEMPT, HELD, Attempt, NotHeld, Verdict
from parley.config import BoundarySettings

VERIFY_SECONDS = 15.0
REPORT_LIMIT = 1 << 20
TOLD = 3


def read(control: socket.socket) -> list[list[str]]:
    """What the launcher says: name, result, detail."""
    said = bytearray()
    deadline = time.monotonic() + VERIFY_SECONDS
    while not said.endswith(b"\n\n"):
        control.settimeout(max(0.01, deadline - time.monotonic()))
        part = control.recv(1 << 16)
        if not part or len(said) > REPORT_LIMIT:
            raise EOFError("it ended before it had reported")
        said += part
    lines = said.decode("utf-8", "replace").splitlines()[:-1]
    return [line.split("\t", 2) for line in lines]


def judge(report: list[list[str]], seen: dict[str, str], settings: BoundarySettings, uid: int) -> Verdict:
    """What the launcher reported and what was seen outside, put together."""
    exempt = settings.exempt
    results = {name: (result, detail) for name, result, detail in report}
    tried = []
    for attempt in attempts.ATTEMPTS:
        name = attempt.__name__
        result, detail = results.get(name, (BROKEN, "it was not reported"))
        if name in seen:
            result, detail = ESCAPED, seen[name]
        tried.append(Attempt(name, EXEMPT if name in exempt and result != HELD else result, detail))
    controls = []
    for name in ("landlock", *launcher.CONTROLS):
        _, detail = results.get(name, ("", "it was not reported"))
        good = detail.split(" ")[0] == "ok"
        controls.append(Attempt(name, HELD if good else EXEMPT if name in exempt else BROKEN, detail))
    shown = [f"attempt {name}" for name in exempt]
    shown += [f"readable {path}" for path in settings.readable]
    shown += [f"host {host}" for host in settings.hosts]
    resident = int(results.get("resident", ("", "0"))[1])
    return Verdict(tuple(tried), tuple(controls), tuple(shown), "", uid, resident)


def no_report(said: str, error: Exception) -> str:
    """Why nothing was reported, in one line with what to do."""
    if bubblewrap.is_refused(said):
        return bubblewrap.forbidden(said)
    late = f"it did not report within {VERIFY_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
    return f"the boundary could not be verified: {said or late}; see `parley doctor`"


def insist(verdict: Verdict) -> None:
    """Refuse a cage that did not hold."""
    if not verdict.ok:
        raise NotHeld(_refusal(verdict), verdict)


def _refusal(verdict: Verdict) -> str:
    out = [attempt for attempt in verdict.attempts if attempt.result not in {HELD, EXEMPT}]
    if out:
        told = "; ".join(f"{fault.name}: {fault.detail}" for fault in out[:TOLD])
        more = f" and {len(out) - TOLD} more" if len(out) > TOLD else ""
        names = ", ".join(f'"{fault.name}"' for fault in out)
        return (
            f"the boundary did not hold, no agent is started: {told}{more}. Look at `parley doctor`; what you accept, "
            f"name in parley.toml: [boundary] exempt = [{names}]"
        )
    fault = verdict.faults()[0]
    if fault.name == "landlock":
        return f'{fault.detail}: use a kernel that has it, or put [boundary] exempt = ["landlock"] into parley.toml'
    return f"the boundary keeps the agent from its work: {fault.name}: {fault.detail}; see `parley doctor`"
