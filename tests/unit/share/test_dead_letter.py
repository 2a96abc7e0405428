"""The record that a dead letter consists of, and what a redrive sends back."""

import pytest

from tidemill.batches.batch import NO_TIMESTAMP, read_header
from tidemill.batches.records import Record, read_records
from tidemill.model import dead_letters as names
from tidemill.share.dead_letter import Origin, SentFrom, dead_letter, letter_batch, sent_back, to_send_back
from tidemill.share.record_status import Reason, RecordState, RecordStatus
from tidemill.share.share_row import Letter

STATUS = RecordStatus(RecordState.ARCHIVING, 3, reason=Reason.REJECTED)
ORIGIN = Origin("jobs", 2, 41, "g", STATUS)
RECORD = Record(b"key", b"value", (("trace", b"1"), ("trace", None)), 5, 41)


def test_a_letter_has_the_record_and_says_where_it_came_from() -> None:
    """The broker's headers come first, as UTF-8; the record's own follow, unchanged and in order."""
    assert dead_letter(ORIGIN, RECORD) == (
        b"key",
        b"value",
        [
            ("__dlq.errors.topic", b"jobs"),
            ("__dlq.errors.partition", b"2"),
            ("__dlq.errors.offset", b"41"),
            ("__dlq.errors.group", b"g"),
            ("__dlq.errors.delivery.count", b"3"),
            ("__dlq.errors.message", b"Offset rejected by client."),
            ("__dlq.errors.timestamp", b"5"),
            ("trace", b"1"),
            ("trace", None),
        ],
        NO_TIMESTAMP,
    )


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (Reason.REJECTED, b"Offset rejected by client."),
        (Reason.DELIVERY_LIMIT, b"Offset delivery count exceeded the threshold."),
        (Reason.EXPIRED, b"Record expired."),
    ],
)
def test_a_letter_has_the_cause(reason: Reason, message: bytes) -> None:
    origin = ORIGIN._replace(status=STATUS._replace(reason=reason))

    assert message == dict(dead_letter(origin, RECORD)[2])[names.MESSAGE]


def test_a_letter_without_its_record_says_why() -> None:
    key, value, headers, _ = dead_letter(ORIGIN, None, names.TOO_LARGE)

    assert (None, None, b"too large") == (key, value, dict(headers)[names.OMITTED])
    assert names.OMITTED not in dict(dead_letter(ORIGIN, None)[2])


def test_a_letter_of_a_removed_record_has_no_cause() -> None:
    headers = dict(dead_letter(ORIGIN._replace(status=None), None, names.REMOVED)[2])

    assert {names.TOPIC, names.PARTITION, names.OFFSET, names.GROUP, names.OMITTED} == headers.keys()


def test_a_letter_is_one_record_of_its_producer() -> None:
    """Its producer id and sequence are those of its row, so that a retry is a duplicate."""
    letter = Letter(41, 1_007, 12, bytes(16), 0)
    batch = letter_batch(dead_letter(ORIGIN, RECORD), letter)
    header = read_header(batch)

    assert (1_007, 0, 12, 1) == (
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    (record,) = read_records(batch)
    assert (b"key", b"value", NO_TIMESTAMP) == (record.key, record.value, record.timestamp)


def from_letter() -> Record:
    key, value, headers, timestamp = dead_letter(ORIGIN, RECORD)
    return Record(key, value, tuple(headers), timestamp, 0)


def test_a_redrive_restores_the_record() -> None:
    assert sent_back(from_letter()) == (
        b"key",
        b"value",
        [("trace", b"1"), ("trace", None), ("__redrive.count", b"1")],
        NO_TIMESTAMP,
    )


def test_redrives_are_counted() -> None:
    letter = from_letter()
    again = letter._replace(headers=(*letter.headers, (names.REDRIVE_COUNT, b"1")))

    assert b"2" == dict(sent_back(again)[2])[names.REDRIVE_COUNT]


def test_a_letter_names_its_origin() -> None:
    assert to_send_back(from_letter()) == (SentFrom("jobs", 2), True)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((names.TOPIC, b"jobs"),),
        ((names.PARTITION, b"1"),),
        ((names.TOPIC, None), (names.PARTITION, b"1")),
        ((names.TOPIC, b"jobs"), (names.PARTITION, b"one")),
        ((names.TOPIC, b"jobs"), (names.PARTITION, b"9" * 40)),
    ],
)
def test_other_records_name_no_origin(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    assert to_send_back(Record(b"key", None, headers)) == (None, True)


@pytest.mark.parametrize("omitted", [names.TOO_LARGE, None])
def test_a_letter_without_the_content_of_its_record_is_recognized(omitted: str | None) -> None:
    """Also if the configuration of the group left it out, although no header says so."""
    key, value, headers, timestamp = dead_letter(ORIGIN, None, omitted)

    assert not to_send_back(Record(key, value, tuple(headers), timestamp, 0)).has_content


def test_an_empty_record_has_its_content() -> None:
    empty = Record(None, None, (), 5, 41)
    key, value, headers, timestamp = dead_letter(ORIGIN, empty)

    assert to_send_back(Record(key, value, tuple(headers), timestamp, 0)).has_content
    assert to_send_back(empty).has_content


def test_groups_that_send_back() -> None:
    assert names.is_redrive("__redrive") and names.is_redrive("__redrive.jobs.eu")
    assert not names.is_redrive("__redriven")
    assert (None, "jobs.eu", None) == tuple(map(names.redrive_topic, ("__redrive", "__redrive.jobs.eu", "other")))
