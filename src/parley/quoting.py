"""The marks of the protocol, and what stands in their way: only the protocol's own lines begin with one.

A message that the protocol makes begins with a mark, like `[REPORT]`. What an agent or a person says in it is quoted
where one of its lines begins like a mark: `> [INTERVENE authoritative] …` is somebody's words, never an order.
"""

# ruff: noqa: RUF001 - letters that look like others are what this is about

from __future__ import annotations

import re
import unicodedata

# The first word of every mark that the protocol writes, or that a reader might take for one of its own.
MARKS = frozenset({
    "INTENT", "PLAN", "EXECUTE", "PENDING", "VIOLATION", "FAILED", "STALLED", "RECOVERED", "MERGE", "APART",
    "REPORT", "MESSAGE", "WITHDRAW", "INTERVENE", "ANSWER", "QUESTION", "HUMAN", "LEFT", "BRIEFING", "LONG",
    "FILES", "DESIGN", "CHECK", "VERDICT", "DELEGATE", "GAPS", "VERIFY", "TASK", "REVIEW", "REJECTED", "ANSWERS",
    "VERSION", "INTEGRATE", "WORKFLOW", "LOOP", "ESCALATION", "AGAIN", "ORCHESTRATOR", "PARLEY", "RELAY", "PROXY",
    "SYSTEM",
})  # fmt: skip
# How lines of the protocol begin that tell whose words follow.
HEADINGS = (
    "The human says:",
    "The human's own words (",
    "The proxy's own words (",
    "The request:",
    "(the proxy's remarks, not the human's words)",
    "(Your last turn did not count",
    "(You were interrupted while you worked on this:)",
    "In the asker's words:",
    "The proxy found:",
    "The proxy would say:",
    "The proxy reads your words as:",
    "You said:",
    "Why you are asked:",
)
QUOTE = "> "
QUESTION = "[QUESTION]"

_BRACKETS = "[［⟦【〔⁅❲⦋⦍⦏｟「『⟬〚〖〘﹝⎡⎢⌈⌊｢"
_CLOSING = "]］⟧】〕⁆❳⦌⦎⦐｠」』⟭〛〗〙﹞⎤⎥⌉⌋｣"
_BEFORE = re.compile(r"(?:[\W_]*(?:\d{1,4}|[^\W\d_])[.):])?[\W_]*")  # also the number of an item
_HEAD = 2000  # characters of a line that are looked at
_LONG_MARK = 6  # letters of a mark from which on a longer word that begins so is one too
_LETTERS = str.maketrans(
    "авекмнорстухіјѕԁԛԝѵгзпαβεζηικμνορτυχᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢıłøđl10354",
    "abekmhopctyxijsdqwvrznabezhikmnoptyxabcdefghijklmnoprstuvwyzilodiioesa",
)


def _skeleton(text: str) -> str:
    """A text as the eye sees it: letters that look alike are one, and what is not seen is gone."""
    seen = "".join(char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char)[0] not in "MC")
    return seen.casefold().translate(_LETTERS)


_WORDS = frozenset(map(_skeleton, MARKS))
_STEMS = tuple(word for word in _WORDS if len(word) >= _LONG_MARK)
_HEADED = tuple(_skeleton(heading) for heading in HEADINGS)


def begins_like_a_mark(line: str) -> bool:
    """Whether a line would be taken for the protocol's, whatever it is dressed up as. One that is quoted is not."""
    if line.lstrip().startswith(">"):
        return False
    before = _BEFORE.match(line)
    start = before.end() if before else 0
    opened = max(line.rfind(bracket, 0, start) for bracket in _BRACKETS)
    if opened < 0 or opened < max(line.rfind(bracket, 0, start) for bracket in _CLOSING):
        return False
    words = re.findall(r"[^\W_]+", _skeleton(line[start : start + _HEAD]))
    if not words:
        return False
    spelled = "".join(words[: _letters(words)])
    return words[0] in _WORDS or words[0].startswith(_STEMS) or spelled in _WORDS or spelled.startswith(_STEMS)


def _letters(words: list[str]) -> int:
    """How many words are single letters, from the first on."""
    return next((number for number, word in enumerate(words) if len(word) > 1), len(words))


def _is_headed(line: str) -> bool:
    plain = line.lstrip(" \t*_#`-+")
    if plain.startswith(HEADINGS):
        return True
    return not line.isascii() and _skeleton(line[:_HEAD]).lstrip().startswith(_HEADED)


def quoted(text: str) -> str:
    """Somebody's words: each line of them that begins like one of the protocol's is quoted."""
    if not _may_have(text) and not any(heading in text for heading in HEADINGS) and text.isascii():
        return text
    lines = text.splitlines(keepends=True)
    return "".join(f"{QUOTE}{line}" if begins_like_a_mark(line) or _is_headed(line) else line for line in lines)


def with_sender(sender: str, text: str) -> str:
    """A message as its reader gets it: its first line names the sender, or is the protocol's own.

    Of the protocol's own messages only a question leaves its sender out.
    """
    if text.startswith(QUESTION):
        return f"{QUESTION} from {sender}:{text.removeprefix(QUESTION)}"
    first = text.splitlines()[:1]  # at every end of a line that there is: quoting goes by the same
    if first and begins_like_a_mark(first[0]):
        return text
    return f"[MESSAGE] {sender}:\n{text or '(it says nothing)'}"


def below(text: str) -> str:
    """A message of the protocol's: its first line is its own, in all others nothing begins like a mark."""
    first, *lines = text.splitlines(keepends=True) or [""]
    if not lines or not _may_have(text):
        return text
    return first + "".join(f"{QUOTE}{line}" if begins_like_a_mark(line) else line for line in lines)


def _may_have(text: str) -> bool:
    return any(bracket in text for bracket in _BRACKETS)
