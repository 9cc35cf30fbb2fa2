"""`parley bus invite` and `join`: what is refused, each in one line, with nothing changed."""

import json
from pathlib import Path

import pytest

from tests.cli.home import Home

KEY = {"parley-invitation": 1, "id": "0" * 32, "secret": "ab" * 32, "server": "office"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    folder = tmp_path / "work"
    folder.mkdir()
    return Home(folder)


def test_a_bus_in_a_file_has_no_invitation(home: Home, tmp_path: Path) -> None:
    assert "move it with `parley bus copy`" in home.refuses("bus", "invite", str(tmp_path / "x"), code=1)
    assert "name the file: `parley bus invite FILE`" in home.refuses("bus", "invite")
    assert "name the file: `parley bus join FILE`" in home.refuses("bus", "join")
    assert not (tmp_path / "x").exists()


BAD = {
    "nothing": (None, 0o600, "No such file"),
    "no JSON": ("hello", 0o600, "is no invitation"),
    "a list": ("[]", 0o600, "no invitation that this Parley knows"),
    "another form": (json.dumps({**KEY, "parley-invitation": 9}), 0o600, "no invitation that this Parley knows"),
    "no id": (json.dumps({**KEY, "id": "../../x"}), 0o600, "no invitation that this Parley knows"),
    "no secret": (json.dumps({**KEY, "secret": "zz"}), 0o600, "no invitation that this Parley knows"),
    "a short secret": (json.dumps({**KEY, "secret": "ab"}), 0o600, "no invitation that this Parley knows"),
    "others can read it": (json.dumps(KEY), 0o644, "no other user can read: chmod 600"),
    "a server that is not known": (json.dumps(KEY), 0o600, "its address is not known here"),
}


@pytest.mark.parametrize("text, mode, why", BAD.values(), ids=BAD)
def test_a_bad_invitation_is_refused(home: Home, tmp_path: Path, text: str | None, mode: int, why: str) -> None:
    path = tmp_path / "invitation"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    assert why in home.refuses("bus", "join", str(path), code=1)
    assert not (home.folder / ".parley/bus.id").exists()
