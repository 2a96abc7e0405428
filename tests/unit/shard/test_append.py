"""The append of a batch: checks, stamps, deduplication, and when the producer is answered."""

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.batches.batch import crc_matches, read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.checksum import JOINED_BYTES_MIN, crc32c
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.model.topic_config import TopicConfig, compile_topic_config
from tidemill.raft.entry import BATCH
from tidemill.raft.messages import Message
from tidemill.raft.voters import Membership
from tidemill.shard import lookup
from tidemill.shard import shard as shard_module
from tidemill.shard.append import append_batch, append_own
from tidemill.shard.commit_waiters import CommitWaiters
from tidemill.shard.jobs import Workers
from tidemill.shard.partition import Partition
from tidemill.shard.shard import Shard
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog
from tidemill.storage.recovery import initialize_directory, open_store
from tidemill.storage.store import Store, StoreOptions

WORKERS = Workers(SimulatedJobs(), SimulatedJobs(), lambda error: None)
KEY = b"k" * 16
ME = ReplicaKey(BrokerId(1), DirectoryId(b"d" * 16))
OPTIONS = StoreOptions(journal_first_bytes=1 << 18, journal_file_bytes=1 << 18, journal_bytes_max=1 << 18)
NOW = 1_700_000_000_000


class Alone:
    """The transport and the observer of a shard that has no other members."""

    def is_alive(self, _: ReplicaKey) -> bool:
        return False

    may_lead = is_alive

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        raise AssertionError(f"shard {shard_id} has no other members: {message} to {to}")

    def serving_changed(self, shard: Shard) -> None:
        """Do nothing: the tests do not observe this."""

    def damage_changed(self, shard: Shard) -> None:
        """Do nothing: the tests do not observe this."""

    def membership_changed(self, shard: Shard) -> None: ...


def open_shard(store: Store, log: ShardLog, config: TopicConfig) -> Shard:
    alone = Alone()
    return Shard(
        store,
        log,
        ME,
        "t",
        config,
        wake=lambda: None,
        jitter_ms=lambda: 0,
        transport=alone,
        observer=alone,
        workers=WORKERS,
    )


class Led:
    """A shard with one partition, led by this broker, its only voter; `sync` makes all queued rows durable."""

    def __init__(self, **configs: str) -> None:
        disk = SimulatedDisk()
        initialize_directory(disk, KEY, OPTIONS)
        self.store: Store = open_store(disk, KEY, OPTIONS)[0]
        descriptor = ShardDescriptor(
            topic_id=TopicId(b"t" * 16),
            first_partition=0,
            partition_count=1,
            feature_level=1,
            membership=Membership((ME,)),
        )
        log = self.store.open_shard(ShardId(1), descriptor)
        config = compile_topic_config({key.replace("_", "."): value for key, value in configs.items()})
        self.shard = open_shard(self.store, log, config)
        self.shard.tick(NOW, NOW)
        self.sync()

    @property
    def partition(self) -> Partition:
        return self.shard.partitions[0]

    def sync(self) -> None:
        while (block := self.store.gather()) is not None:
            block.write(self.store.journal)
            for report in self.store.written(block):
                self.shard.advance(report)
            write_back = self.store.next_write_back(0)
            assert write_back is not None
            write_back.execute(self.store.disk)
            self.store.write_back_done(write_back)

    def checkpoint(self) -> None:
        self.store.begin_checkpoint()
        for _ in self.store.checkpoint_steps() or ():
            pass
        self.store.checkpointed()

    def append(self, *, count: int = 1, timestamp: int = NOW, now: int = NOW, value: bytes = b"v", **batch: int) -> Any:
        payload = build_batch([(None, value, (), timestamp)] * count, **batch)  # type: ignore[arg-type]
        return append_batch(self.partition, payload, now)

    def append_of(self, sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 7, now: int = NOW) -> Any:
        return self.append(count=count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, now=now)


@pytest.fixture
def led() -> Callable[..., Led]:
    return Led


def test_offsets_follow_each_other(led: Callable[..., Led]) -> None:
    """
    Each batch gets the offsets directly after those of the previous batch, and the high watermark advances once the
    batches are durable.
    """
    shard = led()

    offsets = [shard.append(count=count).base_offset for count in (1, 3, 2)]

    assert [0, 1, 4] == offsets
    assert (0, 6) == (shard.partition.high_watermark, shard.partition.log.end_offset)
    shard.sync()
    assert 6 == shard.partition.high_watermark


def test_a_retry_returns_the_original_offset_once_that_is_committed(led: Callable[..., Led]) -> None:
    """
    A retry is not acknowledged before the original has committed, because until then the original may still be lost.
    """
    shard = led()
    first = shard.append_of(0, count=2)
    told: list[bool] = []

    retry = shard.append_of(0, count=2)
    shard.shard.when_committed(retry.log_index, told.append)

    assert (errors.NONE, first.base_offset, first.log_index) == retry[:3]
    assert ([], 2) == (told, shard.partition.log.end_offset)
    shard.sync()
    assert [True] == told


def test_a_sequence_gap_is_rejected(led: Callable[..., Led]) -> None:
    """A gap in the sequence is rejected: a batch in between was lost, or has yet to arrive."""
    shard = led()
    shard.append_of(0, count=2)

    assert errors.OUT_OF_ORDER_SEQUENCE_NUMBER == shard.append_of(3).error_code
    assert errors.NONE == shard.append_of(2).error_code


def test_a_new_epoch_begins_at_sequence_zero_and_fences_the_old(led: Callable[..., Led]) -> None:
    """
    A producer with a new epoch must begin at sequence 0 again, and its old epoch is refused from then on (KIP-360).
    """
    shard = led()
    shard.append_of(0)

    assert errors.OUT_OF_ORDER_SEQUENCE_NUMBER == shard.append_of(1, epoch=1).error_code
    assert errors.NONE == shard.append_of(0, epoch=1).error_code
    assert errors.INVALID_PRODUCER_EPOCH == shard.append_of(1, epoch=0).error_code


def test_a_clock_jump_does_not_turn_a_retry_into_a_new_batch(led: Callable[..., Led]) -> None:
    """Deduplication depends on the producer's last batches, not on how old they are."""
    shard = led()
    first = shard.append_of(0)

    retry = shard.append_of(0, now=NOW + 25 * 3_600_000)

    assert (errors.NONE, first.base_offset) == (retry.error_code, retry.base_offset)


@pytest.mark.parametrize("value_bytes", [10, JOINED_BYTES_MIN - 100, JOINED_BYTES_MIN, 200_000])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_the_checksum_of_a_row_matches_its_bytes(
    led: Callable[..., Led], timestamp_type: str, value_bytes: int
) -> None:
    """
    For a large batch, the row's checksum is computed from the batch's own CRC and the stamped bytes, without reading
    the batch again.
    """
    shard = led(message_timestamp_type=timestamp_type)
    shard.append(value=bytes(value_bytes))

    entry = shard.shard.log.entries[-1]

    assert (BATCH, crc32c(entry.payload)) == (entry.kind, entry.checksum())


def test_bytes_that_change_after_the_check_fail_the_checksum_of_their_row(led: Callable[..., Led]) -> None:
    """Memory corruption after the check is found when the row is read, because no new checksum hides it."""
    shard = led()
    shard.append(value=bytes(200_000))
    entry = shard.shard.log.entries[-1]

    entry.payload[-100] ^= 1

    assert crc32c(entry.payload) != entry.checksum()


def test_log_append_time_is_stamped(led: Callable[..., Led]) -> None:
    """
    The batch gets a new CRC, and the response contains the append time.  The response to a retry contains the append
    time of the original.
    """
    shard = led(message_timestamp_type="LogAppendTime")

    appended = shard.append_of(0)
    retry = shard.append_of(0, now=NOW + 5_000)

    assert (NOW, NOW) == (appended.log_append_time, retry.log_append_time)
    found = shard.partition.log.read(0, 1 << 20, 1, may_wait=False)
    assert found is not None
    header = read_header(found[0][0])
    assert (True, NOW, True) == (header.is_log_append_time, header.max_timestamp, crc_matches(found[0][0]))


def test_append_time_never_goes_back(led: Callable[..., Led]) -> None:
    """The append time never goes back, even if the wall clock is set back."""
    shard = led(message_timestamp_type="LogAppendTime")
    shard.append(now=NOW + 1_000)

    assert NOW + 1_000 == shard.append(now=NOW).log_append_time


def test_timestamps_out_of_bounds_are_refused(led: Callable[..., Led]) -> None:
    """
    A batch is refused if its timestamp is too far before or after the broker's time; two keys set these bounds
    (KIP-937).
    """
    shard = led(message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="2000")

    codes = [shard.append(timestamp=NOW + off).error_code for off in (-1_001, -1_000, 2_000, 2_001)]

    assert [errors.INVALID_TIMESTAMP, 0, 0, errors.INVALID_TIMESTAMP] == codes


def test_a_batch_above_the_topics_limit_is_rejected(led: Callable[..., Led]) -> None:
    """The error message for a batch above the topic's limit names the key max.message.bytes."""
    shard = led(max_message_bytes="500")

    appended = shard.append(value=b"v" * 600)

    assert errors.MESSAGE_TOO_LARGE == appended.error_code
    assert "max.message.bytes" in appended.message


def test_a_single_voter_has_no_bound_on_uncommitted_bytes(
    led: Callable[..., Led], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The bound applies to entries that other replicas lack.  On a single voter, a slow disk makes producers wait, but
    causes no rejection.
    """
    monkeypatch.setattr(shard_module, "BYTES_MAX", 100)
    shard = led()

    codes = {shard.append(value=b"v" * 200).error_code for _ in range(3)}

    assert {errors.NONE} == codes


def test_a_batch_that_can_never_fit_into_the_journal_is_rejected(led: Callable[..., Led]) -> None:
    """
    A batch that can never fit into the journal is rejected; in the queue, it would wait forever, and block every later
    row.
    """
    shard = led(max_message_bytes="10000000")

    assert errors.MESSAGE_TOO_LARGE == shard.append(value=b"v" * (1 << 18)).error_code
    assert errors.NONE == shard.append(value=b"v" * (shard.store.batch_bytes_max - 200)).error_code
    shard.checkpoint()
    shard.sync()
    assert 1 == shard.partition.high_watermark


def test_a_transactional_batch_is_rejected(led: Callable[..., Led]) -> None:
    """A transactional batch is rejected with a fatal error, so the client fails immediately instead of retrying."""
    shard = led()
    payload = build_batch(
        [(None, b"v", (), NOW)], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )

    assert errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED == append_batch(shard.partition, payload, NOW).error_code


def test_a_timestamp_is_looked_up_within_a_batch(led: Callable[..., Led]) -> None:
    """A lookup by timestamp returns the offset of the record, not of its batch."""
    shard = led()
    records = [(None, b"v", (), NOW + 10 * number) for number in range(5)]
    for _ in range(2):
        append_batch(shard.partition, build_batch(records), NOW)
    shard.sync()

    found = lookup.first_at_or_after(shard.partition, NOW + 25, 10)
    largest = lookup.with_largest_timestamp(shard.partition, 10)

    assert (3, NOW + 30) == found[:2] if found else None
    assert (4, NOW + 40) == largest[:2] if largest else None
    assert lookup.first_at_or_after(shard.partition, NOW + 41, 10) is None


def test_waiters_wake_in_the_order_of_the_log() -> None:
    """A waiter wakes no earlier than the waiters that were added before it, even if it waits for a lower log index."""
    waiters = CommitWaiters()
    told: list[tuple[str, bool]] = []
    for name, index in (("a", 3), ("b", 2), ("c", 5)):
        waiters.add(index, lambda known, name=name: told.append((name, known)))  # type: ignore[misc]

    waiters.wake(2)
    assert [] == told
    waiters.wake(3)
    assert [("a", True), ("b", True)] == told
    waiters.fail()

    assert [("a", True), ("b", True), ("c", False)] == told
    assert 0 == len(waiters)


def test_a_stopped_shard_reports_an_unknown_outcome(led: Callable[..., Led]) -> None:
    """A stopped shard reports an unknown outcome, not a failure, because the entry may be durable."""
    shard = led()
    appended = shard.append()
    told: list[bool] = []
    shard.shard.when_committed(appended.log_index, told.append)

    shard.shard.stop()

    assert [False] == told


def test_appending_an_own_batch_that_is_too_large_for_the_journal_raises() -> None:
    """
    A broker's own batch that is too large for the journal raises an error; in the queue, it would wait forever, and
    block every later row.
    """
    led = Led()
    batch = build_batch([(None, bytes(led.store.batch_bytes_max), (), NOW)])

    with pytest.raises(ValueError, match="takes"):
        append_own(led.partition, batch, NOW)

    assert (0, False) == (led.partition.log.end_offset, led.store.has_pending)


def test_append_time_does_not_go_back_with_a_new_leader() -> None:
    """
    Append times never go back within a shard, even if the clock was set back between two terms.
    """
    led = Led()
    append_own(led.partition, build_batch([(None, b"x", (), NOW)]), NOW)
    led.sync()

    again = open_shard(led.store, led.shard.log, led.partition.config)
    again.tick(NOW, NOW - 60_000)
    for _ in range(2):
        block = led.store.gather()
        assert block is not None
        block.write(led.store.journal)
        for report in led.store.written(block):
            again.advance(report)

    times = [entry.append_time for entry in led.shard.log.entries]
    assert [NOW] * 3 == times
