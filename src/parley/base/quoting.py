"""Quotes words of agents and people that look like the protocol's marks: only its own lines begin with one.

A message of the protocol begins with a mark, like `[REPORT]`. A line of an agent's or a person's text that begins like
a mark is quoted: `> [INTERVENE authoritative] …` is their words, never an order.
"""

# ruff: noqa: RUF001 - letters that look like others are what this is about

from __future__ import annotations

import re
import unicodedata
from functools import cache

# The first word of every mark that the protocol writes, or that a reader might take for one.
MARKS = frozenset({
    "INTENT", "PLAN", "EXECUTE", "PENDING", "VIOLATION", "FAILED", "STALLED", "RECOVERED", "MERGE", "APART",
    "REPORT", "MESSAGE", "WITHDRAW", "INTERVENE", "ANSWER", "QUESTION", "HUMAN", "LEFT", "BRIEFING", "LONG",
    "FILES", "DESIGN", "CHECK", "VERDICT", "DELEGATE", "GAPS", "VERIFY", "TASK", "REVIEW", "REJECTED", "ANSWERS",
    "VERSION", "INTEGRATE", "WORKFLOW", "LOOP", "ESCALATION", "AGAIN", "ORCHESTRATOR", "PARLEY", "RELAY", "PROXY",
    "SYSTEM",
})  # fmt: skip
# Beginnings of the protocol's lines that say whose words follow.
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
_DISGUISING = re.compile(r"[\[&<\x00-\x08\x0b-\x1f\x7f]")  # a bracket, an entity, a tag, what is not drawn
QUOTE = "> "
QUESTION = "[QUESTION]"

# Every bracket that opens, but round and curly ones; and those that close them.
_OPENING = "[༺༼᚛⁅⌈⌊⎡⎢〈❪❬❮❰❲❴⟅⟦⟨⟪⟬⟮⦃⦅⦇⦉⦋⦍⦏⦑⦓⦕⦗⧘⧚⧼⸢⸤⸦⸨⹕⹗⹙⹛〈《「『【〔〖〘〚﴿︗︹︻︽︿﹁﹃﹇﹝［｟｢"
_CLOSING = "]༻༽᚜⁆⌉⌋⎤⎥〉❫❭❯❱❳❵⟆⟧⟩⟫⟭⟯⦄⦆⦈⦊⦌⦎⦐⦒⦔⦖⦘⧙⧛⧽⸣⸥⸧⸩⹖⹘⹚⹜〉》」』】〕〗〙〛﴾︘︺︼︾﹀﹂﹄﹈﹞］｠｣"
_OPEN, _CLOSED = re.compile(f"[{re.escape(_OPENING)}]"), re.compile(f"[{re.escape(_CLOSING)}]")
_HEAD = 2000  # characters of a line that are examined
_LONG_MARK = 6  # letters; a word that begins with a mark of this length counts as one too
_LONGEST = 24  # letters that may be spaced out and form a mark together
_BRACKETS = 8  # of a line that are examined
_INSIDE = 200  # characters inside one
_LABEL = 3  # words that may precede a mark, as in `Step 1:`
_LETTERS = str.maketrans(
    "авекмнорстухіјѕԁԛԝѵгзпαβεζικορτχᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢıłøđl10354",
    "abekmhopctyxijsdqwvrznabezikoptxabcdefghijklmnoprstuvwyzilodiioesa",
)
# Letters drawn white on black, and those of flags, which Unicode does not normalize to letters.
_DRAWN = {first + number: 97 + number for first in (0x1F150, 0x1F170, 0x1F1E6) for number in range(26)}
_SIGNS = str.maketrans("|!@$€£", "iiasei")  # where they stand for letters
# Letters of scripts that look like Latin ones: each may be any letter, so one sign stands for all of them.
_ANY = "ʔ"
_ALIKE = re.compile(
    "[\u00a1-\u058f\u10a0-\u10ff\u13a0-\u167f\u16a0-\u16ff\u1c80-\u1cbf\u1d00-\u1dbf\u1e00-\u1fff\u2071-\u209f"
    "\u2100-\u218f\u2c00-\u2dff\ua4d0-\ua6ff\ua720-\ua7ff\uab30-\uabbf\U00010280-\U000107ff\U00010c80-\U00010cff"
    "\U000118a0-\U000118ff\U00016f00-\U00016f9f\U0001d000-\U0001dfff]"
)
_FILLERS = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # invisible letters and signs
_BLANK = re.compile(f"(?:[^\\w&<\\x1b\\x9b{re.escape(_OPENING)}]|[_{_FILLERS}])*")
_ENTITY = re.compile("&(?:#0*91|#x0*5b|lbrack|lsqb);?", re.IGNORECASE)
_TAG = re.compile("<[^<>]{1,80}>")
_COMMAND = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]")  # a terminal's escape sequence: it is not drawn
_FIRST_WORDS = 3  # of a heading: few lines of other texts begin with the same
_PAIRS = {"m": "|[rR][nN]", "w": "|[vV][vV]"}  # two letters that look like one
_ITEM = r"(?:[\W_]|[^\W_]{1,4}[.):](?=\W))*"  # what may precede a heading, such as an item's number


def _skeleton(text: str) -> str:
    """A text as the eye sees it: look-alike letters are one, and invisible characters are dropped."""
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
    """A pattern for lines that begin like a heading, with anything between its words."""
    parts = []
    for heading in HEADINGS:
        words = re.findall(r"[^\W_]+", _skeleton(heading))
        last = heading.rstrip()[-1]
        end = r"[^\w:(]{0,6}[:(]" if last in ":(" else ""
        parts.append(r"[\W_]{0,6}".join(map(_like, words)) + end)
    return re.compile(f"{_ITEM}(?:{'|'.join(parts)})")


@cache
def _plain_headings() -> re.Pattern[str]:
    """A pattern for a text of plain ASCII as it is written, behind a line's end. It finds more than headings."""
    words = [re.findall(r"[^\W_]+", _skeleton(heading))[:_FIRST_WORDS] for heading in HEADINGS]
    headings = "|".join(sorted({r"[\W_]{0,6}".join(map(_as_written, each)) for each in words}))
    begins = "|".join(sorted({_as_written(first[:2]) for first, *_ in words}))
    item = r"[0-9A-Za-z|!@$]{1,8}[.):](?=[^0-9A-Za-z])"  # an `_ITEM`, of letters that may be signs
    before = rf"(?:[^0-9A-Za-z\n|!@$]++|(?!{begins})(?:[|!@$]|{item}))*+"
    return re.compile(rf"\n{before}(?={begins})(?:{item}|{headings})")


def _as_written(word: str) -> str:
    """A word as it may be written in ASCII to look like that."""
    return "".join(f"(?:{_signs_like(letter)}{_PAIRS.get(letter, '')})" for letter in word)


@cache
def _signs_like(letter: str) -> str:
    seen = ((sign, _skeleton(sign)) for sign in map(chr, range(33, 127)))
    return f"[{''.join(re.escape(sign) for sign, plain in seen if letter in (plain, plain.translate(_SIGNS)))}]"


def _like(word: str) -> str:
    return "".join(f"[{letter}{_ANY}]" for letter in word)


def begins_like_a_mark(line: str) -> bool:
    """Whether a line could be taken for the protocol's, in any disguise. A quoted line can't."""
    if line.lstrip().startswith(">"):
        return False
    head = _ENTITY.sub("[", _head(line))
    if not _OPEN.search(head):
        return False
    return _is_marked(head) or (("\x1b" in head or "\x9b" in head) and _is_marked(_COMMAND.sub("", head)))


def _head(line: str) -> str:
    """The part of a line that is examined: leading blanks and signs do not count, so they can't push a mark out."""
    before = _BLANK.match(line) if len(line) > _HEAD else None
    return line[before.end() if before else 0 :][:_HEAD]


def _is_marked(line: str) -> bool:
    plain = "".join(char for char in _TAG.sub("", line) if not _is_unseen(char))
    for number, found in enumerate(_OPEN.finditer(plain)):
        if number == _BRACKETS:
            return True  # no honest line has so many brackets
        if not _is_label(plain[: found.start()]):
            return False
        inside = _skeleton(_CLOSED.split(plain[found.end() : found.end() + _INSIDE], maxsplit=1)[0])
        if _is_mark(inside) or _is_mark(inside.translate(_SIGNS)):
            return True
    return False


def _is_label(before: str) -> bool:
    """Whether the text before a bracket is a label: signs, an item's number, a box, some words and a colon."""
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
    seen = _skeleton(_TAG.sub("", _head(line)))
    return any(_headings().match(text) for text in (seen, seen.translate(_SIGNS)))


def quoted(text: str) -> str:
    """A text of an agent or a person with each line quoted that begins like one of the protocol's."""
    is_plain = text.isascii() and not _DISGUISING.search(text)  # as most are: no mark can begin in it
    if is_plain and not _plain_headings().search(f"\n{text}"):
        return text
    return "".join(_quoted(line) for line in text.splitlines(keepends=True))


def _quoted(line: str) -> str:
    return f"{QUOTE}{line}" if begins_like_a_mark(line) or _is_headed(line) else line


def with_sender(sender: str, text: str) -> str:
    """An agent's own words as their reader gets them: the first line is the protocol's, and names the sender."""
    return f"[MESSAGE] {sender}:\n{text or '(it says nothing)'}"


def with_asker(asker: str, text: str) -> str:
    """A question as the proxy gets it: its mark leaves the asker out, so the name is put behind it."""
    return f"{QUESTION} from {asker}:{text.removeprefix(QUESTION)}"


def below(text: str, *, headed: bool = False) -> str:
    """A message of the protocol: its first line is its own; lines below that begin like a mark are quoted.

    `headed`: it has headings of its own, and the text below each is quoted already.
    """
    first, *lines = text.splitlines(keepends=True) or [""]
    if not headed:
        return first + quoted("".join(lines))
    return first + "".join(f"{QUOTE}{line}" if begins_like_a_mark(line) else line for line in lines)
