"""Secrets that come, change and go while a process runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parley.features.secrets import fresh_secrets
from parley.features.secrets.fresh_secrets import FreshSecrets, SecretSources

VALUE, OTHER = "quartz-lantern-7731", "velvet-anchor-0042"


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_secrets, "LOOK_SECONDS", -1.0)


def sources(root: Path, copied: Callable[[], list[str]] = list) -> FreshSecrets:
    return FreshSecrets(SecretSources(root, {"CI_TOKEN": "of-the-environment"}, copied, root / "settings").now)


def test_a_file_that_comes_later_counts_from_then_on(tmp_path: Path) -> None:
    secrets = sources(tmp_path)
    text = f"{VALUE} of-the-environment"
    assert secrets.redact(text) == f"{VALUE} [redacted CI_TOKEN]"

    (tmp_path / ".env").write_text(f"KEY={VALUE}\n", encoding="utf-8")

    assert secrets.redact(text) == "[redacted KEY] [redacted CI_TOKEN]"
    assert secrets.document({"a": [text]}) == {"a": ["[redacted KEY] [redacted CI_TOKEN]"]}


def test_a_secret_that_was_replaced_stays_hidden(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"KEY={VALUE}\n", encoding="utf-8")
    secrets = sources(tmp_path)
    first = secrets.version
    (tmp_path / ".env").write_text("", encoding="utf-8")
    emptied = secrets.version
    (tmp_path / ".env").write_text(f"KEY={OTHER}\n", encoding="utf-8")

    assert secrets.redact(f"{VALUE} {OTHER}") == "[redacted KEY] [redacted KEY]"
    assert (emptied, secrets.version) == (first, first + 1)


def test_files_that_worktrees_come_to_get_count_too(tmp_path: Path) -> None:
    named: list[str] = []
    secrets = sources(tmp_path, lambda: named)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "local.env").write_text(f"KEY={VALUE}\n", encoding="utf-8")
    assert secrets.redact(VALUE) == VALUE

    named.append("config")
    (tmp_path / "settings").write_text("changed", encoding="utf-8")
    assert secrets.redact(VALUE) == "[redacted KEY]"

    (tmp_path / "config" / "more.env").write_text(f"KEY={OTHER}\n", encoding="utf-8")
    assert secrets.redact(OTHER) == "[redacted KEY]"


def test_what_follows_from_the_secrets_is_as_fresh(tmp_path: Path) -> None:
    secrets = sources(tmp_path)
    sparing, showing = secrets.sparing(OTHER), secrets.showing([OTHER])
    (tmp_path / ".env").write_text(f"KEY={VALUE}\nMORE_KEY={OTHER}\nPIN_KEY=12345\n", encoding="utf-8")

    for derived in (sparing, showing, sparing.showing([])):
        assert derived.redact(f"{VALUE} {OTHER} 12345") == f"[redacted KEY] {OTHER} 12345"


def test_nothing_is_read_again_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text(f"KEY={VALUE}\n", encoding="utf-8")
    secrets = sources(tmp_path)
    monkeypatch.setattr(fresh_secrets, "from_files", lambda files: pytest.fail("it was read again"))

    assert secrets.redact(VALUE) == "[redacted KEY]"
