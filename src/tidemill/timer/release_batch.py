"""Builds what a leader writes of records that wait: the batches that release them, and those that move them.

A released record has the key, value and headers of its arrival.  The broker adds `tidemill-timestamp`, the producer's
timestamp, and at last `tidemill-arrival`, by which all replicas know which arrival the batch consumes; they replace
headers of that name that a producer has sent.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.native import scan
from tidemill.batches.records import OFFSET_MAX, Header
from tidemill.timer.due_time import DELIVER_AT
from tidemill.timer.timer_headers import ARRIVAL, SET_BY_BROKER, TIMESTAMP


class Waiting(NamedTuple):
    """A record that waits, as it was read from a log."""

    arrival: int
    due_ms: int
    timestamp: int  # the producer's
    record: bytes | memoryview  # as in its batch, with its length


def released_batch(waiting: Sequence[Waiting], stamp_ms: int) -> bytearray:
    """Return a batch that makes records visible, in this order.  `stamp_ms` is its append time."""
    return build_batch([_released(it, stamp_ms) for it in waiting], log_append_time=stamp_ms)


def kept_batch(waiting: Sequence[Waiting], stamp_ms: int) -> bytearray:
    """Return a batch of the kept log, whose records keep the timestamps of their producers."""
    return build_batch([_kept(it) for it in waiting])


def _released(waiting: Waiting, stamp_ms: int) -> RecordTuple:
    key, value, headers = decoded(waiting.record)
    due = b"%d" % waiting.due_ms  # it may have changed since the record arrived
    others = [(name, due if name == DELIVER_AT else content) for name, content in headers]
    own = (TIMESTAMP, b"%d" % waiting.timestamp), (ARRIVAL, b"%d" % waiting.arrival)
    return key, value, (*others, *own), stamp_ms


def _kept(waiting: Waiting) -> RecordTuple:
    key, value, headers = decoded(waiting.record)
    others = [(name, content) for name, content in headers if name != DELIVER_AT]
    own = (DELIVER_AT, b"%d" % waiting.due_ms), (ARRIVAL, b"%d" % waiting.arrival)
    return key, value, (*others, *own), waiting.timestamp


def decoded(record: bytes | memoryview) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Return key, value and headers of one record, without the headers that the broker sets."""
    ((key, value, headers, _, _),) = scan.decode_records(record, 0, len(record), 1, 0, 0, 0, OFFSET_MAX, OFFSET_MAX)
    return key, value, [(name, content) for name, content in headers if name not in SET_BY_BROKER]
