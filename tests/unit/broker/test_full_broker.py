"""While its disk and journal are full, a broker votes but does not lead, because its own entries could not become
durable on it.
"""

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model import errors

BALANCE_S = 20
BATCH = bytes(60_000)


def fill_journal(world: ClusterWorld, number: int) -> None:
    """Fill the journal of a broker with entries of a shard that another broker leads."""
    store = world[number].broker.store
    world[number].disk.free_bytes = 0
    world.pass_time(7_000)  # meanwhile the broker transfers its leaderships to others
    for _ in range(100):
        if store.is_journal_full:
            return
        leader = world.led_by("hot")
        if leader not in (0, number):
            assert errors.NONE == world[leader].produce("hot", BATCH).error_code
        world.pass_time(50)
    raise AssertionError("its journal did not fill")


def test_no_leadership_is_transferred_to_a_broker_with_a_full_disk() -> None:
    """
    A broker with a full disk would refuse every write, so leadership is not transferred to it even if it is the
    preferred leader.
    """
    world = ClusterWorld(static={"leader.imbalance.check.interval.seconds": str(BALANCE_S)})
    world.create("idle", brokers=(3, 1, 2))
    world[3].disk.free_bytes = 0
    world.pass_time(7_000)

    codes = set()
    for _ in range(3 * BALANCE_S):
        world.pass_time(1_000)
        codes.add(world[world.led_by("idle")].produce("idle", b"x").error_code)

    assert {errors.NONE} == codes
    world[3].disk.free_bytes = None
    world.pass_time(2 * BALANCE_S * 1_000)
    assert 3 == world.led_by("idle")


def test_a_broker_with_a_full_journal_gives_up_leadership() -> None:
    """
    The broker is the preferred leader of a shard, and the other brokers could commit its entries.  But it could not
    serve those entries, because they would not be on its own disk.
    """
    world = ClusterWorld(static={"leader.imbalance.check.interval.seconds": str(BALANCE_S)})
    world.create("hot", brokers=(1, 2, 3))
    world.create("idle", brokers=(3, 1, 2))
    fill_journal(world, 3)
    led = []

    for _ in range(2 * BALANCE_S // 5):
        world.pass_time(5_000)
        led.append(world.led_by("idle"))

    assert 3 not in led
    assert led[-1] in (1, 2)
    world[3].disk.free_bytes = None
    world.pass_time(2 * BALANCE_S * 1_000)
    assert 3 == world.led_by("idle")


def test_a_controller_with_a_full_journal_gives_up_leadership() -> None:
    """
    A controller with a full journal gives up leadership: while it cannot append, no topic can be deleted to make room.
    """
    world = ClusterWorld(static={"leader.imbalance.check.interval.seconds": str(BALANCE_S)})
    world.create("hot", brokers=(2, 3, 1))
    fill_journal(world, 1)

    world.pass_time(2 * BALANCE_S * 1_000)

    assert [1] == [sum(node.broker.controller.leads for node in world.nodes)]
    assert not world[1].broker.controller.leads
