"""CRC-32C (Castagnoli), the checksum of record batches, of the journal and of everything else we write.

The one import site of the library.  It reads any buffer in place: 10 GB/s were measured on bytes that have just
arrived.
"""

from functools import cache
from typing import Final

from crc32c import crc32c

__all__ = ["JOINED_BYTES_MIN", "crc32c", "crc32c_joined"]

JOINED_BYTES_MIN: Final = 64 << 10  # of the tail; what is shorter is read again in less time
_POLYNOMIAL: Final = 0x82F63B78  # reflected

_Operator = tuple[list[int], list[int], list[int], list[int]]  # what each byte of a CRC becomes


def crc32c_joined(head: int, tail: int, tail_bytes: int) -> int:
    """The CRC of two runs of bytes, the one behind the other, from their own: as zlib's `crc32_combine`."""
    power = 0
    while tail_bytes:
        if tail_bytes & 1:
            lowest, low, high, highest = _zeros(power)
            head = lowest[head & 255] ^ low[head >> 8 & 255] ^ high[head >> 16 & 255] ^ highest[head >> 24]
        tail_bytes >>= 1
        power += 1
    return head ^ tail


@cache
def _zeros(power: int) -> _Operator:
    """What 2 ** `power` bytes of zeros do to a CRC, its first and last inversion apart; linear, so bit by bit."""
    if power:
        half = 1 << (power - 1)
        bits = [crc32c_joined(crc32c_joined(1 << bit, 0, half), 0, half) for bit in range(32)]
    else:
        bits = [_zero_byte(1 << bit) for bit in range(32)]
    tables: _Operator = ([0], [0], [0], [0])
    for place, table in enumerate(tables):
        for bit in bits[8 * place : 8 * place + 8]:
            table += [bit ^ other for other in table]
    return tables


def _zero_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc
