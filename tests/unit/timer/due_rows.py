"""Rows of the index by due time, for tests."""

from collections.abc import Sequence
from random import Random

from tidemill.timer.due_row import KEPT, KEY_BYTES, DueRow, pack_rows
from tidemill.timer.waiting_bits import BitView, WaitingBits


def row(due_ms: int, arrival: int, *, kept: int | None = None, size: int = 10) -> DueRow:
    """Return a row of the arrivals log, or of the log of kept records with offset `kept`."""
    offset = arrival if kept is None else KEPT | kept
    return DueRow(due_ms, arrival, offset, arrival % 1_000 * 7, size, arrival % 1_000, arrival % 7)


def key(due_ms: int, arrival: int) -> bytes:
    return pack_rows([row(due_ms, arrival)])[:KEY_BYTES]


def random_rows(random: Random, count: int, *, dues: int, arrivals: int) -> list[DueRow]:
    """Return rows with few due times and arrivals, so that keys and dues repeat; now and then huge ones."""
    huge = (1 << 62) if random.random() < 0.3 else 0
    return [
        row(
            random.randrange(dues) + random.choice((0, huge)),
            random.randrange(arrivals),
            kept=random.choice((None, random.randrange(9))),
        )
        for _ in range(count)
    ]


def bits_of(end: int, over: Sequence[int] = ()) -> BitView:
    """Return the bits of arrivals from 0 until before `end`, of which some are over."""
    bits = WaitingBits()
    bits.arrive(end)
    for number in over:
        bits.remove(number)
    return bits.view()
