"""Which arrivals still wait."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.timer.waiting_bits import CHUNK, CHUNK_BYTES, MalformedBits, WaitingBits


def test_arrivals_get_consecutive_numbers_and_wait() -> None:
    bits = WaitingBits(5)

    assert (range(5, 8), range(8, 9)) == (bits.arrive(3), bits.arrive(1))
    assert [5, 6, 7, 8] == [*bits.numbers()]
    assert (4, 9, 5) == (bits.count, bits.end, bits.first_waiting())


def test_an_arrival_is_over_once() -> None:
    bits = WaitingBits()
    bits.arrive(3)

    assert [True, False, False, False] == [bits.remove(number) for number in (1, 1, 3, -1)]
    assert ([0, 2], 2) == ([*bits.numbers()], bits.count)


@pytest.mark.parametrize("base", [0, 1, 7, CHUNK - 1, CHUNK, CHUNK + 9])
def test_the_first_that_waits_moves_over_whole_chunks(base: int) -> None:
    bits = WaitingBits(base)
    bits.arrive(2 * CHUNK)
    last = base + 2 * CHUNK - 1
    for number in range(base, last):
        bits.remove(number)

    assert (last, 1) == (bits.first_waiting(), bits.count)
    assert bits.remove(last)
    assert last + 1 == bits.first_waiting() == bits.end
    assert range(last + 1, last + 2) == bits.arrive(1)
    assert bits.waits(last + 1) and not bits.waits(last)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, CHUNK + 20), st.integers(0, 2 * CHUNK), st.integers(1, 50), st.data())
def test_a_view_and_counts_equal_the_bits(base: int, count: int, step: int, data: st.DataObject) -> None:
    """Also after whole chunks were dropped, and for arrivals that have not come."""
    bits = WaitingBits(base)
    bits.arrive(count)
    for number in range(base, base + count):
        bits.remove(number) if number % step or number < CHUNK + 9 else None
    bits.first_waiting()
    first = data.draw(st.integers(0, base + count + 9))
    end = data.draw(st.integers(0, base + count + 9))

    expected = sum(map(bits.waits, range(first, end)))
    assert (expected, expected > 0) == (bits.count_between(first, end), bits.any_between(first, end))
    for number in (first, end, base, base + count, CHUNK + step, *bits.numbers()):
        assert bits.waits(number) == bits.view().waits(number)


def restored(bits: WaitingBits) -> WaitingBits:
    return WaitingBits.decode(bits.encode(), bits.first_waiting(), bits.end)


@pytest.mark.parametrize(
    ("step", "size_max"),
    [
        (1, 8),  # none waits: no chunk is left but the last
        (2, 2 * CHUNK_BYTES + 8),  # every other one
        (1_000, 2 * 70 * 2 + 16),  # few are over
        (0, 8),  # all wait
    ],
)
def test_the_encoding_is_small_where_it_can_be(step: int, size_max: int) -> None:
    bits = WaitingBits()
    bits.arrive(2 * CHUNK)
    for number in range(0, 2 * CHUNK, step or 2 * CHUNK):
        bits.remove(number) if step else None

    encoded = bits.encode()

    assert len(encoded) <= size_max
    assert [*bits.numbers()] == [*restored(bits).numbers()]


def test_few_that_wait_are_listed() -> None:
    bits = WaitingBits()
    bits.arrive(CHUNK)
    for number in range(CHUNK):
        if number % 100:
            bits.remove(number)

    assert len(bits.encode()) < 2_000
    assert [*range(0, CHUNK, 100)] == [*restored(bits).numbers()]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 3 * CHUNK), st.data())
def test_bits_equal_a_set(base: int, data: st.DataObject) -> None:
    """
    Arrivals come and are over in any order; the bits are encoded and decoded in between.
    """
    bits, expected, end = WaitingBits(base), set[int](), base
    for _ in range(data.draw(st.integers(1, 6))):
        count = data.draw(st.integers(0, 40) | st.integers(CHUNK - 2, CHUNK + 2))
        bits.arrive(count)
        expected |= {*range(end, end + count)}
        end += count
        first = data.draw(st.integers(base, end))
        for number in range(first, data.draw(st.integers(first, end)), data.draw(st.integers(1, 3))):
            assert bits.remove(number) == (number in expected)
            expected.discard(number)
        assert min(expected, default=end) == bits.first_waiting()
        bits = restored(bits)
        assert (len(expected), end) == (bits.count, bits.end)

    assert sorted(expected) == [*bits.numbers()]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\1",
        b"\0\0\0\1\5",
        b"\0\0\0\1\2" + bytes(100),
        b"\0\0\0\1\3\0\2\0\1",
        b"\0\0\0\1\0\0",
        b"\0\0\0\0",
        b"\0\0\0\2\0\0",
        b"\0\0\0\1\1",
        b"\0\0\0\1\4\0\1\0\x0a",
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    """The last two say that arrivals are over which have not come yet."""
    with pytest.raises(MalformedBits):
        WaitingBits.decode(data, 0, 10)


def test_any_cut_is_refused() -> None:
    bits = WaitingBits()
    bits.arrive(100)
    bits.remove(50)
    encoded = bits.encode()

    for end in range(len(encoded)):
        with pytest.raises(MalformedBits):
            WaitingBits.decode(encoded[:end], 0, 100)
