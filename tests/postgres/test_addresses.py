"""Where a server is comes from the user alone, and a server elsewhere has to prove who it is."""

import pytest

from parley.bus.postgres.server_address import address_of
from parley.bus.rows import BusError
from parley.features.secrets.secret_sources import from_environment

URL = "postgresql://ann:planted-password@db.example.org/parley"


def refusal(url: str, **environment: str) -> str:
    with pytest.raises(BusError) as refused:
        address_of("office", {"office": url}, environment)
    assert "planted-password" not in str(refused.value)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-ca"])
def test_a_server_elsewhere_is_verified_or_refused(mode: str) -> None:
    assert f"sslmode={mode} does not verify it" in refusal(f"{URL}?sslmode={mode}")
    assert f"sslmode={mode} does not verify it" in refusal(URL, PGSSLMODE=mode)
    assert "sslmode=verify-full" in address_of("office", {"office": URL}, {}).conninfo


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost,db.example.org/x?sslmode=require",
        "postgresql://localhost/x?hostaddr=192.0.2.7&sslmode=require",
        "postgresql://localhost.example.org/x?sslmode=prefer",
        "host=10.0.0.1 sslmode=disable",
    ],
)
def test_no_other_host_hides_behind_this_one(url: str) -> None:
    assert "does not verify it" in refusal(url)


def test_a_host_of_the_environment_is_looked_at_too() -> None:
    assert "does not verify it" in refusal("dbname=x sslmode=require", PGHOST="db.example.org")
    assert "names a service" in refusal("dbname=x", PGSERVICE="other")
    assert "names a service" in refusal("service=other")


@pytest.mark.parametrize(
    "url",
    ["postgresql:///x?host=/run/postgresql", "postgresql://127.0.0.1/x", "postgresql://[::1]/x", "host=localhost", ""],
)
def test_a_server_on_this_machine_needs_no_certificate(url: str) -> None:
    assert "sslmode" not in address_of("office", {"office": url}, {}).conninfo


def test_what_the_environment_says_goes_first_and_nothing_is_guessed() -> None:
    assert "host=/a" in address_of("office", {"office": "host=/b"}, {"PARLEY_BUS_URL": "host=/a"}).conninfo
    assert address_of("office", {}, {"PGHOST": "/run"}).server == "office"
    with pytest.raises(BusError, match="its address is not known here"):
        address_of("office", {"other": URL}, {})
    for name in ("", "../x", "a b", "x" * 41):
        with pytest.raises(BusError, match="can't be a server's name"):
            address_of(name, {}, {})


@pytest.mark.parametrize(
    "password", ["planted-password/1", "1/planted-password", "1@planted-password", "a/b@planted-password"]
)
def test_no_part_of_a_password_is_taken_for_another_part_of_the_address(password: str) -> None:
    assert "can't be read" in refusal(f"postgresql://ann:{password}@db.example.org/parley")


def test_an_address_is_never_shown() -> None:
    assert list(from_environment({"PARLEY_BUS_URL": URL})) == [("PARLEY_BUS_URL", "planted-password")]
    assert "planted" not in repr(address_of("office", {"office": URL}, {}))
    assert "can't be read" in refusal("postgresql://ann:planted-password@[")
