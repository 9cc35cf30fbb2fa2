"""The launcher's report about its cage, and the verdict from it and from what was seen outside."""

from __future__ import annotations

import socket
import time

from parley.sandbox import bubblewrap
from parley.sandbox.cage import BROKEN, ESCAPED, EXEMPT, HELD, Attempt, CageVerdict, NotHeld
from parley.sandbox.inside import attempts, launcher
from parley.settings.schema import BoundarySettings

VERIFY_SECONDS = 15.0
REPORT_LIMIT = 1 << 20
TOLD = 3


def read(control: socket.socket) -> list[list[str]]:
    """The launcher's report: name, result and detail of each attempt and control."""
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


def judge(report: list[list[str]], seen: dict[str, str], settings: BoundarySettings, uid: int) -> CageVerdict:
    """The verdict. What was seen outside counts more than what the launcher reports."""
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
    return CageVerdict(
        attempts=tuple(tried),
        controls=tuple(controls),
        exemptions=tuple(shown),
        accepted="",
        uid=uid,
        resident_kb=resident,
    )


def no_report(said: str, error: Exception) -> str:
    """Why the launcher reported nothing, in one line with what to do."""
    if bubblewrap.is_refused(said):
        return bubblewrap.forbidden(said)
    late = f"it did not report within {VERIFY_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
    return f"the boundary could not be verified: {said or late}; see `parley doctor`"


def insist(verdict: CageVerdict) -> None:
    """Raise NotHeld for a cage that did not withstand the attempts."""
    if not verdict.ok:
        raise NotHeld(_refusal(verdict), verdict)


def _refusal(verdict: CageVerdict) -> str:
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
