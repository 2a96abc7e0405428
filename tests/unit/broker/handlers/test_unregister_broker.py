"""UnregisterBroker removes a broker that is down for good."""

from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tests.unit.broker.maintenance.planned import plan
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.wire.messages.unregister_broker import Request

FOUR = BrokerId(4)


def asked(node: Node, broker_id: int) -> Any:
    sent = node.client.send(Request(broker_id=broker_id), 0)
    node.cluster.until(lambda: bool(node.client.writer.sent), "it is answered")
    return node.client.answer(*sent)


def take_down(world: ClusterWorld, number: int) -> None:
    world.cut_off(number)
    world.stopped.add(number)
    world.until(lambda: BrokerId(number) not in world.controller.broker.cluster.heard(), f"broker {number} is down")


def test_any_broker_can_be_asked_to_remove_a_broker_that_is_down() -> None:
    """
    Broker 4 is a learner of the metadata shard, as every broker is that does not vote there.  It carries nothing else,
    and the others know that once the leaders of all shards have told their members.
    """
    world = ClusterWorld(brokers=4)
    world.create("flights")
    take_down(world, 4)
    world.pass_time(15_000)
    follower = next(node for node in world.nodes[:3] if not node.broker.controller.leads)

    answer = asked(follower, 4)

    assert (errors.NONE, None) == (answer.error_code, answer.error_message)
    world.until(lambda: all(FOUR not in node.broker.image.brokers for node in world.nodes[:3]), "all are told")


def test_a_member_of_a_shard_is_not_removed() -> None:
    """
    Replicas are planned on the broker at first.  When they are planned elsewhere, it stays a member of the shard until
    the newcomer has caught up, which here is down, too.
    """
    world = ClusterWorld(brokers=4)
    world.create("flights", brokers=(1, 2, 4))
    world.pass_time(11_000)
    take_down(world, 4)
    take_down(world, 3)

    planned = asked(world[1], 4)
    plan(world, "flights", 1, 2, 3)
    world.pass_time(11_000)
    member = asked(world[1], 4)

    assert [errors.INVALID_REQUEST] * 2 == [planned.error_code, member.error_code]
    assert "replicas of shard 1 (flights, partition 0) are planned on it" in planned.error_message
    assert "it is still a member of shard 1 (flights, partition 0); wait until" in member.error_message
    assert all(FOUR in node.broker.image.brokers for node in world.nodes[:2])


@pytest.mark.parametrize(
    ("broker_id", "error_code", "says"),
    [
        (9, errors.BROKER_ID_NOT_REGISTERED, "broker 9 is not in this cluster; its brokers are 1, 2, 3"),
        (-1, errors.BROKER_ID_NOT_REGISTERED, "broker -1 is not in this cluster; its brokers are 1, 2, 3"),
        (2, errors.INVALID_REQUEST, "unregistering broker 2 is refused: it is live"),
    ],
)
def test_a_refusal_says_why(broker_id: int, error_code: int, says: str) -> None:
    """Kafka's clients show the message."""
    world = ClusterWorld()
    world.pass_time(2_000)

    answer = asked(world[3], broker_id)

    assert answer.error_code == error_code and says in answer.error_message


def test_an_older_cluster_removes_no_broker() -> None:
    """The message names the command that raises the feature level."""
    world = ClusterWorld(newest_level=1)
    for number in (1, 2, 3):
        world.restart(number, newest_level=2)
    world.pass_time(2_000)

    answer = asked(world[1], 2)

    assert answer.error_code == errors.UNSUPPORTED_VERSION
    assert "run `tidemill cluster upgrade`" in answer.error_message


def test_an_older_controller_is_not_asked() -> None:
    """A controller of the first version does not know the request."""
    world = ClusterWorld(newest_level=1)
    old = world.controller
    for number in {1, 2, 3} - {old.number}:
        world.restart(number, newest_level=2)
    asking = next(node for node in world.nodes if node is not old)

    answer = asked(asking, 2)

    assert answer.error_code == errors.UNSUPPORTED_VERSION
    assert "upgrade all brokers first" in answer.error_message
