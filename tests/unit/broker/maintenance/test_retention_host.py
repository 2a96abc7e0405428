"""The broker removes expired records."""

from tests.unit.broker.broker_world import BEGIN_MS, BrokerWorld
from tidemill.storage import paths
from tidemill.storage.partition.retention import segment_ages

INTERVAL_MS = 300_000
SUMMER_OF_2013_MS = 1_372_000_000_000
DAY_MS = 86_400_000


def world_with_days(days: int, **settings: str) -> BrokerWorld:
    """Return a broker with one record for each day of a summer, each in its own segment."""
    world = BrokerWorld()
    world.create("flights", internal_segment_bytes="1", **settings)
    for day in range(days):
        world.produce("flights", b"left", timestamp_ms=SUMMER_OF_2013_MS + day * DAY_MS)
    return world


def segment_files(world: BrokerWorld) -> list[str]:
    log = world.partition("flights").log
    return [name for name in world.disk.list(paths.partition_directory(log.topic_id, 0)) if name.endswith(".log")]


def test_records_of_2013_expire_by_default() -> None:
    """
    Records whose timestamps are older than seven days expire, no matter when they were produced: the log start moves,
    and their files are removed.
    """
    world = world_with_days(3)

    world.pass_time(INTERVAL_MS)

    assert (3, 3, []) == (
        world.partition("flights").log_start,
        world.partition("flights").high_watermark,
        segment_files(world),
    )


def test_records_of_2013_stay_without_retention() -> None:
    """
    With retention.ms=-1, old records do not expire.
    """
    world = world_with_days(3, retention_ms="-1")

    world.pass_time(10 * INTERVAL_MS)

    assert (0, 3) == (world.partition("flights").log_start, len(segment_files(world)))


def test_an_expired_active_segment_is_rolled_first() -> None:
    """
    If the segment to which records are appended expires, later records go into a new one, and survive a kill.
    """
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"old", timestamp_ms=SUMMER_OF_2013_MS)

    world.pass_time(INTERVAL_MS)
    world.produce("flights", b"new")

    again = world.restarted()
    assert [(1, [b"new"])] * 2 == [
        (it.partition("flights").log_start, [record.value for record in it.read("flights")]) for it in (world, again)
    ]


def test_a_roll_survives_a_checkpoint_and_a_kill() -> None:
    """
    A new segment has no file until it has records, and recovery does not report this file as missing.
    """
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"old", timestamp_ms=SUMMER_OF_2013_MS)
    world.pass_time(INTERVAL_MS)
    world.pass_time(20_000)  # long enough for a checkpoint

    again = world.restarted()
    again.produce("flights", b"new")

    assert (1, [b"new"]) == (again.partition("flights").log_start, [it.value for it in again.read("flights")])


def test_a_partition_keeps_retention_bytes() -> None:
    """
    The oldest segments are removed as long as the remaining ones have at least retention.bytes.
    """
    world = world_with_days(5, retention_ms="-1", retention_bytes="150")

    world.pass_time(INTERVAL_MS)

    sizes = [segment.size for segment in world.partition("flights").log.segments]
    assert 150 <= sum(sizes) < 150 + sizes[0]
    assert [b"left"] * len(sizes) == [record.value for record in world.read("flights")]


def test_a_changed_setting_is_obeyed_at_the_next_check() -> None:
    """
    The check interval is a setting of the broker, and the retention time a setting of the topic.
    """
    world = BrokerWorld(static={"log.retention.check.interval.ms": "1000", "log.retention.ms": "5000"})
    world.create("flights")
    world.produce("flights", b"x", timestamp_ms=BEGIN_MS)
    starts = []

    for _ in range(3):
        world.pass_time(3_000)
        starts.append(world.partition("flights").log_start)

    assert [0, 1, 1] == starts


def test_a_log_without_segments_has_nothing_that_expires() -> None:
    """
    Its only segment may go while a check of all partitions waits for the newest metadata (simulated seed 4000).
    """
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"old", timestamp_ms=1)
    listed = world.partition("flights").log
    assert 1 == len(segment_ages(listed))

    listed.segments.clear()

    assert [] == segment_ages(listed)


def test_internal_topics_never_expire() -> None:
    """
    Internal topics are bounded by snapshots, not by retention.  After a year, every topic is still known.
    """
    world = BrokerWorld(static={"log.retention.check.interval.ms": "86400000"})
    world.create("flights")

    world.pass_time(365 * DAY_MS)

    assert "flights" in world.restarted().broker.image.topics
