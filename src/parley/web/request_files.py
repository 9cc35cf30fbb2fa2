"""Files that go along with a request: texts, quoted below it, so that they reach every agent that reads the request.

Their names and contents are another program's, or another person's: a name is only shown, and never a path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from parley.base.text import cut
from parley.web.templating import one_line
from parley.web.visit import BadForm, Upload

LONGEST_REQUEST = 100_000  # characters, with the files: as `parley run` takes them
LONGEST_NAME = 100
INTO_REPOSITORY = "commit it to the repository instead, and name it in the request"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def with_files(request: str, files: Sequence[Upload]) -> str:
    """The request with its files below it; BadForm where one is no text, or all are too long."""
    blocks = [_block(file) for file in files]
    text = "\n\n".join([request.strip("\n"), *(["These files go along with the request."] if blocks else []), *blocks])
    if len(text) > LONGEST_REQUEST:
        what = "the request and its files have" if blocks else "the request has"
        remedy = "commit long files to the repository, and name them in the request" if blocks else "make it shorter"
        raise BadForm(f"{what} {len(text):,} characters, {LONGEST_REQUEST:,} at most; {remedy}")
    return text


def _block(file: Upload) -> str:
    name = shown_name(file.name)
    try:
        text = file.data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadForm(f"{name} is no text in UTF-8; {INTO_REPOSITORY}") from error
    if _CONTROL.search(text):
        raise BadForm(f"{name} has control characters, so it is no plain text; {INTO_REPOSITORY}")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=2))
    end = "" if text.endswith("\n") or not text else "\n"
    return f"### {name}\n\n{fence}\n{text}{end}{fence}"


def shown_name(name: str) -> str:
    """The last part of a file's name, with nothing in it that hides or ends a line."""
    last = one_line(re.split(r"[/\\]", name)[-1]).strip().replace("`", "'")
    return cut(last, LONGEST_NAME) if last.strip(".") else "a file"
