"""AlterPartitionReassignments and ListPartitionReassignments: Kafka's way to move replicas."""

from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.broker.load.load_reporter import LoadReporter
from tidemill.broker.request.told_voters import REPORTS_MS
from tidemill.model import errors
from tidemill.model.broker_id import broker_ids
from tidemill.model.shard import METADATA_SHARD
from tidemill.peer import cluster_operation
from tidemill.peer.cluster_operation import Operation
from tidemill.wire.messages import create_partitions, list_partition_reassignments
from tidemill.wire.messages.alter_partition_reassignments import API, Request

NEWEST = API.versions[-1]


@pytest.fixture
def world() -> ClusterWorld:
    """Three brokers, and two topics of one shard each on brokers 1 and 2; broker 1 is the controller."""
    made = ClusterWorld()
    for name in ("t", "u"):
        made.create(name, 2, brokers=(1, 2))
    return made


def assigning(goals: dict[int, list[int] | None], topic: str = "t", **more: Any) -> Request:
    partitions = [Request.Topic.Partition(partition_index=it, replicas=goal) for it, goal in goals.items()]
    return Request(topics=[Request.Topic(name=topic, partitions=partitions)], **more)


def asked(node: Node, request: Any, version: int = NEWEST) -> Any:
    sent = node.client.send(request, version)
    node.cluster.until(lambda: bool(node.client.writer.sent), "it is answered")
    return node.client.answer(*sent)


def listed(node: Node, topics: list[tuple[str, list[int]]] | None = None) -> dict[tuple[str, int], list[list[int]]]:
    named = list_partition_reassignments.Request.Topic
    request = list_partition_reassignments.Request(
        topics=None if topics is None else [named(name=it, partition_indexes=numbers) for it, numbers in topics]
    )
    answer = asked(node, request, 0)
    assert errors.NONE == answer.error_code
    return {
        (topic.name, it.partition_index): [[*it.replicas], [*it.adding_replicas], [*it.removing_replicas]]
        for topic in answer.topics
        for it in topic.partitions
    }


def codes(answer: Any) -> dict[int, int]:
    assert errors.NONE == answer.error_code
    return {it.partition_index: it.error_code for topic in answer.responses for it in topic.partitions}


def all_codes(answer: Any) -> set[int]:
    """Return the errors in an answer: those of the partitions for Kafka's request, that of the whole for ours."""
    of_partitions = {it.error_code for topic in getattr(answer, "responses", ()) for it in topic.partitions}
    return {*of_partitions, answer.error_code} - {errors.NONE}


def planned(world: ClusterWorld, topic: str) -> list[int]:
    image = world.controller.broker.image
    return sorted(broker_ids(image.shards[image.topics[topic].shard_ids[0]].replicas))


def voters(world: ClusterWorld, topic: str) -> list[int]:
    leader = world[world.led_by(topic)]
    return sorted(broker_ids(leader.shard(topic).replica.voters))


def followers(world: ClusterWorld) -> list[Node]:
    return [node for node in world.nodes if not node.broker.controller.leads]


@pytest.mark.parametrize("version", API.versions)
def test_replicas_move_to_the_named_brokers(world: ClusterWorld, version: int) -> None:
    """Any broker can be asked.  The replicas arrive, and nothing is under way any more."""
    follower = followers(world)[0]

    answer = asked(follower, assigning({0: [3, 1], 1: [3, 1]}), version)
    world.until(lambda: [1, 3] == voters(world, "t"), "the replicas have moved")

    world.until(lambda: not listed(follower), "nothing is under way")
    assert {0: errors.NONE, 1: errors.NONE} == codes(answer)
    assert [3, 1] == broker_ids(world[1].broker.image.shard_of("t", 0).replicas)  # type: ignore[union-attr]
    assert [1, 2] == voters(world, "u")
    assert [True, False, False] == sorted(
        (it.broker.copy_pacing.copies.sent_bytes > 0 for it in world.nodes), reverse=True
    )


def test_what_is_under_way_is_listed_and_can_be_cancelled(world: ClusterWorld) -> None:
    """The list names brokers that are added and brokers that are to go, at once; a filter selects partitions."""
    controller = world.controller
    copies_to = world[3 if controller.number != 3 else 2]
    there = [1, 2] if copies_to.number == 3 else [1, 3]
    for name in ("v", "w"):
        world.create(name, 2, brokers=there)
    world.hold(to=[copies_to.number])
    goal = [1, copies_to.number]
    leaves = next(it for it in there if it not in goal)

    moved = asked(controller, assigning({0: goal, 1: goal}, topic="v"))
    everything, one, none = (
        listed(controller, it) for it in (None, [("v", [1, 7]), ("no", [0])], [("w", [0, 1]), ("v", [])])
    )
    back = asked(controller, assigning({0: None, 1: None}, topic="v"))
    again = asked(controller, assigning({0: None, 1: None}, topic="v"))

    entry = [[*goal, leaves], [copies_to.number], [leaves]]
    assert {0: errors.NONE, 1: errors.NONE} == codes(moved) == codes(back)
    assert {("v", 0): entry, ("v", 1): entry} == everything
    assert ({("v", 1): entry}, {}) == (one, none)
    assert {} == listed(controller)
    assert dict.fromkeys((0, 1), errors.NO_REASSIGNMENT_IN_PROGRESS) == codes(again)
    assert there == broker_ids(controller.broker.image.shard_of("v", 0).replicas)  # type: ignore[union-attr]


def test_nothing_is_moved_to_a_broker_that_is_down(world: ClusterWorld) -> None:
    """The move would not begin before the broker is back, and look as if it hung."""
    controller = world.controller
    down = world[3 if controller.number != 3 else 2]
    there = [1, 2] if down.number == 3 else [1, 3]
    world.create("v", 1, brokers=there)
    world.network.cut_off(down.broker.cluster.address)
    world.until(lambda: down.number not in controller.broker.cluster.live(), "it is not heard")

    answer = asked(controller, assigning({0: [1, down.number]}, topic="v"))

    assert {0: errors.INVALID_REPLICA_ASSIGNMENT} == codes(answer)
    assert f"broker {down.number} is down" in answer.responses[0].partitions[0].error_message


def test_nothing_is_moved_to_a_broker_whose_disk_is_full(world: ClusterWorld) -> None:
    """The planner would soon give the shard another goal, and the user not learn why.  The way back stays open."""
    controller = world.controller
    full = world[3 if controller.number != 3 else 2]
    there = [1, 2] if full.number == 3 else [1, 3]
    goal = [1, full.number]
    for name in ("v", "w"):
        world.create(name, 1, brokers=there if name == "v" else goal)
    world.hold(to=there[1:])
    back = asked(controller, assigning({0: there}, topic="w"))
    full.disk.free_bytes = 1 << 20
    world.pass_time(15_000)

    refused = asked(controller, assigning({0: goal}, topic="v"))
    cancelled = asked(controller, assigning({0: None}, topic="w"))

    assert {0: errors.INVALID_REPLICA_ASSIGNMENT} == codes(refused)
    assert f"the disk of broker {full.number} is" in refused.responses[0].partitions[0].error_message
    assert {0: errors.NONE} == codes(back) == codes(cancelled)
    assert sorted(there) == planned(world, "v")
    assert sorted(goal) == planned(world, "w")


def next_controller(world: ClusterWorld) -> Node:
    """Let another broker become the controller."""
    to = followers(world)[0]
    transfer = (METADATA_SHARD, to.broker.broker_id)
    assert [] == world.controller.broker.leadership_transfers.here([transfer])
    world.until(lambda: to.broker.controller.leads and to.broker.controller.accepts_writes, "it is the controller")
    return to


def test_a_new_controller_does_not_list_what_has_arrived(world: ClusterWorld) -> None:
    """
    It has not been told the voters of any shard yet.  `kafka-reassign-partitions --verify` would say that a move which
    has ended is still in progress, and `--execute` refuse the next one.
    """
    asked(world.controller, assigning({0: [1, 3], 1: [1, 3]}))
    world.until(lambda: [1, 3] == voters(world, "t"), "the replicas have moved")

    to = next_controller(world)

    assert all(to.broker.reported_load.voters(it) is None for it in to.broker.image.topics["t"].shard_ids)
    assert {} == listed(to)


def test_a_new_controller_waits_for_reports_for_some_seconds_only(world: ClusterWorld) -> None:
    """A leader that hangs tells nothing.  A topic that has not moved need not be waited for."""
    asked(world.controller, assigning({0: [1, 3], 1: [1, 3]}))
    world.until(lambda: [1, 3] == voters(world, "t"), "the replicas have moved")
    with patch.object(LoadReporter, "_send"):
        to = next_controller(world)
        began_ms = world.clock.now_ms
        other = listed(to, [("u", [0, 1])])
        other_ms = world.clock.now_ms
        found = listed(to, [("t", [0, 1])])

    assert ({}, {("t", 0), ("t", 1)}) == (other, found.keys())
    assert other_ms - began_ms < 1_000 < REPORTS_MS <= world.clock.now_ms - other_ms < REPORTS_MS + 1_000


CANCELS = [assigning({0: None, 1: None}), cluster_operation.Request(operation=Operation.CANCEL, shard_id=1)]


@pytest.mark.parametrize("request_", CANCELS)
def test_a_new_controller_does_not_take_a_move_back_that_has_ended(world: ClusterWorld, request_: Any) -> None:
    """Nothing is under way that could be cancelled: the way back would be a move without a reason."""
    asked(world.controller, assigning({0: [1, 3], 1: [1, 3]}))
    world.until(lambda: [1, 3] == voters(world, "t"), "the replicas have moved")
    to = next_controller(world)

    answer = asked(to, request_, 0)

    assert {errors.NO_REASSIGNMENT_IN_PROGRESS} == all_codes(answer)
    assert [1, 3] == planned(world, "t")


@pytest.mark.parametrize("request_", CANCELS)
def test_nothing_is_cancelled_while_it_is_not_known_whether_it_has_ended(world: ClusterWorld, request_: Any) -> None:
    asked(world.controller, assigning({0: [1, 3], 1: [1, 3]}))
    world.until(lambda: [1, 3] == voters(world, "t"), "the replicas have moved")
    with patch.object(LoadReporter, "_send"):
        to = next_controller(world)
        answer = asked(to, request_, 0)

    assert {errors.REQUEST_TIMED_OUT} == all_codes(answer)
    assert [1, 3] == planned(world, "t")


def test_each_partition_has_its_own_error(world: ClusterWorld) -> None:
    """What the plan refuses is an error of all partitions of its shard; the rest is planned."""
    request = assigning({0: [1, 9], 1: [1, 9]})
    request.topics = [*request.topics, *assigning({0: [2, 1], 1: [2, 1], 5: [1]}, topic="u").topics]

    answer = asked(followers(world)[0], request)

    told = {
        (topic.name, it.partition_index): (it.error_code, it.error_message or "")
        for topic in answer.responses
        for it in topic.partitions
    }
    for number in (0, 1):
        code, why = told.pop(("t", number))
        assert errors.INVALID_REPLICA_ASSIGNMENT == code
        assert "broker 9 is not in this cluster" in why
    assert {0: errors.NONE, 1: errors.NONE, 5: errors.UNKNOWN_TOPIC_OR_PARTITION} == {
        number: code for (_, number), (code, _) in told.items()
    }
    assert [2, 1] == broker_ids(world[1].broker.image.shard_of("u", 0).replicas)  # type: ignore[union-attr]


def test_the_replication_factor_may_be_fixed(world: ClusterWorld) -> None:
    """From version 1 on, a request can forbid what version 0 always allows.  The response repeats the choice."""
    goal = {0: [1, 2, 3], 1: [1, 2, 3]}

    forbidden = asked(world.controller, assigning(goal, allow_replication_factor_change=False))
    allowed = asked(world.controller, assigning(goal), 0)

    assert dict.fromkeys((0, 1), errors.INVALID_REPLICATION_FACTOR) == codes(forbidden)
    assert not forbidden.allow_replication_factor_change
    assert dict.fromkeys((0, 1), errors.NONE) == codes(allowed)
    world.until(lambda: [1, 2, 3] == voters(world, "t"), "the third replica has arrived")


def test_another_replication_factor_is_for_all_partitions_of_a_topic(world: ClusterWorld) -> None:
    """If one shard is refused, its partitions say why, and the others keep their replicas."""
    world.create("v", 2, brokers=(1, 2))
    new = create_partitions.Request.Topic.Assignment(broker_ids=[2, 1])
    more = create_partitions.Request.Topic(name="v", count=3, assignments=[new])
    asked(world.controller, create_partitions.Request(topics=[more], timeout_ms=1_000, validate_only=False), 3)

    answer = asked(world.controller, assigning({0: [1, 2, 3], 1: [1, 2, 3], 2: [1, 2, 9]}, topic="v"))
    told = {it.partition_index: it.error_message for it in answer.responses[0].partitions}

    assert dict.fromkeys(range(3), errors.INVALID_REPLICA_ASSIGNMENT) == codes(answer)
    assert "broker 9 is not in this cluster" in told[2]
    assert told[0] == told[1] and "would have 3 replicas, but partition 2 would keep 2" in told[0]


def test_a_cluster_of_an_older_version_moves_nothing() -> None:
    """Below the level of moves, nothing is under way, and a reassignment says how to raise the level."""
    world = ClusterWorld(newest_level=1)
    for number in (1, 2, 3):
        world.restart(number, newest_level=2)
    world.create("t", 1, brokers=(1, 2))

    answer = asked(world.controller, assigning({0: [3, 1]}))

    assert {0: errors.UNSUPPORTED_VERSION} == codes(answer)
    assert "tidemill cluster upgrade" in answer.responses[0].partitions[0].error_message
    assert {} == listed(world.controller)
