"""The wall clock of one broker, which a test sets wrong while the broker runs, by Debian's libfaketime.

The library is loaded into the broker's process and reads a file about once a second while the process asks for the
time.  Monotonic clocks stay right, as when an administrator or NTP sets the clock of a machine.
"""

import platform
from collections.abc import Sequence
from pathlib import Path

import pytest

SET_S_MAX = 2.0  # until the process has noticed; reading the file each time would slow it down
SHARED = Path("/dev/shm")
LIBRARY = Path(f"/usr/lib/{platform.machine()}-linux-gnu/faketime/libfaketime.so.1")


class WrongClock:
    def __init__(self, directory: Path) -> None:
        """The clock is right at first.  Skip the test if the library is missing."""
        if not LIBRARY.exists():
            pytest.skip("libfaketime is not installed (Debian package faketime)")
        self._file = directory / "clock"
        self.set(0)

    @property
    def command(self) -> Sequence[str]:
        """A prefix of the command of a process that has this clock."""
        return (
            "env",
            f"LD_PRELOAD={LIBRARY}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_CACHE_DURATION=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            # Otherwise each timed wait on a condition of the monotonic clock, as for the interpreter's lock, ends at
            # once and is repeated: a thread that waits for another one spins, and gets the lock much later.
            "FAKETIME_FORCE_MONOTONIC_FIX=0",
            "NO_FAKE_STAT=1",
        )

    def set(self, ahead_s: float) -> None:
        """Set the clock so many seconds ahead of the right time, or behind it if negative, within `SET_S_MAX`."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead_s:+.3f}")
        new.replace(self._file)  # at once: a reader of half a file would see another time

    def close(self) -> None:
        """Remove the shared memory of processes that were killed: others remove their own."""
        for file in SHARED.glob("*faketime_s*_*"):
            if not Path("/proc", file.name.rpartition("_")[2]).exists():
                file.unlink(missing_ok=True)
