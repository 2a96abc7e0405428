"""A timer topic may be deleted while a job reads what waits in it: the result is dropped, and the broker goes on."""

from collections.abc import Callable

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.timers.timer_topic import TOPIC, arrivals, create, delay, led, named, send, timers, topic_id
from tidemill.broker.shards import ready_loop
from tidemill.broker.timers import draining
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.peer import timer_list
from tidemill.storage.disk import Disk, File
from tidemill.storage.partition.segment import Segment

OTHER = "others"

Case = Callable[[pytest.MonkeyPatch], BrokerWorld]


def waiting_world(monkeypatch: pytest.MonkeyPatch, *, batches: int = 1) -> BrokerWorld:
    """Return a world in which records wait in files, so that each read of them is a job.  Others have been released."""
    monkeypatch.setattr(ready_loop, "CHECKPOINT_MS", 500)
    world = BrokerWorld()
    world.create(OTHER)
    create(world, internal_segment_bytes="3000")
    for at in range(batches):
        send(world, *[(bytes(200), delay(10))] * 9, (b"%d" % at, named(f"t{at}", delay("10s"))))
    for _ in range(4):
        world.pass_time(250)
    arrivals(world).log.tail.clear()
    world.disk.reads_cached = False
    world.reads = False
    return world


def restoring(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    world = waiting_world(monkeypatch).restarted(reads=False)
    world.pass_time(250)
    arrivals(world).log.tail.clear()
    assert not timers(world).is_restored and world.read_jobs.unreported
    return world


def releasing(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    world = waiting_world(monkeypatch)
    world.broker.timers._room.left = 0  # nothing is read ahead
    world.pass_time(10_000)
    assert led(world)._is_reading
    return world


def reading_ahead(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    world = waiting_world(monkeypatch)
    world.pass_time(8_000)
    assert led(world)._ahead._is_reading
    return world


def moving(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    world = waiting_world(monkeypatch, batches=10)
    monkeypatch.setattr(draining, "SPARE_BYTES", 0)
    monkeypatch.setattr(draining, "SOON_MS", 100)
    world.pass_time(250)
    assert led(world)._draining._is_busy
    return world


def delete(world: BrokerWorld) -> None:
    """Delete the timer topic, and remove its files."""
    directory = arrivals(world).log.directory
    world.broker.controller.submit(DeleteTopics(topics=(TOPIC,)))
    world.stabilize()
    assert world.broker.shard_table.partition(TOPIC, 0) is None
    assert not world.disk.exists(directory)


def delete_during_the_next_read(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete the topic when a reader thread has taken the file of a segment, and before it reads."""
    opened = Segment.opened

    def then_deleted(segment: Segment, disk: Disk) -> File:
        file = opened(segment, disk)
        if ".arrivals" in segment.path:
            monkeypatch.setattr(Segment, "opened", opened)
            world.reads = False
            delete(world)
            world.reads = True
        return file

    monkeypatch.setattr(Segment, "opened", then_deleted)
    world.reads = True
    world.stabilize()
    assert Segment.opened is opened, "no job has read the arrivals"


def delete_before_the_next_read(world: BrokerWorld, _: pytest.MonkeyPatch) -> None:
    delete(world)
    world.reads = True
    world.stabilize()


@pytest.mark.parametrize("deleted", [delete_during_the_next_read, delete_before_the_next_read])
@pytest.mark.parametrize("begun", [restoring, releasing, reading_ahead, moving])
def test_a_job_of_a_deleted_topic_has_no_effect(
    begun: Case, deleted: Callable[[BrokerWorld, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no damage that its files are gone, and nothing is tried again."""
    world = begun(monkeypatch)
    events = len(world.events)

    deleted(world, monkeypatch)
    for _ in range(10):
        world.pass_time(1_000)

    assert not [it for it in world.events[events:] if "error" in it.lower() or "damaged" in it]
    assert 0 == world.read_jobs.unreported
    assert errors.NONE == world.produce(OTHER, b"still here").error_code


@pytest.mark.parametrize("deleted", [delete_during_the_next_read, delete_before_the_next_read])
def test_a_list_of_a_deleted_topic_is_refused(
    deleted: Callable[[BrokerWorld, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client may ask again, and learns then that the topic is gone."""
    world = waiting_world(monkeypatch)
    request = timer_list.Request(topic_id=topic_id(world), partition=0, max_records=10)
    sent = world.client.send(request, 0)
    while world.step():
        pass

    deleted(world, monkeypatch)
    first, again = world.client.answer(*sent), world.ask(request, 0)

    assert errors.KAFKA_STORAGE_ERROR == first.error_code
    assert errors.UNKNOWN_TOPIC_ID == again.error_code
