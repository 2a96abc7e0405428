"""Entropy from the operating system: unpredictable random bytes."""

import os


class OsEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)
