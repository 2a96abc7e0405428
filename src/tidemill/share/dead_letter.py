"""The record that a dead letter consists of, built from the dead record; and what a redrive sends back.

The names are those of KIP-1191; `docs/formats/dead_letters.md` has the table.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidemill.batches.batch import NO_TIMESTAMP
from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.records import Record
from tidemill.model import dead_letters as names
from tidemill.model.letter_origin import origin_of
from tidemill.share.record_status import Reason, RecordStatus
from tidemill.share.share_row import Letter

_MESSAGES: Final[Mapping[Reason, str]] = {
    Reason.REJECTED: names.REJECTED,
    Reason.DELIVERY_LIMIT: names.DELIVERY_LIMIT,
    Reason.EXPIRED: names.EXPIRED,
}
_EPOCH: Final = 0  # of the producer: every leader has an id of its own, so no id needs a second epoch
_NUMBER_DIGITS_MAX: Final = 10


class Origin(NamedTuple):
    """Where a dead record is, and what is known about it."""

    topic: str
    partition: int
    offset: int
    group: str
    status: RecordStatus | None  # None if retention has removed the record


class SentFrom(NamedTuple):
    """The partition that a dead letter names as the one of its record."""

    topic: str
    partition: int


class ToSendBack(NamedTuple):
    """A dead letter that a redrive sends back."""

    sent_from: SentFrom | None  # None if its headers do not say it
    has_content: bool  # whether it has the content of the dead record


def dead_letter(origin: Origin, record: Record | None, omitted: str | None = None) -> RecordTuple:
    """
    Return the dead letter of `record`, or one without a record's content if it is None; `omitted` then says why.

    The leader of the target sets its timestamp.
    """
    headers = [
        (names.TOPIC, origin.topic),
        (names.PARTITION, str(origin.partition)),
        (names.OFFSET, str(origin.offset)),
        (names.GROUP, origin.group),
    ]
    if origin.status is not None:
        headers.append((names.DELIVERY_COUNT, str(origin.status.delivery_count)))
        if origin.status.reason in _MESSAGES:
            headers.append((names.MESSAGE, _MESSAGES[origin.status.reason]))
    if record is not None:
        headers.append((names.TIMESTAMP, str(record.timestamp)))
    elif omitted is not None:
        headers.append((names.OMITTED, omitted))
    own = [(name, text.encode()) for name, text in headers]
    if record is None:
        return None, None, own, NO_TIMESTAMP
    return record.key, record.value, [*own, *record.headers], NO_TIMESTAMP


def sent_back(record: Record) -> RecordTuple:
    """
    Return the record that a redrive produces from a dead letter: the original one, with the number of redrives.

    The leader of the target sets its timestamp.
    """
    kept = [it for it in record.headers if not it[0].startswith(names.PREFIX) and it[0] != names.REDRIVE_COUNT]
    count = (names.REDRIVE_COUNT, str(_redrive_count(record) + 1).encode())
    return record.key, record.value, [*kept, count], NO_TIMESTAMP


def to_send_back(record: Record) -> ToSendBack:
    """Return what a redrive has to know about a dead letter."""
    origin = origin_of(record.headers)
    own = [name for name, _ in record.headers if not name.startswith(names.PREFIX)]
    is_empty = record.key is None and record.value is None and not own
    # A letter that was written without its record's content, as the group's configuration asked, has no header for it.
    is_header_only = is_empty and origin.topic is not None and origin.timestamp_ms is None
    sent_from = None
    if origin.topic and origin.partition is not None:
        sent_from = SentFrom(origin.topic, origin.partition)
    return ToSendBack(sent_from, has_content=origin.omitted is None and not is_header_only)


def letter_batch(record: RecordTuple, letter: Letter) -> bytearray:
    """Return the batch that is produced: each time the same one, for the target."""
    return build_batch([record], producer_id=letter.producer_id, producer_epoch=_EPOCH, base_sequence=letter.sequence)


def _redrive_count(record: Record) -> int:
    text = dict(record.headers).get(names.REDRIVE_COUNT)
    return int(text) if text is not None and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX else 0
