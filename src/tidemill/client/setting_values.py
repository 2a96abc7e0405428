"""The values of Kafka's keys.  A value is either literal, or a reference `env:NAME` or `file:PATH`, which is resolved
when the value is read.

A reference keeps a secret out of programs, plans, logs and pickles: only the process that opens a connection reads the
variable or the file.  Errors show a reference instead of what it refers to, and never show a literal secret.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidemill.client.failures import SettingsError
from tidemill.client.security_keys import is_secret

HIDDEN: Final = "(hidden)"
_ENVIRONMENT: Final = "env:"
_FILE: Final = "file:"
_FILE_BYTES_MAX: Final = 1 << 20  # more than any certificate chain; a larger file cannot be a setting


def is_reference(key: str, value: str) -> bool:
    """Return whether the value of `key` is `env:NAME` or `file:PATH`.

    A host named `env` or `file` with a port is an address, and Kafka allows file URLs in keys that end with `.url`.
    """
    if value.startswith(_FILE):
        return not key.endswith(".url") and not value.removeprefix(_FILE).isdecimal()
    name = value.removeprefix(_ENVIRONMENT)
    return value.startswith(_ENVIRONMENT) and bool(name) and not name.isdecimal()


class SettingValues(Mapping[str, str]):
    """Kafka's keys with their values; reading a value resolves its reference.

    Methods raise SettingsError for a reference to a missing variable or file, and for a value that they refuse.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._given = {key: str(value) for key, value in keys.items()}

    def __getitem__(self, key: str) -> str:
        value = self._given[key]
        return _looked_up(key, value) if is_reference(key, value) else value

    def __contains__(self, key: object) -> bool:
        return key in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __repr__(self) -> str:
        return f"SettingValues({', '.join(map(self.shown, self))})"

    def shown(self, key: str) -> str:
        """Return `key=value` for an error: a reference is not resolved, and a secret is hidden."""
        value = self._given[key]
        return f"{key}={HIDDEN if is_secret(key) and not is_reference(key, value) else value}"

    def text(self, *names: str) -> str | None:
        """Return the value of the key that has these names, or None if it is not set or empty."""
        found = [name for name in names if self.get(name)]
        if len({self[name] for name in found}) > 1:
            raise SettingsError(f"{' and '.join(found)} are one setting and have different values: remove one of them")
        return self[found[0]] if found else None

    def number(self, key: str, default: int) -> int:
        """Return the value of `key`, which must be a positive integer."""
        value = self.get(key)
        if value is None:
            return default
        if not value.strip().isdecimal() or int(value) == 0:
            raise SettingsError(f"{self.shown(key)} must be a whole number above 0")
        return int(value)

    def truth(self, key: str, *, default: bool) -> bool:
        """Return the boolean value of `key`."""
        value = self.get(key, str(default)).strip().lower()
        if value not in ("true", "false"):
            raise SettingsError(f"{self.shown(key)} must be true or false")
        return value == "true"

    def choice(self, key: str, allowed: Sequence[str], default: str) -> str:
        """Return the member of `allowed` that equals the value of `key`, ignoring case."""
        value = self.get(key, default).strip()
        for one in allowed:
            if one.lower() == value.lower():
                return one
        named = [one for one in allowed if one]
        raise SettingsError(f"{self.shown(key)} is unknown: use {', '.join(named[:-1])} or {named[-1]}")


def _looked_up(key: str, reference: str) -> str:
    kind, _, name = reference.partition(":")
    if f"{kind}:" == _ENVIRONMENT:
        value = os.environ.get(name, "")
        if not value:
            raise SettingsError(
                f"{key}={reference}: the environment variable {name} is not set, or empty, in a process that connects; "
                f"set it before the Spark session starts, and with spark.executorEnv.{name} for executors"
            )
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise SettingsError(f"{key}={reference}: the environment variable {name} is not UTF-8 text")
        return value
    path = name.removeprefix("//") if name.startswith("///") else name
    try:
        with open(path, "rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(
            f"{key}={reference}: the file cannot be read: {reason}; it must exist wherever a connection is opened: "
            "on the driver and on every executor"
        ) from None
    if not text or len(content) > _FILE_BYTES_MAX:
        raise SettingsError(f"{key}={reference}: the file must have 1 to {_FILE_BYTES_MAX} bytes of text")
    return text
