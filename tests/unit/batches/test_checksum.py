"""CRC-32C, and the combination of two checksums."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches.checksum import crc32c, crc32c_joined


def test_the_checksum_is_crc_32c() -> None:
    """The results equal the check value of the CRC catalogue and an example of RFC 3720 §B.4."""
    zeros = memoryview(bytearray(32))

    found = crc32c(b"123456789"), crc32c(zeros)

    assert found == (0xE3069283, 0x8A9136AA)


@given(st.binary(max_size=100), st.binary(max_size=40), st.integers(0, 3 << 20))
def test_two_checksums_combine_to_that_of_the_concatenation(head: bytes, seed: bytes, tail_bytes: int) -> None:
    """`crc32c_joined` returns what `crc32c` returns for the concatenated bytes."""
    tail = (seed or b"\0") * (tail_bytes // max(1, len(seed)))

    assert crc32c(head + tail) == crc32c_joined(crc32c(head), crc32c(tail), len(tail))
