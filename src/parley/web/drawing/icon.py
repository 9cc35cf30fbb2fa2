"""The page's icon with how much waits for the person, so that a tab in the background tells."""

from __future__ import annotations

MOST = 9  # more are told as "9+": an icon has room for two characters
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#3b5bdb"/>'
    '<path d="M8 9h10a4 4 0 0 1 4 4v1a4 4 0 0 1-4 4h-5l-5 4z" fill="#fff"/>'
    '<circle cx="21" cy="21" r="11" fill="#c92a2a"/><text x="21" y="26.5" text-anchor="middle" fill="#fff" '
    'font-family="sans-serif" font-weight="700" font-size="{size}">{words}</text></svg>'
)


def draw(waiting: int) -> str:
    """The icon with a number on it."""
    words = str(waiting) if waiting <= MOST else f"{MOST}+"
    return _ICON.format(words=words, size=16 if len(words) == 1 else 13)
