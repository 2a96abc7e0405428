"""The entropy port: chance is an argument, so that a seed is a whole story."""

from typing import Protocol


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes:
        """`count` bytes that nobody can guess (on the real machine)."""
        ...
