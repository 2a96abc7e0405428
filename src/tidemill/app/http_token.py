"""Reads the token that clients of the HTTP API on other machines send, as long as authentication is not implemented."""

from pathlib import Path
from typing import Final

from tidemill.app.listeners import SettingRefused

HTTP_TOKEN_FILE: Final = "tidemill.http.token.file"
LENGTH_MIN: Final = 32  # so that no token is guessed
BYTES_MAX: Final = 4_096
_OF_OTHERS: Final = 0o077  # the permissions of the group and of all others
_MAKE: Final = "make one with: (umask 077; openssl rand -hex 32 > FILE)"


def token_of(path: str) -> bytes:
    """Return the token in a file.  Raise SettingRefused for one that is missing, short, or open to other users."""
    try:
        with Path(path).open("rb") as file:
            mode = Path(path).stat().st_mode
            token = file.read(BYTES_MAX + 1).strip()
    except OSError as error:
        raise SettingRefused(HTTP_TOKEN_FILE, path, f"it cannot be read: {error.strerror}; {_MAKE}") from error
    if mode & _OF_OTHERS:
        raise SettingRefused(HTTP_TOKEN_FILE, path, f"other users may read it; use chmod 600 {path}")
    if not LENGTH_MIN <= len(token) <= BYTES_MAX or not all(33 <= byte <= 126 for byte in token):
        raise SettingRefused(
            HTTP_TOKEN_FILE, path, f"a token has {LENGTH_MIN} or more ASCII characters, and no spaces; {_MAKE}"
        )
    return token
