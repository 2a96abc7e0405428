"""Changes of a timer partition, as they are encoded until they are applied."""

from struct import error

import pytest

from tidemill.timer.due_row import KEPT, DueRow, pack_rows
from tidemill.timer.timer_changes import (
    Arrived,
    Decided,
    LoggedChange,
    Released,
    Relocated,
    decode_changes,
    encode_changes,
)
from tidemill.timer.timer_command import Reschedule
from tidemill.timer.waiting_set import TimerArrival

ID, OTHER = b"a" * 16, b"b" * 16
ROWS = pack_rows([DueRow(100 + number, number, number) for number in range(3)])
TIMERS = [TimerArrival(0, 100, ID, only_cancels=True), TimerArrival(2, 102, OTHER, is_recurring=True)]


def arrived(count: int, rows: bytes, *named: bytes) -> bytes:
    """Return one change of arrivals with these bytes."""
    body = b"".join([count.to_bytes(4), rows, *named])
    return b"".join([(1).to_bytes(4), (7).to_bytes(8), b"\x01", len(body).to_bytes(4), body])


def test_changes_are_read_as_they_were_written() -> None:
    logged = [
        LoggedChange(5, Arrived(ROWS, TIMERS), True),
        LoggedChange(6, Arrived(ROWS, [])),
        LoggedChange(7, Relocated(pack_rows([DueRow(5, 1, KEPT)]))),
        LoggedChange(8, Released([1, 1 << 40], 99)),
        LoggedChange(9, Decided(Reschedule(0, {1: 50}))),
    ]

    assert logged == decode_changes(encode_changes(logged))


def test_arrivals_are_written_as_rows_and_ids() -> None:
    """These bytes are in checkpoints, which later versions read: an index 4, flags 1 and the hash of an id 16."""
    written = arrived(3, ROWS, bytes(4), b"\x01", ID, (2).to_bytes(4), b"\x02", OTHER)

    assert written == encode_changes([LoggedChange(7, Arrived(ROWS, TIMERS))])


@pytest.mark.parametrize(
    "data",
    [
        arrived(4, ROWS),
        arrived(3, ROWS, (3).to_bytes(4), b"\x01", ID),  # there is no fourth row
        arrived(3, ROWS, bytes(4), b"\x01", ID[:-1]),
        arrived(3, ROWS)[:-1],
        arrived(3, ROWS) + b"\0",
    ],
)
def test_changes_that_were_damaged_are_refused(data: bytes) -> None:
    with pytest.raises(error):
        decode_changes(data)
