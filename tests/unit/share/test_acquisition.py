"""Acquisition from the batches that a read has returned, compared with a model that treats every offset on its own."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.share.runs import run
from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement
from tidemill.share.acquisition import AbortedRecords, BatchesRead, FetchLimits, ShareFetched
from tidemill.share.claim import Acquired
from tidemill.share.leases import Leases
from tidemill.share.record_status import RecordState, RecordStatus, Run
from tidemill.share.share import Share
from tidemill.share.share_settings import ShareSettings

PRODUCER = 7
WALL = 1_000
EVERYTHING = FetchLimits(records_max=500, batch_size=500, is_strict=False)


def batch(first: int, end: int, kind: str = "data") -> bytes:
    """Return a batch with the offsets from `first` up to `end`; `kind` is data, control or aborted."""
    return bytes(
        build_batch(
            [(None, b"value", (), 0)] * (end - first),
            base_offset=first,
            producer_id=PRODUCER if kind != "data" else -1,
            is_transactional=kind != "data",
            is_control=kind == "control",
        )
    )


def share_with(*runs: Run, start: int = 0) -> Share:
    share = Share(number=1, group="g", incarnation=1, state_epoch=0, start=start)
    share.set_runs(runs)
    return share


def leases_of(share: Share, **settings: object) -> Leases:
    return Leases(share, ShareSettings(**settings), lambda: 0.0)  # type: ignore[arg-type]


def acquired_from(
    leases: Leases, *batches: bytes, limits: FetchLimits = EVERYTHING, end: int = 10_000, member: str = "a"
) -> ShareFetched:
    return BatchesRead(batches, end).acquire(leases, member, limits, now=0, wall=WALL)


def offsets_of(fetched: ShareFetched) -> list[tuple[int, int]]:
    """Return the first and end offsets of the batches in a response."""
    data = b"".join(fetched.records)
    found = [(span.header.base_offset, span.header.end_offset) for span in spans(data)]
    assert fetched.size_bytes == len(data) == sum(span.size for span in spans(data))
    return found


def test_only_records_in_hand_are_acquired() -> None:
    """
    Offsets outside the batches of the read, in an incomplete batch, or beyond the readable end are not acquired.
    Java's consumer would acknowledge an acquired offset without a record as a gap, and the record would be lost.
    """
    leases = leases_of(share_with())
    torn = batch(20, 30)[:-1]

    fetched = acquired_from(leases, batch(5, 10), batch(10, 20) + torn)
    assert [Acquired(5, 20, 1)] == fetched.acquired

    fetched = acquired_from(leases, batch(20, 30), batch(30, 40), end=30)
    assert [Acquired(20, 30, 1)] == fetched.acquired
    assert [(20, 30)] == offsets_of(fetched)


def test_batches_without_acquired_records_are_cut_out() -> None:
    """A response contains whole batches, and leaves out each batch without an acquired record (KAFKA-17351)."""
    leases = leases_of(share_with(run(0, 10, RecordState.ARCHIVING), run(20, 25, RecordState.ACKNOWLEDGED)))
    acquired_from(leases, batch(30, 40), member="other")

    fetched = acquired_from(leases, *(batch(first, first + 10) for first in range(0, 60, 10)))

    assert [Acquired(10, 20, 1), Acquired(25, 30, 1), Acquired(40, 60, 1)] == fetched.acquired
    assert [(10, 20), (20, 30), (40, 50), (50, 60)] == offsets_of(fetched)


def test_one_available_record_sends_its_batch() -> None:
    """A redelivered record is sent with its whole batch, but no other record of the batch is acquired again."""
    status = run(3, 4, RecordState.AVAILABLE, delivery_count=1)
    leases = leases_of(share_with(run(0, 3, RecordState.ACKNOWLEDGED), status, run(4, 10, RecordState.ACKNOWLEDGED)))

    fetched = acquired_from(leases, batch(0, 10))

    assert [Acquired(3, 4, 2)] == fetched.acquired
    assert [(0, 10)] == offsets_of(fetched)


@pytest.mark.parametrize("kind", ["control", "aborted"])
def test_offsets_without_data_are_archived_and_never_listed(kind: str) -> None:
    """
    Control batches, and aborted batches for readers of committed records, are neither acquired nor sent.  They are
    archived, because the start of the share could not move past them otherwise.
    """
    share = share_with()
    leases = leases_of(share)
    aborted = [AbortedRecords(PRODUCER, 10, 12)] if kind == "aborted" else []

    read = BatchesRead([batch(0, 10), batch(10, 12, kind), batch(12, 20)], 20, aborted)
    fetched = read.acquire(leases, "a", EVERYTHING, now=0, wall=WALL)

    assert [Acquired(0, 10, 1), Acquired(12, 20, 1)] == fetched.acquired
    assert [(0, 10), (12, 20)] == offsets_of(fetched)
    assert [run(10, 12, RecordState.ARCHIVED)] == read.archive(leases)
    assert [] == read.archive(leases)
    assert None is leases.next_available(0, 20, WALL)


def test_other_transactions_are_data() -> None:
    """
    A transactional batch counts as aborted only if its own producer has aborted a transaction at the offsets of the
    batch.
    """
    leases = leases_of(share_with())
    aborted = [AbortedRecords(PRODUCER, 0, 10), AbortedRecords(PRODUCER + 1, 10, 20), AbortedRecords(PRODUCER, 20, 30)]

    read = BatchesRead([batch(10, 20, "aborted")], 20, aborted)

    assert [] == read.archive(leases)
    assert [Acquired(10, 20, 1)] == read.acquire(leases, "a", EVERYTHING, now=0, wall=WALL).acquired


@pytest.mark.parametrize(("is_strict", "end"), [(False, 20), (True, 12)])
def test_the_limit_on_records_divides_a_batch_on_request(is_strict: bool, end: int) -> None:
    """
    In record limit mode, no more than max_records are acquired; otherwise, the batch in which the limit is reached is
    acquired completely (KIP-1206).
    """
    leases = leases_of(share_with())
    limits = FetchLimits(records_max=12, batch_size=500, is_strict=is_strict)

    fetched = acquired_from(leases, batch(0, 10), batch(10, 20), batch(20, 30), limits=limits)

    assert [Acquired(0, end, 1)] == fetched.acquired
    assert [(0, 10), (10, 20)] == offsets_of(fetched)


@pytest.mark.parametrize("is_strict", [False, True])
def test_the_limit_on_locks_is_always_hard(is_strict: bool) -> None:
    """
    The limit on locks is never exceeded, even if it divides a batch.  It counts the records that all members hold (NATS
    #4427).
    """
    leases = leases_of(share_with(), locks_max=7)
    limits = FetchLimits(records_max=500, batch_size=500, is_strict=is_strict)

    assert [Acquired(0, 7, 1)] == acquired_from(leases, batch(0, 10), limits=limits).acquired
    assert ShareFetched([], []) == acquired_from(leases, batch(0, 10), limits=limits, member="b")


@pytest.mark.parametrize(
    ("batch_size", "is_strict", "ends"),
    [
        (10, False, [12, 24, 30]),
        (5, False, [6, 12, 18, 24, 30]),
        (0, False, [6, 12, 18, 24, 30]),
        (30, False, [30]),
        (1, True, [30]),
    ],
)
def test_ranges_are_divided_where_a_batch_starts(batch_size: int, is_strict: bool, ends: list[int]) -> None:
    """
    A range of acquired records ends at the first batch that starts after at least `batch_size` records.  In record
    limit mode, ranges are not divided.
    """
    leases = leases_of(share_with())
    limits = FetchLimits(records_max=500, batch_size=batch_size, is_strict=is_strict)

    fetched = acquired_from(leases, *(batch(first, first + 6) for first in range(0, 30, 6)), limits=limits)

    assert [Acquired(first, end, 1) for first, end in pairwise([0, *ends])] == fetched.acquired


def test_delivery_counts_are_listed_for_each_range() -> None:
    """Records with different delivery counts are in different ranges; no offset is listed twice (KAFKA-19789)."""
    leases = leases_of(share_with(run(2, 4, RecordState.AVAILABLE, delivery_count=1)))

    assert [Acquired(0, 2, 1), Acquired(2, 4, 2), Acquired(4, 6, 1)] == acquired_from(leases, batch(0, 6)).acquired


@pytest.mark.parametrize(
    ("limit", "at_once"),
    [
        (2, [None, None]),
        (3, [None, None, 1]),
        (5, [None, None, None, 50, 1]),
        (6, [None, None, None, 50, 25, 1]),
        (10, [None, None, None, None, None, 50, 25, 12, 6, 1]),
    ],
)
def test_records_that_fail_often_come_in_small_numbers(limit: int, at_once: list[int | None]) -> None:
    """
    The more often records have failed, the fewer of them are delivered together, so a record that crashes its consumers
    does not use up the deliveries of its neighbours (KAFKA-17541).
    """
    settings = ShareSettings(delivery_limit=limit)

    assert at_once == [settings.records_at_once(count, batch_size=100) for count in range(limit)]


def test_a_record_is_delivered_alone_for_the_last_time() -> None:
    """
    If a record has failed often, a fetch delivers the records around it without it, and the next fetch begins with it.
    """
    leases = leases_of(share_with(run(4, 8, RecordState.AVAILABLE, delivery_count=4)))

    assert [Acquired(0, 4, 1), Acquired(8, 10, 1)] == acquired_from(leases, batch(0, 10)).acquired
    assert [Acquired(4, 5, 5)] == acquired_from(leases, batch(0, 10)).acquired
    assert [Acquired(5, 6, 5)] == acquired_from(leases, batch(0, 10)).acquired


def test_available_bytes_count_whole_batches() -> None:
    """
    The bytes that are compared with min_bytes are those of the whole batches that would be sent.  Counting them
    acquires nothing.
    """
    share = share_with(run(0, 10, RecordState.ARCHIVING))
    leases = leases_of(share, locks_max=10)
    batches = [batch(0, 10), batch(10, 12, "control"), batch(12, 22), batch(22, 30)]
    read = BatchesRead(batches, 30)

    assert len(batches[2]) + len(batches[3]) == read.available_bytes(leases, WALL, 1 << 30)
    assert len(batches[2]) == read.available_bytes(leases, WALL, 1)
    assert 0 == leases.held_count
    acquired_from(leases, batches[2])
    assert 0 == read.available_bytes(leases, WALL, 1), "the limit on locks is reached"


@dataclass(frozen=True)
class Layout:
    """Batches, the buffers in which a read returned them, and the state of the share before the fetch."""

    batches: list[tuple[int, int, str]]
    parts: list[bytes]
    read_end: int
    share: Share
    held: list[tuple[int, int]]

    def available(self, kinds: tuple[str, ...], wall: int) -> dict[int, int]:
        """Return the delivery count of each offset that is available, in batches of these kinds."""
        held = {offset for first, end in self.held for offset in range(first, end)}
        found = {}
        for first, end, kind in self.batches:
            if kind not in kinds or end > self.read_end:
                continue
            for offset in range(max(first, self.share.start), end):
                status = self.share.runs.get(offset)
                if status.state == RecordState.AVAILABLE and status.release_at <= wall and offset not in held:
                    found[offset] = status.delivery_count
        return found


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    lengths = draw(st.lists(st.tuples(st.integers(1, 8), st.sampled_from(["data", "data", "control", "aborted"]))))
    offset = draw(st.integers(0, 5))
    batches = []
    parts = [b""]
    for length, kind in lengths:
        batches.append((offset, offset + length, kind))
        parts[-1] += batch(*batches[-1])
        if draw(st.booleans()):
            parts.append(b"")
        offset += length
    last = sum(length for length, _ in lengths)
    available, finished, dead = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVING
    statuses = st.builds(
        RecordStatus,
        st.sampled_from([available, available, finished, dead]),
        st.integers(0, 4),
        st.sampled_from([0, 0, 2 * WALL]),
    )
    runs = draw(
        st.lists(
            st.builds(
                lambda first, length, status: run(
                    first, first + length, status.state, status.reason, status.delivery_count, status.release_at
                ),
                st.integers(0, last + 5),
                st.integers(1, 8),
                statuses,
            ),
            max_size=6,
        )
    )
    held = draw(st.lists(st.tuples(st.integers(0, last), st.integers(1, 4)), max_size=2))
    read_end = draw(st.sampled_from([one[1] for one in batches[-2:]] or [0]))
    share = share_with(*runs, start=draw(st.integers(0, 8)))
    return Layout(batches, parts, read_end, share, [(first, first + length) for first, length in held])


def model_of(layout: Layout, limits: FetchLimits, settings: ShareSettings, room: int) -> dict[int, int]:
    """
    Return the offsets that the model acquires, with their new delivery counts.  The model decides on one offset after
    the other.
    """
    available = layout.available(("data",), WALL)
    acquired: dict[int, int] = {}
    for first, end, kind in layout.batches:
        if kind != "data" or len(acquired) >= limits.records_max:
            continue
        for offset in sorted(available.keys() & range(first, end)):
            if len(acquired) >= room or (limits.is_strict and len(acquired) >= limits.records_max):
                return acquired
            count = available[offset]
            at_once = settings.records_at_once(count, limits.batch_size) or room
            if at_once <= len(acquired):
                continue
            room = min(room, at_once)
            acquired[offset] = count + 1
    return acquired


@given(
    layouts(),
    st.builds(FetchLimits, st.integers(1, 20), st.integers(1, 8), st.booleans()),
    st.integers(1, 20),
)
def test_acquisition_agrees_with_a_model_of_single_offsets(layout: Layout, limits: FetchLimits, locks_max: int) -> None:
    """
    The acquired records are those of the model.  They are in the bytes of the response, whose batches are complete,
    ascending and have an acquired record each.  The listed ranges are ascending and disjoint.  Exactly the available
    offsets without data are archived.
    """
    settings = ShareSettings(delivery_limit=5, locks_max=locks_max)
    leases = Leases(layout.share, settings, lambda: 0.0)
    for first, end in layout.held:
        leases._hold("other", [Acquired(first, end, 1)], 0)
    held_count = leases.held_count
    expected = model_of(layout, limits, settings, max(locks_max - held_count, 0))
    without_data = layout.available(("control", "aborted"), 10 * WALL)

    read = BatchesRead(layout.parts, layout.read_end, [AbortedRecords(PRODUCER, 0, 1_000)])
    archived = read.archive(leases)
    fetched = read.acquire(leases, "a", limits, now=0, wall=WALL)

    listed = [(offset, one.delivery_count) for one in fetched.acquired for offset in range(one.first, one.end)]
    assert list(expected.items()) == listed
    assert len(expected) == leases.held_count - held_count
    assert all(a.end <= b.first for a, b in pairwise(fetched.acquired))
    sent = offsets_of(fetched)
    assert sent == [
        (first, end)
        for first, end, kind in layout.batches
        if kind == "data" and expected.keys() & set(range(first, end))
    ]
    assert without_data.keys() == {offset for one in archived for offset in range(one.first, one.end)}
    assert {RecordState.ARCHIVED} >= {one.value.state for one in archived}


@given(layouts(), st.builds(FetchLimits, st.integers(1, 9), st.integers(1, 4), st.booleans()))
def test_accepting_everything_finishes_the_share(layout: Layout, limits: FetchLimits) -> None:
    """
    If consumers accept all records, the start of the share moves past every batch, including those without data, and
    every available data record is delivered exactly once.
    """
    share, delivered = layout.share, list[int]()
    read_end = layout.batches[-1][1] if layout.batches else 0
    dead = [one for one in share.runs if one.value.state == RecordState.ARCHIVING]
    share.set_runs([run(one.first, one.end, RecordState.ARCHIVED) for one in dead])
    share.log_starts_at(layout.batches[0][0] if layout.batches else 0)
    leases = leases_of(share, locks_max=6)
    wall = 3 * WALL
    everything = Layout(layout.batches, layout.parts, read_end, share, []).available(("data",), wall)
    read = BatchesRead(layout.parts, read_end, [AbortedRecords(PRODUCER, 0, 1_000)])
    for _ in range(200):
        fetched = read.acquire(leases, "a", limits, now=0, wall=wall)
        delivered += [offset for one in fetched.acquired for offset in range(one.first, one.end)]
        ranges = [AcknowledgedRange(one.first, one.end, Acknowledgement.ACCEPT) for one in fetched.acquired]
        decided = read.archive(leases) + leases.acknowledge("a", ranges, now=0, wall=wall)
        if not decided:
            break
        share.set_runs(decided)
        leases.committed(decided)

    assert sorted(everything) == sorted(delivered)
    assert share.start >= read_end
    assert 0 == leases.held_count
