"""The ready loop writes queued rows, makes progress with background work, and can always be stopped."""

import pytest

from tests.unit.broker.broker_world import OPTIONS, BrokerWorld, Client
from tests.unit.broker.connection.test_kafka_connection import produce_of
from tidemill.broker.shards.ready_loop import CHECKPOINT_MS, IDLE_MS, SYNC_MS_MAX, WRITE_BACK_BYTES
from tidemill.model import errors
from tidemill.storage.journal.block import Block
from tidemill.storage.journal.journal import Journal


def idle_world() -> BrokerWorld:
    """Return a broker on which everything is durable, confirmed and contained in a checkpoint."""
    world = BrokerWorld()
    world.create("flights")
    world.pass_time(IDLE_MS)
    world.pass_time(CHECKPOINT_MS)
    store = world.broker.store
    assert store.is_quiescent and not store.can_checkpoint
    return world


def test_a_checkpoint_begins_in_time_although_a_block_is_always_in_flight() -> None:
    """
    A checkpoint begins when it is due, even if a block is in flight at every tick, as under load.  Checkpoints limit
    how much a restart must read and how many files are open.
    """
    world = idle_world()
    Client(world).send(produce_of(10), 9)
    while not world.journal_jobs.unreported and world.turns.turn():
        pass
    world.clock.now_ms += CHECKPOINT_MS

    world.broker.tick()

    assert world.broker.store.is_checkpointing


@pytest.mark.parametrize(("queued_blocks", "in_flight"), [(0.5, 1), (1.5, 1), (2.5, 2), (6.5, 2)])
def test_a_full_block_follows_the_one_in_flight_at_once(queued_blocks: float, in_flight: int) -> None:
    """
    If a full block is queued while another one is in flight, it is submitted at once, so that the journal thread does
    not wait for the event loop.  A block that is not full waits and grows.
    """
    world = idle_world()
    block_bytes = world.broker.store.options.block_bytes_max // 8
    world.broker.store.blocks.block_bytes_max = block_bytes
    for _ in range(int(queued_blocks * 8)):
        Client(world).send(produce_of(block_bytes // 8), 9)
    while world.turns.turn():
        pass

    assert in_flight == world.journal_jobs.unreported

    world.stabilize()
    assert not world.broker.store.has_pending


def test_a_response_does_not_wait_for_the_write_back() -> None:
    """
    The journal makes the batch durable.  Its bytes are written back together with later blocks, and are read from
    memory in the meantime.
    """
    world = idle_world()
    log = world.partition("flights").log

    answered = world.produce("flights", b"x")

    assert (errors.NONE, 0) == (answered.error_code, log.segments[0].written)
    assert [b"x"] == [record.value for record in world.read("flights")]
    world.pass_time(1)
    assert log.segments[0].size == log.segments[0].written


def test_many_written_blocks_are_written_back_at_once() -> None:
    """
    Once enough blocks have been written to the journal, they are written back without waiting for the next tick, so the
    memory that they occupy is bounded.
    """
    world = idle_world()
    log = world.partition("flights").log
    while not log.segments or log.segments[0].size <= WRITE_BACK_BYTES:
        world.produce("flights", b"x" * 100_000)

    assert log.segments[0].written > 0


def test_a_broker_that_mostly_follows_writes_back_twice_as_much_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = idle_world()
    store = world.broker.store
    asked: list[int] = []
    monkeypatch.setattr(store, "next_write_back", asked.append)

    for store.write_back.mostly_follower_writes in (False, True):
        world.produce("flights", b"x")

    assert {WRITE_BACK_BYTES, 2 * WRITE_BACK_BYTES} == {*asked}


def fill_ring(world: BrokerWorld) -> None:
    """Fill the ring without letting any checkpoint step complete."""
    client = Client(world)
    while not world.broker.store.is_journal_full:
        client.send(produce_of(100_000), 9)
        while world.turns.turn() or world.journal_jobs.step() or world.write_back_jobs.step():
            pass


def test_a_hanging_checkpoint_with_a_full_ring_counts_as_a_hanging_disk() -> None:
    """
    While a checkpoint hangs and the ring is full, no new row can become durable.  This counts as a hanging disk,
    although no block is in flight.
    """
    world = idle_world()
    loop = world.broker.ready_loop
    fill_ring(world)
    before = loop.is_syncing
    for _ in range(SYNC_MS_MAX // 250 + 1):
        world.clock.now_ms += 250
        world.broker.tick()
    hanging = loop.is_syncing

    world.stabilize()

    assert (True, False, True) == (before, hanging, loop.is_syncing)
    assert not world.broker.store.has_pending


def test_a_stalled_process_does_not_count_its_disk_as_hanging() -> None:
    """
    After a stall, a tick may come before the report of a sync that ended long ago.  If this counted as a hanging disk,
    a stall of all brokers would make all of them step down.
    """
    world = idle_world()
    Client(world).send(produce_of(10), 9)
    while world.turns.turn():
        pass
    world.clock.now_ms += 10 * SYNC_MS_MAX
    world.broker.tick()
    starved = world.broker.ready_loop.is_syncing
    for _ in range(SYNC_MS_MAX // 250 + 1):
        world.clock.now_ms += 250
        world.broker.tick()

    assert (True, False) == (starved, world.broker.ready_loop.is_syncing)


def test_a_failed_checkpoint_with_a_full_ring_does_not_stop_a_broker_from_leading() -> None:
    """
    A broker whose checkpoints fail because its disk is full may still lead: the disks of the other brokers may be full,
    too, and some broker must lead so that topics can be deleted.
    """
    world = idle_world()
    fill_ring(world)
    world.disk.free_bytes, world.disk.full_writes_part = 0, False
    world.stabilize()
    for _ in range(SYNC_MS_MAX // 250 + 1):
        world.clock.now_ms += 250
        world.broker.stall_tolerant_clock.tick()

    assert world.broker.store.is_journal_full
    assert world.broker.ready_loop.is_syncing


def test_a_stop_ends_although_an_empty_turn_was_scheduled() -> None:
    """
    A tick always schedules a turn of the ready loop, even if there is nothing to do.  A stop that begins before that
    turn ends nevertheless.
    """
    world = idle_world()
    stopped: list[bool] = []
    world.broker.ready_loop.wake()

    world.broker.ready_loop.begin_stop()
    world.broker.ready_loop.when_idle(lambda: stopped.append(True))
    world.stabilize()

    assert [True] == stopped


def test_a_stop_ends_although_the_disk_is_full() -> None:
    """
    A stop ends even if the disk is full and the last checkpoint fails: the journal has all rows, and the next start
    will read them.
    """
    world = idle_world()
    world.disk.free_bytes, world.disk.full_writes_part = 0, False
    assert errors.NONE == world.produce("flights", b"x" * 10_000).error_code
    stopped: list[bool] = []
    world.broker.ready_loop.begin_stop()
    world.broker.ready_loop.when_idle(lambda: stopped.append(True))
    while world.turns.turn() or world.journal_jobs.step() or world.write_back_jobs.step():
        pass  # the journal and write-back threads are faster than the background thread

    world.stabilize()

    assert [True] == stopped


def test_a_stop_confirms_the_block_in_flight() -> None:
    """
    Rule J5: if the block were not confirmed, damage in it would look like a torn tail at the next start and would be
    cut.
    """
    world = idle_world()
    Client(world).send(produce_of(10), 9)
    while not world.journal_jobs.unreported and world.turns.turn():
        pass
    stopped: list[bool] = []

    world.broker.ready_loop.begin_stop()
    world.broker.ready_loop.when_idle(lambda: stopped.append(world.broker.store.is_quiescent))
    world.stabilize()

    assert [True] == stopped


def test_a_stopping_broker_appends_nothing() -> None:
    """
    A broker that is stopping refuses batches.  Their outcome would always be unknown, so a producer would send each
    batch again, and each attempt might be appended.
    """
    world = BrokerWorld(options=OPTIONS)
    world.create("flights")

    world.broker.shard_table.stop()
    code = world.produce("flights", b"x").error_code

    assert (errors.NOT_LEADER_OR_FOLLOWER, 0) == (code, world.partition("flights").log.end_offset)


def test_the_time_of_each_sync_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The time is measured on the journal thread, from before the write until after the sync.
    """
    world = idle_world()
    durations = world.broker.metrics.journal_sync_seconds
    before = sum(durations.counts), durations.sum
    write = Block.write

    def slow_write(block: Block, journal: Journal) -> None:
        write(block, journal)
        world.clock.now_ms += 30

    monkeypatch.setattr(Block, "write", slow_write)
    world.produce("flights", b"value")

    assert (before[0] + 1, before[1] + 30_000) == (sum(durations.counts), durations.sum)
