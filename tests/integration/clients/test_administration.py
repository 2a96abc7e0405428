"""Administration clients of other projects, used with a Tidemill broker."""

import uuid
import warnings
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.integration.clients.conftest import RunningBroker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the library reads its schemas in a deprecated way
    from kafka import admin as kafka_admin

SECONDS_MAX = 15


@pytest.fixture
def confluent(broker: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def kafka_python(broker: RunningBroker) -> Iterator[kafka_admin.KafkaAdminClient]:
    client = kafka_admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def made(client: AdminClient, **wanted: object) -> str:
    name = f"admin-{uuid.uuid4().hex[:12]}"
    client.create_topics([NewTopic(name, **wanted)])[name].result(SECONDS_MAX)
    return name


def test_confluents_client_creates_extends_and_deletes_topics(confluent: AdminClient) -> None:
    """
    Topics can be created, extended and deleted, and each change is visible as soon as the broker has responded.
    """
    name = made(confluent, num_partitions=2, replication_factor=1)

    confluent.create_partitions([NewPartitions(name, 5)])[name].result(SECONDS_MAX)

    assert 5 == len(confluent.list_topics(name, timeout=SECONDS_MAX).topics[name].partitions)
    confluent.delete_topics([name])[name].result(SECONDS_MAX)
    assert name not in confluent.list_topics(timeout=SECONDS_MAX).topics


def test_confluents_client_changes_configurations(confluent: AdminClient) -> None:
    """
    A configuration value can be set, described and deleted.
    """
    name = made(confluent, num_partitions=1, replication_factor=1, config={"retention.ms": "1000"})
    told = []

    for operation, value in ((AlterConfigOpType.SET, "2000"), (AlterConfigOpType.DELETE, None)):
        entry = ConfigEntry("retention.ms", value, incremental_operation=operation)
        change = ConfigResource("topic", name, incremental_configs=[entry])
        confluent.incremental_alter_configs([change])[change].result(SECONDS_MAX)
        resource = ConfigResource("topic", name)
        told.append(confluent.describe_configs([resource])[resource].result(SECONDS_MAX)["retention.ms"].value)

    assert ["2000", "604800000"] == told


def test_confluents_client_describes_the_cluster_and_its_topics(confluent: AdminClient) -> None:
    """
    The client's description contains the cluster, its only broker as the controller, and the topics.
    """
    name = made(confluent, num_partitions=3, replication_factor=1)

    cluster = confluent.describe_cluster().result(SECONDS_MAX)
    groups = confluent.list_topics(timeout=SECONDS_MAX)

    assert (1, 1, 3) == (len(cluster.nodes), cluster.controller.id, len(groups.topics[name].partitions))


def test_confluents_client_deletes_records(broker: RunningBroker, confluent: AdminClient) -> None:
    """
    After DeleteRecords, ListOffsets returns the new log start offset, and a consumer starts at it.
    """
    name = made(confluent, num_partitions=1, replication_factor=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(10):
        producer.produce(name, str(number), partition=0)
    assert 0 == producer.flush(SECONDS_MAX)

    confluent.delete_records([TopicPartition(name, 0, 4)])[TopicPartition(name, 0)].result(SECONDS_MAX)

    asked = {TopicPartition(name, 0): OffsetSpec.earliest()}
    assert 4 == confluent.list_offsets(asked)[TopicPartition(name, 0)].result(SECONDS_MAX).offset
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(name, 0, 0)])
    record = consumer.poll(SECONDS_MAX)
    consumer.close()
    assert record is not None and b"4" == record.value()


def test_kafka_pythons_client_administers_topics(kafka_python: kafka_admin.KafkaAdminClient) -> None:
    """
    kafka-python, which sends newer versions of the same requests, administers topics too.
    """
    name = f"admin-{uuid.uuid4().hex[:12]}"

    kafka_python.create_topics([kafka_admin.NewTopic(name, num_partitions=2, replication_factor=1)])
    resource = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, name)
    configs = kafka_python.describe_configs([resource], config_filter="all")
    (described,) = kafka_python.describe_topics([name])
    cluster = kafka_python.describe_cluster()
    kafka_python.delete_topics([name])

    assert "retention.ms" in str(configs)
    assert (2, 1) == (len(described["partitions"]), cluster["controller_id"])
    assert name not in kafka_python.list_topics()


def test_kafka_pythons_client_describes_log_directories(
    broker: RunningBroker, kafka_python: kafka_admin.KafkaAdminClient, confluent: AdminClient
) -> None:
    """
    The response contains the size of each partition's records, and the path and the disk of the directory.
    """
    name = made(confluent, num_partitions=2, replication_factor=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(name, bytes(10_000), partition=1)
    assert 0 == producer.flush(SECONDS_MAX)

    (told,) = kafka_python.describe_log_dirs({name: [0, 1]})
    (everything,) = kafka_python.describe_log_dirs()

    (directory,) = told["log_dirs"]
    (topic,) = directory["topics"]
    sizes = {it["partition_index"]: it["partition_size"] for it in topic["partitions"]}
    assert directory["log_dir"].startswith("/")
    assert directory["total_bytes"] >= directory["usable_bytes"] > 0
    assert (0, True) == (sizes[0], 10_000 < sizes[1] < 11_000)
    assert topic in everything["log_dirs"][0]["topics"]


def test_kafka_pythons_client_lists_what_has_a_configuration(
    kafka_python: kafka_admin.KafkaAdminClient, confluent: AdminClient
) -> None:
    """
    Resources of the requested type are listed, or those of all types if none is requested.
    """
    name = made(confluent, num_partitions=1, replication_factor=1)

    everything = kafka_python.list_config_resources()
    brokers = kafka_python.list_config_resources(["BROKER"])

    assert name in everything["topic"]
    assert {"broker": ["1"]} == brokers
