"""The marks of the protocol, and what stands in their way: only the protocol's own lines begin with one.

A message that the protocol makes begins with a mark, like `[REPORT]`. What an agent or a person says in it is quoted
where one of its lines begins like a mark: `> [INTERVENE authoritative] …` is somebody's words, never an order.
"""

# ruff: noqa: RUF001 - letters that look like others are what this is about

from __future__ import annotations

import re
import unicodedata
from functools import cache

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
# One of these is in every heading.
_WORDS_OF_HEADINGS = re.compile(r"human|proxy|request|asker|said|last|interrupted|asked", re.IGNORECASE)
QUOTE = "> "
QUESTION = "[QUESTION]"

# Every bracket that opens, but round and curly ones; and those that close them.
_OPENING = "[༺༼᚛⁅⌈⌊⎡⎢〈❪❬❮❰❲❴⟅⟦⟨⟪⟬⟮⦃⦅⦇⦉⦋⦍⦏⦑⦓⦕⦗⧘⧚⧼⸢⸤⸦⸨⹕⹗⹙⹛〈《「『【〔〖〘〚﴿︗︹︻︽︿﹁﹃﹇﹝［｟｢"
_CLOSING = "]༻༽᚜⁆⌉⌋⎤⎥〉❫❭❯❱❳❵⟆⟧⟩⟫⟭⟯⦄⦆⦈⦊⦌⦎⦐⦒⦔⦖⦘⧙⧛⧽⸣⸥⸧⸩⹖⹘⹚⹜〉》」』】〕〗〙〛﴾︘︺︼︾﹀﹂﹄﹈﹞］｠｣"
_OPEN, _CLOSED = re.compile(f"[{re.escape(_OPENING)}]"), re.compile(f"[{re.escape(_CLOSING)}]")
_HEAD = 2000  # characters of a line that are looked at
_LONG_MARK = 6  # letters of a mark from which on a longer word that begins so is one too
_LONGEST = 24  # letters that may be parted, and make a mark together
_BRACKETS = 8  # that are looked at
_INSIDE = 200  # characters of what stands in one
_LABEL = 3  # words that may stand before a mark, as `Step 1:` does
_LETTERS = str.maketrans(
    "авекмнорстухіјѕԁԛԝѵгзпαβεζικορτχᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢıłøđl10354",
    "abekmhopctyxijsdqwvrznabezikoptxabcdefghijklmnoprstuvwyzilodiioesa",
)
# Letters that are drawn white on black, and those of flags, which no normal form knows as letters.
_DRAWN = {first + number: 97 + number for first in (0x1F150, 0x1F170, 0x1F1E6) for number in range(26)}
_SIGNS = str.maketrans("|!@$€£", "iiasei")  # where they stand for letters
# Letters of scripts that look like Latin ones: each of them may be any letter, and one sign stands for all of them.
_ANY = "ʔ"
_ALIKE = re.compile(
    "[\u00a1-\u058f\u10a0-\u10ff\u13a0-\u167f\u16a0-\u16ff\u1c80-\u1cbf\u1d00-\u1dbf\u1e00-\u1fff\u2071-\u209f"
    "\u2100-\u218f\u2c00-\u2dff\ua4d0-\ua6ff\ua720-\ua7ff\uab30-\uabbf\U00010280-\U000107ff\U00010c80-\U00010cff"
    "\U000118a0-\U000118ff\U00016f00-\U00016f9f\U0001d000-\U0001dfff]"
)
_FILLERS = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters and signs that are drawn as nothing
_BLANK = re.compile(f"(?:[^\\w&<\\x1b\\x9b{re.escape(_OPENING)}]|[_{_FILLERS}])*")
_ENTITY = re.compile("&(?:#0*91|#x0*5b|lbrack|lsqb);?", re.IGNORECASE)
_TAG = re.compile("<[^<>]{1,80}>")
_COMMAND = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]")  # to a terminal: it is not drawn
_ITEM = r"(?:[\W_]|[^\W_]{1,4}[.):](?=\W))*"  # what may stand before a heading: also the number of an item


def _skeleton(text: str) -> str:
    """A text as the eye sees it: letters that look alike are one, and what is not seen is gone."""
    seen = "".join(char for char in unicodedata.normalize("NFKD", text) if not _is_unseen(char))
    plain = _ALIKE.sub(_ANY, seen.casefold().translate(_DRAWN).translate(_LETTERS))
    return plain.replace("vv", "w").replace("rn", "m")


def _is_unseen(char: str) -> bool:
    return (char in _FILLERS or unicodedata.category(char)[0] in "MC") if char > "~" else char < " " and char != "\t"


@cache
def _marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A word that is a mark, and one that begins like a long one."""
    words = sorted(map(_skeleton, MARKS))
    long = [word for word in words if len(word) >= _LONG_MARK]
    whole, stems = ("|".join(map(_like, some)) for some in (words, long))
    return re.compile(whole), re.compile(stems)


@cache
def _headings() -> re.Pattern[str]:
    """A line that begins like a heading, however its words are parted; what ends it is the same."""
    parts = []
    for heading in HEADINGS:
        words = re.findall(r"[^\W_]+", _skeleton(heading))
        last = heading.rstrip()[-1]
        end = r"[^\w:(]{0,6}[:(]" if last in ":(" else ""
        parts.append(r"[\W_]{0,6}".join(map(_like, words)) + end)
    return re.compile(f"{_ITEM}(?:{'|'.join(parts)})")


def _like(word: str) -> str:
    return "".join(f"[{letter}{_ANY}]" for letter in word)


def begins_like_a_mark(line: str) -> bool:
    """Whether a line would be taken for the protocol's, whatever it is dressed up as. One that is quoted is not."""
    if line.lstrip().startswith(">"):
        return False
    head = _ENTITY.sub("[", _head(line))
    if not _OPEN.search(head):
        return False
    return _is_marked(head) or (("\x1b" in head or "\x9b" in head) and _is_marked(_COMMAND.sub("", head)))


def _head(line: str) -> str:
    """The part of a line that is looked at: no number of blanks and signs before it pushes a mark out of it."""
    before = _BLANK.match(line) if len(line) > _HEAD else None
    return line[before.end() if before else 0 :][:_HEAD]


def _is_marked(line: str) -> bool:
    plain = "".join(char for char in _TAG.sub("", line) if not _is_unseen(char))
    for number, found in enumerate(_OPEN.finditer(plain)):
        if number == _BRACKETS:
            return True  # whatever comes then: nobody writes so many
        if not _is_label(plain[: found.start()]):
            return False
        inside = _skeleton(_CLOSED.split(plain[found.end() : found.end() + _INSIDE], maxsplit=1)[0])
        if _is_mark(inside) or _is_mark(inside.translate(_SIGNS)):
            return True
    return False


def _is_label(before: str) -> bool:
    """Whether what stands before a bracket is no sentence: signs, an item's number, a box, some words and a colon."""
    words = re.findall(r"[^\W_]+", before)
    return not words or (len(words) <= _LABEL and before.rstrip(" \t*_~`\"'")[-1:] in (*".:)]}>|", *_CLOSING))


def _is_mark(inside: str) -> bool:
    """Whether the words in a bracket begin with a mark, or spell one together."""
    whole, stem = _marks()
    spelled = ""
    for word in re.findall(r"[^\W_]+", inside):
        if not spelled and stem.match(word):
            return True
        spelled += word
        if whole.fullmatch(spelled) or stem.match(spelled):
            return True
        if len(spelled) > _LONGEST:
            break
    return False


def _is_headed(line: str) -> bool:
    if line.lstrip().startswith(">"):
        return False
    return _headings().match(_skeleton(_TAG.sub("", _head(line)))) is not None


def quoted(text: str) -> str:
    """Somebody's words: each line of them that begins like one of the protocol's is quoted."""
    if text.isascii() and not _may_have(text) and not _WORDS_OF_HEADINGS.search(text):
        return text
    return "".join(_quoted(line) for line in text.splitlines(keepends=True))


def _quoted(line: str) -> str:
    return f"{QUOTE}{line}" if begins_like_a_mark(line) or _is_headed(line) else line


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


def below(text: str, *, headed: bool = False) -> str:
    """A message of the protocol's: its first line is its own, in all others nothing begins like a mark.

    `headed`: it has headings of its own, and what stands below each is quoted already.
    """
    first, *lines = text.splitlines(keepends=True) or [""]
    if not headed:
        return first + quoted("".join(lines))
    return first + "".join(f"{QUOTE}{line}" if begins_like_a_mark(line) else line for line in lines)


def _may_have(text: str) -> bool:
    return _OPEN.search(text) is not None or _ENTITY.search(text) is not None
