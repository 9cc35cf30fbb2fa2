"""Which version of an artifact the human last saw: the one that they last answered for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parley.base.json_codec import decode
from parley.bus.rows import InputRow
from parley.bus.slots import number_of
from parley.bus.store import Store
from parley.engine.values import message_meta
from parley.engine.values.human_inputs import AnswerInput, answered
from parley.engine.values.job_settings import STAND_INS
from parley.engine.values.message_meta import Put
from parley.views.job_view import Asked


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
    """The last version of a question's artifact that a person answered for; a stand-in sees nothing."""
    if not asked.artifact:
        return None
    given = [row for row in answered(store.inputs(asked.job, waiting=False)) if row.by not in STAND_INS]
    given = [row for row in given if store.authentic(row) is not False]
    versions = (_version(store, asked, row) for row in reversed(given))
    return next((found for found in versions if found is not None), None)


def _version(store: Store, asked: Asked, row: InputRow) -> Seen | None:
    given = decode(row.body, AnswerInput)
    put = message_meta.read_as(Put, store.message(asked.job, number_of(given.framing)))
    if put.artifact != asked.artifact or put.asker != asked.asker or not put.digest:
        return None
    return Seen(digest=put.digest, question=given.question, ruling=given.ruling or "", by=row.by, time=row.time)
