"""
What one broker decides for the entire cluster survives the failure of that broker: topics, committed offsets and
producer ids.
"""

import random
import time
from concurrent.futures import Future

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.extent import times
from tests.fault.steady_load import QUICK

PARTITIONS = 4
DELAY_SECONDS_MAX = 0.06  # longest random time from the request to the kill of the controller
OFFSETS = "__consumer_offsets"
NOT_NOW = {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
"""
Errors after which librdkafka looks up the coordinator again, but leaves it to the application to retry OffsetFetch.
"""


@pytest.mark.timeout(times(120, 1_800))
def test_a_topic_is_created_once_although_the_controller_dies(cluster: ClusterProcesses) -> None:
    """
    A client whose request was acknowledged finds the topic, all other clients can retry, and no two topics ever get the
    same name.
    """
    for number in range(times(1, 50)):
        topic = f"made-{number}"
        controller = cluster.controller()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "socket.timeout.ms": 5_000, **QUICK})
        asked = admin.create_topics([NewTopic(topic, PARTITIONS, 3)], request_timeout=10, operation_timeout=10)[topic]
        time.sleep(random.uniform(0.0, DELAY_SECONDS_MAX))
        cluster.kill(controller)
        was_told = is_answered(asked)
        wait_until(lambda controller=controller: cluster.controller() != controller, "another controller")
        if not was_told:
            create_again(lambda topic=topic: cluster.create_topic(topic, PARTITIONS))
        cluster.leaders(topic, but=[controller])
        cluster.start(controller)
        wait_until(lambda topic=topic: len(ids_of(cluster, topic)) == 1, f"agreement upon {topic}")
        write_one(cluster, topic)


def is_answered(asked: "Future[None]") -> bool:
    try:
        asked.result(30)
    except KafkaException as failure:
        error = failure.args[0]
        if error.retriable() or error.code() < 0 or error.name() == "REQUEST_TIMED_OUT":  # the outcome is unknown
            return False
        raise
    return True


def create_again(make: object) -> None:
    """Create the topic again, and accept that it may already exist."""
    assert callable(make), make
    try:
        make()
    except KafkaException as failure:
        if failure.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise


def ids_of(cluster: ClusterProcesses, topic: str) -> set[bytes]:
    """Return the different topic ids that brokers report for this name."""
    return {bytes(cluster.ask(number, [topic]).topics[0].topic_id) for number in cluster.numbers}


def write_one(cluster: ClusterProcesses, topic: str) -> None:
    """
    Write a record to each partition with a new producer id, because the controller also allocates blocks of producer
    ids.
    """
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **QUICK})
    for partition in range(PARTITIONS):
        producer.produce(topic, b"1", partition=partition)
    left = producer.flush(60)
    assert left == 0, f"{left} records were not acknowledged"


@pytest.mark.timeout(times(120, 1_800))
def test_committed_offsets_survive_their_coordinator(cluster: ClusterProcesses) -> None:
    """After a coordinator dies, its successor returns the last offset whose commit was acknowledged."""
    cluster.create_topic("committed", 1)
    group = Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": "survivors", "enable.auto.commit": False, **QUICK,
    })  # fmt: skip
    for number in range(1, 1 + times(1, 50)):
        commit(group, number)
        coordinator = coordinator_of(cluster)
        cluster.kill(coordinator)
        found = committed(group)
        cluster.start(coordinator)
        assert found == number
    group.close()


def is_transient(failure: KafkaException) -> bool:
    """
    Return whether a retry may succeed.  Negative codes are those of librdkafka itself, such as a lost connection or a
    timeout.
    """
    code: int = failure.args[0].code()
    return code < 0 or code in NOT_NOW


def commit(group: Consumer, offset: int) -> None:
    done = []

    def is_done() -> bool:
        try:
            done[:] = group.commit(offsets=[TopicPartition("committed", 0, offset)], asynchronous=False)
        except KafkaException as failure:
            assert is_transient(failure), failure
        return bool(done) and done[0].error is None

    wait_until(is_done, "commit")


def committed(group: Consumer) -> int:
    found: list[TopicPartition] = []

    def is_told() -> bool:
        try:
            found[:] = group.committed([TopicPartition("committed", 0)], timeout=10)
        except KafkaException as failure:
            assert is_transient(failure), failure
        return bool(found) and found[0].error is None

    wait_until(is_told, "committed offset")
    offset: int = found[0].offset
    return offset


def coordinator_of(cluster: ClusterProcesses) -> int:
    """Return the leader of the partition to which the group's name hashes, by Java's hash function."""
    from tidemill.coordinator.group.group_partition import partition_for

    leaders = cluster.leaders(OFFSETS)
    return leaders[partition_for("survivors", len(leaders))]
