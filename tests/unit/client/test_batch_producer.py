"""The producer against fake brokers: order, no duplicates, retries, limits, and errors."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace

import pytest

from tests.unit.client.fake_cluster import Disconnect, FakeCluster, Partition, Topic
from tidemill.batches.batch import read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import read_records
from tidemill.client import producer_settings
from tidemill.client.batch_producer import BatchProducer, DeliveryFailed
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.client.produce_connection import ProduceConnection
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import init_producer_id, produce
from tidemill.wire.schema import Message

T0 = TopicPartition("t", 0)


def batch_of(*values: bytes, codec: Codec = Codec.NONE) -> tuple[bytearray, int]:
    return build_batch([(None, value, (), 1_000) for value in values], codec=codec), len(values)


def stored(partition: Partition) -> list[bytes | None]:
    """Return the values in a fake partition."""
    return [record.value for batch in partition.batches for record in read_records(batch)]


Make = Callable[..., BatchProducer]


@pytest.fixture
def make() -> Iterator[Make]:
    """`make(cluster, **keys)` returns a producer; an underscore in a key stands for a dot."""
    opened: list[tuple[BatchProducer, ClusterMetadata]] = []

    def made(cluster: FakeCluster, monotonic: Callable[[], float] = time.monotonic, **keys: str) -> BatchProducer:
        fast = {"delivery_timeout_ms": "10000", **keys}
        named = {key.replace("_", "."): value for key, value in fast.items()}
        connection = {key: value for key, value in keys.items() if key.startswith("request_timeout")}
        metadata = ClusterMetadata(cluster.settings(**connection))
        metadata.refresh(list(cluster.topics))
        producer = BatchProducer(metadata, producer_settings.from_keys(named), monotonic=monotonic)
        opened.append((producer, metadata))
        return producer

    yield made
    for producer, metadata in opened:
        producer.close()
        metadata.close()


def refuse(error_code: int, request: produce.Request, **fields: object) -> produce.Response:
    """Return a response in which each partition has this error."""
    return produce.Response(
        responses=[
            produce.Response.Topic(
                name=topic.name,
                partition_responses=[
                    produce.Response.Topic.Partition(index=one.index, error_code=error_code, base_offset=-1, **fields)
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def on_produce(cluster: FakeCluster, *steps: Callable[[int, produce.Request], Message | None]) -> None:
    """Let each step handle one Produce request, in order; later requests are handled as usual."""
    left = list(steps)

    def hook(broker_id: int, name: str, request: Message) -> Message | None:
        if isinstance(request, produce.Request) and left:
            return left.pop(0)(broker_id, request)
        return None

    cluster.hook = hook


def usual(broker_id: int, request: produce.Request) -> None:
    return None


def error(error_code: int) -> Callable[[int, produce.Request], Message]:
    return lambda broker_id, request: refuse(error_code, request)


def headers(cluster: FakeCluster) -> list[tuple[int, int, int, int]]:
    """Return (producer id, epoch, base sequence, record count) of each batch that was sent."""
    found = []
    for _, name, _, request in cluster.requests:
        if name == "produce":
            assert isinstance(request, produce.Request)
            for topic in request.topic_data:
                for one in topic.partition_data:
                    header = read_header(one.records)
                    found.append((header.producer_id, header.producer_epoch, header.base_sequence, header.record_count))
    return found


def test_batches_are_stored_in_order_and_their_offsets_returned(make: Make):
    with FakeCluster() as cluster:
        producer = make(cluster)
        for index in range(7):
            producer.send(T0, *batch_of(b"%d" % index, b"x"))

        acknowledged = producer.flush()

        assert [b"0", b"x", b"1", b"x"] == stored(cluster.partition)[:4]
        assert [(1_000, 0, 2 * index, 2) for index in range(7)] == headers(cluster)
        assert (14, 0, 14) == (acknowledged[T0].records, acknowledged[T0].first_offset, acknowledged[T0].end_offset)
        assert sum(map(len, cluster.partition.batches)) == acknowledged[T0].bytes
        assert producer.is_reusable
        assert {} == producer.flush()


def test_one_request_has_the_batches_of_several_partitions_of_a_leader(make: Make):
    with FakeCluster() as cluster:
        cluster.topics["t"].partitions = {number: Partition() for number in range(4)}
        producer = make(cluster)
        for number in range(4):
            producer.send(TopicPartition("t", number), *batch_of(b"a"))

        producer.flush()

        assert 1 == cluster.count("produce")


def test_leaders_are_not_kept_waiting_for_one_another(make: Make):
    """While one leader holds back its response, another one stores all of its batches."""
    with FakeCluster(broker_count=2) as cluster:
        cluster.topics["t"].partitions = {0: Partition(leader=1), 1: Partition(leader=2)}
        others = threading.Event()

        def hook(broker_id: int, name: str, request: Message) -> None:
            if name == "produce":
                if broker_id == 1:
                    assert others.wait(10)
                elif len(cluster.topics["t"].partitions[1].batches) == 2:
                    others.set()

        cluster.hook = hook
        producer = make(cluster, max_request_size="1")
        for _ in range(3):
            producer.send(T0, *batch_of(b"a"))
            producer.send(TopicPartition("t", 1), *batch_of(b"b"))
        producer.flush()

        assert others.is_set()


def test_a_batch_whose_response_is_lost_is_not_stored_twice(make: Make):
    with FakeCluster() as cluster:

        def store_and_vanish(broker_id: int, request: produce.Request) -> Message:
            cluster.answer(broker_id, 9, request)
            raise Disconnect

        on_produce(cluster, usual, store_and_vanish)
        producer = make(cluster, max_request_size="1")
        for index in range(5):
            producer.send(T0, *batch_of(b"%d" % index))
        acknowledged = producer.flush()

        assert [b"0", b"1", b"2", b"3", b"4"] == stored(cluster.partition)
        assert (5, 0, 5) == (acknowledged[T0].records, acknowledged[T0].first_offset, acknowledged[T0].end_offset)


@pytest.mark.parametrize(
    "error_code",
    [
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.NOT_ENOUGH_REPLICAS,
        errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        errors.REQUEST_TIMED_OUT,
        errors.KAFKA_STORAGE_ERROR,
        errors.CORRUPT_MESSAGE,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_retried_batch_keeps_its_place(make: Make, error_code: int, is_stored: bool):
    """
    A batch that failed is sent again first, and then the batches after it, which the broker has rejected as out of
    order.
    """
    with FakeCluster() as cluster:

        def fail(broker_id: int, request: produce.Request) -> Message:
            if is_stored:
                cluster.answer(broker_id, 9, request)
            return refuse(error_code, request)

        on_produce(cluster, usual, fail)
        producer = make(cluster, max_request_size="1")
        for index in range(6):
            producer.send(T0, *batch_of(b"%d" % index))
        producer.flush()

        assert [b"%d" % index for index in range(6)] == stored(cluster.partition)
        assert {1_000} == {header[0] for header in headers(cluster)}
        assert {0} == {header[1] for header in headers(cluster)}


def test_batches_follow_a_partition_to_its_new_leader(make: Make):
    with FakeCluster(broker_count=2) as cluster:

        def move(broker_id: int, request: produce.Request) -> None:
            cluster.partition.leader = 2

        on_produce(cluster, usual, move)
        producer = make(cluster, max_request_size="1")
        for index in range(6):
            producer.send(T0, *batch_of(b"%d" % index))
        producer.flush()

        assert [b"%d" % index for index in range(6)] == stored(cluster.partition)
        assert 2 in {broker_id for broker_id, name, _, _ in cluster.requests if name == "produce"}


@pytest.mark.parametrize("seed", range(12))
def test_random_faults_neither_lose_nor_duplicate_nor_reorder_records(make: Make, seed: int):
    """
    Each record is stored once and in order, although connections break before and after the append, leaders move, and
    appended batches are reported as failed.
    """
    chance = random.Random(seed)
    with FakeCluster(broker_count=2) as cluster:
        partitions = {number: Partition(leader=1 + number % 2) for number in range(3)}
        cluster.topics["t"].partitions = partitions

        def hook(broker_id: int, name: str, request: Message) -> Message | None:
            if not isinstance(request, produce.Request) or chance.random() < 0.7:
                return None
            kind = chance.randrange(5)
            if kind == 0:
                raise Disconnect
            if kind == 1:
                cluster.answer(broker_id, 9, request)
                raise Disconnect
            if kind == 2:
                moved = partitions[chance.randrange(3)]
                moved.leader = 3 - (moved.leader or 1)
                return None
            if kind == 3:
                cluster.answer(broker_id, 9, request)
            return refuse(errors.REQUEST_TIMED_OUT, request)

        cluster.hook = hook
        producer = make(cluster, max_request_size="200")
        for index in range(60):
            producer.send(TopicPartition("t", index % 3), *batch_of(b"%d" % index, b"-"))
        acknowledged = producer.flush()

        for number, partition in partitions.items():
            assert [b"%d" % index for index in range(60) if index % 3 == number] == stored(partition)[::2]
            assert 40 == acknowledged[TopicPartition("t", number)].records


@pytest.mark.parametrize("error_code", [errors.UNKNOWN_PRODUCER_ID, errors.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_broker_that_lost_the_sequence_gets_a_new_epoch(make: Make, error_code: int):
    """
    If a broker no longer knows a producer's sequence, the producer restarts that partition at sequence number 0 of the
    next epoch; other partitions keep their epoch and sequence (KIP-360).
    """
    with FakeCluster() as cluster:
        cluster.topics["t"].partitions = {0: Partition(), 1: Partition()}
        producer = make(cluster, max_request_size="1")
        producer.send(T0, *batch_of(b"0"))
        producer.send(TopicPartition("t", 1), *batch_of(b"other"))
        producer.flush()
        on_produce(cluster, error(error_code))
        producer.send(T0, *batch_of(b"1"))
        producer.send(T0, *batch_of(b"2"))
        producer.flush()
        producer.send(TopicPartition("t", 1), *batch_of(b"other"))
        producer.flush()

        assert [b"0", b"1", b"2"] == stored(cluster.partition)
        assert [(1_000, 1, 0, 1), (1_000, 1, 1, 1), (1_000, 0, 1, 1)] == headers(cluster)[-3:]


def test_after_the_last_epoch_the_producer_gets_a_new_id(make: Make):
    with FakeCluster() as cluster:

        def last_epoch(broker_id: int, name: str, request: Message) -> Message | None:
            if isinstance(request, init_producer_id.Request) and cluster.count("init_producer_id") == 1:
                return init_producer_id.Response(error_code=errors.NONE, producer_id=7, producer_epoch=32767)
            if isinstance(request, produce.Request) and cluster.count("produce") == 1:
                return refuse(errors.UNKNOWN_PRODUCER_ID, request)
            return None

        cluster.hook = last_epoch
        producer = make(cluster)
        producer.send(T0, *batch_of(b"0"))
        producer.flush()

        assert [(7, 32767, 0, 1), (1_000, 0, 0, 1)] == headers(cluster)


def test_a_batch_that_is_known_but_forgotten_counts_as_stored(make: Make):
    """After DUPLICATE_SEQUENCE_NUMBER, the producer counts the batch as stored, but does not know its offsets."""
    with FakeCluster() as cluster:
        on_produce(cluster, error(errors.DUPLICATE_SEQUENCE_NUMBER))
        producer = make(cluster)
        producer.send(T0, *batch_of(b"0"))

        acknowledged = producer.flush()

        assert (1, -1, -1) == (acknowledged[T0].records, acknowledged[T0].first_offset, acknowledged[T0].end_offset)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_that_is_too_large_for_the_topic_is_divided(make: Make, codec: Codec):
    with FakeCluster() as cluster:
        values = [random.Random(index).randbytes(50) for index in range(20)]
        cluster.message_bytes_max = 400
        producer = make(cluster)
        producer.send(T0, *batch_of(*values[:15], codec=codec))
        producer.send(T0, *batch_of(*values[15:], codec=codec))
        acknowledged = producer.flush()

        assert values == stored(cluster.partition)
        assert {int(codec)} == {read_header(batch).codec for batch in cluster.partition.batches}
        assert 20 == acknowledged[T0].records
        assert producer.is_reusable


def test_a_record_that_is_too_large_for_the_topic_is_refused(make: Make):
    with FakeCluster() as cluster:
        cluster.message_bytes_max = 100
        producer = make(cluster)
        producer.send(T0, *batch_of(b"x" * 200))

        with pytest.raises(
            DeliveryFailed, match=r"^t-0: 1 records are refused: MESSAGE_TOO_LARGE: .*max.message.bytes"
        ):
            producer.flush()


@pytest.mark.parametrize(
    ("error_code", "sentence"),
    [
        (errors.TOPIC_AUTHORIZATION_FAILED, "WRITE on the topic"),
        (errors.INVALID_PRODUCER_EPOCH, "run the write again"),
        (errors.INVALID_TIMESTAMP, "message.timestamp"),
        (errors.INVALID_RECORD, "the record has no key"),
    ],
)
def test_a_refused_batch_fails_the_write_and_all_further_calls(make: Make, error_code: int, sentence: str):
    with FakeCluster() as cluster:
        on_produce(
            cluster, lambda broker_id, request: refuse(error_code, request, error_message="the record has no key")
        )
        producer = make(cluster)
        producer.send(T0, *batch_of(b"0"))

        with pytest.raises(DeliveryFailed, match=sentence) as first:
            producer.flush()
        with pytest.raises(DeliveryFailed) as second:
            producer.send(T0, *batch_of(b"1"))

        assert first.value is second.value
        assert T0 == first.value.partition
        assert 1 == cluster.count("produce")
        assert not producer.is_reusable


def test_retries_end_at_the_delivery_timeout_with_the_cause(make: Make):
    with FakeCluster() as cluster:
        cluster.hook = lambda broker_id, name, request: (
            refuse(errors.NOT_ENOUGH_REPLICAS, request) if isinstance(request, produce.Request) else None
        )
        producer = make(cluster, delivery_timeout_ms="1000")
        producer.send(T0, *batch_of(b"0"))

        with pytest.raises(DeliveryFailed, match=r"^t-0: 1 records .*delivery.timeout.ms=1000: NOT_ENOUGH_REPLICAS"):
            producer.flush()


def test_a_silent_broker_is_given_up_after_the_request_timeout(make: Make):
    """
    If a broker does not respond in time, the producer closes the connection and sends the batch again on a new one.
    """
    with FakeCluster() as cluster:
        is_over = threading.Event()

        def hang(broker_id: int, request: produce.Request) -> None:
            is_over.wait(20)

        on_produce(cluster, hang)
        producer = make(cluster, request_timeout_ms="100")
        producer.send(T0, *batch_of(b"0"))
        producer.flush()
        is_over.set()

        assert [b"0"] == stored(cluster.partition)
        assert 2 == cluster.count("produce")


def test_a_topic_that_was_deleted_fails_at_the_delivery_timeout(make: Make):
    with FakeCluster() as cluster:
        producer = make(cluster, delivery_timeout_ms="1000")
        cluster.topics.clear()
        producer.send(T0, *batch_of(b"0"))

        with pytest.raises(DeliveryFailed, match=r"t-0: .*topic 't': it does not exist"):
            producer.flush()


def test_the_number_of_retries_can_be_limited(make: Make):
    with FakeCluster() as cluster:
        cluster.hook = lambda broker_id, name, request: (
            refuse(errors.REQUEST_TIMED_OUT, request) if isinstance(request, produce.Request) else None
        )
        producer = make(cluster, retries="2")
        producer.send(T0, *batch_of(b"0"))

        with pytest.raises(DeliveryFailed, match="REQUEST_TIMED_OUT"):
            producer.flush()

        assert 3 == cluster.count("produce")


def test_time_between_calls_does_not_count(make: Make):
    """
    A batch does not time out because the caller was busy elsewhere: the producer first reads the responses that have
    arrived in the meantime.
    """
    with FakeCluster() as cluster:
        away = SimpleNamespace(seconds=0.0)
        ticks = count()
        producer = make(
            cluster,
            monotonic=lambda: away.seconds + next(ticks) * 1e-6,
            delivery_timeout_ms="1000",
            max_request_size="1",
        )
        producer.send(T0, *batch_of(b"0"))
        away.seconds += 3_600
        producer.send(T0, *batch_of(b"1"))
        away.seconds += 3_600

        assert 2 == producer.flush()[T0].records


def test_a_full_buffer_makes_the_caller_wait(make: Make):
    """The number of unacknowledged bytes never exceeds the size of the buffer."""
    with FakeCluster() as cluster:
        size = len(batch_of(b"x" * 100)[0])
        sent = SimpleNamespace(batches=0)
        excess: list[int] = []

        def hook(broker_id: int, name: str, request: Message) -> None:
            if name == "produce":
                acknowledged_max = len(cluster.partition.batches)
                excess.append(sent.batches - acknowledged_max)

        cluster.hook = hook
        producer = make(cluster, max_request_size="1", buffer_memory=str(3 * size))
        for _ in range(40):
            producer.send(T0, *batch_of(b"x" * 100))
            sent.batches += 1
        producer.flush()

        assert max(excess) <= 3
        assert 40 == len(stored(cluster.partition))


def test_requests_in_flight_are_limited(make: Make, monkeypatch: pytest.MonkeyPatch):
    counts: list[int] = []
    send = ProduceConnection.send

    def counted(self: ProduceConnection, *arguments: object) -> None:
        send(self, *arguments)  # type: ignore[arg-type]
        counts.append(self.in_flight_count)

    monkeypatch.setattr(ProduceConnection, "send", counted)
    with FakeCluster() as cluster:
        goes_on = threading.Event()

        def hold(broker_id: int, request: produce.Request) -> None:
            goes_on.wait(10)

        producer = make(cluster, max_request_size="1", max_in_flight="3")
        producer.send(T0, *batch_of(b"x"))
        producer.flush()
        on_produce(cluster, hold)
        for _ in range(9):
            producer.send(T0, *batch_of(b"x"))
        goes_on.set()
        producer.flush()

    assert 3 == max(counts)


def test_a_throttled_leader_gets_no_request_for_that_time(make: Make):
    with FakeCluster() as cluster:

        def throttle(broker_id: int, request: produce.Request) -> Message:
            answered = cluster.answer(broker_id, 9, request)
            assert isinstance(answered, produce.Response)
            answered.throttle_time_ms = 80
            return answered

        on_produce(cluster, throttle)
        times = iter(range(1_000_000))
        # Each reading of the clock advances it by 1 ms.
        producer = make(cluster, monotonic=lambda: next(times) / 1_000, max_request_size="1")
        producer.send(T0, *batch_of(b"0"))
        producer.flush()
        before = next(times)
        producer.send(T0, *batch_of(b"1"))
        producer.flush()

        assert next(times) - before >= 40


def test_without_idempotence_there_is_no_producer_id(make: Make):
    with FakeCluster() as cluster:
        producer = make(cluster, enable_idempotence="false")
        producer.send(T0, *batch_of(b"0"))
        producer.flush()

        assert [(-1, -1, -1, 1)] == headers(cluster)
        assert 0 == cluster.count("init_producer_id")


def test_a_refused_producer_id_names_the_fix(make: Make):
    with FakeCluster() as cluster:
        cluster.hook = lambda broker_id, name, request: (
            init_producer_id.Response(error_code=errors.CLUSTER_AUTHORIZATION_FAILED, producer_epoch=-1)
            if isinstance(request, init_producer_id.Request)
            else None
        )
        producer = make(cluster)

        with pytest.raises(ClientError, match=r"enable\.idempotence=false"):
            producer.send(T0, *batch_of(b"0"))


def test_batches_of_several_topics_are_delivered_after_a_refresh(make: Make):
    """A metadata refresh also keeps the leaders of topics whose batches are already acknowledged."""
    with FakeCluster() as cluster:
        cluster.topics["u"] = Topic()
        on_produce(cluster, usual, error(errors.NOT_LEADER_OR_FOLLOWER))
        producer = make(cluster, max_request_size="1")
        producer.send(TopicPartition("u", 0), *batch_of(b"u"))
        for index in range(3):
            producer.send(T0, *batch_of(b"%d" % index))
        producer.send(TopicPartition("u", 0), *batch_of(b"v"))
        producer.flush()

        assert [b"0", b"1", b"2"] == stored(cluster.partition)
        assert [b"u", b"v"] == stored(cluster.topics["u"].partitions[0])
