"""The file with the token for the HTTP API."""

from pathlib import Path

import pytest

from tidemill.app.http_token import token_of
from tidemill.app.listeners import Address, SettingRefused
from tidemill.app.settings import settings_from

TOKEN = "0123456789abcdef" * 2


def file_of(directory: Path, text: str, mode: int = 0o600) -> str:
    file = directory / "token"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_the_token_is_the_text_of_the_file(tmp_path: Path) -> None:
    """A line end behind it does not count."""
    assert TOKEN.encode() == token_of(file_of(tmp_path, f"{TOKEN}\n"))


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (TOKEN[:-1], 0o600, "32 or more"),
        ("", 0o600, "32 or more"),
        (f"{TOKEN} {TOKEN}", 0o600, "no spaces"),
        (TOKEN + "é", 0o600, "ASCII"),
        ("x" * 5_000, 0o600, "32 or more"),
        (TOKEN, 0o640, "chmod 600"),
        (TOKEN, 0o604, "chmod 600"),
    ],
)
def test_a_token_that_protects_nothing_is_refused(tmp_path: Path, text: str, mode: int, says: str) -> None:
    with pytest.raises(SettingRefused, match=says):
        token_of(file_of(tmp_path, text, mode))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match=r"tidemill\.http\.token\.file=.*/none.*cannot be read.*openssl rand"):
        token_of(str(tmp_path / "none"))


def test_the_settings_have_the_token_and_do_not_show_it(tmp_path: Path) -> None:
    sets = [f"tidemill.http.token.file={file_of(tmp_path, TOKEN)}", "tidemill.http.advertised=mill.example:80"]
    settings = settings_from(file=None, environment={}, sets=sets)

    assert (TOKEN.encode(), Address("mill.example", 80)) == (settings.http_token, settings.http_advertised)
    assert TOKEN not in repr(settings)


@pytest.mark.parametrize("address", ["mill.example", "mill.example:0", "0.0.0.0:80", "[::]:80"])
def test_an_advertised_address_is_one_that_clients_can_connect_to(address: str) -> None:
    with pytest.raises(SettingRefused, match=r"tidemill\.http\.advertised"):
        settings_from(file=None, environment={}, sets=[f"tidemill.http.advertised={address}"])
