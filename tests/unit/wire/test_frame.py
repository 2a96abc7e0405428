"""Frames out of a byte stream."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.wire.frame import CHUNK_BYTES_MAX, OWN_BYTES_BELIEVED, FrameBuffer
from tidemill.wire.primitives import ProtocolError

FRAME_BYTES_MAX = 2 * 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def receive(buffer: FrameBuffer, data: bytes, sizes: list[int]) -> list[memoryview]:
    """All frames that come out when `data` arrives in pieces of these sizes, over and over."""
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
def test_frames_come_out_wherever_the_stream_is_cut(sizes: list[int], pieces: list[int], seed: int) -> None:
    """
    Every frame comes out once, whole and in order, and stays what it was when later ones arrive.
    """
    random = Random(seed)
    bodies = [random.randbytes(size) for size in sizes]
    if sum(sizes) > 20_000:
        pieces = [max(piece, 500) for piece in pieces]

    frames = receive(FrameBuffer(FRAME_BYTES_MAX), framed(*bodies), pieces)

    assert bodies == [bytes(frame) for frame in frames]


def test_frames_of_one_read_lie_in_one_buffer() -> None:
    """
    Many small frames are handed out without a copy.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)

    frames = receive(buffer, framed(b"one", b"two", b"three"), [4_096])

    assert len({id(frame.obj) for frame in frames}) == 1


def test_a_large_frame_has_a_buffer_of_its_own() -> None:
    """
    Who keeps a large batch keeps nothing else with it.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    large = bytes(CHUNK_BYTES_MAX)

    frames = receive(buffer, framed(b"before", large, b"behind"), [100_000])

    assert [len(large) + 4, True, True] == [
        memoryview(frames[1].obj).nbytes,
        frames[0].obj is not frames[1].obj,
        frames[2].obj is not frames[1].obj,
    ]


def test_a_frame_can_be_written_to_and_nobody_writes_over_it() -> None:
    """
    The broker writes offsets into batches where they lie; whatever is received later goes elsewhere.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    [frame] = receive(buffer, framed(b"........"), [100])
    frame[0:4] = b"base"

    receive(buffer, framed(*(bytes(1_000) for _ in range(500))), [1_448])

    assert bytes(frame) == b"base...."


@pytest.mark.parametrize("size", [0, -1, -0x80000000, FRAME_BYTES_MAX + 1, 0x7FFFFFFF])
def test_a_size_that_is_not_allowed_is_refused(size: int) -> None:
    """
    Zero, negative and over the limit: the error names the size, and the setting that may be raised.
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


def test_memory_grows_with_what_came_not_with_what_was_announced() -> None:
    """
    A frame of 100 MiB that is announced and never sent costs next to nothing.
    """
    buffer = FrameBuffer(100 * 1024 * 1024)
    tracemalloc.start()

    receive(buffer, (100 * 1024 * 1024).to_bytes(4, "big") + bytes(10_000), [1_448])
    room = len(buffer.get_buffer())
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (room, allocated) < (512 * 1024, 1024 * 1024)


def test_who_has_sent_a_large_frame_is_believed_about_the_next() -> None:
    """
    It has room for all of it at once, and nothing is copied; but only so much can be announced and never sent.
    """
    buffer = FrameBuffer(100 * 1024 * 1024)
    receive(buffer, framed(bytes(1_000_000)), [65_536])

    receive(buffer, (900_000).to_bytes(4, "big"), [4])
    room = len(buffer.get_buffer())
    receive(buffer, bytes(900_000) + framed(bytes(8_000_000)) + (50_000_000).to_bytes(4, "big"), [65_536])
    room_of_liar = len(buffer.get_buffer())

    assert (900_000, True) == (room, room_of_liar <= OWN_BYTES_BELIEVED)


def test_frames_that_nobody_has_taken_stay() -> None:
    """
    A broker that has enough to do leaves the rest for later, even if more comes in meanwhile.
    """
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    data = framed(*(b"%03d" % index for index in range(600)))
    room = buffer.get_buffer()
    room[:] = data[: len(room)]
    buffer.received(len(room))
    first = bytes(next(buffer.frames()))

    rest = receive(buffer, data[len(room) :], [50])

    assert (b"000", [b"%03d" % index for index in range(1, 600)]) == (first, [bytes(frame) for frame in rest])


def test_a_large_frame_of_which_little_came_costs_little() -> None:
    """
    A client that announces 100 MiB and sends a byte a second is given a small buffer; a fast one soon has a large one.
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
