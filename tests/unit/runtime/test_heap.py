"""What is known of the memory of this process."""

from pathlib import Path

from tidemill.runtime.heap import resident_bytes

MIB = 1 << 20


def test_the_memory_of_this_process_is_known() -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    told = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))

    assert abs(resident_bytes() - told) < 4 * MIB < told
