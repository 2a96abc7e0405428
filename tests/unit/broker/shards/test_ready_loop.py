"""What is queued gets written, what runs beside it gets its turn, and a stop comes to its end."""

import pytest

from tests.unit.broker.broker_world import OPTIONS, BrokerWorld, Client
from tests.unit.broker.connection.test_kafka_connection import produce_of
from tidemill.broker.shards.ready_loop import CHECKPOINT_MS, IDLE_MS, SYNC_MS_MAX, WRITE_BACK_BYTES
from tidemill.model import errors


def idle_world() -> BrokerWorld:
    """Everything is durable, told to be so, and in a checkpoint."""
    world = BrokerWorld()
    world.create("flights")
    world.pass_time(IDLE_MS)
    world.pass_time(CHECKPOINT_MS)
    store = world.broker.store
    assert store.is_quiescent and not store.can_checkpoint
    return world


def test_a_checkpoint_comes_in_time_though_a_block_is_always_in_the_air() -> None:
    """
    Under load every tick meets a write; what a restart reads again, and how many files are open, is bounded all the
    same.
    """
    world = idle_world()
    Client(world).send(produce_of(10), 9)
    while not world.journal_jobs.unreported and world.turns.turn():
        pass
    world.clock.now_ms += CHECKPOINT_MS

    world.broker.tick()

    assert world.broker.store.is_checkpointing


@pytest.mark.parametrize(("queued_blocks", "in_flight"), [(0.5, 1), (1.5, 1), (2.5, 2), (6.5, 2)])
def test_a_full_block_follows_the_one_in_the_air_at_once(queued_blocks: float, in_flight: int) -> None:
    """
    Else the journal's thread rests until the loop has heard.  What is less than a block would grow by waiting.
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


def test_an_answer_does_not_wait_until_its_bytes_are_in_the_segment() -> None:
    """
    It owes its durability to the journal; the bytes follow with those of later blocks, and are read from memory
    until then.
    """
    world = idle_world()
    log = world.partition("flights").log

    answered = world.produce("flights", b"x")

    assert (errors.NONE, 0) == (answered.error_code, log.segments[0].written)
    assert [b"x"] == [record.value for record in world.read("flights")]
    world.pass_time(1)
    assert log.segments[0].size == log.segments[0].written


def test_written_blocks_are_spread_when_they_are_many() -> None:
    """
    Memory that waits for a tick is bounded.
    """
    world = idle_world()
    log = world.partition("flights").log
    while not log.segments or log.segments[0].size <= WRITE_BACK_BYTES:
        world.produce("flights", b"x" * 100_000)

    assert log.segments[0].written > 0


def test_who_mostly_follows_spreads_twice_as_much_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = idle_world()
    store = world.broker.store
    asked: list[int] = []
    monkeypatch.setattr(store, "next_write_back", asked.append)

    for store.write_back.mostly_follower_writes in (False, True):
        world.produce("flights", b"x")

    assert {WRITE_BACK_BYTES, 2 * WRITE_BACK_BYTES} == {*asked}


def fill_ring(world: BrokerWorld) -> None:
    """No step of a checkpoint returns meanwhile."""
    client = Client(world)
    while not world.broker.store.is_journal_full:
        client.send(produce_of(100_000), 9)
        while world.turns.turn() or world.journal_jobs.step() or world.write_back_jobs.step():
            pass


def test_a_checkpoint_that_hangs_while_the_ring_is_full_is_a_disk_that_hangs() -> None:
    """
    Nothing is in the air then, and nothing that is handed to the journal becomes durable.
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


def test_a_broker_that_was_given_no_cpu_does_not_take_its_disk_for_one_that_hangs() -> None:
    """
    Its tick may come before it hears that the block was synced long ago; if all were starved, all would be deposed.
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


def test_a_checkpoint_that_fails_while_the_ring_is_full_keeps_nobody_from_office() -> None:
    """
    The disk is full, and does not hang: others may be as full, and somebody must delete.
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


def test_a_stop_ends_though_a_turn_was_scheduled_that_found_nothing() -> None:
    """
    A tick wakes the loop whether there is something or not: the stop may come between the two.
    """
    world = idle_world()
    stopped: list[bool] = []
    world.broker.ready_loop.wake()

    world.broker.ready_loop.begin_stop()
    world.broker.ready_loop.when_idle(lambda: stopped.append(True))
    world.stabilize()

    assert [True] == stopped


def test_a_stop_ends_though_the_disk_is_full() -> None:
    """
    The last checkpoint fails; the journal has everything, and the next start reads it.
    """
    world = idle_world()
    world.disk.free_bytes, world.disk.full_writes_part = 0, False
    assert errors.NONE == world.produce("flights", b"x" * 10_000).error_code
    stopped: list[bool] = []
    world.broker.ready_loop.begin_stop()
    world.broker.ready_loop.when_idle(lambda: stopped.append(True))
    while world.turns.turn() or world.journal_jobs.step() or world.write_back_jobs.step():
        pass  # these are the faster ones

    world.stabilize()

    assert [True] == stopped


def test_a_stop_confirms_the_block_that_was_in_the_air() -> None:
    """
    Rule J5: else rot in it would look like a torn tail at the next start, and be cut.
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


def test_a_broker_that_stops_appends_nothing_more() -> None:
    """
    It could only answer that the outcome is not known: a producer would send the same batch again and again, and each
    would be in the log.
    """
    world = BrokerWorld(options=OPTIONS)
    world.create("flights")

    world.broker.shard_table.stop()
    code = world.produce("flights", b"x").error_code

    assert (errors.NOT_LEADER_OR_FOLLOWER, 0) == (code, world.partition("flights").log.end_offset)
