"""A group continues to work while its coordinator moves from broker to broker."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.broker.broker_world import Client
from tests.unit.broker.cluster_world import ClusterWorld, Node
from tests.unit.broker.group_member import STATIC, GroupMember, committing, fetched
from tidemill.metadata.topics import CreateTopics, NewTopic
from tidemill.model import errors
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.wire.messages import find_coordinator, heartbeat

NOT_NOW = {errors.NOT_COORDINATOR, errors.COORDINATOR_NOT_AVAILABLE, errors.COORDINATOR_LOAD_IN_PROGRESS}
TRANSFERS = 20
BEAT = heartbeat.Request(group_id="g", generation_id=1, member_id="m")


def world_with_offsets() -> ClusterWorld:
    """Return a cluster whose broker 1 leads the partition of group `g`."""
    world = ClusterWorld(static={**STATIC, "offsets.topic.num.partitions": "1"})
    world.create("flights")
    world[1].ask(find_coordinator.Request(coordinator_keys=["g"]))
    world.until(lambda: world.led_by(OFFSETS_TOPIC) != 0, "the group's partition is led")
    world.lead(OFFSETS_TOPIC, by=1)
    return world


def coordinator(world: ClusterWorld, asked: int) -> Node | None:
    """Return the group's coordinator according to broker number `asked`."""
    (found,) = world[asked].client.ask(find_coordinator.Request(coordinator_keys=["g"])).coordinators
    assert (found.error_code == errors.NONE) == (found.node_id > 0)
    assert found.error_code in (errors.NONE, errors.COORDINATOR_NOT_AVAILABLE)
    assert found.node_id < 0 or found.port == 9091 + found.node_id
    return world[found.node_id] if found.node_id > 0 else None


def at_coordinator(world: ClusterWorld, asked: int, ask: Callable[[Node], int]) -> int:
    """Find the coordinator and ask it, as clients do.  Retry while the error is in NOT_NOW, and return the first other
    code.
    """
    for _ in range(100):
        node = coordinator(world, asked)
        code = errors.NOT_COORDINATOR if node is None else ask(node)
        if code not in NOT_NOW:
            return code
        world.pass_time(50)
    raise AssertionError("no coordinator was found")


def test_offsets_and_generation_survive_twenty_transfers() -> None:
    """
    Each new coordinator has every acknowledged commit, and the member continues in its generation.
    """
    world = world_with_offsets()
    member = GroupMember(world[1]).stabilize()

    def beat(node: Node) -> int:
        member.client = Client(node)
        return member.heartbeat()

    def commit(offset: int) -> Callable[[Node], int]:
        request = committing("flights", offset, member=member)
        return lambda node: int(Client(node).ask(request, 9).topics[0].partitions[0].error_code)

    beats, commits, kept = [], [], []
    for turn in range(TRANSFERS):
        to = (turn + 1) % 3 + 1
        world.begin_to_lead(OFFSETS_TOPIC, by=to)
        commits.append(at_coordinator(world, to % 3 + 1, commit(turn)))
        world.until(lambda to=to: world.led_by(OFFSETS_TOPIC) == to, "it has moved")  # type: ignore[misc]
        beats.append(at_coordinator(world, to % 3 + 1, beat))
        kept.append(fetched(world[to])[("flights", 0)])

    assert [errors.NONE] * TRANSFERS == commits == beats
    assert [*range(TRANSFERS)] == kept


def test_a_former_coordinator_redirects_members() -> None:
    """
    A former coordinator immediately returns NOT_COORDINATOR, and every broker's FindCoordinator response names the new
    one.
    """
    world = world_with_offsets()
    member = GroupMember(world[1]).stabilize()

    world.lead(OFFSETS_TOPIC, by=3)

    assert errors.NOT_COORDINATOR == member.heartbeat()
    assert [world[3]] * 3 == [coordinator(world, asked) for asked in (1, 2, 3)]


def test_a_new_coordinator_rejects_requests_while_it_loads() -> None:
    """
    While a new coordinator loads, it answers COORDINATOR_LOAD_IN_PROGRESS, because answers from a partial state would
    be wrong.
    """
    world = world_with_offsets()
    world[1].ask(committing("flights", 7), 9)
    world[2].reads = False  # as if its reader threads were busy
    world.lead(OFFSETS_TOPIC, by=2)
    loading = world[2].ask(BEAT).error_code

    world[2].reads = True
    world.stabilize()

    assert (errors.COORDINATOR_LOAD_IN_PROGRESS, {("flights", 0): 7}) == (loading, fetched(world[2]))


@pytest.mark.parametrize("number", [1, 2])
def test_an_isolated_coordinator_confirms_no_heartbeat(number: int) -> None:
    """
    A heartbeat appends no record, but the coordinator may confirm it only if a majority still follows.
    """
    world = world_with_offsets()
    member = GroupMember(world[1]).stabilize()
    world.network.held = lambda _source, _destination: True
    client: Any = Client(world[number])
    request = heartbeat.Request(group_id="g", generation_id=member.generation, member_id=member.member_id)
    sent = client.send(request, 4)
    world.stabilize()
    early = client.answer(*sent)

    world.pass_time(3_000)

    if number == 1:
        assert (None, errors.COORDINATOR_NOT_AVAILABLE) == (early, client.answer(*sent).error_code)
    else:
        assert errors.NOT_COORDINATOR == early.error_code


def test_a_coordinator_with_stale_metadata_forgets_no_offsets() -> None:
    """
    A broker may lead the group's partition before it learns of a topic, for example after a restart of all brokers,
    when the metadata shard has no leader yet.  It must not conclude from the missing topic that the topic was deleted.
    """
    world = world_with_offsets()
    metadata = world[3].broker.shard_table.shards[METADATA_SHARD].partitions[0]
    follower = world[3].broker.image_follower
    metadata.unwatch(follower._catch_up_in_turns)
    created: list[Any] = []
    topic = NewTopic(name="new", partition_count=1, replication_factor=1)
    world.controller.broker.controller.submit(CreateTopics(topics=(topic,))).then(created.extend)
    world.until(lambda: bool(created), "it is created")
    committed = Client(world[1]).ask(committing("new", 5), 9)

    world.lead(OFFSETS_TOPIC, by=3)
    world.pass_time(500)
    was_known = "new" in world[3].broker.image.topics
    metadata.watch(follower._catch_up_in_turns)
    follower.catch_up()
    world.pass_time(500)

    assert (False, errors.NONE) == (was_known, committed.topics[0].partitions[0].error_code)
    assert {("new", 0): 5} == fetched(world[3])
