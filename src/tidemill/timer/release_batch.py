"""Builds what a leader writes of records that wait: the batches that release them, and those that move them.

A released record has the key, value and headers of its arrival.  The broker adds `tidemill-timestamp`, the producer's
timestamp, and at last `tidemill-arrival`, by which all replicas know which arrival the batch consumes; they replace
headers of that name that a producer has sent.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, LOG_APPEND_TIME
from tidemill.batches.builder import batch_of_encoded
from tidemill.batches.native import scan
from tidemill.batches.records import OFFSET_MAX, Header
from tidemill.timer.due_time import DELIVER_AT
from tidemill.timer.timer_headers import ARRIVAL, SET_BY_BROKER, TIMESTAMP

ADDED_BYTES_MAX: Final = 128  # that a record grows: headers, longer varints, and more digits of its due time
_DELIVER_AT: Final = DELIVER_AT.encode()
_TIMESTAMP: Final = TIMESTAMP.encode()
_ARRIVAL: Final = ARRIVAL.encode()


class Waiting(NamedTuple):
    """A record that waits, as it was read from a log."""

    arrival: int
    due_ms: int
    timestamp: int  # the producer's
    record: bytes  # as in its batch, with its length


def released_batch(waiting: Sequence[Waiting], stamp_ms: int) -> bytearray:
    """Return a batch that makes records visible, in this order.  `stamp_ms` is its append time."""
    encoded = scan.copied_records(
        _joined(waiting),
        (_TIMESTAMP, _ARRIVAL),
        [(it.timestamp, it.arrival) for it in waiting],
        HEADER_BYTES,
        deltas=[0] * len(waiting),
        name=_DELIVER_AT,
        values=[it.due_ms for it in waiting],  # they may have changed since the records arrived
    )
    times = {"base_timestamp": stamp_ms, "max_timestamp": stamp_ms}
    return batch_of_encoded(encoded, len(waiting), **times, attributes=LOG_APPEND_TIME)


def kept_batch(waiting: Sequence[Waiting], base_timestamp: int) -> bytearray:
    """
    Return a batch of the kept log, whose records keep the timestamps of their producers.  These are not further from
    `base_timestamp` than a batch can say.
    """
    encoded = scan.copied_records(
        _joined(waiting),
        (_DELIVER_AT, _ARRIVAL, _TIMESTAMP),
        [(it.due_ms, it.arrival) for it in waiting],
        HEADER_BYTES,
        deltas=[it.timestamp - base_timestamp for it in waiting],
    )
    latest = max([it.timestamp for it in waiting])
    return batch_of_encoded(encoded, len(waiting), base_timestamp=base_timestamp, max_timestamp=latest)


def fitting(waiting: Sequence[Waiting], bytes_max: int) -> Sequence[Waiting]:
    """Return the first records of which a batch, of either kind, has at most `bytes_max` bytes; at least one."""
    size = HEADER_BYTES + sum([len(it.record) for it in waiting]) + ADDED_BYTES_MAX * len(waiting)
    if size <= bytes_max:
        return waiting
    size = HEADER_BYTES
    for count, it in enumerate(waiting):
        size += len(it.record) + ADDED_BYTES_MAX
        if count and size > bytes_max:
            return waiting[:count]
    return waiting


def _joined(waiting: Sequence[Waiting]) -> bytes:
    return b"".join([it.record for it in waiting])


def decoded(record: bytes | memoryview) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Return key, value and headers of one record, without the headers that the broker sets."""
    ((key, value, headers, _, _),) = scan.decode_records(record, 0, len(record), 1, 0, 0, 0, OFFSET_MAX, OFFSET_MAX)
    return key, value, [(name, content) for name, content in headers if name not in SET_BY_BROKER]
