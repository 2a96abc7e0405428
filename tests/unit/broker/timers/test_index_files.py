"""What waits is found through files of the index, too: when many records wait, and after restarts."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    arrivals,
    create,
    delay,
    due_at,
    named,
    resolve,
    send,
    timers,
    values,
)
from tidemill.broker.timers import index_files
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE

HOUR_MS = 3_600_000
COUNT = 200


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    """Return a broker on which many records wait, whose rows were written to files."""
    monkeypatch.setattr(index_files, "FLUSH_BYTES", 1_000)
    world = BrokerWorld()
    create(world)
    due = world.clock.now_ms + HOUR_MS
    for start in range(0, COUNT, 10):
        numbers = range(start, start + 10)
        send(world, *[(b"%d" % at, named(f"t{at}", due_at(due + (at * 37) % COUNT))) for at in numbers])
        world.pass_time(250)
    return world


def files(world: BrokerWorld) -> list[str]:
    return [name for name in world.disk.list(arrivals(world).log.directory) if name.endswith(".due")]


def expected() -> list[bytes]:
    return [b"%d" % at for at in sorted(range(COUNT), key=lambda at: (at * 37 % COUNT, at))]


def pass_hours(world: BrokerWorld, hours: int = 2) -> None:
    for _ in range(hours * 4):
        world.pass_time(HOUR_MS // 4)
    for _ in range(40):
        world.pass_time(50)


def test_rows_leave_memory(world: BrokerWorld) -> None:
    assert files(world)
    assert timers(world).index.unsorted_bytes < 48 * COUNT


def test_records_come_through_files(world: BrokerWorld) -> None:
    """
    In order, each once; then the files are removed.
    """
    pass_hours(world)

    assert expected() == values(world)
    assert [] == files(world)


def test_a_restart_uses_the_files(world: BrokerWorld) -> None:
    """
    The ids of timers are in them, too.
    """
    world.pass_time(20_000)  # a checkpoint
    again = world.restarted()
    again.pass_time(500)
    kept = files(again)

    answer = resolve(again, operation=CANCEL, timer_ids=[b"t7", b"t8", b"t9"])
    pass_hours(again)

    assert kept
    assert 3 == answer.changed
    assert [it for it in expected() if it not in (b"7", b"8", b"9")] == values(again)


@pytest.mark.parametrize("damage", ["lost", "cut", "flipped"])
def test_damaged_files_cost_only_time(world: BrokerWorld, damage: str) -> None:
    world.pass_time(20_000)
    for name in files(world):
        path = f"{arrivals(world).log.directory}/{name}"
        if damage == "lost":
            world.disk.remove(path)
        elif damage == "cut":
            world.disk.open(path).truncate(60)
        else:
            world.disk.open(path).write(70, [b"\xff\xff\xff"])
    again = world.restarted()

    pass_hours(again)

    assert expected() == values(again)


def test_a_file_that_becomes_unreadable_is_replaced(world: BrokerWorld) -> None:
    """
    The leader finds the damage when it reads what is due next, and reads the rows from the log.
    """
    for name in files(world):
        world.disk.open(f"{arrivals(world).log.directory}/{name}").write(70, [b"\xff\xff\xff"])

    pass_hours(world)

    assert expected() == values(world)


def test_new_times_and_files(world: BrokerWorld) -> None:
    now = world.clock.now_ms
    resolve(world, operation=RESCHEDULE, arrivals=[0, 1, 2], due_ms=now + 5_000)
    world.pass_time(6_000)
    first = values(world)
    again = world.restarted()
    pass_hours(again)

    assert [b"0", b"1", b"2"] == first
    assert [*first, *(it for it in expected() if it not in first)] == values(again)


def test_a_full_disk_leaves_rows_in_memory(world: BrokerWorld) -> None:
    world.disk.free_bytes = 300 << 20
    world.pass_time(250)
    world.disk.free_bytes = None
    send(world, (b"more", delay("2h")))

    pass_hours(world, 3)

    assert [*expected(), b"more"] == values(world)


def test_an_install_does_not_use_files_of_other_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A replica that installs a snapshot has its records at other positions; the rows of its files are wrong.
    """
    monkeypatch.setattr(index_files, "FLUSH_BYTES", 500)
    world = ClusterWorld()
    create(world)
    due = world.clock.now_ms + 30_000
    for start in range(0, 60, 10):
        send(world[1], *[(b"%d" % at, due_at(due + at)) for at in range(start, start + 10)])
        world.pass_time(250)
    replica = world[2].shard(TOPIC).replica
    world[1].shard(TOPIC).replica.needs_install(world[2].broker.identity.voter)
    world.pass_time(5_000)
    world.until(lambda: replica.installing is None and timers(world[2]).is_restored, "restored")
    world.lead(TOPIC, by=2)

    assert [] == values(world[2])

    world.pass_time(15_000)
    world.until(lambda: world[2].partition(TOPIC).high_watermark == 60, "released")

    assert [b"%d" % at for at in range(60)] == values(world[2])
