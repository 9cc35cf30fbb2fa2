"""`verification/round_N.json`: what a verifier found in one round, with what the acceptance commands did."""

from __future__ import annotations

from typing import Any

from parley.text import mended
from parley.workflow.grammar import VERDICTS
from parley.workflow.remedies import OnFailure
from parley.workflow.strictly import Fields, read_json, shown, write_json
from parley.workflow.terms import Finding, Judged, Proof, Round, Worker, round_of

MOST_TEXT = 100_000  # characters of one finding or of one command's output
MOST_ITEMS = 1_000

_FIELDS = ("round", "agent", "task_id", "verifier", "verdict", "findings", "criteria", "action", "proofs", "timestamp")
_RESULTS = {"met": True, "failed": False, "not judged": None}
_OF_PROOFS = ("command", "exit_code", "output", "seconds", "fault")


def render_round(worker: Worker, one: Round) -> str:
    """The file of a round of verification of a worker's output."""
    proofs = [
        {
            "command": mended(proof.command),
            "exit_code": proof.code,
            "output": mended(proof.output),
            "seconds": proof.seconds,
            "fault": mended(proof.fault),
        }
        for proof in one.proofs
    ]
    document = {
        "round": one.number,
        "agent": worker.name,
        "task_id": worker.task_id,
        "verifier": one.verifier,
        "verdict": one.verdict,
        "findings": [mended(finding) for finding in one.findings],
        "criteria": [
            {"to": one.to, "criteria": mended(one.criteria), "result": one.result, "evidence": mended(one.evidence)}
            for one in one.criteria
        ],
        "action": one.action,
        "proofs": proofs,
        "timestamp": one.time,
    }
    return write_json(document)


def read_round(text: str, agent: str, number: int) -> tuple[Round | None, list[Finding]]:
    """The round that a worker's file of this number tells, or all that is wrong with it."""
    file = round_of(agent, number)
    value, findings = read_json(text, file, agent)
    if findings:
        return None, findings
    if not isinstance(value, dict):
        expected = f"it must be an object with {', '.join(_FIELDS)}"
        return None, [Finding(file, 0, agent, "wrong-value", f"the file is {shown(value)}", expected)]
    fields = Fields(file, agent, "", value)
    fields.only(_FIELDS)
    for name, meant in (("round", number), ("agent", agent)):
        given = value.get(name)
        if given != meant or isinstance(given, bool):
            fields.wrong(name, f"{shown(meant)}, as the file's place says")
    fields.task_id()
    verifier = fields.text("verifier", "the name of the agent that verified", MOST_TEXT)
    if verifier and verifier == agent:
        fields.wrong("verifier", "another agent: nobody verifies its own work")
    verdict = fields.word("verdict", VERDICTS)
    found = _texts(fields, "findings")
    if verdict in {"rejected", "blocked"} and not found:
        fields.wrong("findings", f"a list with what is wrong, since the verdict is {verdict}")
    criteria, action = _criteria(fields), value.get("action")
    told = "what a failed checkpoint led to, empty for none"
    if not fields.missing("action", told) and action not in ("", *OnFailure):
        fields.wrong("action", f"{told}: one of {', '.join(OnFailure)}")
    if verdict == "verified" and not all(one.met for one in criteria):
        fields.wrong("verdict", "rejected or blocked, since a criterion is not met")
    proofs = _proofs(fields)
    time = fields.second("timestamp") or 0
    if fields.findings:
        return None, fields.findings
    return Round(number, verifier, verdict, found, proofs, time, criteria, str(action)), []


def _list(fields: Fields, name: str, expected: str) -> list[Any]:
    if fields.missing(name, expected):
        return []
    value = fields.values[name]
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        fields.wrong(name, f"{expected}, {MOST_ITEMS} at most")
        return []
    return value


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    listed = _list(fields, name, "a list of texts")
    items = Fields(
        fields.file, fields.agent, "", {f"{name}[{at}]": item for at, item in enumerate(listed)}, fields.findings
    )
    return tuple(items.text(place, "a text: what is wrong, and where", MOST_TEXT) for place in items.values)


def _criteria(fields: Fields) -> tuple[Judged, ...]:
    judged = []
    for at, item in enumerate(_list(fields, "criteria", "a list of objects, one for each checkpoint")):
        if not isinstance(item, dict):
            fields.find("wrong-value", f"criteria[{at}]", f"is {shown(item)}", "it must be an object: a checkpoint")
            continue
        one = Fields(fields.file, fields.agent, f"criteria[{at}]", item, fields.findings)
        one.only(("to", "criteria", "result", "evidence"))
        to, said = one.text("to", "the agent that it is handed to", MOST_TEXT), item.get("criteria")
        result, evidence = one.word("result", tuple(_RESULTS)), item.get("evidence", "")
        for name, text in (("criteria", said), ("evidence", evidence)):
            if not isinstance(text, str) or len(text) > MOST_TEXT:
                one.wrong(name, f"a text of at most {MOST_TEXT} characters")
        if not one.findings:
            judged.append(Judged(to, str(said), _RESULTS[result], evidence))
    return tuple(judged)


def _proofs(fields: Fields) -> tuple[Proof, ...]:
    proofs = []
    for at, item in enumerate(_list(fields, "proofs", "a list of objects, one for each command")):
        if not isinstance(item, dict):
            fields.find("wrong-value", f"proofs[{at}]", f"is {shown(item)}", "it must be an object: what a command did")
            continue
        proof = Fields(fields.file, fields.agent, f"proofs[{at}]", item, fields.findings)
        proof.only(_OF_PROOFS)
        command = proof.text("command", "the command that was run", MOST_TEXT)
        code = item.get("exit_code")
        if not isinstance(code, int) or isinstance(code, bool):
            proof.wrong("exit_code", "an integer: how the command ended")
        seconds = item.get("seconds", 0.0)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
            proof.wrong("seconds", "a number: how long it took")
        output, fault = item.get("output", ""), item.get("fault", "")
        for name, text in (("output", output), ("fault", fault)):
            if not isinstance(text, str) or len(text) > MOST_TEXT:
                proof.wrong(name, f"a text of at most {MOST_TEXT} characters")
        if not proof.findings:
            proofs.append(Proof(command, code or 0, output, float(seconds), fault))
    return tuple(proofs)
