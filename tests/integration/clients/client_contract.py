"""
The client contract: behaviour that any Kafka client may expect of a broker.  Each case works with all libraries.

Apache Kafka 4.3.1 fulfils the contract and so serves as an oracle: what holds for Kafka must hold for Tidemill.  A case
takes a `Stage`: the client under test, unique names, and steps that wait with a deadline.
"""

import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest

from tests.integration.clients.client_port import (
    MOVED,
    WAIT_SECONDS_MAX,
    Acknowledgement,
    Client,
    Consuming,
    Delivered,
    GroupDescription,
    Headers,
    Outgoing,
    Producing,
    Record,
    Refused,
    Sharing,
    TopicPartition,
)

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
INVALID_REQUEST = 42
INVALID_RECORD_STATE = 121
SHARE_SESSION_NOT_FOUND = 122
# Local errors of librdkafka; they are not part of the protocol.
LOCAL_AUTO_OFFSET_RESET, LOCAL_UNKNOWN_TOPIC, LOCAL_UNKNOWN_PARTITION = -140, -188, -190

# The errors with which an acknowledgement may be answered while leaders move.
LEASE_LOST = MOVED | {UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_RECORD_STATE, SHARE_SESSION_NOT_FOUND}

JUNE_2013 = 1_371_000_000_000
REPOSITORY = Path(__file__).resolve().parents[3]

Case = Callable[["Stage"], None]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


class Stage:
    """The environment of one case.  When the case ends, it closes everything that the case has opened."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        broker_pid: int | None,
        replicas: int = 1,
        still: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`still` returns a context manager that keeps leaders from moving."""
        self.still = still
        self.client = client
        self.replicas = replicas
        self.name = name
        self.broker_pid = broker_pid
        self._stack = ExitStack()
        self._topic_count = 0
        self._left: set[int] = set()  # consumers that the case has already closed

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def topic(self, partitions: int = 1, **configs: str) -> str:
        self._topic_count += 1
        name = f"{self.name}-{self._topic_count}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.client.create_topic(name, partitions, settings, replicas=self.replicas)
        self.until(lambda: self.client.topics().get(name) == partitions, f"{name} appears in metadata")
        return name

    def producer(self, **options: object) -> Producing:
        producer = self.client.producer(**options)  # type: ignore[arg-type]
        self._stack.callback(producer.close)
        return producer

    def consumer(self, group: str | None = None, **options: object) -> Consuming:
        consumer = self.client.consumer(group, **options)  # type: ignore[arg-type]
        self._stack.callback(self._close_once(consumer))
        return consumer

    def leave(self, consumer: Consuming | Sharing) -> None:
        """
        Close a consumer while leaders do not move.

        Clients send LeaveGroup once.  If the coordinator moves at that moment, the group waits for the session timeout.
        """
        self._left.add(id(consumer))
        with self.still():
            consumer.close()

    def share_consumer(self, group: str, topic: str) -> Sharing:
        """Return a member of a share group that begins at the start of its topics."""
        self.client.alter_group_config(group, "share.auto.offset.reset", "earliest")
        consumer = self.client.share_consumer(group, topic)
        self._stack.callback(self._close_once(consumer))
        return consumer

    def share(
        self,
        consumers: Sequence[Sharing],
        enough: Callable[[list[Delivered]], bool],
        decide: Callable[[Delivered], Acknowledgement],
    ) -> list[Delivered]:
        """
        Poll the consumers in turn and acknowledge each record as `decide` says.  Return the records whose
        acknowledgement the broker has confirmed, as soon as they are `enough`.
        """
        confirmed: list[Delivered] = []
        deadline = time.monotonic() + 2 * WAIT_SECONDS_MAX
        while not enough(confirmed):
            assert time.monotonic() < deadline, f"only {len(confirmed)} acknowledgements were confirmed"
            for consumer in consumers:
                records = consumer.poll(0.1)
                try:
                    consumer.acknowledge([(record, decide(record)) for record in records])
                except Refused as refused:
                    if self.replicas == 1 or refused.code not in LEASE_LOST:
                        raise
                    continue  # the leader has moved, and the records are delivered again
                confirmed += records
        return confirmed

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """
        Send records with a new producer; return the partition and the offset of each.

        While leaders move, batches are refused and retried, and only an idempotent producer keeps their order.
        """
        return self.producer(idempotent=self.replicas > 1).send(topic, records)

    def read(
        self, topic: str, count: int, *, partitions: int = 1, start: int = 0, fetch_bytes_max: int = 1_000_000
    ) -> list[Record]:
        """
        Return the records of the topic from `start` on: wait for `count` of them, then poll once more in case there are
        others.
        """
        consumer = self.consumer(fetch_bytes_max=fetch_bytes_max)
        consumer.assign({(topic, partition): start for partition in range(partitions)})
        return self.take(consumer, count)

    def take(self, consumer: Consuming, count: int) -> list[Record]:
        records: list[Record] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(records) < count:
            assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
            records += consumer.poll(0.2)
        return records + consumer.poll(0.02)

    @staticmethod
    def until(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, f"not within {WAIT_SECONDS_MAX:.0f} s: {what}"
            time.sleep(0.02)

    def assign_until(
        self, consumers: Sequence[Consuming], condition: Callable[[list[set[TopicPartition]]], bool], what: str
    ) -> None:
        """Poll all members, as applications would, until their assignments satisfy `condition`."""

        def is_assigned() -> bool:
            for consumer in consumers:
                consumer.poll(0.02)
            return condition([consumer.assignment() for consumer in consumers])

        self.until(is_assigned, what)

    def refusal(self, work: Callable[[], object]) -> int:
        with pytest.raises(Refused) as caught:
            work()
        return caught.value.code

    def member_process(self, group: str, topic: str) -> "subprocess.Popen[str]":
        """Start a member in a separate process, so that it can be killed without leaving the group."""
        kind = type(self.client)
        command = [sys.executable, "-m", "tests.integration.clients.group_member"]
        command += [f"{kind.__module__}:{kind.__qualname__}", self.client.bootstrap, group, topic]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        self._stack.callback(self._end, process)
        return process

    def _close_once(self, consumer: Consuming | Sharing) -> Callable[[], None]:
        def close() -> None:
            if id(consumer) not in self._left:
                consumer.close()

        return close

    @staticmethod
    def _end(process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def everything(records: Sequence[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


def split_evenly(topic: str, partitions: int) -> Callable[[list[set[TopicPartition]]], bool]:
    whole = {(topic, partition) for partition in range(partitions)}

    def condition(assignments: list[set[TopicPartition]]) -> bool:
        sizes = [len(assignment) for assignment in assignments]
        disjoint = sum(sizes) == len(whole) and set().union(*assignments) == whole
        return disjoint and max(sizes) - min(sizes) <= 1

    return condition


# ---- produce and fetch -------------------------------------------------------------------------------------------


def round_trip(stage: Stage, compression: str) -> None:
    topic = stage.topic(partitions=2)
    values = [b"%05d " % index + b"tide" * (index % 50) for index in range(2_000)]
    outgoing = [Outgoing(value=value, key=b"k%d" % index, partition=index % 2) for index, value in enumerate(values)]

    places = stage.producer(compression=compression).send(topic, outgoing)

    records = stage.read(topic, len(values), partitions=2)
    stored = {(record.partition, record.offset): (record.key, record.value) for record in records}
    expected = {place: (each.key, each.value) for place, each in zip(places, outgoing, strict=True)}
    assert expected == stored
    assert len(values) == len(records)


@case
def uncompressed_records_come_back(stage: Stage) -> None:
    round_trip(stage, "none")


@case
def gzip_records_come_back(stage: Stage) -> None:
    round_trip(stage, "gzip")


@case
def snappy_records_come_back(stage: Stage) -> None:
    round_trip(stage, "snappy")


@case
def lz4_records_come_back(stage: Stage) -> None:
    round_trip(stage, "lz4")


@case
def zstd_records_come_back(stage: Stage) -> None:
    round_trip(stage, "zstd")


@case
def records_come_back_in_every_codec_of_the_topic(stage: Stage) -> None:
    """
    The broker recompresses: an idempotent producer's records come back in order, whatever the codecs of the producer
    and the topic are.
    """
    topics = [stage.topic(compression_type=name) for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd")]
    sent: list[Outgoing] = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        values = [b"%s %03d " % (codec.encode(), n) + b"tide" * (n % 40) for n in range(200)]
        outgoing = [Outgoing(value=value, key=value[:8], headers=(("h", value[:3]),)) for value in values]
        producer = stage.producer(idempotent=True, compression=codec)
        for topic in topics:
            producer.send(topic, outgoing)
        sent += outgoing

    for topic in topics:
        records = stage.read(topic, len(sent))
        assert [(it.key, it.value, it.headers) for it in sent] == [(it.key, it.value, it.headers) for it in records]


@case
def order_and_offsets_are_dense_in_a_partition(stage: Stage) -> None:
    topic = stage.topic()
    values = [b"%d" % index for index in range(500)]

    places = stage.send(topic, [Outgoing(value=value, partition=0) for value in values])

    assert [(0, offset) for offset in range(500)] == places
    assert [(offset, None, value) for offset, value in enumerate(values)] == everything(stage.read(topic, 500))


@case
def acks_one_is_answered_with_an_offset(stage: Stage) -> None:
    topic = stage.topic()

    places = stage.producer(acks="1").send(topic, [Outgoing(value=b"one", partition=0)])

    assert places == [(0, 0)]
    assert everything(stage.read(topic, 1)) == [(0, None, b"one")]


@case
def a_key_always_meets_the_same_partition(stage: Stage) -> None:
    topic = stage.topic(partitions=8)
    keys = [b"carrier-%d" % (index % 20) for index in range(200)]

    places = stage.send(topic, [Outgoing(value=b"v", key=key) for key in keys])

    partitions_by_key: dict[bytes, set[int]] = {}
    for key, (partition, _) in zip(keys, places, strict=True):
        partitions_by_key.setdefault(key, set()).add(partition)
    assert {1} == {len(partitions) for partitions in partitions_by_key.values()}


@case
def null_and_empty_are_different(stage: Stage) -> None:
    topic = stage.topic()
    pairs = [(b"", b""), (None, b"v"), (b"k", None), (b"", None), (None, b"")]

    stage.send(topic, [Outgoing(key=key, value=value, partition=0) for key, value in pairs])

    expected = [(offset, key, value) for offset, (key, value) in enumerate(pairs)]
    assert expected == everything(stage.read(topic, len(pairs)))


@case
def a_record_may_have_neither_key_nor_value(stage: Stage) -> None:
    topic = stage.topic()

    stage.send(topic, [Outgoing(value=None, partition=0)])

    assert everything(stage.read(topic, 1)) == [(0, None, None)]


@case
def headers_keep_order_duplicates_and_nulls(stage: Stage) -> None:
    topic = stage.topic()
    headers = (("a", b"1"), ("b", None), ("a", b"2"), ("empty", b""), ("Ω", bytes(range(256))))

    stage.send(topic, [Outgoing(value=b"v", partition=0, headers=headers), Outgoing(value=b"bare", partition=0)])

    assert [headers, ()] == [record.headers for record in stage.read(topic, 2)]


@case
def a_record_of_five_megabytes_passes(stage: Stage) -> None:
    topic = stage.topic(max_message_bytes="8388608")
    value = os.urandom(1 << 20) * 5
    room = 8_000_000

    stage.producer(request_bytes_max=room).send(topic, [Outgoing(value=value, partition=0)])

    (record,) = stage.read(topic, 1, fetch_bytes_max=room)
    assert (len(value), zlib.crc32(value)) == (len(record.value or b""), zlib.crc32(record.value or b""))


@case
def a_large_record_passes_a_small_fetch(stage: Stage) -> None:
    """
    A fetch always returns at least one batch, so that a consumer never gets stuck on a large one (KIP-74).
    """
    topic = stage.topic()
    stage.send(topic, [Outgoing(value=b"x" * 300_000, partition=0), Outgoing(value=b"after", partition=0)])

    records = stage.read(topic, 2, fetch_bytes_max=1_000)

    assert [len(record.value or b"") for record in records] == [300_000, 5]


# ---- timestamps and offsets --------------------------------------------------------------------------------------


@case
def producer_timestamps_are_kept(stage: Stage) -> None:
    topic = stage.topic(retention_ms="-1")
    stamps = [JUNE_2013 + index for index in (5, 3, 9)]

    stage.send(topic, [Outgoing(value=b"v", partition=0, timestamp=stamp) for stamp in stamps])

    assert stamps == [record.timestamp for record in stage.read(topic, 3)]


@case
def log_append_time_replaces_the_producers(stage: Stage) -> None:
    topic = stage.topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1_000)

    stage.send(topic, [Outgoing(value=b"v", partition=0, timestamp=JUNE_2013)])

    (record,) = stage.read(topic, 1)
    assert before - 1_000 <= record.timestamp <= int(time.time() * 1_000) + 1_000


@case
def offsets_are_found_by_time(stage: Stage) -> None:
    topic = stage.topic(retention_ms="-1")
    place = (topic, 0)
    producer = stage.producer()
    for index in range(10):  # ten batches: the search crosses batch boundaries
        stamps = (JUNE_2013 + 1_000 * index, JUNE_2013 + 1_000 * index + 500)
        producer.send(topic, [Outgoing(value=b"v", partition=0, timestamp=stamp) for stamp in stamps])
    consumer = stage.consumer()
    asked = [JUNE_2013 - 1, JUNE_2013, JUNE_2013 + 1, JUNE_2013 + 4_500, JUNE_2013 + 9_500, JUNE_2013 + 9_501]

    found = [consumer.offsets_for_times({place: stamp})[place] for stamp in asked]

    # For a timestamp after the last one, librdkafka returns the end (-1) and aiokafka returns nothing.
    assert found == [0, 0, 1, 9, 19, None]


@case
def bounds_are_log_start_and_end(stage: Stage) -> None:
    topic = stage.topic()
    consumer = stage.consumer()
    empty = consumer.bounds((topic, 0))

    stage.send(topic, [Outgoing(value=b"v", partition=0)] * 7)

    assert [empty, consumer.bounds((topic, 0))] == [(0, 0), (0, 7)]


@case
def seeking_goes_back_and_forth(stage: Stage) -> None:
    topic = stage.topic()
    stage.send(topic, [Outgoing(value=b"%d" % index, partition=0) for index in range(100)])
    consumer = stage.consumer()
    consumer.assign({(topic, 0): 0})
    stage.take(consumer, 100)

    firsts = []
    for offset in (90, 10, 50):
        consumer.seek((topic, 0), offset)
        firsts.append(stage.take(consumer, 100 - offset)[0].offset)

    assert firsts == [90, 10, 50]


@case
def an_offset_out_of_range_obeys_the_reset_policy(stage: Stage) -> None:
    topic = stage.topic()
    stage.send(topic, [Outgoing(value=b"%d" % index, partition=0) for index in range(10)])
    from_start, refused = stage.consumer(reset="earliest"), stage.consumer(reset="none")
    from_start.assign({(topic, 0): 1_000})
    refused.assign({(topic, 0): 1_000})

    codes: list[int] = []

    def code_came() -> bool:
        try:
            refused.poll(0.1)
        except Refused as no:
            codes.append(no.code)
        return bool(codes)

    stage.until(code_came, "the consumer without a reset policy gets an error")
    assert codes[0] in (OFFSET_OUT_OF_RANGE, LOCAL_AUTO_OFFSET_RESET)
    assert stage.take(from_start, 10)[0].offset == 0


@case
def delete_records_moves_the_log_start(stage: Stage) -> None:
    topic = stage.topic()
    stage.send(topic, [Outgoing(value=b"%d" % index, partition=0) for index in range(10)])

    stage.client.delete_records((topic, 0), 4)

    assert stage.consumer().bounds((topic, 0)) == (4, 10)
    assert [record.offset for record in stage.read(topic, 6, start=4)] == [4, 5, 6, 7, 8, 9]


# ---- refusals ----------------------------------------------------------------------------------------------------


@case
def a_record_over_the_topics_limit_is_refused(stage: Stage) -> None:
    topic = stage.topic(max_message_bytes="1000")
    producer = stage.producer()

    code = stage.refusal(lambda: producer.send(topic, [Outgoing(value=os.urandom(5_000), partition=0)]))

    assert code == MESSAGE_TOO_LARGE
    assert stage.consumer().bounds((topic, 0)) == (0, 0)


@case
def a_topic_that_exists_is_refused(stage: Stage) -> None:
    topic = stage.topic()

    code = stage.refusal(lambda: stage.client.create_topic(topic, 1, {}))

    assert code == TOPIC_ALREADY_EXISTS


@case
def an_invalid_topic_name_is_refused(stage: Stage) -> None:
    names = ["no spaces", "no/slash", "..", "x" * 250]

    codes = [stage.refusal(lambda name=name: stage.client.create_topic(name, 1, {})) for name in names]  # type: ignore[misc]

    assert [INVALID_TOPIC] * len(names) == codes


@case
def invalid_partition_and_replica_counts_are_refused(stage: Stage) -> None:
    name = f"{stage.name}-counts"

    no_partitions = stage.refusal(lambda: stage.client.create_topic(name, 0, {}))
    too_many = stage.refusal(lambda: stage.client.create_topic(name, 1, {}, replicas=stage.replicas + 1))

    assert (no_partitions, too_many) == (INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR)


@case
def an_unknown_or_senseless_config_is_refused(stage: Stage) -> None:
    name = f"{stage.name}-configs"
    wrong = [{"retention.mss": "1"}, {"retention.ms": "soon"}, {"cleanup.policy": "burn"}]

    codes = [stage.refusal(lambda configs=configs: stage.client.create_topic(name, 1, configs)) for configs in wrong]  # type: ignore[misc]

    assert [INVALID_CONFIG] * len(wrong) == codes


@case
def deleting_an_unknown_topic_is_refused(stage: Stage) -> None:
    code = stage.refusal(lambda: stage.client.delete_topic(f"{stage.name}-nowhere"))

    assert code == UNKNOWN_TOPIC_OR_PARTITION


@case
def asking_about_an_unknown_topic_does_not_create_it(stage: Stage) -> None:
    """
    A consumer's metadata request disables auto-creation, even though the broker allows it.
    """
    if stage.client.name == "aiokafka":
        pytest.skip("aiokafka cannot disable auto-creation: its metadata requests always allow it")
    name = f"{stage.name}-unknown"
    consumer = stage.consumer()

    code = stage.refusal(lambda: consumer.bounds((name, 0)))

    assert code in (UNKNOWN_TOPIC_OR_PARTITION, LOCAL_UNKNOWN_PARTITION, LOCAL_UNKNOWN_TOPIC)
    assert name not in stage.client.topics()


@case
def producing_to_an_unknown_topic_creates_it(stage: Stage) -> None:
    name = f"{stage.name}-auto"

    places = stage.send(name, [Outgoing(value=b"v", partition=0)])

    assert places == [(0, 0)]
    assert name in stage.client.topics()


# ---- idempotence -------------------------------------------------------------------------------------------------


@case
def idempotent_records_are_stored_once_and_in_order(stage: Stage) -> None:
    topic = stage.topic(partitions=3)
    outgoing = [Outgoing(value=b"%06d" % index, partition=index % 3) for index in range(6_000)]

    places = stage.producer(idempotent=True).send(topic, outgoing)

    records = stage.read(topic, 6_000, partitions=3)
    assert [(index % 3, index // 3) for index in range(6_000)] == places
    for partition in range(3):
        values = [record.value for record in records if record.partition == partition]
        assert [b"%06d" % index for index in range(partition, 6_000, 3)] == values


@case
def a_retry_of_what_was_stored_is_stored_once(stage: Stage) -> None:
    """
    The broker is suspended until the client has timed out and sent everything again on a new connection.
    When it resumes, it receives both attempts and must recognize the duplicates.
    """
    stored_once_after_a_retry(stage, stage.topic())


def stored_once_after_a_retry(stage: Stage, topic: str, headers: Headers = ()) -> None:
    if stage.broker_pid is None:
        pytest.skip("the broker's process id is not known (TIDEMILL_TEST_BROKER_PID)")
    producer = stage.producer(idempotent=True, request_timeout_ms=1_000)
    producer.send(topic, [Outgoing(value=b"before", partition=0)])
    waker = subprocess.Popen(["sh", "-c", f"sleep 2.5; kill -CONT {stage.broker_pid}"])

    os.kill(stage.broker_pid, signal.SIGSTOP)
    try:
        sent = [Outgoing(value=b"%d" % index, partition=0, headers=headers) for index in range(100)]
        places = producer.send(topic, sent)
    finally:
        waker.wait()

    values = [record.value for record in stage.read(topic, 101)]
    assert [(0, offset) for offset in range(1, 101)] == places
    assert [b"before", *(b"%d" % index for index in range(100))] == values


# ---- groups ------------------------------------------------------------------------------------------------------


@case
def a_group_commits_and_resumes(stage: Stage) -> None:
    resumes_where_it_committed(stage, stage.topic())


def resumes_where_it_committed(stage: Stage, topic: str, headers: Headers = ()) -> None:
    group = f"{stage.name}-group"
    stage.send(topic, [Outgoing(value=b"%d" % index, partition=0, headers=headers) for index in range(20)])
    first = stage.consumer(group)
    first.subscribe([topic])
    stage.take(first, 20)
    first.commit({(topic, 0): 12})
    stage.leave(first)

    second = stage.consumer(group)
    second.subscribe([topic])
    with stage.still():  # if LeaveGroup is lost, the session must time out; a new coordinator would renew it
        records = stage.take(second, 8)

    assert list(range(12, 20)) == [record.offset for record in records]
    assert second.committed((topic, 0)) == 12


@case
def nothing_committed_is_none(stage: Stage) -> None:
    topic = stage.topic()

    consumer = stage.consumer(f"{stage.name}-group")
    consumer.assign({(topic, 0): 0})

    assert consumer.committed((topic, 0)) is None


@case
def a_member_that_joins_and_one_that_leaves_move_partitions(stage: Stage) -> None:
    topic = stage.topic(partitions=4)
    group = f"{stage.name}-group"
    whole = {(topic, partition) for partition in range(4)}
    first, second = stage.consumer(group), stage.consumer(group)
    first.subscribe([topic])
    stage.assign_until([first], lambda held: held == [whole], "the first member has all")

    second.subscribe([topic])
    stage.assign_until([first, second], split_evenly(topic, 4), "two members share")
    stage.leave(first)
    with stage.still():  # if LeaveGroup is lost, the session must time out; a new coordinator would renew it
        stage.assign_until([second], lambda held: held == [whole], "the remaining member has all")

    values = [b"%d" % index for index in range(40)]
    stage.send(topic, [Outgoing(value=value, partition=index % 4) for index, value in enumerate(values)])
    assert sorted(values) == sorted(record.value or b"" for record in stage.take(second, 40))


@case
def a_member_that_dies_is_replaced_after_its_session(stage: Stage) -> None:
    topic = stage.topic(partitions=2)
    group = f"{stage.name}-group"
    whole = {(topic, 0), (topic, 1)}
    survivor = stage.consumer(group)
    survivor.subscribe([topic])
    stage.assign_until([survivor], lambda held: held == [whole], "the first member has all")
    doomed = stage.member_process(group, topic)
    stage.assign_until([survivor], lambda held: len(held[0]) == 1, "two members share")

    doomed.kill()

    with stage.still():  # a new coordinator would renew every session, as in Kafka
        stage.assign_until([survivor], lambda held: held == [whole], "the dead member's partition is taken over")


@case
def a_group_reads_every_record_once_through_a_rebalance(stage: Stage) -> None:
    topic = stage.topic(partitions=4)
    group = f"{stage.name}-group"
    values = {b"%d" % index for index in range(400)}
    producer = stage.producer()
    first = stage.consumer(group)
    first.subscribe([topic])
    seen: list[bytes | None] = []
    producer.send(topic, [Outgoing(value=b"%d" % index, partition=index % 4) for index in range(200)])
    for record in stage.take(first, 200):
        seen.append(record.value)
    first.commit({(topic, partition): 50 for partition in range(4)})
    second = stage.consumer(group)
    second.subscribe([topic])
    stage.assign_until([first, second], split_evenly(topic, 4), "two members share")

    producer.send(topic, [Outgoing(value=b"%d" % index, partition=index % 4) for index in range(200, 400)])

    def all_came() -> bool:
        for consumer in (first, second):
            seen.extend(record.value for record in consumer.poll(0.05))
        return len(seen) >= 400

    stage.until(all_came, "all records came")
    assert values == set(seen)
    assert len(values) == len(seen)


@case
def a_static_member_comes_back_to_its_own_partitions(stage: Stage) -> None:
    """
    A static member that leaves and returns within its session timeout causes no rebalance (KIP-345).
    """
    topic = stage.topic(partitions=4)
    group = f"{stage.name}-group"
    first, second = (stage.consumer(group, instance_id=f"member-{index}") for index in (1, 2))
    first.subscribe([topic])
    second.subscribe([topic])
    stage.assign_until([first, second], split_evenly(topic, 4), "two members share")
    held = [first.assignment(), second.assignment()]

    stage.leave(first)
    again = stage.consumer(group, instance_id="member-1")
    again.subscribe([topic])
    stage.assign_until([again, second], lambda now: now[0] != set(), "the member is back")

    assert held == [again.assignment(), second.assignment()]


@case
def groups_are_listed_and_described(stage: Stage) -> None:
    topic = stage.topic()
    group = f"{stage.name}-group"
    member = stage.consumer(group)
    member.subscribe([topic])
    stage.assign_until([member], lambda held: held == [{(topic, 0)}], "the member has its partition")
    member.commit({(topic, 0): 0})

    stage.until(
        lambda: stage.client.describe_group(group) == GroupDescription(state="stable", member_count=1),
        "the group is described",
    )
    # Each broker lists only the groups that it coordinates, so a group may be missing while its coordinator moves.
    stage.until(lambda: group in stage.client.groups(), "the group is listed")
    stage.leave(member)
    with stage.still():  # if LeaveGroup is lost, the session must time out; a new coordinator would renew it
        stage.until(lambda: stage.client.describe_group(group).state == "empty", "the group is empty")


@case
def an_empty_group_is_deleted(stage: Stage) -> None:
    topic = stage.topic()
    group = f"{stage.name}-group"
    member = stage.consumer(group)
    member.assign({(topic, 0): 0})
    member.commit({(topic, 0): 0})
    stage.leave(member)

    delete_empty_group(stage, group)

    assert group not in stage.client.groups()
    assert stage.refusal(lambda: stage.client.delete_group(group)) == GROUP_ID_NOT_FOUND


def delete_empty_group(stage: Stage, group: str) -> None:
    """Delete a group; while coordinators move, accept GROUP_ID_NOT_FOUND, which a retry gets if the first response was
    lost.
    """
    try:
        stage.client.delete_group(group)
    except Refused as refused:
        if stage.replicas == 1 or refused.code != GROUP_ID_NOT_FOUND:
            raise


@case
def a_group_with_members_is_not_deleted(stage: Stage) -> None:
    topic = stage.topic()
    group = f"{stage.name}-group"
    member = stage.consumer(group)
    member.subscribe([topic])
    stage.assign_until([member], lambda held: held == [{(topic, 0)}], "the member has its partition")

    code = stage.refusal(lambda: stage.client.delete_group(group))

    assert code == NON_EMPTY_GROUP


# ---- administration ----------------------------------------------------------------------------------------------


@case
def a_topic_is_created_listed_and_deleted(stage: Stage) -> None:
    topic = stage.topic(partitions=5)
    counted = stage.client.topics()[topic]

    stage.client.delete_topic(topic)

    assert counted == 5
    stage.until(lambda: topic not in stage.client.topics(), "the topic is gone")


@case
def a_topic_that_comes_again_is_a_new_one(stage: Stage) -> None:
    topic = stage.topic()
    stage.send(topic, [Outgoing(value=b"old", partition=0)] * 3)
    stage.client.delete_topic(topic)
    stage.until(lambda: topic not in stage.client.topics(), "the topic is gone")

    stage.until(lambda: created_again(stage.client, topic), "the name is free again")
    stage.until(lambda: stage.client.topics().get(topic) == 1, "the topic appears")
    stage.send(topic, [Outgoing(value=b"new", partition=0)])

    assert everything(stage.read(topic, 1)) == [(0, None, b"new")]


def created_again(client: Client, topic: str) -> bool:
    try:
        client.create_topic(topic, 1, {})
    except Refused as no:
        if no.code != TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


@case
def configs_are_described_and_altered(stage: Stage) -> None:
    topic = stage.topic(retention_ms="60000")
    before = stage.client.topic_configs(topic)

    stage.client.alter_topic_config(topic, "retention.ms", "120000")

    described = {key: before[key] for key in ("retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes")}
    assert described == {
        "retention.ms": "60000",
        "cleanup.policy": "delete",
        "segment.bytes": "1073741824",
        "max.message.bytes": "1048588",
    }
    stage.until(lambda: stage.client.topic_configs(topic)["retention.ms"] == "120000", "the new value is described")


@case
def a_senseless_alteration_is_refused_and_changes_nothing(stage: Stage) -> None:
    topic = stage.topic(retention_ms="60000")

    code = stage.refusal(lambda: stage.client.alter_topic_config(topic, "retention.ms", "soon"))

    assert code == INVALID_CONFIG
    assert stage.client.topic_configs(topic)["retention.ms"] == "60000"


@case
def partitions_are_added_and_never_taken(stage: Stage) -> None:
    topic = stage.topic(partitions=2)
    stage.send(topic, [Outgoing(value=b"kept", partition=1)])

    stage.client.create_partitions(topic, 4)

    # As in Kafka, the broker that answers may have older metadata than the broker that created the partitions.
    stage.until(lambda: stage.client.topics().get(topic) == 4, "four partitions appear")
    assert stage.refusal(lambda: stage.client.create_partitions(topic, 3)) == INVALID_PARTITIONS
    stage.send(topic, [Outgoing(value=b"new", partition=3)])
    assert {(1, b"kept"), (3, b"new")} == {(each.partition, each.value) for each in stage.read(topic, 2, partitions=4)}


# ---- retention ---------------------------------------------------------------------------------------------------


@case
def records_of_2013_go_by_default_and_stay_without_retention(stage: Stage) -> None:
    """
    Retention depends on the timestamps of records, not on the time at which a file was written.
    """
    interval_ms = int(stage.client.broker_configs()["log.retention.check.interval.ms"])
    if interval_ms > 2_000:
        pytest.skip(f"the broker checks for expired segments only every {interval_ms} ms")
    topics = {
        "default": stage.topic(segment_bytes="1048576"),
        "without": stage.topic(segment_bytes="1048576", retention_ms="-1"),
    }
    producer = stage.producer()
    for topic in topics.values():
        for _ in range(3):
            lot = [Outgoing(value=os.urandom(100_000), partition=0, timestamp=JUNE_2013) for _ in range(9)]
            producer.send(topic, lot)
    consumer = stage.consumer()

    stage.until(lambda: consumer.bounds((topics["default"], 0)) == (27, 27), "the old segments are deleted")

    assert consumer.bounds((topics["without"], 0)) == (0, 27)
    producer.send(topics["default"], [Outgoing(value=b"young", partition=0)])
    assert everything(stage.read(topics["default"], 1, start=27)) == [(27, None, b"young")]


@case
def share_consumers_divide_the_records_of_a_partition(stage: Stage) -> None:
    """
    The members of a share group read the same partition.  Each record is accepted once, unless its leader moves between
    delivery and acknowledgement.
    """
    topic = stage.topic()
    values = [b"%d" % index for index in range(300)]
    consumers = [stage.share_consumer(f"{stage.name}-share", topic) for _ in range(2)]
    accepted: list[bytes | None] = []
    sent: list[bytes] = []

    def accept(record: Delivered) -> Acknowledgement:
        accepted.append(record.value)
        return Acknowledgement.ACCEPT

    def send_more(_: list[Delivered]) -> bool:
        part = values[len(sent) : len(sent) + 20]
        if part:  # in parts, so that both members get some
            stage.send(topic, [Outgoing(value=value, partition=0) for value in part])
            sent.extend(part)
        return set(accepted) == set(values)

    confirmed = stage.share(consumers, send_more, accept)

    if stage.replicas == 1:
        assert sorted(values) == sorted(record.value or b"" for record in confirmed)
        assert {1} == {record.delivery_count for record in confirmed}


@case
def a_released_record_is_delivered_again_and_a_rejected_one_is_not(stage: Stage) -> None:
    topic = stage.topic()
    consumer = stage.share_consumer(f"{stage.name}-share", topic)
    stage.send(topic, [Outgoing(value=value, partition=0) for value in (b"good", b"later", b"bad")])
    deliveries: list[tuple[bytes | None, int]] = []

    def decide(record: Delivered) -> Acknowledgement:
        deliveries.append((record.value, record.delivery_count))
        if record.value == b"bad":
            return Acknowledgement.REJECT
        return (
            Acknowledgement.RELEASE
            if (record.value, record.delivery_count) == (b"later", 1)
            else Acknowledgement.ACCEPT
        )

    stage.share([consumer], lambda _: (b"later", 2) in deliveries, decide)

    later = consumer.poll(1.0)
    if stage.replicas == 1:
        assert [] == later
        assert [(b"good", 1), (b"later", 1), (b"bad", 1), (b"later", 2)] == deliveries


@case
def records_of_a_share_consumer_that_leaves_go_to_another(stage: Stage) -> None:
    topic = stage.topic()
    group = f"{stage.name}-share"
    first = stage.share_consumer(group, topic)
    stage.send(topic, [Outgoing(value=b"%d" % index, partition=0) for index in range(10)])
    held: list[Delivered] = []
    with stage.still():

        def are_held() -> bool:
            held.extend(first.poll(0.1))
            return bool(held)

        stage.until(are_held, "the first member holds records")
        stage.leave(first)
        second = stage.share_consumer(group, topic)
        confirmed = stage.share(
            [second], lambda confirmed: len({it.value for it in confirmed}) == 10, lambda _: Acknowledgement.ACCEPT
        )

    assert {record.value for record in held} <= {record.value for record in confirmed}
