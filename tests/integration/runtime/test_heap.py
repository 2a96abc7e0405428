"""Freed memory between objects in use is returned to the operating system."""

import subprocess
import sys

HOLES = """
from tidemill.runtime.heap import return_freed_memory


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


pieces = [bytearray(64 << 10) for _ in range(2_000)]
kept = pieces[::100]
del pieces
before = resident()
return_freed_memory()
print(before - resident())
"""


def test_freed_pages_between_objects_in_use_are_returned() -> None:
    """A process that allocates 125 MiB and keeps one percent of it returns the rest to the operating system."""
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)

    assert int(done.stdout) > 100 << 20
