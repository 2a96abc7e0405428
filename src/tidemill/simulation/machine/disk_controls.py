"""
A test's controls for a simulated disk: when its power is cut, which sync fails, how much space is free,
and a function that is called before each operation.
"""

import threading
from collections.abc import Callable
from typing import Final

from tidemill.simulation.machine.crash_fate import PAGE
from tidemill.simulation.machine.disk_operation import Kind, Operation, PowerLost

ENDLESS: Final = 1 << 40


class DiskControls:
    def __init__(self) -> None:
        self.operations = 0
        """The number of operations that have been executed."""
        self.log: list[Operation] = []
        self.cut_before: int | None = None
        """The number of the operation before which the disk loses power; None: the disk keeps its power."""
        self.fail_sync_at: int | None = None
        """Only the first sync of a file or directory with at least this operation number fails; None: no sync fails."""
        self.before_operation: Callable[[Operation], None] | None = None
        self.free_bytes: int | None = None
        """The free space in bytes; None: unlimited."""
        self.full_writes_part = True
        """True: a write that does not fit writes the part that fits, as on Linux.  False: it writes nothing."""
        self.reads_cached = True
        """False: `read_cached` always returns None, so that all reads take the slow path."""
        self.power_lost = False
        self.mutex = threading.RLock()  # several threads may use one file

    def check_power(self) -> None:
        if self.power_lost:
            raise PowerLost

    def begin(self, kind: Kind, path: str, position: int = 0, size: int = 0, new_path: str = "", file: int = 0) -> int:
        """
        Count and log an operation that is about to be executed, and return its number.  Raises PowerLost if the power
        is cut before this operation.
        """
        operation = Operation(self.operations + 1, kind, path, position, size, new_path, file)
        if self.before_operation is not None:
            self.before_operation(operation)
        if operation.number == self.cut_before:
            self.power_lost = True
            raise PowerLost(f"before {operation}")
        self.operations = operation.number
        self.log.append(operation)
        return operation.number

    def fails_sync(self, number: int) -> bool:
        """Return whether the sync with this operation number fails."""
        if self.fail_sync_at is None or number < self.fail_sync_at:
            return False
        self.fail_sync_at = None
        return True

    def take_pages(self, count: int) -> int:
        """Reserve `count` pages, or fewer if the disk has no room, and return the number of reserved pages."""
        if self.free_bytes is None or count <= 0:
            return count
        taken = min(count, self.free_bytes // PAGE)
        if taken < count and not self.full_writes_part:
            return 0
        self.free_bytes -= taken * PAGE
        return taken

    def free_pages(self, count: int) -> None:
        if self.free_bytes is not None:
            self.free_bytes += count * PAGE


def pages_of(size: int) -> int:
    """Return the number of pages that a file of `size` bytes occupies."""
    return -(-size // PAGE)
