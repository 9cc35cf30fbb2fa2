"""Which version of an artifact the human last saw: the one that they last answered for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from parley.engine.names import number_of
from parley.engine.projections import Asked
from parley.engine.records import answered
from parley.engine.stand_in import STAND_INS
from parley.ports import InputRow, Store


@dataclass(frozen=True, slots=True)
class Seen:
    """A version that the human has seen, and what they said of it."""

    digest: str
    question: str
    ruling: str
    by: str
    time: float

    def document(self) -> dict[str, Any]:
        """The version as `--json` gives it."""
        return {
            "digest": self.digest,
            "question": self.question,
            "verdict": self.ruling or None,
            "by": self.by,
            "time": self.time,
        }


def last_seen(store: Store, asked: Asked) -> Seen | None:
    """The last version of a question's artifact that a person answered for; whoever stands in sees nothing."""
    if not asked.artifact:
        return None
    given = [row for row in answered(store.inputs(asked.job, waiting=False)) if row.by not in STAND_INS]
    given = [row for row in given if store.authentic(row) is not False]
    versions = (_version(store, asked, row) for row in reversed(given))
    return next((found for found in versions if found is not None), None)


def _version(store: Store, asked: Asked, row: InputRow) -> Seen | None:
    body = json.loads(row.body)
    framing = store.message(asked.job, number_of(body["framing"]))
    about: dict[str, Any] = json.loads(framing.meta) if framing.meta else {}
    if about.get("artifact") != asked.artifact or about.get("asker") != asked.asker or not about.get("digest"):
        return None
    return Seen(about["digest"], body["question"], body["ruling"] or "", row.by, row.time)
