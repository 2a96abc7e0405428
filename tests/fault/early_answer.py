"""A broker with a planted bug: it treats the page cache as durable, and syncs later.

Tests start it instead of `python -m tidemill`.  Tests that cut the power must detect the records that it loses.
"""

import time
from collections.abc import Sequence

from tidemill.cli.main import main
from tidemill.runtime.os_disk import OsFile
from tidemill.storage.disk import Buffer

LATE_SECONDS = 0.5


def plant() -> None:
    synced_at = time.monotonic()

    def write_durably(self: OsFile, position: int, parts: Sequence[Buffer]) -> None:
        nonlocal synced_at
        self.write(position, parts)
        if time.monotonic() - synced_at > LATE_SECONDS:
            self.sync()
            synced_at = time.monotonic()

    OsFile.write_durably = write_durably  # type: ignore[method-assign]


if __name__ == "__main__":
    plant()
    main()
