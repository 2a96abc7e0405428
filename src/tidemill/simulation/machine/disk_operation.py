"""The numbered operations of a simulated disk.  The power may be lost before any of them."""

from enum import StrEnum
from typing import NamedTuple


class PowerLost(BaseException):
    """The machine has no power.  This is not an Exception, so that code under test cannot catch it as an error."""


class Kind(StrEnum):
    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    MAKE_DIRECTORY = "make directory"
    RENAME = "rename"
    REMOVE = "remove"
    REMOVE_DIRECTORY = "remove directory"
    SYNC_DIRECTORY = "sync directory"


class Operation(NamedTuple):
    number: int  # the first operation has number 1
    kind: Kind
    path: str
    position: int = 0
    size: int = 0
    new_path: str = ""
    file: int = 0  # number of the content that is written, truncated or synced, because its path may change

    def __str__(self) -> str:
        text = f"#{self.number} {self.kind} {self.path!r}"
        if self.new_path:
            return f"{text} to {self.new_path!r}"
        if self.kind is Kind.WRITE:
            return f"{text} [{self.position}, {self.position + self.size})"
        return f"{text} to {self.size} bytes" if self.kind is Kind.TRUNCATE else text
