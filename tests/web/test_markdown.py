"""Markdown that agents wrote, as HTML: it does nothing, hides nothing, and takes no long time."""

import time

import pytest

from parley.web.drawing.markdown import LONGEST, markdown

SLOW_SECONDS = 2.0  # a small machine that does other things too; without the bounds it is many times this


@pytest.mark.parametrize(
    "text",
    [
        "<script>window.__pwned = 1</script>",
        "<img src=x onerror=alert(1)>",
        "<div hx-get=/x hx-trigger=load data-hx-on:load=alert(1)>x</div>",
        "<style>*{display:none}</style>",
        "![an image](http://elsewhere.test/x.png)",
        "`<b>` <svg/onload=x>",
    ],
)
def test_html_and_images_become_no_elements(text: str) -> None:
    made = str(markdown(text))

    assert not any(tag in made for tag in ("<script", "<img", "<div hx", "<style", "<svg", "<b>")), made


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "&#106;avascript:alert(1)", "data:text/html,<script>",
        "vbscript:x", "/r/some/job", "//elsewhere.test/x", "?token=x", "#main", "file:///etc/passwd", "blob:x",
    ],
)  # fmt: skip
def test_a_link_leads_to_the_web_or_stays_text(address: str) -> None:
    assert "<a" not in str(markdown(f"[open]({address})"))
    assert "<a" not in str(markdown(f"<{address}>"))


def test_a_link_to_the_web_opens_apart_from_the_page() -> None:
    made = str(markdown("[open](https://elsewhere.test/x)"))

    assert 'href="https://elsewhere.test/x"' in made
    assert 'target="_blank"' in made
    assert "noopener noreferrer" in made


@pytest.mark.parametrize(
    "piece", ["[", "*a_b", "> ", "1. a\n", "|x|y|\n", "&", "![", "[a]: b\n", "`` ` ", "\x00", "~~a"]
)
def test_no_text_takes_long(piece: str) -> None:
    began = time.process_time()
    markdown(piece * ((LONGEST - 1_000) // len(piece)))
    markdown(piece * (4 * LONGEST // len(piece)))

    assert time.process_time() - began < SLOW_SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "> " * 60 + "hidden",
        "".join(f"{'  ' * level}- x\n" for level in range(60)) + "  " * 60 + "- hidden",
        "[//]: # (hidden)",
        "[a]: http://x.test 'hidden'",
        "| a |\n|---|\n| b | hidden |",
        "```python hidden words\nx\n```",
        "[a](http://x.test 'hidden')",
    ],
)
def test_words_that_markdown_does_not_draw_are_shown_all_the_same(text: str) -> None:
    assert "hidden" in str(markdown(text))


def test_usual_markdown_is_drawn_without_its_source() -> None:
    text = "# A plan\n\n1. *Do* it\n2. `code_here`, [a link](https://x.test/y)\n\n```python\nx = 1\n```\n"
    text += "\n|a|b|\n|-|-|\n|c|d|\n"
    made = str(markdown(text))

    assert all(tag in made for tag in ("<h3>", "<em>", "<ol>", "<code>", "<table>"))
    assert "<h1>" not in made, "the page has a title of its own"
    assert made.count('tabindex="0"') == 2, "a person scrolls code and tables by keys"
    assert "As it was written" not in made
    assert "1. *Do*" not in made


def test_what_reverses_or_hides_words_is_made_visible() -> None:
    made = str(markdown("pay \u202egnp.exe\u202c \x1b[31mred\x1b[0m zero\u200bwidth"))

    assert not any(char in made for char in "\u202e\u202c\x1b\u200b")
