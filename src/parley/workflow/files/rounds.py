"""`verification/round_N.json`: a verifier's verdict and findings in one round, with the commands' results."""

from __future__ import annotations

from collections.abc import Iterator

from parley.base.documents.node import Entries, Node, plain
from parley.base.text import mended
from parley.workflow.files.reading.strict_json import JsonFields, read_object, shown, write_json
from parley.workflow.model.grammar import VERDICTS
from parley.workflow.model.remedies import OnFailure
from parley.workflow.model.terms import Finding, JudgedCheckpoint, Proof, Round, Worker, round_of

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
    fields, findings = read_object(text, file, agent, f"an object with {', '.join(_FIELDS)}")
    if fields is None:
        return None, findings
    fields.only(_FIELDS)
    for name, meant in (("round", number), ("agent", agent)):
        given = fields.values.get(name)
        if given != meant or isinstance(given, bool):
            fields.wrong(name, f"{shown(meant)}, as the file's place says")
    fields.task_id()
    verifier = fields.text("verifier", "the name of the agent that verified", MOST_TEXT)
    if verifier and verifier == agent:
        fields.wrong("verifier", "another agent: none verifies its own work")
    verdict = fields.word("verdict", VERDICTS)
    found = _texts(fields, "findings")
    if verdict in {"rejected", "blocked"} and not found:
        fields.wrong("findings", f"a list with what is wrong, since the verdict is {verdict}")
    criteria, action = _criteria(fields), fields.values.get("action")
    told = "what a failed checkpoint led to, empty for none"
    if not fields.missing("action", told) and action not in ("", *OnFailure):
        fields.wrong("action", f"{told}: one of {', '.join(OnFailure)}")
    if verdict == "verified" and not all(one.met for one in criteria):
        fields.wrong("verdict", "rejected or blocked, since a criterion is not met")
    proofs = _proofs(fields)
    time = fields.second("timestamp") or 0
    if fields.findings:
        return None, fields.findings
    return Round(
        number=number,
        verifier=verifier,
        verdict=verdict,
        findings=found,
        proofs=proofs,
        time=time,
        criteria=criteria,
        action=str(action),
    ), []


def _list(fields: JsonFields, name: str, expected: str) -> tuple[Node, ...]:
    if fields.missing(name, expected):
        return ()
    value = fields.values[name]
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        fields.wrong(name, f"{expected}, {MOST_ITEMS} at most")
        return ()
    return fields.nodes(name)


def _texts(fields: JsonFields, name: str) -> tuple[str, ...]:
    listed = enumerate(_list(fields, name, "a list of texts"))
    expected = "a text: what is wrong, and where"
    return tuple(fields.text_at(f"{name}[{at}]", plain(item), expected, MOST_TEXT) for at, item in listed)


def _objects(fields: JsonFields, name: str, expected: str, one: str) -> Iterator[JsonFields]:
    """The fields of each object in a list."""
    for at, item in enumerate(_list(fields, name, expected)):
        if isinstance(item, Entries):
            yield fields.inner(item, f"{name}[{at}]")
        else:
            fields.find("wrong-value", f"{name}[{at}]", f"is {shown(plain(item))}", f"it must be an object: {one}")


def _criteria(fields: JsonFields) -> tuple[JudgedCheckpoint, ...]:
    judged = []
    for one in _objects(fields, "criteria", "a list of objects, one for each checkpoint", "a checkpoint"):
        one.only(("to", "criteria", "result", "evidence"))
        to, said = one.text("to", "the agent that it is handed to", MOST_TEXT), one.values.get("criteria")
        result, evidence = one.word("result", tuple(_RESULTS)), one.values.get("evidence", "")
        for name, text in (("criteria", said), ("evidence", evidence)):
            if not isinstance(text, str) or len(text) > MOST_TEXT:
                one.wrong(name, f"a text of at most {MOST_TEXT} characters")
        if not one.findings:
            judged.append(JudgedCheckpoint(to, str(said), _RESULTS[result], evidence))
    return tuple(judged)


def _proofs(fields: JsonFields) -> tuple[Proof, ...]:
    proofs = []
    for proof in _objects(fields, "proofs", "a list of objects, one for each command", "what a command did"):
        proof.only(_OF_PROOFS)
        command = proof.text("command", "the command that was run", MOST_TEXT)
        code = proof.values.get("exit_code")
        if not isinstance(code, int) or isinstance(code, bool):
            proof.wrong("exit_code", "an integer: how the command ended")
        seconds = proof.values.get("seconds", 0.0)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
            proof.wrong("seconds", "a number: how long it took")
        output, fault = proof.values.get("output", ""), proof.values.get("fault", "")
        for name, text in (("output", output), ("fault", fault)):
            if not isinstance(text, str) or len(text) > MOST_TEXT:
                proof.wrong(name, f"a text of at most {MOST_TEXT} characters")
        if not proof.findings:
            proofs.append(Proof(command=command, code=code or 0, output=output, seconds=float(seconds), fault=fault))
    return tuple(proofs)
