"""The view of a cluster that a broker gives the console."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.app.console_view import KEPT_MS, ConsoleView
from tidemill.client.connection_settings import Endpoint as ClientEndpoint
from tidemill.console.cluster_view import LEADERLESS, OK, UNDER_REPLICATED, LocalReplica
from tidemill.metadata.broker_states import SetDrain
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain


def world_and_view() -> tuple[BrokerWorld, ConsoleView]:
    endpoints = (
        Endpoint("PEER", "127.0.0.1", 9070, "PLAINTEXT"),
        Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),
        Endpoint("HTTP", "127.0.0.1", 9080, "PLAINTEXT"),
    )
    world = BrokerWorld(endpoints=endpoints)
    return world, ConsoleView(world.broker)


def test_the_overview_counts_what_the_cluster_has() -> None:
    """
    The overview of a healthy cluster shows the counts and no problems.
    """
    world, view = world_and_view()
    world.create("flights", partitions=20)

    overview = view.overview()

    assert (1, 1, 21, 3) == (overview.topics, overview.internal_topics, overview.partitions, overview.shards)
    assert (1, 1, 1, []) == (overview.seen_by, overview.controller, overview.brokers, overview.brokers_down)
    assert overview.is_whole


def test_a_broker_has_the_addresses_of_its_listeners() -> None:
    """
    A broker is shown with its listeners for clients and for the console, but not with its listener for other brokers.
    """
    _, view = world_and_view()

    (row,) = view.brokers()

    assert (ClientEndpoint("127.0.0.1", 9092), ClientEndpoint("127.0.0.1", 9080)) == (row.kafka, row.http)
    assert (True, True, True, 1, 1, 0) == (
        row.is_up,
        row.is_self,
        row.is_controller,
        row.led,
        row.carried,
        row.heartbeat_age_ms,
    )


def test_a_partition_shows_the_replica_on_this_broker() -> None:
    """
    The offsets and the size of the replica on this broker are known without a request to other brokers.
    """
    world, view = world_and_view()
    world.create("flights", partitions=2)
    world.produce("flights", b"a", b"b")

    rows = view.partitions("flights")

    assert rows is not None
    local = rows[0].local
    assert local is not None and 0 < local.size_bytes
    assert LocalReplica(is_leader=True, start_offset=0, end_offset=2, size_bytes=local.size_bytes) == local
    assert [(0, OK, 1, [1], [1]), (1, OK, 1, [1], [1])] == [
        (row.number, row.state, row.leader, row.replicas, row.in_sync) for row in rows
    ]
    assert view.partitions("missing") is None


def test_settings_that_differ_are_shown_with_their_source() -> None:
    """
    Settings that have their default value are not shown.
    """
    world, view = world_and_view()
    world.create("flights", **{"retention.ms": "5000"})

    settings = view.settings("flights")

    assert [("retention.ms", "5000", "this topic")] == [(it.key, it.value, it.source) for it in settings]
    assert [] == view.settings("missing")


def test_topics_are_sorted_and_internal_ones_are_last() -> None:
    """
    Topics are listed in alphabetical order, and internal topics follow all others.
    """
    world, view = world_and_view()
    world.create("b")
    world.create("a")

    assert ["a", "b", "__tidemill_metadata"] == [row.name for row in view.topics()]


def test_the_problems_of_the_broker_are_in_the_overview(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The overview leaves out problems that the banner shows with the names of brokers or partitions.
    """
    world, view = world_and_view()
    monkeypatch.setattr(world.disk, "free_space", lambda: 1)
    world.broker.tick()

    overview = view.overview()

    assert not overview.is_whole
    assert 1 == overview.problems[0].count and "log.dirs" in overview.problems[0].detail
    assert ["disk_full", "draining"] == [it.name for it in overview.problems]


def test_a_dead_broker_leaves_its_shards_under_replicated() -> None:
    """
    The remaining brokers report which broker is down and which shards have lost a replica.
    """
    world = ClusterWorld()
    world.create("flights", partitions=3)
    world.until(lambda: ConsoleView(world[1].broker).overview().is_whole, "all replicas are in sync")
    view = ConsoleView(world[1].broker)

    world.cut_off(3)
    world.until(lambda: world[1].broker.cluster.live() == {1, 2}, "broker 3 counts as dead")
    world.pass_time(KEPT_MS + 5_000)

    after = view.overview()
    assert [3] == after.brokers_down
    assert {"flights", "__tidemill_metadata"} == {row.topic for row in after.under_replicated}
    assert {UNDER_REPLICATED} == {row.state for row in view.topics()}
    assert [] == after.leaderless == after.problems


def test_an_isolated_broker_knows_no_leaders() -> None:
    """
    An isolated broker shows partitions without a leader, names the brokers that it cannot reach, and reports that it
    has no contact with a majority.
    """
    world = ClusterWorld()
    world.create("flights", partitions=3)
    view = ConsoleView(world[3].broker)

    world.cut_off(3)
    world.until(lambda: world[3].broker.cluster.live() == {3}, "broker 3 is alone")
    world.pass_time(KEPT_MS + 5_000)

    overview = view.overview()
    assert (False, [1, 2]) == (overview.has_quorum_contact, overview.brokers_down)
    assert LEADERLESS in {row.state for row in view.topics()}


def test_the_state_of_shards_is_computed_once_for_the_pages_of_a_second() -> None:
    """
    The state of shards is computed at most once per second and not for every page, because with ten thousand shards
    this would slow the broker down.
    """
    world, view = world_and_view()
    first = view.shards()
    world.create("flights")
    second = view.shards()

    world.pass_time(KEPT_MS)

    assert first is second
    assert ["__tidemill_metadata", "flights"] == [row.topic for row in view.shards()]


def test_a_broker_has_the_state_that_the_metadata_records() -> None:
    """
    Every broker knows it without the controller, and for how long a broker has been silent.
    """
    world = ClusterWorld()
    drained: list[object] = []
    command = SetDrain(broker_id=BrokerId(3), drain=Drain.ALL)
    world.controller.broker.controller.submit(command).then(drained.append)
    world.until(lambda: bool(drained), "broker 3 is drained")
    world.until(lambda: rows(world)[3][:2] == ("active", "all"), "broker 1 knows it")
    assert rows(world)[3][2] is None

    world.cut_off(3)
    world.until(lambda: (rows(world)[3][2] or 0) > 1_000, "broker 3 is silent")


def rows(world: ClusterWorld) -> dict[int, tuple[str, str, int | None]]:
    found = ConsoleView(world[1].broker).brokers()
    return {row.broker_id: (row.presence, row.drain, row.silent_ms) for row in found}
