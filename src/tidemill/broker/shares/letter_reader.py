"""Reads dead records and builds their letters.  These functions run off the event loop, as opening jobs."""

from typing import Final, NamedTuple

from tidemill.batches.batch import spans
from tidemill.batches.compression import TooLarge
from tidemill.batches.records import OPENED_BYTES_MAX, OPENED_HEADERS_MAX, Record, TooManyHeaders, read_record
from tidemill.model import dead_letters as names
from tidemill.model.dead_letters import is_redrive
from tidemill.shard.partition import Partition
from tidemill.share.dead_letter import Origin, ToSendBack, dead_letter, letter_batch, sent_back, to_send_back
from tidemill.share.share_row import Letter
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged

ADDED_HEADERS_MAX: Final = 10  # that a letter has beside those of its record
BATCH_BYTES_MAX: Final = OPENED_BYTES_MAX // 2  # decompressed, of a record's batch: the record is copied out of it


class LetterToBuild(NamedTuple):
    letter: Letter
    origin: Origin
    has_payload: bool
    is_payload_too_large: bool
    batch_bytes_max: int  # of the target


class NoRecord(NamedTuple):
    """
    The record cannot be read: retention has removed it, its bytes are not a record, it has too many headers, or its
    batch has more than BATCH_BYTES_MAX decompressed bytes.
    """

    why: str  # one of the values of the header `OMITTED`


def read_dead_record(
    partition: Partition, offset: int, end: int, headers_max: int = OPENED_HEADERS_MAX
) -> Record | NoRecord | SegmentDamaged:
    """
    Return the record at `offset`, which is below `end`, the high watermark when the letter became due.  Bytes that are
    not UTF-8 in the names of its headers are surrogates, so that the letter has them.
    """
    try:
        found = partition.log.read(offset, 1, end, may_wait=True)
    except OffsetGone:
        return NoRecord(names.REMOVED)
    except SegmentDamaged as damage:
        return damage
    assert found is not None, "a read that may wait answers"
    for part in found[0]:
        for position, size, header in spans(part):
            if header.base_offset <= offset < header.end_offset and not header.is_control:
                try:
                    batch = memoryview(part)[position : position + size]
                    record = read_record(
                        batch, offset, 0, BATCH_BYTES_MAX, headers_max=headers_max, name_errors="surrogateescape"
                    )
                except (TooManyHeaders, TooLarge):
                    return NoRecord(names.TOO_LARGE)
                except ValueError:  # the producer has written bytes that are not records
                    return NoRecord(names.UNREADABLE)
                return record or NoRecord(names.UNREADABLE)
    return NoRecord(names.UNREADABLE)


def read_to_send_back(partition: Partition, offset: int, end: int) -> ToSendBack | NoRecord | SegmentDamaged:
    """Return what a redrive has to know about the dead letter at `offset`."""
    record = read_dead_record(partition, offset, end, OPENED_HEADERS_MAX + ADDED_HEADERS_MAX)
    return to_send_back(record) if isinstance(record, Record) else record


def build_letter(partition: Partition, wanted: LetterToBuild, end: int) -> bytearray | NoRecord | SegmentDamaged:
    """Return the batch with a letter; NoRecord if a record that is to be sent back is gone."""
    letter, origin = wanted.letter, wanted.origin
    if not (wanted.has_payload or is_redrive(origin.group)):
        omitted = names.TOO_LARGE if wanted.is_payload_too_large else None
        return letter_batch(dead_letter(origin, None, omitted), letter)
    headers_max = OPENED_HEADERS_MAX + ADDED_HEADERS_MAX if is_redrive(origin.group) else OPENED_HEADERS_MAX
    record = read_dead_record(partition, letter.offset, end, headers_max)
    if isinstance(record, SegmentDamaged):
        return record
    if is_redrive(origin.group):
        return record if isinstance(record, NoRecord) else letter_batch(sent_back(record), letter)
    if isinstance(record, NoRecord):
        return letter_batch(dead_letter(origin, None, record.why), letter)
    if len(record.key or b"") + len(record.value or b"") > wanted.batch_bytes_max:  # do not copy what is too large
        return letter_batch(dead_letter(origin, None, names.TOO_LARGE), letter)
    batch = letter_batch(dead_letter(origin, record), letter)
    if len(batch) > wanted.batch_bytes_max:
        return letter_batch(dead_letter(origin, None, names.TOO_LARGE), letter)
    return batch
