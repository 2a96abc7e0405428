"""ElectLeaders moves leadership to the preferred leaders."""

from typing import Any

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model import errors
from tidemill.wire.messages.elect_leaders import Request


def asking(*partitions: int, election_type: int = 0, timeout_ms: int = 10_000) -> Request:
    """Return a request for the given partitions of `flights`; without numbers, for all partitions of the cluster."""
    topics = [Request.Topic(topic="flights", partitions=list(partitions))] if partitions else None
    return Request(election_type=election_type, topic_partitions=topics, timeout_ms=timeout_ms)


def results(answered: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, it.partition_id): it.error_code
        for topic in answered.replica_election_results
        for it in topic.partition_result
    }


def moved() -> ClusterWorld:
    """
    Return a cluster in which broker 2 leads `flights` and broker 3 leads `tides`; broker 1 is the preferred leader of
    both.
    """
    world = ClusterWorld()
    world.create("flights", partitions=2)
    world.create("tides")
    world.lead("flights", by=2)
    world.lead("tides", by=3)
    return world


def test_any_broker_can_be_asked_for_an_election() -> None:
    """
    The current leaders transfer their leadership, and the response arrives once the preferred leaders lead.
    """
    world = moved()
    client = world[3].client
    sent = client.send(asking(0, 1), 2)

    world.until(lambda: bool(client.writer.sent), "it is answered")

    assert {("flights", 0): errors.NONE, ("flights", 1): errors.NONE} == results(client.answer(*sent))
    assert [1, 1, 3] == [world.led_by("flights", 0), world.led_by("flights", 1), world.led_by("tides")]


def test_all_partitions_may_be_asked_for() -> None:
    """
    Partitions that already have their preferred leader are not in the response, as in Kafka.
    """
    world = moved()
    client = world[1].client
    sent = client.send(asking(), 2)

    world.until(lambda: bool(client.writer.sent), "it is answered")

    moved_here = {("flights", 0): errors.NONE, ("flights", 1): errors.NONE, ("tides", 0): errors.NONE}
    assert moved_here == results(client.answer(*sent))


def test_each_partition_has_its_own_error() -> None:
    """
    The error says whether the preferred leader already leads, its broker is down, or the partition does not exist.
    """
    world = ClusterWorld()
    world.create("flights")
    needless, absent = (results(world[2].client.ask(asking(number), 2)) for number in (0, 7))
    world.lead("flights", by=2)
    world.cut_off(1)
    world.until(lambda: any(node.broker.controller.leads for node in world.nodes[1:]), "another controller")
    world.stopped.add(1)

    down = results(world[3].client.ask(asking(0), 2))

    assert {("flights", 0): errors.ELECTION_NOT_NEEDED} == needless
    assert {("flights", 7): errors.UNKNOWN_TOPIC_OR_PARTITION} == absent
    assert {("flights", 0): errors.PREFERRED_LEADER_NOT_AVAILABLE} == down


def test_an_unclean_election_moves_nothing() -> None:
    """
    An unclean election would lose acknowledged records, so the current leaders continue to lead.
    """
    world = moved()

    unclean, unheard_of = (world[2].client.ask(asking(0, 1, election_type=kind), 2) for kind in (1, 2))

    assert {errors.ELECTION_NOT_NEEDED} == set(results(unclean).values())
    assert (0, errors.INVALID_REQUEST) == (unclean.error_code, unheard_of.error_code)
    assert {errors.INVALID_REQUEST} == set(results(unheard_of).values())
    assert 2 == world.led_by("flights", 0)


def test_an_election_ends_at_its_timeout() -> None:
    """
    If the preferred leader does not become leader in time, the error is REQUEST_TIMED_OUT.
    """
    world = moved()
    sent = world[1].client.send(asking(0, timeout_ms=500), 2)  # broker 1 is the controller
    world.network.held = lambda _source, _destination: True
    world.pass_time(450)
    early = world[1].client.answer(*sent)

    world.pass_time(300)

    assert (None, {("flights", 0): errors.REQUEST_TIMED_OUT}) == (early, results(world[1].client.answer(*sent)))
