"""The recorded session in the docs is a real one, can be played, and tells nothing of where it was made."""

import getpass
import json
import re
import tempfile
from pathlib import Path

from parley.tui.pages import HELP
from tests.cli.terminal import Terminal

DOCS = Path(__file__).parents[2] / "docs"
SCENES = {"needs you (1)", "since you saw it", "[DONE]", "is paused", "is withdrawn"}
FRAMES = sorted((DOCS / "watch").glob("*.svg"))


def test_the_recording_can_be_played() -> None:
    head, *events = [json.loads(line) for line in (DOCS / "watch.cast").read_text(encoding="utf-8").splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, 80, 24)
    screen, seen, times = Terminal(80, 24), set[str](), list[float]()
    for at, kind, text in events:
        assert kind == "o"
        times.append(at)
        screen.feed(text)
        assert all(len(line) <= 80 for line in screen.lines)
        seen |= {
            words
            for words in ("needs you (1)", "since you saw it", "[DONE]", "is withdrawn")
            if words in screen.screen()
        }
    assert times == sorted(times)
    assert seen == {"needs you (1)", "since you saw it", "[DONE]", "is withdrawn"}


def test_the_page_shows_every_frame_and_every_key() -> None:
    page = (DOCS / "watch.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\(watch/(\w+\.svg)\)", page))
    assert shown == {frame.name for frame in FRAMES}
    letters = {
        key for line in HELP.splitlines() for key in re.findall(r"(?<=^  )(?:\w )+", line) for key in key.split()
    }
    assert {"c", "d", "s", "z", "x", "v", "a", "r", "i", "p", "t", "w"} <= letters
    assert not [letter for letter in letters if f"`{letter}`" not in page]


def test_it_tells_nothing_of_the_machine_it_was_made_on() -> None:
    texts = [
        (DOCS / "watch.cast").read_text(encoding="utf-8"),
        *(frame.read_text(encoding="utf-8") for frame in FRAMES),
    ]
    strange = ("/home/", "/root", "/usr", tempfile.gettempdir(), "root:", str(Path.home()), f"{getpass.getuser()}: ")
    for text in texts:
        assert not [word for word in strange if word in text]
        assert set(re.findall(r"https?://[^\"'<> ]+", text)) <= {"http://www.w3.org/2000/svg"}
