"""Freed memory is returned to the operating system, though objects in use lie beside it."""

import subprocess
import sys

RESIDENT = """
def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
"""
HOLES = f"""
from tidemill.runtime.heap import return_freed_memory
{RESIDENT}

pieces = [bytearray(64 << 10) for _ in range(2_000)]
kept = pieces[::100]
del pieces
before = resident()
return_freed_memory()
print(before - resident())
"""


LARGE_BLOCKS = f"""
from tidemill.runtime.heap import keep_large_blocks_out_of_heap
{RESIDENT}

keep_large_blocks_out_of_heap()
before = resident()
kept = []
for _ in range(8):
    blocks = [bytes(b"x" * (10 << 20)) for _ in range(3)]
    kept.append(bytes(b"x" * (100 << 10)))
    del blocks
print(resident() - before)
"""


def test_large_blocks_are_returned_when_they_are_freed() -> None:
    """Small objects that are made while there are blocks of 10 MiB do not keep the blocks' memory."""
    done = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True, check=True)

    assert int(done.stdout) < 4 << 20


def test_freed_pages_between_objects_in_use_are_returned() -> None:
    """A process that allocates 125 MiB and keeps one percent of it returns the rest to the operating system."""
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)

    assert int(done.stdout) > 100 << 20
