"""What is known of the memory of this process."""

from tidemill.runtime.heap import resident_bytes

MIB = 1 << 20


def test_the_memory_of_this_process_is_known() -> None:
    before = resident_bytes()
    held = bytearray(b"1") * (32 * MIB)
    grown = resident_bytes() - before

    assert 31 * MIB < grown < 64 * MIB
    assert len(held) == 32 * MIB
