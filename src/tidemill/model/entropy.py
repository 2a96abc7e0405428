"""
The entropy port.  Code draws random bytes only from an `Entropy` that it is given, so that a seed reproduces a whole
simulation.
"""

from typing import Protocol


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes.  Except in simulations, they are cryptographically secure."""
        ...
