"""The cluster report: a broker's own view of its cluster."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.controller.healing_world import FIGURES_MS, HealingWorld
from tidemill.app.cluster_report import ClusterReport
from tidemill.metadata.feature_levels import NEWEST, OLDEST
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Presence
from tidemill.model.shard import ShardId
from tidemill.peer.cluster_operation import Operation


def world_and_report() -> tuple[BrokerWorld, ClusterReport]:
    endpoints = (
        Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),
        Endpoint("HTTP", "127.0.0.1", 9080, "PLAINTEXT"),
    )
    world = BrokerWorld(endpoints=endpoints)
    return world, ClusterReport(world.broker)


def test_the_cluster_report_has_counts_and_the_controller() -> None:
    """
    The cluster report contains the numbers of brokers, topics and shards, and the id of the controller.  The topic
    count includes only what `topics list` shows; internal topics are counted separately.
    """
    world, report = world_and_report()
    world.create("flights", partitions=20)

    answer = report.cluster()

    assert world.broker.identity.cluster_id == answer.pop("cluster_id")
    assert 1 <= answer.pop("feature_level")
    topics = {"topics": 1, "internal_topics": 1, "shards": 3}
    assert {"answered_by": 1, "controller": 1, "brokers": 1, "brokers_live": 1} | topics == answer


def test_every_broker_reports_who_is_silent_and_who_is_drained() -> None:
    """The recorded states need no question to the controller; a broker that is just down is not silent yet."""
    world = HealingWorld(4)
    world.pass_time(FIGURES_MS)
    world.command(Operation.DRAIN_LEADERS, 3)
    world.lose(4)
    world.until(lambda: not world[1].broker.cluster.is_up(world[4].broker.broker_id), "it is down")
    down = states(world)
    world.until(lambda: world.presence(4) is Presence.SILENT, "it is silent")
    world.pass_time(500)

    assert [("active", "none")] * 2 + [("active", "leaders"), ("active", "none")] == down
    assert [("active", "none")] * 2 + [("active", "leaders"), ("silent", "none")] == states(world)


def states(world: HealingWorld) -> list[tuple[object, object]]:
    """Return the states of all brokers, as broker 2 reports them."""
    return [(row["presence"], row["drain"]) for row in ClusterReport(world[2].broker).brokers()["brokers"]]


def test_the_broker_report_has_endpoints_and_shard_counts() -> None:
    """The report of a broker contains its endpoints and shard counts.  It is the only report with the HTTP endpoint,
    which `tidemill cluster status` needs.
    """
    world, report = world_and_report()
    world.create("flights", partitions=20)

    answer = report.brokers()

    row = {
        "broker_id": 1,
        "directory_id": world.broker.identity.directory_id.hex(),
        "rack": None,
        "is_registered": True,
        "endpoints": [
            {"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9092},
            {"name": "HTTP", "host": "127.0.0.1", "port": 9080},
        ],
        "is_live": True,
        "presence": "active",
        "drain": "none",
        "feature_level": NEWEST,
        "heartbeat_age_ms": 0,
        "heard_by": 0,
        "silent_ms": None,
        "shards_led": 3,
        "shards_carried": 3,
    }
    assert {"answered_by": 1, "brokers": [row]} == answer


def test_the_broker_report_has_what_each_broker_supports() -> None:
    """
    A live broker tells what it supports itself.  That of a broker that is down is in the metadata, but not below the
    level of elastic clusters: then it is not known.
    """
    older, newer = ClusterWorld(newest_level=OLDEST), ClusterWorld()
    seen = []
    for world, level in ((older, NEWEST), (newer, NEWEST + 1)):
        world.restart(2, newest_level=level)
        seen.append(_supported(world))
        world.cut_off(2)
        world.stopped.add(2)
        world.until(lambda world=world: 2 not in world[1].broker.cluster.live(), "broker 2 is down")  # type: ignore[misc]
        seen.append(_supported(world))

    assert [{1: 1, 2: 2, 3: 1}, {1: 1, 2: None, 3: 1}] == seen[:2]
    assert [{1: 2, 2: 3, 3: 2}, {1: 2, 2: 3, 3: 2}] == seen[2:]


def _supported(world: ClusterWorld) -> dict[int, int | None]:
    return {row["broker_id"]: row["feature_level"] for row in ClusterReport(world[1].broker).brokers()["brokers"]}


def test_the_leader_reports_the_progress_of_the_members() -> None:
    """A leader reports the progress of all members; its own match index is the highest log index on its disk."""
    world, report = world_and_report()
    world.create("flights", partitions=2)
    world.produce("flights", b"a", b"b")

    answer = report.shards(topic="flights", leader=None, after=-1, limit=10)

    assert answer is not None and 1 == len(answer["shards"])
    (row,) = answer["shards"]
    led = row.pop("led_here")
    last = led["last_index"]
    assert sum(it.log.size_bytes for it in world.broker.shard_table.topics["flights"].values()) == led.pop("size_bytes")
    assert {
        "shard_id": 1,
        "topic": "flights",
        "first_partition": 0,
        "partition_count": 2,
        "replicas": [1],
        "leader": 1,
        "term": world.broker.shard_table.shards[ShardId(1)].replica.term,
        "damage": None,
    } == row
    assert {
        "voters": [1],
        "learners": [],
        "commit_index": last,
        "last_index": last,
        "members": [{"broker_id": 1, "is_live": True, "match_index": last, "lag_rows": 0}],
    } == led


def test_the_lag_of_a_follower_is_unknown_until_it_has_acknowledged_rows_in_the_term() -> None:
    """
    A new leader does not know what a broker that is down has on its disk, so it reports the lag as unknown; it must not
    assume an empty disk.
    """
    world = ClusterWorld()
    world.create("flights")
    world.lead("flights", by=1)
    world.until(lambda: lags(world, 1) == {1: 0, 2: 0, 3: 0}, "every follower has acknowledged every row")
    world.cut_off(3)
    world.begin_to_lead("flights", by=2)
    world.until(lambda: lags(world, 2) == {1: 0, 2: 0, 3: None}, "the lag of the broker that is down is unknown")


def lags(world: ClusterWorld, leader: int) -> dict[int, int | None]:
    """Return the lag of each member, as the leader of the topic reports it."""
    answer = ClusterReport(world[leader].broker).shards(topic="flights", leader=leader, after=-1, limit=1)
    assert answer is not None
    members = answer["shards"][0]["led_here"]["members"] if answer["shards"] else ()
    assert all((it["match_index"] is None) == (it["lag_rows"] is None) for it in members)
    return {it["broker_id"]: it["lag_rows"] for it in members}


def test_a_shard_led_elsewhere_is_reported_from_the_leader_table() -> None:
    """A shard that another broker leads is reported with the leader and the term from the leader table, without the
    progress of the members.
    """
    world, report = world_and_report()
    world.create("flights")
    other, shard = ReplicaKey(BrokerId(2), DirectoryId(b"2" * 16)), ShardId(1)
    world.broker.shard_table.shards[shard].stop()
    world.broker.cluster.leaders.apply_report(other, [(shard, 9)], is_whole=True)

    answer = report.shards(topic="flights", leader=2, after=-1, limit=10)

    assert answer is not None
    assert [(2, 9, None)] == [(row["leader"], row["term"], row["led_here"]) for row in answer["shards"]]


def test_pages_are_contiguous() -> None:
    """Each page starts after the last shard of the previous page, and only the last page has no `next_after`."""
    world, report = world_and_report()
    for name in ("a", "b", "c"):
        world.create(name)
    found, after, pages = [], -1, 0
    while True:
        page = report.shards(topic=None, leader=None, after=after, limit=3)
        assert page is not None
        found += [row["shard_id"] for row in page["shards"]]
        pages += 1
        if page["next_after"] is None:
            break
        after = page["next_after"]

    assert (sorted(world.broker.image.shards), 2) == (found, pages)


def test_the_filters_of_the_shard_report() -> None:
    """The report can be filtered by leader and by topic, and the response for an unknown topic differs from that for a
    topic without shards.
    """
    world, report = world_and_report()
    world.create("flights")

    none_led = report.shards(topic=None, leader=7, after=-1, limit=10)

    assert none_led is not None and [] == none_led["shards"] and none_led["next_after"] is None
    assert report.shards(topic="nowhere", leader=None, after=-1, limit=10) is None
