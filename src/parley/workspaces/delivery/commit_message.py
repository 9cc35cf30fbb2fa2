"""Writes the messages of the commits that a user gets: what changed, and trailers that name the job and its agents.

The request is the user's, the summary is an agent's. Neither brings a line of its own making into a message: a subject
and the items of a list are what can be made of them, so that no trailer can be forged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from parley.base.text import CUT_MARK, printable
from parley.workspaces.job_repository import BEGIN, OWN, START, JobRepository
from parley.workspaces.merge.merge_base import ACROSS
from parley.workspaces.safe_git import BUSY_SECONDS, GitTooLong

JOB, AGENT = "Parley-Job", "Parley-Agent"
SUMMARY = "WORK_SUMMARY.md"
SUBJECT_LENGTH = 72
ITEMS, ITEM_LENGTH = 6, 100  # of the summary, in a message
MOST_AGENTS = 20
SUMMARY_BYTES = 64 * 1024
_HEADING = re.compile(r"#{1,6}(\s|$)|[=-]{3,}$")
_UNDERLINE = re.compile(r"={3,}|-{3,}")
_MARK = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`\"'(])")
_TRAILER = re.compile(r"[A-Za-z]+(-[A-Za-z]+)+ ?:")  # as in Signed-off-by: harmless in a list, and misleading
_UNTOLD = ("|", "<", ">", "```", "~~~")  # a table, HTML, a quotation, code
_OBEYED = str.maketrans("[]", "()")  # a forge skips its checks for `[skip ci]`
# What a forge obeys of an agent's words: `Fixes #12` or an address closes an issue, `@name` sends that user mail.
_REFERENCES = (
    (re.compile(r"#(?=\d)"), "# "),
    (re.compile(r"\bhttps?://"), ""),
    (re.compile(r"(?<![\w.])@(?=\w)"), ""),
)


class CommitMessage:
    """The message of a job's result, made of its title and its committed summary. `redact` takes secrets out."""

    def __init__(self, repository: JobRepository, redact: Callable[[str], str] = str) -> None:
        beginning = repository.beginning
        self._job = beginning.job
        self._agents = agents(repository)
        self._told = list(islice(told(redact(_summary(repository))), ITEMS))
        self.subject = subject(beginning.title, self._told) or f"Parley job {self._job}"

    @property
    def trailers(self) -> str:
        """The job, and the agents whose turns have changed the result."""
        return "\n".join([f"{JOB}: {self._job}", *(f"{AGENT}: {name}" for name in self._agents)])

    def __str__(self) -> str:
        """All of it."""
        rest = [item for item in self._told if item.rstrip(". ") != self.subject]
        listed = "\n".join(f"- {_cut(item, ITEM_LENGTH)}" for item in rest)
        return "\n\n".join(part for part in (self.subject, listed, self.trailers) if part)

    def of_merge(self, branch: str) -> str:
        """The message of the commit that merges the result."""
        return f"Merge {branch}\n\n{self.subject}\n\n{self.trailers}"


def subject(title: str, items: Sequence[str]) -> str:
    """One line of at most SUBJECT_LENGTH characters: the request where it is short, else what the summary tells."""
    asked = _line(title)
    texts = [text for text in (asked, _SENTENCE.split(asked)[0], *items) if text]
    whole = next((text for text in texts if len(text) <= SUBJECT_LENGTH), "")
    return (whole or _cut("".join(texts[:1]), SUBJECT_LENGTH)).rstrip(". ")


def told(summary: str) -> Iterator[str]:
    """What a summary tells first: the items of its first list, or the sentences of its first paragraphs."""
    fenced, begun, some = False, list[str](), False
    for line in (*summary.splitlines(), ""):
        bare = line.strip()
        fenced ^= bare.startswith(("```", "~~~"))
        if _UNDERLINE.fullmatch(bare):  # what stands above it is a heading
            begun = []
        mark, heading = _MARK.match(bare), _HEADING.match(bare)
        over = not bare or fenced or bool(mark or heading) or bare.startswith(_UNTOLD)
        if over and begun:
            words = _unreferring(_line(" ".join(begun)))
            yield from (one for one in _SENTENCE.split(words) if one and not _TRAILER.match(one))
            begun, some = [], True
        if heading and some:
            return
        if mark or not over:
            begun.append(bare[mark.end() :] if mark else bare)


def agents(repository: JobRepository) -> list[str]:
    """The agents whose turns have changed more than the protocol's own files, in order."""
    own = (f":(exclude,top,literal){path}" for path in OWN)
    tip = repository.tip("") or repository.ref(BEGIN)
    words = ("log", "--reverse", "--no-merges", "--full-history", "--format=%s", tip, f"--glob={ACROSS}", f"^{START}")
    try:
        done = repository.git.run(*words, "--", ":(top)", *own, busy_seconds=BUSY_SECONDS)
    except GitTooLong:
        return []
    form = re.compile(rf"(\S{{1,100}}) on \S+, turn \S+ of job {re.escape(repository.beginning.job)}")
    found = (form.fullmatch(line) for line in done.stdout.decode("utf-8", "replace").splitlines())
    return list(islice(dict.fromkeys(printable(turn[1]) for turn in found if turn), MOST_AGENTS))


def _summary(repository: JobRepository) -> str:
    """The summary as it was committed; empty where it is no ordinary file."""
    tip = repository.tip("")
    entry = repository.entries(tip, [SUMMARY], deep=False).get(SUMMARY) if tip else None
    if entry is None or not entry[0].startswith("100"):
        return ""
    with repository.git.contents() as contents:
        return contents.start(entry[1], SUMMARY_BYTES)[0].decode("utf-8", "replace")


def _line(text: str) -> str:
    """A text on one line, with nothing that a terminal or a forge would obey."""
    return printable(" ".join(text.split())).translate(_OBEYED).lstrip("#- ")


def _unreferring(text: str) -> str:
    """An agent's text that refers to no issue and to no user of a forge. The request may: it is the user's."""
    for pattern, instead in _REFERENCES:
        text = pattern.sub(instead, text)
    return text


def _cut(text: str, most: int) -> str:
    """A text that is cut after a word, with the mark."""
    if len(text) <= most:
        return text
    begun = text[: most - 1]
    return f"{begun.rpartition(' ')[0] or begun}{CUT_MARK}"
