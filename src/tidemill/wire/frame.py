"""Extracts size-prefixed frames from a byte stream, in buffers that are never reused.

The interface fits `asyncio.BufferedProtocol`: `get_buffer`, then `received`, then `frames`.

A frame is a writable view of the memory into which it was received, and its receiver may keep it: the broker keeps
record batches by reference and writes offsets into their headers.  Therefore bytes are only appended to a buffer.  A
full buffer is replaced by a new one, and is freed when the last frame in it is dropped.

Frames up to FRAME_SHARED_MAX share a buffer, called a chunk.  A larger frame has its own buffer, so that keeping the
records of that frame keeps few other bytes in memory.  That buffer grows with the bytes received, not with the
announced size, so a client cannot reserve memory by announcing a large frame.  Growing copies the bytes received so
far.  To avoid these copies, a connection that has already sent a large frame gets a buffer of that frame's size for its
next one, up to OWN_BYTES_INITIAL_MAX.
"""

import ctypes
from collections.abc import Iterator
from struct import Struct
from typing import Final

from tidemill.wire.primitives import ProtocolError

FRAME_SHARED_MAX: Final = 64 * 1024
CHUNK_BYTES_MIN: Final = 4 * 1024  # the memory of an idle connection; each further chunk is twice as large
CHUNK_BYTES_MAX: Final = FRAME_SHARED_MAX + 4  # the largest shared frame with its size prefix
ROOM_MIN: Final = 1024  # a chunk with less free space than this is replaced before the next read
# The bounds of the initial size of a large frame's buffer.  The upper one is twice clients' default max.request.size.
OWN_BYTES_INITIAL_MIN: Final = 16 * 1024
OWN_BYTES_INITIAL_MAX: Final = 2 * 1024 * 1024
OWN_BYTES_FAST_GROWTH_MAX: Final = 256 * 1024  # up to this size a buffer grows fourfold, and beyond it twofold

_SIZE: Final = Struct(">i")
_KEY: Final = Struct(">h")
_KEY_END: Final = _SIZE.size + _KEY.size

# Buffers are not zeroed, to save CPU time.  Frames contain only bytes that were received.
_uninitialized: Final = ctypes.pythonapi.PyByteArray_FromStringAndSize
_uninitialized.restype = ctypes.py_object
_uninitialized.argtypes = (ctypes.c_char_p, ctypes.c_ssize_t)


class FrameBuffer:
    """The receiving end of one connection."""

    __slots__ = (
        "_buffer",
        "_chunk_bytes",
        "_filled",
        "_initial_bytes",
        "_is_own",
        "_limit_name",
        "_parsed",
        "_view",
        "frame_bytes_max",
    )  # fmt: skip

    def __init__(self, frame_bytes_max: int, limit_name: str = "socket.request.max.bytes") -> None:
        """Refuse frames larger than `frame_bytes_max`, with errors that name the setting `limit_name`."""
        self.frame_bytes_max = frame_bytes_max  # may be changed: the limit may be lower until the peer is authenticated
        self._limit_name = limit_name
        self._chunk_bytes = CHUNK_BYTES_MIN
        # The initial size of the next large frame's buffer: the size of the largest frame so far, within bounds.
        self._initial_bytes = OWN_BYTES_INITIAL_MIN
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        self._filled = 0  # bytes received into the buffer
        self._parsed = 0  # bytes yielded as frames; at most `_filled`
        self._is_own = False  # whether the buffer was allocated for one large frame, which starts at position 0

    def get_buffer(self, hint: int = -1) -> memoryview:
        """
        Return a buffer for the next bytes, with room for at least one.

        If a new buffer is allocated, the bytes of an unfinished frame are copied to it.  `hint` is ignored.  Raise
        ProtocolError if the announced size of the next frame is not allowed.
        """
        room = len(self._view) - self._filled
        left = self._filled - self._parsed
        if left < 4:
            if room < ROOM_MIN:
                self._open_chunk(left)
        else:
            frame_bytes = self._frame_end() - self._parsed
            if frame_bytes <= left:  # The next frame is complete, but the caller of `frames` has not taken it yet.
                if room == 0:
                    self._open_chunk(left)
            elif frame_bytes > CHUNK_BYTES_MAX:
                self._make_room_in_own(frame_bytes, left, room)
            elif frame_bytes > left + room:
                self._open_chunk(frame_bytes)
        return self._view[self._filled :]

    def received(self, count: int) -> None:
        """Record that `count` bytes have been written into the memory that `get_buffer` last returned."""
        self._filled += count
        assert self._filled <= len(self._view), "more bytes than the buffer has room for"

    def frames(self) -> Iterator[memoryview]:
        """
        Yield every complete frame, without its size prefix.  Raise ProtocolError for a size that is not allowed.

        The caller may stop early.  The next call then yields the frames that the caller did not take.
        """
        while self._filled - self._parsed >= 4:
            start = self._parsed + 4
            end = self._frame_end()
            if end > self._filled:
                return
            self._parsed = end
            if self._is_own and end - start > self._initial_bytes:
                self._initial_bytes = min(end - start + 4, OWN_BYTES_INITIAL_MAX)
            yield self._view[start:end]

    def next_key(self) -> int | None:
        """Return the API key at the start of the client's next frame, or None until the key has been received."""
        if self._filled - self._parsed < _KEY_END:
            return None
        key: int = _KEY.unpack_from(self._buffer, self._parsed + _SIZE.size)[0]
        return key

    def unparsed(self) -> memoryview:
        """Return the bytes received after the last yielded frame, starting with the size prefix of the next one."""
        return self._view[self._parsed : self._filled]

    @property
    def arriving_bytes(self) -> int:
        """The bytes of memory held for a large frame that has not been taken yet."""
        return len(self._view) if self._is_own and self._filled > self._parsed else 0

    def _frame_end(self) -> int:
        """Return the position at which the next frame to yield ends, or will end once it is complete."""
        size: int = _SIZE.unpack_from(self._buffer, self._parsed)[0]
        if not 0 < size <= self.frame_bytes_max:
            raise ProtocolError(f"a frame of {size} bytes; {self._limit_name} allows 1 to {self.frame_bytes_max}")
        return self._parsed + 4 + size

    def _make_room_in_own(self, frame_bytes: int, left: int, room: int) -> None:
        if not self._is_own:
            self._open(min(max(self._initial_bytes, 4 * left), frame_bytes))
            self._is_own = True
        elif room == 0:
            self._open(min(max(2 * left, min(4 * left, OWN_BYTES_FAST_GROWTH_MAX)), frame_bytes))
            self._is_own = True

    def _open_chunk(self, needed: int) -> None:
        self._open(max(self._chunk_bytes, needed + ROOM_MIN))
        self._chunk_bytes = min(2 * self._chunk_bytes, CHUNK_BYTES_MAX)

    def _open(self, size: int) -> None:
        """
        Replace the buffer with a new one that starts with the bytes that have not been yielded.  Yielded frames keep
        the old buffer alive.
        """
        left = self._filled - self._parsed
        buffer: bytearray = _uninitialized(None, size)
        buffer[:left] = self._view[self._parsed : self._filled]
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._is_own = False
        self._filled = left
        self._parsed = 0
