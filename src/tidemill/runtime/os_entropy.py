"""The machine's chance: bytes that nobody can guess."""

import os


class OsEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)
