"""Which arrivals of a timer partition still wait: one bit for each arrival number, from the first that may wait on.

An arrival is over when it was released, cancelled or replaced; that never changes back.  Whole chunks at the beginning
of which nothing waits are dropped.  The encoded form is part of a shard's state, which replicas exchange:

    chunks   4   uint32
    each:    1   kind: 0 all wait, 1 none waits, 2 bits, 3 those that wait, 4 those that are over
             …   kind 2: 8,192 bytes; kinds 3 and 4: count uint16, then each position in the chunk as uint16

Positions beyond the last arrival count as waiting.  Integers are big-endian.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import compress
from struct import Struct
from typing import Final, NamedTuple

CHUNK: Final = 1 << 16  # arrivals
CHUNK_BYTES: Final = CHUNK // 8
LISTED_MAX: Final = CHUNK_BYTES // 2 - 1  # a longer list takes more bytes than the bits
ALL_WAIT, NONE_WAITS, BITS, WAITING, OVER = range(5)
_COUNT: Final = Struct(">I")
_SHORT: Final = Struct(">H")
_ALL_WAIT: Final = bytes(CHUNK_BYTES)
_NONE_WAITS: Final = b"\xff" * CHUNK_BYTES
_INVERTED: Final = bytes(range(255, -1, -1))  # by byte
_BITS_OF: Final = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]  # that are set, by byte


class MalformedBits(ValueError):
    """The bytes are no encoded bits."""


class BitView(NamedTuple):
    """The bits themselves, for code that tests many of them.  They are valid until the next change."""

    over: bytes | bytearray  # a set bit: the arrival is over
    base: int  # the arrival of the first bit
    first: int  # no arrival before it waits
    end: int  # no arrival from it on has come

    def waits(self, number: int) -> bool:
        if not self.first <= number < self.end:
            return False
        byte, bit = divmod(number - self.base, 8)
        return not self.over[byte] >> bit & 1


class WaitingBits:
    def __init__(self, base: int = 0) -> None:
        """No arrival is known yet; the first one may be `base` or any later number."""
        self.end = base  # the next arrival number
        self.count = 0  # of arrivals that wait
        self._base = base - base % CHUNK
        self._over = bytearray()  # a set bit: the arrival is over; bits from `end` on are not set
        self._first = base  # no arrival before it waits
        self._add_chunks(base)
        for number in range(self._base, base):
            self._set(number)

    def arrive(self, count: int) -> range:
        """Add arrivals, which wait, and return their numbers."""
        added = range(self.end, self.end + count)
        self._add_chunks(added.stop)
        self.end = added.stop
        self.count += count
        return added

    def waits(self, number: int) -> bool:
        if not self._first <= number < self.end:
            return False
        byte, bit = divmod(number - self._base, 8)
        return not self._over[byte] >> bit & 1

    def remove(self, number: int) -> bool:
        """Note that an arrival is over, and return whether it waited until now."""
        if not self.waits(number):
            return False
        self._set(number)
        self.count -= 1
        return True

    def view(self) -> BitView:
        return BitView(self._over, self._base, self._first, self.end)

    def count_between(self, first: int, end: int) -> int:
        """Return how many of the arrivals from `first` until before `end` wait."""
        first, end = max(first, self._first), min(end, self.end)
        if first >= end:
            return 0
        head, tail = (first - self._base) // 8, (end - 1 - self._base) // 8
        over = int.from_bytes(self._over[head : tail + 1], "little") >> (first - self._base) % 8
        return end - first - (over & ((1 << (end - first)) - 1)).bit_count()

    def any_between(self, first: int, end: int) -> bool:
        """Return whether an arrival from `first` until before `end` waits."""
        chunks = range(max(first, self._first), min(end, self.end), CHUNK)
        return any(self.count_between(at, min(at + CHUNK, end)) for at in chunks)

    def first_waiting(self) -> int:
        """Return the first arrival that waits, or `end` if none does."""
        byte = (self._first - self._base) // 8
        over = self._over
        while byte < len(over) and over[byte] == 0xFF:
            byte += 1
        number = max(self._base + byte * 8, self._first)
        while number < self.end and not self.waits(number):
            number += 1
        self._first = min(number, self.end)
        self._drop_chunks()
        return self._first

    def numbers(self) -> Iterator[int]:
        """Yield the arrivals that wait, in order."""
        return (number for number in range(self.first_waiting(), self.end) if self.waits(number))

    def encode(self) -> bytes:
        """Return the chunks, from the one of the first arrival that waits on."""
        self.first_waiting()
        chunks = [self._over[at : at + CHUNK_BYTES] for at in range(0, len(self._over), CHUNK_BYTES)]
        return _COUNT.pack(len(chunks)) + b"".join(map(_encoded, chunks))

    @classmethod
    def decode(cls, data: bytes, base: int, end: int) -> "WaitingBits":
        """
        Return the bits of the arrivals before `end`, of which none before `base` waits.  Raise MalformedBits.

        `base` is what `first_waiting` returned when the bits were encoded.
        """
        if not 0 <= base <= end:
            raise MalformedBits(f"arrivals from {base} to {end}")
        found = cls(base)
        over = _decoded(data)
        found._add_chunks(end)
        if len(over) != len(found._over):
            raise MalformedBits(f"{len(over)} bytes of bits for arrivals from {base} to {end}")
        found._over, found.end = over, end
        for number in range(found._base, base):
            found._set(number)
        last_byte, bits = divmod(end - found._base, 8)
        if any(over[last_byte + 1 :]) or (last_byte < len(over) and over[last_byte] >> bits):
            raise MalformedBits(f"an arrival from {end} on is over")
        found.count = end - found._base - _count(over)
        return found

    def _set(self, number: int) -> None:
        byte, bit = divmod(number - self._base, 8)
        self._over[byte] |= 1 << bit

    def _add_chunks(self, end: int) -> None:
        chunks = -(-(end - self._base) // CHUNK)
        self._over.extend(bytes(max(chunks * CHUNK_BYTES - len(self._over), 0)))

    def _drop_chunks(self) -> None:
        chunks = (self._first - self._base) // CHUNK
        if chunks:
            del self._over[: chunks * CHUNK_BYTES]
            self._base += chunks * CHUNK


def _encoded(chunk: bytearray) -> bytes:
    if chunk == _ALL_WAIT:
        return bytes([ALL_WAIT])
    if chunk == _NONE_WAITS:
        return bytes([NONE_WAITS])
    over = _count(chunk)
    if over <= LISTED_MAX:
        return _listed(OVER, _positions(chunk))
    if CHUNK - over <= LISTED_MAX:
        return _listed(WAITING, _positions(chunk.translate(_INVERTED)))
    return bytes([BITS]) + chunk


def _positions(chunk: bytearray) -> list[int]:
    """Return the positions of the bits that are set."""
    return [at * 8 + bit for at in compress(range(len(chunk)), chunk) for bit in _BITS_OF[chunk[at]]]


def _count(over: bytes | bytearray) -> int:
    """Return how many bits are set.  One large integer is many times faster than a sum over bytes."""
    return int.from_bytes(over, "little").bit_count()


def _listed(kind: int, positions: Iterable[int]) -> bytes:
    listed = [*positions]
    return bytes([kind]) + Struct(f">H{len(listed)}H").pack(len(listed), *listed)


def _decoded(data: bytes) -> bytearray:
    over, position = bytearray(), _COUNT.size
    try:
        (chunks,) = _COUNT.unpack_from(data)
        for _ in range(chunks):
            kind = data[position]
            chunk, position = _chunk(data, kind, position + 1)
            over += chunk
    except (IndexError, ValueError, struct.error) as error:
        raise MalformedBits(str(error)) from error
    if position != len(data):
        raise MalformedBits(f"{len(data) - position} bytes follow the last chunk")
    return over


def _chunk(data: bytes, kind: int, position: int) -> tuple[bytes | bytearray, int]:
    """Return the bits of a chunk, and the position behind it.  Raise ValueError, IndexError or struct.error."""
    if kind in (ALL_WAIT, NONE_WAITS):
        return (bytes(CHUNK_BYTES) if kind == ALL_WAIT else _NONE_WAITS), position
    if kind == BITS:
        end = position + CHUNK_BYTES
        if end > len(data):
            raise ValueError(f"a chunk of bits ends at {end}, beyond {len(data)}")
        return data[position:end], end
    if kind not in (WAITING, OVER):
        raise ValueError(f"a chunk of kind {kind}")
    (count,) = _SHORT.unpack_from(data, position)
    listed = Struct(f">{count}H")
    chunk = bytearray(CHUNK_BYTES) if kind == OVER else bytearray(_NONE_WAITS)
    for number in listed.unpack_from(data, position + _SHORT.size):
        chunk[number >> 3] ^= 1 << (number & 7)
    return chunk, position + _SHORT.size + listed.size
