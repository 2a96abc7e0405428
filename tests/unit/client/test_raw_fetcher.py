"""Reading batches from brokers that lose leadership, close connections, stall or delete records."""

import threading
import time

import pytest

from tests.unit.client.fake_cluster import Disconnect, FakeCluster, Partition, Topic, at_versions
from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.batches.control import EndMarker, build_end_marker
from tidemill.batches.records import read_records
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.failures import OffsetOutOfRange, RetriesExhausted, TopicRecreated, UnknownTopic
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.wire.messages import fetch
from tidemill.wire.schema import Message

T0 = TopicPartition("t", 0)


def read(
    settings: ConnectionSettings,
    start: int,
    end: int,
    *,
    topic_id: TopicId | None = None,
    deadline_ms: int | None = None,
) -> list[bytes | None]:
    """Return the values whose offsets are in [start, end)."""
    cluster = ClusterMetadata(settings)
    try:
        values = []
        for run in RawFetcher(cluster, deadline_ms=deadline_ms).batches(T0, start, end, topic_id):
            for span in spans(run):
                records = read_records(run[span.position : span.position + span.size])
                pairs = enumerate(records, span.header.base_offset)
                values += [record.value for offset, record in pairs if start <= offset < end]
        return values
    finally:
        cluster.close()


def answer_of(error_code: int) -> fetch.Response:
    partition = fetch.Response.Topic.Partition(partition_index=0, error_code=error_code, high_watermark=-1, records=b"")
    return fetch.Response(responses=[fetch.Response.Topic(partitions=[partition])])


def numbered(cluster: FakeCluster, *, batch_count: int = 20, size: int = 5) -> list[bytes]:
    """Fill the partition with numbered values, and return these in order."""
    values = [b"%d" % number for number in range(batch_count * size)]
    for start in range(0, len(values), size):
        cluster.partition.append_records(values[start : start + size])
    return values


def test_the_records_between_two_offsets_are_read_in_order():
    """
    A read returns every record between two offsets, in order.  The first and the last batch may contain further records
    outside the range.
    """
    with FakeCluster() as cluster:
        values = numbered(cluster)

        found = read(cluster.settings(), 7, 93)

    assert values[7:93] == found


def test_a_read_continues_after_a_truncated_response():
    """
    After a truncated response, the next fetch starts at the last batch, which was incomplete.
    """
    with FakeCluster() as cluster:
        values = numbered(cluster, batch_count=30, size=100)
        cut = {"count": 0}

        def smaller(broker_id: int, name: str, request: Message) -> Message | None:
            if isinstance(request, fetch.Request):
                request.topics[0].partitions[0].partition_max_bytes = 2_500
                cut["count"] += 1
            return None

        cluster.hook = smaller
        found = read(cluster.settings(), 0, 3_000)

    assert (values, True) == (found, cut["count"] > 5)


@pytest.mark.parametrize(
    "apis",
    [at_versions(fetch=18), at_versions(fetch=12), at_versions(fetch=11, metadata=8, list_offsets=5, api_versions=2)],
    ids=["4.x by topic id", "3.0 by name", "2.3 with an old ApiVersions"],
)
def test_brokers_of_any_age_are_read(apis):
    """
    The client uses the newest version of each API that both sides know.  If the broker refuses its version of
    ApiVersions, the client sends v0.
    """
    with FakeCluster(apis=apis) as cluster:
        values = numbered(cluster)

        found = read(cluster.settings(), 0, 100)

    assert values == found


def test_a_read_follows_the_leader():
    """
    After NOT_LEADER_OR_FOLLOWER, the client refreshes its metadata and continues with the new leader.  No record is
    read twice.
    """
    with FakeCluster(broker_count=2) as cluster:
        values = numbered(cluster, batch_count=30, size=100)

        def move(broker_id: int, name: str, request: Message) -> Message | None:
            if isinstance(request, fetch.Request):
                request.topics[0].partitions[0].partition_max_bytes = 2_500
                if request.topics[0].partitions[0].fetch_offset > 1_000 and cluster.partition.leader == 1:
                    cluster.partition.leader, cluster.partition.epoch = 2, 1
            return None

        cluster.hook = move
        found = read(cluster.settings(), 0, 3_000)

        assert (values, {1, 2}) == (found, {broker for broker, name, _, _ in cluster.requests if name == "fetch"})


@pytest.mark.parametrize(
    "error_code",
    [
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.UNKNOWN_LEADER_EPOCH,
        errors.FENCED_LEADER_EPOCH,
        errors.LEADER_NOT_AVAILABLE,
        errors.REQUEST_TIMED_OUT,
        errors.OFFSET_NOT_AVAILABLE,
        errors.UNKNOWN_TOPIC_ID,
        errors.KAFKA_STORAGE_ERROR,
    ],
    ids=errors.name,
)
def test_a_transient_error_is_retried(error_code):
    """
    A transient error is retried, so that the reader notices only a delay.
    """
    with FakeCluster() as cluster:
        values = numbered(cluster)
        left = iter([error_code, error_code])
        cluster.hook = lambda broker_id, name, request: (
            answer_of(code) if name == "fetch" and (code := next(left, None)) is not None else None
        )

        found = read(cluster.settings(), 0, 100)

    assert values == found


def test_a_read_continues_on_a_new_connection():
    """
    After a reconnect, a read resumes after the last batch that was yielded.
    """
    with FakeCluster() as cluster:
        values = numbered(cluster, batch_count=30, size=100)
        broken = {"count": 0}

        def break_off(broker_id: int, name: str, request: Message) -> Message | None:
            if isinstance(request, fetch.Request):
                request.topics[0].partitions[0].partition_max_bytes = 2_500
                if request.topics[0].partitions[0].fetch_offset > 1_000 and broken["count"] < 3:
                    broken["count"] += 1
                    raise Disconnect
            return None

        cluster.hook = break_off
        found = read(cluster.settings(), 0, 3_000)

    assert (values, 3) == (found, broken["count"])


def test_a_request_that_times_out_is_retried():
    """
    A request that gets no response within request.timeout.ms is retried.
    """
    stalled = threading.Event()
    with FakeCluster() as cluster:
        values = numbered(cluster)

        def stall(broker_id: int, name: str, request: Message) -> Message | None:
            if name == "fetch" and not stalled.is_set():
                stalled.set()
                time.sleep(0.5)  # longer than request.timeout.ms
            return None

        cluster.hook = stall
        found = read(cluster.settings(request_timeout_ms="100"), 0, 100)

    assert (values, True) == (found, stalled.is_set())


def test_a_partition_without_leader_fails_at_the_deadline():
    """
    If a partition has no leader, the read fails at the deadline of the retries, with an error that names the last
    problem.
    """
    with FakeCluster() as cluster:
        numbered(cluster)
        cluster.partition.leader = None

        with pytest.raises(RetriesExhausted, match=r"gave up after 200 ms: t-0 has no leader"):
            read(cluster.settings(), 0, 100, deadline_ms=200)


def test_offsets_below_the_log_start_are_out_of_range():
    """
    A read below the log start fails with an error that contains the offset range of the partition.
    """
    with FakeCluster() as cluster:
        numbered(cluster)
        cluster.partition.log_start_offset = 50

        with pytest.raises(OffsetOutOfRange) as raised:
            read(cluster.settings(), 10, 100)

    assert (10, 50, 100) == (raised.value.fetch_offset, raised.value.log_start_offset, raised.value.end_offset)


def test_a_recreated_topic_is_not_read_in_place_of_the_old_one():
    """
    A read of a deleted topic does not continue with a new topic of the same name, whose offsets are unrelated.
    """
    with FakeCluster() as cluster:
        numbered(cluster)

        with pytest.raises(TopicRecreated, match="deleted and created again"):
            read(cluster.settings(), 0, 100, topic_id=TopicId(b"\x09" * 16))


def test_a_deleted_topic_is_unknown():
    """
    A read of a deleted topic fails without a retry.
    """
    with FakeCluster() as cluster:
        cluster.topics = {"other": Topic(partitions={0: Partition()})}

        with pytest.raises(UnknownTopic, match="'t'"):
            read(cluster.settings(), 0, 100)


def test_a_partition_is_read_that_is_newer_than_the_kept_metadata():
    """
    A client whose metadata predates a partition can read that partition.
    """
    with FakeCluster() as cluster:
        numbered(cluster)
        kept = ClusterMetadata(cluster.settings())
        kept.refresh({"t"})
        added = cluster.topics["t"].partitions[1] = Partition()
        added.append_records([b"new"])

        runs = list(RawFetcher(kept).batches(TopicPartition("t", 1), 0, 1))
        kept.close()

    assert 1 == len(runs)


def test_a_batch_damaged_in_transit_is_fetched_again():
    """
    If a batch was damaged in transit, the client detects this by the CRC and fetches the batch again.
    """
    with FakeCluster() as cluster:
        values = numbered(cluster)
        whole = cluster.partition.batches[3]
        cluster.partition.batches[3] = whole[:-1] + bytes([whole[-1] ^ 1])

        def heal(broker_id: int, name: str, request: Message) -> Message | None:
            if cluster.count("fetch") > 1:
                cluster.partition.batches[3] = whole
            return None

        cluster.hook = heal
        found = read(cluster.settings(), 0, 100)

    assert values == found


def test_read_committed_skips_aborted_transactions():
    """
    The records of aborted transactions and all markers are skipped, but not those of a later transaction of the same
    producer.
    """
    with FakeCluster() as cluster:
        one = cluster.partition

        def produce(producer_id: int, value: bytes) -> None:
            one.append(
                build_batch([(None, value, (), 0)], producer_id=producer_id, producer_epoch=0, is_transactional=True)
            )

        def end(producer_id: int, marker: EndMarker) -> None:
            one.append(
                build_end_marker(marker, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0)
            )

        produce(7, b"committed before")
        end(7, EndMarker.COMMIT)
        produce(7, b"aborted")  # stored at offset 2
        produce(8, b"of another")
        produce(7, b"aborted, too")
        end(7, EndMarker.ABORT)
        end(8, EndMarker.COMMIT)
        produce(7, b"committed after")
        end(7, EndMarker.COMMIT)
        one.aborted = [(7, 2)]

        committed = read(cluster.settings(isolation_level="read_committed"), 0, one.end_offset)
        uncommitted = read(cluster.settings(), 0, one.end_offset)

    assert [b"committed before", b"of another", b"committed after"] == committed
    assert [
        b"committed before",
        b"aborted",
        b"of another",
        b"aborted, too",
        b"committed after",
    ] == uncommitted


def test_one_request_is_always_in_flight():
    """
    The fetcher sends the next request before it yields the records of a response, so that one request is always in
    flight.
    """
    with FakeCluster() as cluster:
        numbered(cluster, batch_count=30, size=100)

        def smaller(broker_id: int, name: str, request: Message) -> Message | None:
            if isinstance(request, fetch.Request):
                request.topics[0].partitions[0].partition_max_bytes = 2_500
            return None

        cluster.hook = smaller
        metadata = ClusterMetadata(cluster.settings())
        metadata.refresh(["t"])
        reading = RawFetcher(metadata).batches(T0, 0, 3_000)
        next(reading)
        deadline = time.monotonic() + 5
        while cluster.count("fetch") < 2 and time.monotonic() < deadline:
            time.sleep(0.001)  # time for the fake broker's thread to read the request
        asked = cluster.count("fetch")
        reading.close()
        metadata.close()

    assert 2 == asked


def test_an_abandoned_read_does_not_affect_the_next():
    """
    An abandoned read does not affect the next one, because a connection with an outstanding response is not used again.
    """
    with FakeCluster() as cluster:
        values = numbered(cluster, batch_count=30, size=100)

        def smaller(broker_id: int, name: str, request: Message) -> Message | None:
            if isinstance(request, fetch.Request):
                request.topics[0].partitions[0].partition_max_bytes = 2_500
            return None

        cluster.hook = smaller
        metadata = ClusterMetadata(cluster.settings())
        metadata.refresh(["t"])
        given_up = RawFetcher(metadata).batches(T0, 0, 3_000)
        next(given_up)
        given_up.close()

        first = next(RawFetcher(metadata).batches(T0, 200, 300))
        found = read_records(first[: next(spans(first)).size])
        metadata.close()

    assert values[200] == found[0].value
