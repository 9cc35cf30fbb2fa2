"""Links that answer one question: signed, bound to the question as it was put and to the content that it is about.

A link needs no cookie and opens nothing else. It is good for one answer: a question takes one each time it is put. Put
anew, or with another content, it is another question, and the link does not fit it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time

from msgspec import Struct

from parley.base.json_codec import Unreadable, decode, encode
from parley.ports.notices import PutQuestion

LASTS_SECONDS = 7 * 86_400
LONGEST = 2_000  # characters
_TAG_BYTES = 32


class QuestionLink(Struct, frozen=True, kw_only=True):
    """What a link is good for."""

    repository: str
    job: str
    question: str
    framing: str
    digest: str
    person: str
    expires: int


def make_link(key: bytes, repository: str, job: str, put: PutQuestion) -> str:
    """The last part of a link's address."""
    told = QuestionLink(
        repository=repository,
        job=job,
        question=put.question,
        framing=put.framing,
        digest=put.digest,
        person=put.person,
        expires=int(time.time()) + LASTS_SECONDS,
    )
    body = encode(told).encode()
    return base64.urlsafe_b64encode(_tag(key, body) + body).decode().rstrip("=")


def read_link(key: bytes, given: str) -> QuestionLink | None:
    """What a link is good for; None if it was not made here, or is too old."""
    if len(given) > LONGEST:
        return None
    try:
        data = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4))
        tag, body = data[:_TAG_BYTES], data[_TAG_BYTES:]
        if not hmac.compare_digest(tag, _tag(key, body)):
            return None
        found = decode(body.decode(), QuestionLink)
    except (ValueError, binascii.Error, Unreadable):
        return None
    return found if time.time() < found.expires else None


def _tag(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, b"question|" + body, hashlib.sha256)
