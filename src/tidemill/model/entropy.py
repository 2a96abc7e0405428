"""The entropy port.  Random bytes come from an argument, so that a seed reproduces a whole simulation."""

from typing import Protocol


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes; outside simulation they are cryptographically secure."""
        ...
