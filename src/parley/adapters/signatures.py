"""What a bus's secret signs: inputs, so that one is known that somebody else wrote; and heads of the hash chain."""

from __future__ import annotations

import hmac

from parley.ports import InputRow


def sign_input(secret: bytes, job: str, kind: str, key: str, time: float, by: str, body: str) -> str:
    """The signature of an input. Each part goes in with its length: nothing moves from one to the next unseen."""
    return _sign(secret, "input", job, kind, key, repr(float(time)), by, body)


def is_signed(secret: bytes, row: InputRow) -> bool:
    """Whether an input was signed with this secret, as it is."""
    try:
        due = sign_input(secret, row.job, row.kind, row.key, row.time, row.by, row.body)
        return hmac.compare_digest(due.encode("ascii"), row.signature.encode("utf-8", "surrogatepass"))
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False  # a row that another hand wrote may hold anything


def sign_head(secret: bytes, job: str, number: int, head: str) -> str:
    """The seal of a transaction: who has not the secret can't write a record of their own."""
    return _sign(secret, "head", job, str(number), head)


def _sign(secret: bytes, *parts: str) -> str:
    texts = [part.encode("utf-8", "surrogatepass") for part in parts]
    lengths = " ".join([str(len(text)) for text in texts]).encode("ascii")
    return hmac.digest(secret, b"%b\n%b" % (lengths, b"".join(texts)), "sha256").hex()
