"""A broker that has lost contact with the controller may have stale metadata, and must not act on it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.simulation.cluster.test_scenarios import (
    knobs,
    leads,
    pass_time,
    replica_of,
    three_brokers_with_a_topic,
    voters,
)
from tests.unit.broker.group_member import committing
from tidemill.batches.builder import build_batch
from tidemill.model import errors
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import NO_TOPIC_ID, OFFSETS_TOPIC
from tidemill.shard.shard import Shard
from tidemill.simulation.clients.client import Client
from tidemill.simulation.clients.producer import Producer
from tidemill.simulation.cluster.broker_machine import KAFKA_PORT, BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.machine.machine import seconds
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.wire.messages import (
    create_topics,
    delete_topics,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    offset_fetch,
    produce,
)
from tidemill.wire.schema import Message

TOPIC_RESOURCE, SET = 2, 0
LONG_S = 330  # longer than two periods of the retention check


def ready_brokers(count: int) -> ClusterRun:
    run = ClusterRun(1, knobs(count).without_faults())
    for machine in run.machines:
        machine.start()
    pass_time(run, lambda: all(machine.is_ready and voters(machine) == count for machine in run.machines), 90)
    return run


class Scene:
    """A simulated cluster, and a client that sends requests to chosen brokers."""

    def __init__(self, run: ClusterRun) -> None:
        self.run = run
        self.client: Client = run._new_client("client")

    def wait(self, duration_s: float) -> None:
        self.run.timeline.run_until(self.run.timeline.now_us + seconds(duration_s))

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        found: list[Any] = []

        async def go() -> None:
            found.append(await coroutine)

        self.run._in_client(go())
        pass_time(self.run, lambda: bool(found), 60)
        return found[0]

    def ask(self, machine: BrokerMachine, request: Message, version: int | None = None) -> Any:
        async def at() -> Any:
            connection = await self.client.connection((machine.name, KAFKA_PORT))
            return await connection.ask(request, version)

        return self.call(at())

    def alter(self, machine: BrokerMachine, topic: str, key: str, value: str) -> int:
        resource = incremental_alter_configs.Request.Resource
        config = resource.Config(name=key, config_operation=SET, value=value)
        asked = resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
        answer = self.ask(machine, incremental_alter_configs.Request(resources=[asked], validate_only=False))
        code: int = answer.responses[0].error_code
        return code

    def recreate_topic(self, machine: BrokerMachine, topic: str) -> list[int]:
        deletion = delete_topics.Request.Topic(name=topic, topic_id=NO_TOPIC_ID)
        made = create_topics.Request.Topic(
            name=topic, num_partitions=1, replication_factor=3, assignments=(), configs=()
        )
        deleted = self.ask(machine, delete_topics.Request(topics=[deletion], topic_names=[topic], timeout_ms=5_000))
        created = self.ask(machine, create_topics.Request(topics=[made], timeout_ms=5_000))
        return [deleted.responses[0].error_code, created.topics[0].error_code]

    def wait_for_coordinator(self) -> None:
        asked = find_coordinator.Request(key="g", key_type=0, coordinator_keys=["g"])
        while self.call(self.client.ask_any(asked)).coordinators[0].error_code:
            self.wait(0.1)

    def commit(self, machine: BrokerMachine, topic: str, offset: int) -> int:
        answer = self.ask(machine, committing(topic, offset), 9)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def fetch(self, machine: BrokerMachine, topic: str) -> tuple[int, list[int]]:
        asked = offset_fetch.Request.Group(
            group_id="g", topics=[offset_fetch.Request.Group.Topic(name=topic, partition_indexes=[0])]
        )
        group = self.ask(machine, offset_fetch.Request(groups=[asked]), 9).groups[0]
        return group.error_code, [it.committed_offset for topic in group.topics for it in topic.partitions]


def isolate(run: ClusterRun, one: BrokerMachine, other: BrokerMachine) -> None:
    run.network.blocked |= {(one.name, other.name), (other.name, one.name)}


def old_records(replication_factor: int) -> tuple[Scene, BrokerMachine, BrokerMachine]:
    """
    Write records that are past the retention time of their partition.  Return the scene, the controller, and the leader
    of the partition, which is another broker.
    """
    run = ready_brokers(3)
    scene = Scene(run)
    controller = next(machine for machine in run.machines if leads(machine))
    away = next(machine for machine in run.machines if machine is not controller)
    asked = create_topics.Request.Topic
    brokers = [away, *(machine for machine in run.machines if machine is not away)][:replication_factor]
    assignment = asked.Assignment(partition_index=0, broker_ids=[machine.voter.broker_id for machine in brokers])
    config = asked.Config(name="retention.ms", value="60000")
    alone = asked(name="flights", num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=[config])
    made = scene.ask(controller, create_topics.Request(topics=[alone], timeout_ms=5_000))
    assert errors.NONE == made.topics[0].error_code
    producer = Producer(scene.client, run.history, "flights", 0, in_flight=1, acks=-1, batches_max=5)
    scene.call(producer.run(lambda: 0.1))
    scene.wait(90)
    return scene, controller, away


def groups_of(machine: BrokerMachine) -> Shard:
    assert machine.broker is not None
    partition = machine.broker.shard_table.partition(OFFSETS_TOPIC, 0)
    assert partition is not None
    return partition.shard


def separate_controller(run: ClusterRun, shard_of: Any) -> tuple[BrokerMachine, BrokerMachine]:
    """Make the controller and the leader of the shard two different brokers.  Return both."""
    controller = next(machine for machine in run.machines if leads(machine))
    leader = next(machine for machine in run.machines if shard_of(machine).is_serving)
    if leader is controller:
        leader = next(machine for machine in run.machines if machine is not controller)
        assert shard_of(controller).transfer_leadership(leader.voter)
        pass_time(run, lambda: bool(shard_of(leader).is_serving))
    return controller, leader


def with_a_commit() -> tuple[Scene, BrokerMachine, BrokerMachine]:
    """
    Commit offset 500 for the topic "tides".  Return the scene, the controller, and the group's coordinator, which is
    another broker.
    """
    run = ready_brokers(3)
    scene = Scene(run)
    scene.call(scene.client.create_topic("tides", 1, 3))
    scene.wait_for_coordinator()
    controller, coordinator = separate_controller(run, groups_of)
    scene.wait(2)
    assert errors.NONE == scene.commit(coordinator, "tides", 500)
    return scene, controller, coordinator


def test_a_leader_without_contact_with_the_controller_deletes_nothing() -> None:
    """A leader without contact with the controller deletes nothing, since its topic configuration may be outdated.  It
    transfers leadership to a replica that has contact.
    """
    run = three_brokers_with_a_topic()
    scene = Scene(run)
    controller, leader = separate_controller(run, replica_of)
    assert errors.NONE == scene.alter(controller, "flights", "retention.ms", "120000")
    scene.wait(2)
    isolate(run, controller, leader)
    scene.wait(5)

    assert errors.NONE == scene.alter(controller, "flights", "retention.ms", "-1")
    scene.wait(LONG_S)

    assert not replica_of(leader).is_serving
    run.network.heal()
    scene.wait(20)
    assert {0} == {replica_of(machine).log.partitions[0].log_start for machine in run.machines}


def test_a_coordinator_with_stale_metadata_rejects_commits() -> None:
    """
    A coordinator with stale metadata rejects commits: the topic may have been deleted and created again, and
    the commit would belong to the deleted one.
    """

    scene, controller, coordinator = with_a_commit()
    run = scene.run
    isolate(run, controller, coordinator)
    scene.wait(4)

    assert [errors.NONE, errors.NONE] == scene.recreate_topic(controller, "tides")
    scene.wait(5)
    refused = scene.commit(coordinator, "tides", 7)

    assert refused in (errors.COORDINATOR_NOT_AVAILABLE, errors.NOT_COORDINATOR)
    now = next(machine for machine in run.machines if machine is not coordinator and groups_of(machine).is_serving)
    assert (errors.NONE, [-1]) == scene.fetch(now, "tides")
    assert errors.NONE == scene.commit(now, "tides", 8)
    run.network.heal()
    scene.wait(10)
    assert (errors.NONE, [8]) == scene.fetch(now, "tides")


def test_a_coordinator_with_one_way_contact_to_the_controller_rejects_commits() -> None:
    """
    A coordinator rejects commits if it hears the controller but its own acknowledgements do not reach the controller,
    because the controller then sends it no newer metadata.
    """
    scene, controller, coordinator = with_a_commit()
    run = scene.run
    run.network.blocked |= {(coordinator.name, controller.name)}
    scene.wait(0.3)
    # This change is the last metadata that the coordinator receives.
    assert errors.NONE == scene.alter(controller, "tides", "retention.ms", "70000000")
    scene.wait(6)  # shorter than the 10 s after which the link is closed

    assert [errors.NONE, errors.NONE] == scene.recreate_topic(controller, "tides")
    refused = scene.commit(coordinator, "tides", 7)

    assert refused in (errors.COORDINATOR_NOT_AVAILABLE, errors.NOT_COORDINATOR)
    run.network.heal()
    scene.wait(20)
    now = next(machine for machine in run.machines if groups_of(machine).is_serving)
    assert (errors.NONE, [-1]) == scene.fetch(now, "tides")


def test_an_elected_broker_with_a_full_disk_transfers_leadership_at_once() -> None:
    """An elected broker with a full disk immediately transfers leadership to another replica, so that clients do not
    wait for long.
    """
    run = three_brokers_with_a_topic()
    scene = Scene(run)
    leader = next(machine for machine in run.machines if replica_of(machine).is_serving)
    full = next(machine for machine in run.machines if machine is not leader)
    full.disk.free_bytes = 1 << 20
    scene.wait(8)
    assert full.broker is not None
    assert full.broker.storage_problem() is not None
    # The replica's method skips the shard's check that the target may lead.  An election makes no such check either.
    replica_of(leader).replica.transfer_leadership(full.voter)
    replica_of(leader).execute()
    pass_time(run, lambda: bool(replica_of(full).is_serving))

    scene.wait(1)

    assert [True] == [replica_of(it).is_serving for it in run.machines if it is not full and replica_of(it).is_serving]


def test_a_broker_that_was_away_is_ready_only_with_current_metadata() -> None:
    """A broker that was down becomes ready only once its metadata is current, because under its outdated configuration
    it would delete records that the current one keeps.
    """
    scene, controller, away = old_records(1)
    away.kill()

    for number in range(400):  # more entries than the leader keeps, so the broker catches up by an install
        assert errors.NONE == scene.alter(controller, "flights", "retention.ms", str(10**12 + number))
    away.start()
    pass_time(scene.run, lambda: away.is_ready)
    scene.wait(10)

    log = replica_of(away).log.partitions[0]
    assert 0 == log.log_start < log.end_offset


def test_a_paused_broker_checks_retention_by_the_current_configuration() -> None:
    """A broker that resumes after a pause checks retention only by the configuration that was changed during the pause.
    Its link survived the pause, but the broker has yet to read the change from it.
    """
    scene, controller, away = old_records(3)
    assert away.broker is not None
    assert away.loop is not None
    check = away.broker.retention._timer.when()  # the previous check was too early for any deletion
    while away.loop.time() < check - 1:
        scene.wait(0.1)

    away.loop.pause(seconds(1.5))
    scene.wait(0.2)
    assert errors.NONE == scene.alter(controller, "flights", "retention.ms", "-1")
    scene.wait(30)

    log = replica_of(away).log.partitions[0]
    assert 0 == log.log_start < log.end_offset


def test_a_broker_that_starts_without_the_controller_does_not_keep_leadership() -> None:
    """A broker that starts without the controller gives up leadership: replicas may elect it, but clients cannot find
    it until it has registered.
    """
    run = three_brokers_with_a_topic()
    scene = Scene(run)
    controller, starts = separate_controller(run, replica_of)
    scene.wait(15)
    isolate(run, controller, starts)
    starts.kill()
    scene.wait(1)
    starts.start()
    scene.wait(5)

    others = [machine for machine in run.machines if machine is not starts]
    for machine in others:
        if replica_of(machine).is_serving:
            replica_of(machine).transfer_leadership(starts.voter)  # the leader balancer would do the same
    scene.wait(15)

    assert not starts.is_ready
    assert [True] == [replica_of(machine).is_serving for machine in others if replica_of(machine).is_serving]
    produced = run.history.acknowledgements
    scene.call(Producer(scene.client, run.history, "flights", 0, in_flight=1, acks=-1, batches_max=5).run(lambda: 0.1))
    assert produced + 5 <= run.history.acknowledgements


def test_other_shards_keep_working_without_a_metadata_leader() -> None:
    """
    Without a metadata leader, coordinators accept commits and leaders stay, because there can be no newer metadata.
    """
    run = three_brokers_with_a_topic(20)
    scene = Scene(run)
    scene.wait_for_coordinator()
    scene.wait(15)
    controller, other, third = sorted(run.machines, key=lambda machine: not leads(machine))
    third.kill()
    scene.wait(5)
    assert controller.broker is not None
    metadata = controller.broker.shard_table.shards[METADATA_SHARD]
    segment = next(segment for segment in metadata.log.partitions[0].segments if segment.written)
    controller.disk.flip(segment.path, segment.written - 1, 1)
    metadata.damage.suspect(SegmentDamaged(segment.path, segment.written - 1, 0, "a bit has turned over"))
    scene.wait(5)
    terms = [replica_of(machine).replica.term for machine in (controller, other)]

    scene.wait(30)

    assert not leads(controller)
    assert not leads(other)
    assert terms == [replica_of(machine).replica.term for machine in (controller, other)]
    coordinator = next(machine for machine in (controller, other) if groups_of(machine).is_serving)
    assert errors.NONE == scene.commit(coordinator, "flights", 5)


def test_leadership_is_drained_to_a_replica_in_contact_with_the_controller() -> None:
    """A leader that has lost contact with the controller drains leadership to the only replica with contact, although
    another replica without contact has the same log.
    """
    run = ready_brokers(5)
    scene = Scene(run)
    controller, first, second, third, _ = sorted(run.machines, key=lambda machine: not leads(machine))
    asked = create_topics.Request.Topic
    brokers = [machine.voter.broker_id for machine in (first, second, third)]
    assignment = asked.Assignment(partition_index=0, broker_ids=brokers)
    topic = asked(name="flights", num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=[])
    made = scene.ask(controller, create_topics.Request(topics=[topic], timeout_ms=5_000))
    assert errors.NONE == made.topics[0].error_code
    pass_time(run, lambda: bool(replica_of(first).is_serving))
    isolate(run, controller, first)
    isolate(run, controller, second)

    scene.wait(20)

    term = replica_of(third).replica.term
    assert replica_of(third).is_serving
    scene.wait(30)
    assert replica_of(third).is_serving
    assert term == replica_of(third).replica.term


def test_metadata_is_stale_when_the_controller_moves_out_of_reach() -> None:
    """Metadata is stale if the new controller is a broker that the coordinator cannot reach, even though the
    coordinator still hears the former controller.
    """
    run = ready_brokers(3)
    scene = Scene(run)
    scene.call(scene.client.create_topic("tides", 1, 3))
    scene.wait_for_coordinator()
    controller, coordinator = separate_controller(run, groups_of)
    (third,) = (machine for machine in run.machines if machine not in (controller, coordinator))
    assert errors.NONE == scene.commit(coordinator, "tides", 500)
    isolate(run, third, coordinator)
    assert controller.broker is not None
    metadata = controller.broker.shard_table.shards[METADATA_SHARD]
    assert metadata.transfer_leadership(third.voter)
    pass_time(run, lambda: leads(third))
    scene.wait(5)

    assert [errors.NONE, errors.NONE] == scene.recreate_topic(third, "tides")
    refused = scene.commit(coordinator, "tides", 7)
    scene.wait(10)

    assert refused in (errors.COORDINATOR_NOT_AVAILABLE, errors.NOT_COORDINATOR)
    now = next(machine for machine in run.machines if machine is not coordinator and groups_of(machine).is_serving)
    assert (errors.NONE, [-1]) == scene.fetch(now, "tides")


def test_a_batch_is_not_accepted_before_an_earlier_one_of_unknown_outcome() -> None:
    """
    A new producer sends two batches.  A leader appends the first, loses leadership, and truncates it.  The second,
    still in flight, arrives when that broker leads again and no longer knows the producer.  It must not be accepted
    before the first.
    """
    run = three_brokers_with_a_topic()
    scene = Scene(run)
    old = next(machine for machine in run.machines if replica_of(machine).is_serving)
    others = [machine for machine in run.machines if machine is not old]
    asked = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
    producer = scene.call(scene.client.ask_any(asked))
    assert errors.NONE == producer.error_code

    def batch(sequence: int) -> produce.Request:
        data = build_batch(
            [(None, b"%d" % sequence, (), 1)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
        )
        part = produce.Request.Topic.Partition(index=0, records=memoryview(bytes(data)))
        topic = produce.Request.Topic(name="flights", partition_data=[part])
        return produce.Request(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[topic])

    def outcome(answer: Any) -> tuple[int, int]:
        part = answer.responses[0].partition_responses[0]
        return part.error_code, part.base_offset

    client = scene.client.name

    async def send_both() -> list[Any]:
        connection = await scene.client.connection((old.name, KAFKA_PORT))
        for other in others:
            isolate(run, old, other)
        first = connection.send(batch(0), 9)
        await asyncio.sleep(0.2)
        run.network.blocked |= {(client, old.name), (old.name, client)}
        return [first, connection.send(batch(1), 9)]

    sent = scene.call(send_both())
    pass_time(run, lambda: any(replica_of(machine).is_serving for machine in others))
    run.network.blocked = {pair for pair in run.network.blocked if client in pair}
    end = replica_of(old).log.last_index
    pass_time(run, lambda: replica_of(old).replica.match_index == replica_of(others[0]).log.last_index >= end)
    now = next(machine for machine in others if replica_of(machine).is_serving)
    pass_time(run, lambda: replica_of(now).transfer_leadership(old.voter))
    pass_time(run, lambda: bool(replica_of(old).is_serving))
    assert producer.producer_id not in replica_of(old).log.partitions[0].producers
    run.network.heal()
    pass_time(run, lambda: all(answer.done() for answer in sent))

    assert [(errors.REQUEST_TIMED_OUT, -1)] * 2 == [outcome(answer.result()) for answer in sent]
    (first, at), (second, behind) = [outcome(scene.ask(old, batch(number), 9)) for number in (0, 1)]
    assert (errors.NONE, errors.NONE, at + 1) == (first, second, behind)
