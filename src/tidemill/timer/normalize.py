"""Rewrites the batches of a timer topic so that all replicas read the same due times from the same digits.

Only the leader does this, when it appends a batch.  After it, a batch is not compressed, so that one record can be read
alone, and says each due time in milliseconds: `tidemill-delay` and times as text have become `tidemill-deliver-at` with
digits.  Records without such a header are due at the append time of their batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.batches.batch import Buffer, read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import Header, Record, read_records
from tidemill.timer.due_time import DELAY, DELIVER_AT, UNLIMITED, BadDueTime, due_ms
from tidemill.timer.timer_headers import BadTimerId, timer_id


class RecordRefused(ValueError):
    """A header of a record is not valid, so its batch is refused; `index` is the record's, from 0."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


class Normalized(NamedTuple):
    batch: Buffer  # the one that was given, if it needs no change
    due_ms: list[int]  # of each record, in milliseconds since the epoch


def normalized(batch: Buffer, stamp_ms: int, *, size_max: int, delay_ms_max: int = UNLIMITED) -> Normalized:
    """
    Return a producer's batch in the form that replicas read, and when its records are due.

    `stamp_ms` is the append time, from which delays count, and `size_max` the most bytes of its records, decompressed.
    The batch has been checked, except for its records if they are compressed.  Raise RecordRefused, or ValueError if
    the records cannot be read or are too large.
    """
    header = read_header(batch)
    records = read_records(batch, size_max=size_max)
    dues, is_plain = [], header.codec == Codec.NONE
    for index, record in enumerate(records):
        try:
            due = due_ms(record.headers, stamp_ms, delay_ms_max)
            timer_id(record.headers)
        except (BadDueTime, BadTimerId) as problem:
            raise RecordRefused(index, str(problem)) from problem
        dues.append(due)
        is_plain = is_plain and _is_normalized(record.headers)
    if is_plain:
        return Normalized(batch, dues)
    rewritten = build_batch(
        [_rewritten(record, due) for record, due in zip(records, dues, strict=True)],
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
    return Normalized(rewritten, dues)


def _is_normalized(headers: Sequence[Header]) -> bool:
    return all(name != DELAY and (name != DELIVER_AT or (value or b"").isdigit()) for name, value in headers)


def _rewritten(record: Record, due: int) -> Record:
    """Return a record whose header, if it has one, says when it is due in digits.  The other headers stay in order."""
    headers = tuple(
        (DELIVER_AT, b"%d" % due) if name in (DELAY, DELIVER_AT) else (name, value) for name, value in record.headers
    )
    return record._replace(headers=headers)
