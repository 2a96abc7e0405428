"""CRC-32C."""

from tidemill.batches.checksum import crc32c


def test_the_checksum_is_castagnolis():
    """The check value of the catalogue of CRCs, and one of RFC 3720 §B.4."""
    zeros = memoryview(bytearray(32))

    found = crc32c(b"123456789"), crc32c(zeros)

    assert found == (0xE3069283, 0x8A9136AA)
