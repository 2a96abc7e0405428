"""The broker knows when what it serves is led."""

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.metadata.topics import CreateTopics, DeleteTopics, NewTopic


def test_who_waits_for_a_leader_between_its_election_and_its_first_commit_is_called() -> None:
    """
    The entry that confirms a reign may be appended already when somebody begins to wait; no other may ever follow it.
    """
    world = BrokerWorld()
    called: list[str] = []
    topic = NewTopic(name="flights", partition_count=1, replication_factor=1)
    world.broker.controller.submit(CreateTopics(topics=(topic,)))
    while not (world.broker.shard_table.topics.get("flights") and world.partition("flights").shard.replica.leads):
        assert world.step()
    assert not world.partition("flights").shard.is_serving

    world.broker.cluster.when_led(["flights"], lambda: called.append("led"))
    world.settle()

    assert ["led"] == called


def test_who_waits_for_the_leader_of_a_topic_that_is_deleted_is_called() -> None:
    """
    There will be none any more: after a while, as things stand.
    """
    world = BrokerWorld()
    called: list[str] = []
    topic = NewTopic(name="flights", partition_count=20, replication_factor=1)
    world.broker.controller.submit(CreateTopics(topics=(topic,)))
    while not world.broker.shard_table.topics.get("flights"):
        assert world.step()
    world.broker.cluster.when_led(["flights"], lambda: called.append("led"))

    world.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.pass_time(10_000)

    assert ["led"] == called
