"""Which records have outlived their time to live, as far as their batches need to be opened to know."""

import tracemalloc

import pytest

from tests.unit.share.runs import run
from tests.unit.share.test_acquisition import leases_of, share_with
from tidemill.batches.batch import read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import OPENED_BYTES_MAX, Record
from tidemill.share.acquisition import BatchesRead
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.time_to_live import RANGES_MAX, OffsetRange, TimeToLive, are_all_expired, expired_in

WALL = 100_000
GROUP = TimeToLive(10_000, has_headers=False)  # records with a timestamp up to 90,000 have expired
HEADERS = TimeToLive(-1, has_headers=True)
BOTH = TimeToLive(10_000, has_headers=True)
OLD, YOUNG = 90_000, 90_001


def record(timestamp: int, *ttls: bytes | None) -> Record:
    return Record(None, b"value", [("tidemill-ttl", ttl) for ttl in ttls], timestamp)


def batch(
    *records: Record, base_offset: int = 100, codec: Codec = Codec.NONE, log_append_time: int | None = None
) -> bytes:
    return bytes(build_batch(records, base_offset=base_offset, codec=codec, log_append_time=log_append_time))


@pytest.mark.parametrize(
    ("timestamps", "decided"),
    [
        ([OLD, OLD], True),
        ([OLD, YOUNG], None),
        ([YOUNG, YOUNG], False),
        ([YOUNG, OLD], False),  # by the first record's timestamp
        ([-1, -1], False),
    ],
)
def test_the_header_of_a_batch_decides_where_it_can(timestamps: list[int], decided: bool | None) -> None:
    """
    With a time to live of the group, a batch is opened only if its first record has expired and its latest one has not.
    """
    assert decided is are_all_expired(batch(*map(record, timestamps)), GROUP, WALL)


def test_the_time_of_the_append_is_the_timestamp_of_all_records() -> None:
    """With LogAppendTime, all records of a batch expire at the same time, whatever their producer wrote."""
    assert True is are_all_expired(batch(record(YOUNG), log_append_time=OLD), GROUP, WALL)
    assert False is are_all_expired(batch(record(OLD), log_append_time=YOUNG), GROUP, WALL)


def test_a_batch_is_opened_for_headers_only_if_it_may_have_one() -> None:
    """
    If the topic permits headers, an uncompressed batch without the name of the header is not opened.  A compressed one
    is, unless the group's time to live decides.
    """
    plain, named = batch(record(YOUNG)), batch(record(YOUNG, b"1"))
    packed = batch(record(YOUNG), codec=Codec.GZIP)
    assert read_header(packed).codec == Codec.GZIP

    assert [False, None, None] == [are_all_expired(one, HEADERS, WALL) for one in (plain, named, packed)]
    assert [False, None, None] == [are_all_expired(one, BOTH, WALL) for one in (plain, named, packed)]
    assert True is are_all_expired(batch(record(OLD, b"999999999")), BOTH, WALL)
    assert False is are_all_expired(named, GROUP, WALL)


@pytest.mark.parametrize(
    ("ttl", "records", "expired"),
    [
        (GROUP, [record(OLD), record(OLD), record(YOUNG), record(OLD)], [(100, 102), (103, 104)]),
        (GROUP, [record(YOUNG, b"1"), record(-1)], []),
        (HEADERS, [record(0), record(99_000, b"1000"), record(99_001, b"1000")], [(101, 102)]),
        (BOTH, [record(99_000, b"1000"), record(OLD, b"999999"), record(YOUNG, b"999999")], [(100, 102)]),
        (HEADERS, [record(0, b"soon"), record(0, b""), record(0, None), record(0, b"-1"), record(0, b"9" * 40)], []),
        (HEADERS, [record(0, b"1", b"999999"), record(0, b"999999", b"1")], [(101, 102)]),
    ],
    ids=["group", "no header", "header", "the shorter one", "no number", "the last header"],
)
def test_the_records_of_an_opened_batch_decide(
    ttl: TimeToLive, records: list[Record], expired: list[OffsetRange]
) -> None:
    """
    A record has expired when the group's time to live or its own has passed since its timestamp.  A header that is not
    a number of milliseconds does not count, and of several ones, the last one counts.
    """
    assert expired == expired_in(batch(*records), ttl, WALL)
    assert expired == expired_in(batch(*records, codec=Codec.GZIP), ttl, WALL)


def test_a_batch_that_cannot_be_opened_has_no_expired_records() -> None:
    """A batch that cannot be decompressed is delivered: the consumer reports the problem."""
    damaged = bytearray(batch(record(OLD), codec=Codec.GZIP))
    damaged[-8:] = bytes(8)

    assert [] == expired_in(damaged, GROUP, WALL)


@pytest.mark.parametrize("has_dead_letters", [False, True])
def test_available_records_that_have_expired_are_ended(has_dead_letters: bool) -> None:
    """
    Expired records that are available, also those whose delivery is delayed, become dead letters or are archived.
    Records that a consumer holds, and pending and finished ones, are left alone, and their batches are not opened.
    """
    parts = [
        batch(record(OLD), record(OLD), base_offset=0),
        batch(record(OLD), record(YOUNG), record(OLD), base_offset=2),
        batch(record(OLD), record(YOUNG), base_offset=5),
        batch(record(YOUNG), base_offset=7),
    ]
    finished, delayed = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE
    share = share_with(run(1, 2, finished), run(4, 5, delayed, delivery_count=2, release_at=WALL + 1))
    leases = leases_of(share, has_dead_letters=has_dead_letters)
    leases.acquire("a", [(5, 7)], records_max=9, batch_size=9, is_limit_strict=True, now=0, wall=WALL)

    read = BatchesRead(parts, 100)
    read.check_ages(leases, GROUP, WALL)
    undecided = read.take_undecided(1)
    assert [(2, parts[1])] == undecided
    assert [] == read.take_undecided(1 << 20)
    read.add_expired(expired_in(undecided[0].bytes, GROUP, WALL, undecided[0].first))
    decided = read.archive(leases)

    dead = RecordState.ARCHIVING if has_dead_letters else RecordState.ARCHIVED
    assert [
        run(0, 1, dead, Reason.EXPIRED), run(2, 3, dead, Reason.EXPIRED), run(4, 5, dead, Reason.EXPIRED, 2)
    ] == decided  # fmt: skip
    assert [] == read.archive(leases)
    found = leases.next_available(0, 100, WALL)
    assert found is not None and 3 == found.first


def test_batches_are_opened_in_slices() -> None:
    """At least one batch is opened at a time, and no more bytes than permitted with the further ones."""
    parts = [batch(record(OLD), record(YOUNG), base_offset=at) for at in range(0, 10, 2)]
    leases = leases_of(share_with())
    read = BatchesRead(parts, 100)
    read.check_ages(leases, GROUP, WALL)

    slices = [read.take_undecided(2 * len(parts[0])) for _ in range(4)]

    assert [2, 2, 1, 0] == [len(one) for one in slices]


def test_a_batch_has_a_bounded_number_of_expired_ranges() -> None:
    """A small batch may have millions of records when it is decompressed.  The next fetch begins behind the range."""
    one = batch(*[record(OLD), record(YOUNG)] * (RANGES_MAX + 2), codec=Codec.ZSTD)

    first = expired_in(one, GROUP, WALL)
    second = expired_in(one, GROUP, WALL, first[-1][1])

    assert (RANGES_MAX, (100, 101)) == (len(first), first[0])
    assert [(100 + 2 * RANGES_MAX, 101 + 2 * RANGES_MAX), (102 + 2 * RANGES_MAX, 103 + 2 * RANGES_MAX)] == second


def test_a_batch_is_opened_from_its_first_available_record_on() -> None:
    share = share_with(run(0, 2, RecordState.ACKNOWLEDGED))
    read = BatchesRead([batch(*map(record, (OLD, OLD, OLD, YOUNG)), base_offset=0)], 100)

    read.check_ages(leases_of(share), GROUP, WALL)

    assert [2] == [it.first for it in read.take_undecided(1)]


def test_countless_headers_take_no_memory() -> None:
    """Each would take a hundred bytes if it were decoded, and two bytes can be one."""
    one = batch(Record(None, b"", [*[("", None)] * 100_000, ("tidemill-ttl", b"1")], YOUNG), codec=Codec.ZSTD)
    tracemalloc.start()

    expired = expired_in(one, HEADERS, WALL)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(100, 101)] == expired
    assert peak < 2_000_000


def test_a_batch_that_decompresses_to_too_much_has_no_expired_records() -> None:
    large = Record(None, bytes(OPENED_BYTES_MAX), [("tidemill-ttl", b"1")], OLD)

    expired = expired_in(batch(large, codec=Codec.ZSTD), HEADERS, WALL)
    plain = expired_in(batch(large), HEADERS, WALL)

    assert ([], [(100, 101)]) == (expired, plain)
