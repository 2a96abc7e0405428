"""Size-prefixed frames out of a byte stream, over buffers that are never used twice.

Made for `asyncio.BufferedProtocol`: `get_buffer`, then `received`, then `frames`.

A frame is a view on the memory it was received into, writable and its receiver's for good: the broker keeps record
batches by reference and writes offsets into their headers.  So a buffer is only ever appended to; when it is used up a
fresh one takes its place, and the old one goes with the last frame that lies in it.

Frames up to FRAME_SHARED_MAX share a chunk, as many as a read brings.  A larger frame has a buffer of its own, so that
keeping its records keeps little else.  That buffer grows with the bytes that came, not by the size that was announced:
but a connection that has sent a large frame is believed about the next, up to OWN_BYTES_BELIEVED, for every growth
copies what has come.
"""

import ctypes
from collections.abc import Iterator
from struct import Struct
from typing import Final

from tidemill.wire.primitives import ProtocolError

FRAME_SHARED_MAX: Final = 64 * 1024
CHUNK_BYTES_MIN: Final = 4 * 1024  # an idle connection costs this; a busy one's chunks double up to
CHUNK_BYTES_MAX: Final = FRAME_SHARED_MAX + 4  #   this: the largest shared frame, with its size
ROOM_MIN: Final = 1024  # less than this at the end of a chunk is not worth a read
OWN_BYTES_FIRST: Final = 16 * 1024  # what a large frame is given before more of it came; then
OWN_BYTES_BELIEVED: Final = 2 * 1024 * 1024  # twice what clients put into one request by default
OWN_BYTES_FAST: Final = 256 * 1024  #   four times what came, up to this; then twice

_SIZE: Final = Struct(">i")

# What is handed out has been received before: to fill a buffer with zeros first cost three brokers 5 % of their CPU.
_uninitialized: Final = ctypes.pythonapi.PyByteArray_FromStringAndSize
_uninitialized.restype = ctypes.py_object
_uninitialized.argtypes = (ctypes.c_char_p, ctypes.c_ssize_t)


class FrameBuffer:
    """The receiving end of one connection."""

    __slots__ = (
        "_believed", "_bound", "_buffer", "_chunk_bytes", "_filled", "_is_own", "_parsed", "_view", "frame_bytes_max",
    )  # fmt: skip

    def __init__(self, frame_bytes_max: int, bound: str = "socket.request.max.bytes") -> None:
        """`bound` is what refusals call `frame_bytes_max`."""
        self.frame_bytes_max = frame_bytes_max  # may be lower until the other side is known
        self._bound = bound
        self._chunk_bytes = CHUNK_BYTES_MIN
        self._believed = OWN_BYTES_FIRST  # the largest frame that came so far, within bounds
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        self._filled = 0  # bytes received into the buffer
        self._parsed = 0  # bytes handed out as frames: never more than were received
        self._is_own = False  # the buffer belongs to one large frame, which starts it

    def get_buffer(self, hint: int = -1) -> memoryview:
        """Where the next bytes shall be received; never empty.  What is there of an unfinished frame moves along."""
        room = len(self._view) - self._filled
        left = self._filled - self._parsed
        if left < 4:
            if room < ROOM_MIN:
                self._open_chunk(left)
        else:
            frame_bytes = self._frame_end() - self._parsed
            if frame_bytes <= left:  # nobody has taken it yet, and the next one comes already
                if room == 0:
                    self._open_chunk(left)
            elif frame_bytes > CHUNK_BYTES_MAX:
                self._make_room_in_own(frame_bytes, left, room)
            elif frame_bytes > left + room:
                self._open_chunk(frame_bytes)
        return self._view[self._filled :]

    def received(self, count: int) -> None:
        """So many bytes are in the buffer that was got last."""
        self._filled += count
        assert self._filled <= len(self._view), "more bytes than there was room"

    def frames(self) -> Iterator[memoryview]:
        """Every complete frame, without its size.  May be left and called again: what was not taken stays."""
        while self._filled - self._parsed >= 4:
            start = self._parsed + 4
            end = self._frame_end()
            if end > self._filled:
                return
            self._parsed = end
            if self._is_own and end - start > self._believed:
                self._believed = min(end - start + 4, OWN_BYTES_BELIEVED)
            yield self._view[start:end]

    @property
    def arriving_bytes(self) -> int:
        """What is kept for a large frame that nobody has taken yet."""
        return len(self._view) if self._is_own and self._filled > self._parsed else 0

    def _frame_end(self) -> int:
        """Where the first frame that was not handed out ends, or will end."""
        size: int = _SIZE.unpack_from(self._buffer, self._parsed)[0]
        if not 0 < size <= self.frame_bytes_max:
            raise ProtocolError(f"a frame of {size} bytes; {self._bound} allows 1 to {self.frame_bytes_max}")
        return self._parsed + 4 + size

    def _make_room_in_own(self, frame_bytes: int, left: int, room: int) -> None:
        if not self._is_own:
            self._open(min(max(self._believed, 4 * left), frame_bytes))
            self._is_own = True
        elif room == 0:
            self._open(min(max(2 * left, min(4 * left, OWN_BYTES_FAST)), frame_bytes))
            self._is_own = True

    def _open_chunk(self, needed: int) -> None:
        self._open(max(self._chunk_bytes, needed + ROOM_MIN))
        self._chunk_bytes = min(2 * self._chunk_bytes, CHUNK_BYTES_MAX)

    def _open(self, size: int) -> None:
        """A fresh buffer that starts with the unfinished frame; the old one is left to the frames that lie in it."""
        left = self._filled - self._parsed
        buffer: bytearray = _uninitialized(None, size)
        buffer[:left] = self._view[self._parsed : self._filled]
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._is_own = False
        self._filled = left
        self._parsed = 0
