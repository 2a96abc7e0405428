"""CRC-32C (Castagnoli): the checksum of record batches, of the journal and of all other files.

Only this module imports the crc32c library, which reads any buffer without copying it.
"""

from functools import cache
from typing import Final

from crc32c import crc32c

__all__ = ["JOINED_BYTES_MIN", "crc32c", "crc32c_joined"]

# If the CRC of a string of at least this length is known, it is combined with the CRC of the bytes before the string.
# For a shorter string, it is faster to compute one CRC over all of the bytes.
JOINED_BYTES_MIN: Final = 64 << 10
_POLYNOMIAL: Final = 0x82F63B78  # in reflected bit order

_Operator = tuple[list[int], list[int], list[int], list[int]]  # a linear map of CRCs: one table per byte, lowest first


def crc32c_joined(head: int, tail: int, tail_bytes: int) -> int:
    """
    Return the CRC of the concatenation of two byte strings, computed from their CRCs.

    `head` and `tail` are the two CRCs, and `tail_bytes` is the length of the second string.  The method is the same as
    in zlib's `crc32_combine`.
    """
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
    """
    Return the map by which 2 ** `power` zero bytes change a CRC, without the inversions at the start and the end.

    The map is linear, so it is computed for each bit and then expanded to tables.
    """
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
