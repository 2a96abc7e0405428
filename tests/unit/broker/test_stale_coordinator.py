"""A coordinator whose image lags behind the controller's: a share begins as the group was configured before."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.lone_consumer import ResolvesShares, received
from tests.unit.broker.share_member import STATIC, Got, configure_group
from tidemill.metadata.metadata_records import GROUP_RESOURCE, ConfigResource
from tidemill.model import errors
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.peer.link import LinkOwner
from tidemill.wire.messages import find_coordinator


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster: broker 1 is the controller, broker 2 leads the topic `jobs`, broker 3 coordinates the group `g`."""
    made = ClusterWorld(static={**STATIC, "offsets.topic.num.partitions": "1"})
    made.create("jobs", brokers=(2, 1, 3))
    made[1].ask(find_coordinator.Request(coordinator_keys=["g"]))
    made.lead(OFFSETS_TOPIC, by=3)
    made.lead("jobs", by=2)
    assert made.controller is made[1]
    made[2].produce("jobs", b"a")
    made.stabilize()
    return made


def hold_between(world: ClusterWorld, sender: int, to: int) -> None:
    """Hold back the frames from one broker to another one."""

    def held(source: LinkOwner, destination: LinkOwner) -> bool:
        return (source.hello().address, destination.hello().address) == (world[sender].address, world[to].address)

    world.network.held = held


def test_a_share_begins_where_the_group_was_configured_to_begin(world: ClusterWorld) -> None:
    """
    The configuration is acknowledged before the group's first receive, but the coordinator has not got it yet.  The
    coordinator waits for it: a group that began at the end of the log would never get the records before.
    """
    hold_between(world, 1, 3)
    configure_group(world[1], share_auto_offset_reset="earliest")
    assert ConfigResource(GROUP_RESOURCE, "g") not in world[3].broker.image.configs, "the coordinator's image lags"
    consumer = ResolvesShares(world[2], "w")
    sent = consumer.client.send(consumer.receive_request(max_wait_ms=10_000))
    world.pass_time(500)
    assert consumer.client.answer(*sent) is None

    world.hold()
    world.pass_time(1_000)

    assert [Got(0, b"a", 1)] == received(consumer.client.answer(*sent))


def test_a_coordinator_that_cannot_confirm_its_image_opens_no_share(world: ClusterWorld) -> None:
    """
    The controller does not answer: the receive ends with an error after which clients ask again, and later succeeds.
    """
    hold_between(world, 1, 3)
    configure_group(world[1], share_auto_offset_reset="earliest")
    consumer = ResolvesShares(world[2], "w")

    sent = consumer.client.send(consumer.receive_request(max_wait_ms=0))
    world.pass_time(2_000)
    answer = consumer.client.answer(*sent)

    assert answer is None or errors.COORDINATOR_NOT_AVAILABLE == answer.error_code
    world.hold()
    world.pass_time(5_000)
    assert [Got(0, b"a", 1)] == consumer.receive()


def test_shares_that_open_together_share_confirmations(world: ClusterWorld) -> None:
    """
    The first question is confirmed at once, and all that arrive meanwhile together: a leader of many shares does not
    send the controller a request for each.
    """
    hold_between(world, 1, 3)
    asked: list[str] = []
    ask = world[3].broker.controller_client.ask

    def counted(api: object, request: object) -> object:
        asked.append(type(request).__module__)
        return ask(api, request)  # type: ignore[arg-type]

    world[3].broker.controller_client.ask = counted  # type: ignore[method-assign,assignment]
    consumers = [ResolvesShares(world[2], "w", group=f"g{number}") for number in range(20)]
    sent = [(it, it.client.send(it.receive_request(max_wait_ms=1_500))) for it in consumers]
    world.pass_time(300)
    world.hold()
    world.pass_time(2_000)

    assert all(not consumer.client.answer(*it).error_code for consumer, it in sent)
    assert 2 == asked.count("tidemill.peer.image_offset")
