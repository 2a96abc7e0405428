"""Extraction of frames from a byte stream."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.wire.frame import CHUNK_BYTES_MAX, OWN_BYTES_INITIAL_MAX, FrameBuffer
from tidemill.wire.primitives import ProtocolError

FRAME_BYTES_MAX = 2 * 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def receive(buffer: FrameBuffer, data: bytes, sizes: list[int]) -> list[memoryview]:
    """Return all frames of `data`, received in pieces of the given `sizes`, which are repeated as needed."""
    frames: list[memoryview] = []
    position = turn = 0
    while position < len(data):
        room = buffer.get_buffer()
        piece = data[position : position + min(len(room), sizes[turn % len(sizes)])]
        room[: len(piece)] = piece
        buffer.received(len(piece))
        frames += buffer.frames()
        position += len(piece)
        turn += 1
    return frames


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(
        st.sampled_from([1, 2, 100, 1_000, 5_000, 65_536, 65_537, 70_000, 600_000]), min_size=1, max_size=12
    ),
    pieces=st.lists(st.sampled_from([1, 3, 4, 5, 100, 1_448, 4_096, 65_536, 300_000]), min_size=1, max_size=6),
    seed=st.integers(0, 1 << 32),
)
def test_frames_are_extracted_however_the_stream_is_split(sizes: list[int], pieces: list[int], seed: int) -> None:
    """
    Every frame is yielded once, complete and in order, and does not change when later frames arrive.
    """
    random = Random(seed)
    bodies = [random.randbytes(size) for size in sizes]
    if sum(sizes) > 20_000:
        pieces = [max(piece, 500) for piece in pieces]

    frames = receive(FrameBuffer(FRAME_BYTES_MAX), framed(*bodies), pieces)

    assert bodies == [bytes(frame) for frame in frames]


def test_the_api_key_of_the_next_frame_is_known_before_the_frame_is_complete() -> None:
    """
    `next_key` returns the API key of the next frame, or None until the frame's size and key have arrived.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    keys = [buffer.next_key()]

    for byte in framed(b"\0\3rest")[:6] + b"rest" + framed(b"\1\0")[:5]:
        buffer.get_buffer()[0] = byte
        buffer.received(1)
        keys.append(buffer.next_key())
    taken = [bytes(frame) for frame in buffer.frames()]

    assert ([None] * 6 + [3] * 10, [b"\0\3rest"], None) == (keys, taken, buffer.next_key())


def test_small_frames_of_one_read_share_a_buffer() -> None:
    """
    Small frames of one read are views of the same buffer, without a copy.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)

    frames = receive(buffer, framed(b"one", b"two", b"three"), [4_096])

    assert len({id(frame.obj) for frame in frames}) == 1


def test_a_large_frame_has_a_buffer_of_its_own() -> None:
    """
    A large frame has its own buffer, so that keeping its batches keeps no other frame in memory.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    large = bytes(CHUNK_BYTES_MAX)

    frames = receive(buffer, framed(b"before", large, b"behind"), [100_000])

    assert [len(large) + 4, True, True] == [
        memoryview(frames[1].obj).nbytes,
        frames[0].obj is not frames[1].obj,
        frames[2].obj is not frames[1].obj,
    ]


def test_a_frame_is_writable_and_never_overwritten() -> None:
    """
    A frame can be written to, because the broker writes offsets into batches in place, and bytes that arrive later
    never overwrite it.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    [frame] = receive(buffer, framed(b"........"), [100])
    frame[0:4] = b"base"

    receive(buffer, framed(*(bytes(1_000) for _ in range(500))), [1_448])

    assert bytes(frame) == b"base...."


@pytest.mark.parametrize("size", [0, -1, -0x80000000, FRAME_BYTES_MAX + 1, 0x7FFFFFFF])
def test_a_size_that_is_not_allowed_is_refused(size: int) -> None:
    """
    A size that is zero, negative or over the limit is refused.  The error names the size and the setting to raise.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    tracemalloc.start()

    try:
        with pytest.raises(ProtocolError, match=f"{size} bytes; socket.request.max.bytes"):
            receive(buffer, size.to_bytes(4, "big", signed=True), [4])
        allocated = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert allocated < 64 * 1024


def test_memory_grows_with_received_bytes_not_with_the_announced_size() -> None:
    """
    A frame of 100 MiB that is announced but never sent takes less than 1 MiB of memory.
    """
    buffer = FrameBuffer(100 * 1024 * 1024)
    tracemalloc.start()

    receive(buffer, (100 * 1024 * 1024).to_bytes(4, "big") + bytes(10_000), [1_448])
    room = len(buffer.get_buffer())
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (room, allocated) < (512 * 1024, 1024 * 1024)


def test_a_connection_that_sent_a_large_frame_gets_a_large_initial_buffer() -> None:
    """
    After a large frame, the initial buffer fits the next large frame, so that nothing is copied.  The size of the
    initial buffer is limited, because the connection may never send such a frame again.
    """
    buffer = FrameBuffer(100 * 1024 * 1024)
    receive(buffer, framed(bytes(1_000_000)), [65_536])

    receive(buffer, (900_000).to_bytes(4, "big"), [4])
    room = len(buffer.get_buffer())
    receive(buffer, bytes(900_000) + framed(bytes(8_000_000)) + (50_000_000).to_bytes(4, "big"), [65_536])
    room_of_huge_frame = len(buffer.get_buffer())

    assert (900_000, True) == (room, room_of_huge_frame <= OWN_BYTES_INITIAL_MAX)


def test_frames_that_were_not_taken_are_kept() -> None:
    """
    A busy broker leaves frames in the buffer; they are not lost when more bytes arrive.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    data = framed(*(b"%03d" % index for index in range(600)))
    room = buffer.get_buffer()
    room[:] = data[: len(room)]
    buffer.received(len(room))
    first = bytes(next(buffer.frames()))

    rest = receive(buffer, data[len(room) :], [50])

    assert (b"000", [b"%03d" % index for index in range(1, 600)]) == (first, [bytes(frame) for frame in rest])


def test_a_large_frame_starts_with_a_small_buffer() -> None:
    """
    A client that announces 100 MiB and sends slowly occupies a small buffer; the buffer of a fast client grows quickly.
    """
    buffer = FrameBuffer(100 << 20)
    first = buffer.get_buffer()
    first[:4] = (100 << 20).to_bytes(4)
    buffer.received(4)
    slow = len(buffer.get_buffer())
    for _ in range(6):
        buffer.received(len(buffer.get_buffer()))

    assert (True, True) == (slow <= 16 << 10, len(buffer.get_buffer()) >= 1 << 20)
    assert buffer.arriving_bytes > 1 << 20
