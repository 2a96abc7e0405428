"""Consumers without a share session on three brokers whose leaders all move every two seconds."""

import os
import random
import time
from contextlib import closing
from threading import Thread

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.integration.clients.conftest import RunningCluster
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.share_client import ShareClient
from tidemill.model.partition import TopicPartition
from tidemill.share.acknowledgement import Acknowledgement

RECORDS = 600
PARTITIONS = 3
CONSUMERS = 3
RELEASED = 0.1  # the fraction of receives after which a consumer releases its records
SECONDS_MAX = 90


def test_every_record_is_accepted_while_leaders_move(cluster: RunningCluster) -> None:
    """
    Consumers that repeat their requests after leader changes get and accept every record.
    """
    topic, group = f"lone-{os.getpid()}", f"lone-{os.getpid()}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(timeout=60)
    settings = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("share.auto.offset.reset", "earliest"), ("share.delivery.count.limit", "10"))
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=settings)
    admin.incremental_alter_configs([resource])[resource].result(timeout=60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert not producer.flush(60)
    seen: set[tuple[int, int]] = set()  # the partitions and offsets that a consumer has accepted
    until = time.monotonic() + SECONDS_MAX

    def consume(name: str) -> None:
        chance = random.Random(name)
        with closing(ClusterMetadata(from_keys({"bootstrap.servers": cluster.bootstrap}))) as metadata:
            shares = ShareClient(metadata)
            while time.monotonic() < until and any(it.lag != 0 for it in shares.describe(group, topic)):
                number = chance.randrange(PARTITIONS)
                partition = TopicPartition(topic, number)
                got = shares.receive(partition, group, name, max_records=20, max_bytes=1 << 20, wait_ms=200)
                if chance.random() < RELEASED:
                    shares.resolve(partition, group, name, held_as=Acknowledgement.RELEASE, delay_ms=0)
                    continue
                ranges = [(first, last, Acknowledgement.ACCEPT) for first, last, _ in got.acquired]
                shares.resolve(partition, group, name, ranges, topic_id=got.topic_id)
                seen.update((number, offset) for first, last, _ in ranges for offset in range(first, last + 1))

    threads = [Thread(target=consume, args=(f"c{number}",)) for number in range(CONSUMERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX + 90)
        assert not thread.is_alive()

    with closing(ClusterMetadata(from_keys({"bootstrap.servers": cluster.bootstrap}))) as metadata:
        states = ShareClient(metadata).describe(group, topic)
    assert [0] * PARTITIONS == [it.lag for it in states]
    assert [RECORDS // PARTITIONS] * PARTITIONS == [it.start for it in states]
    assert {(number, offset) for number in range(PARTITIONS) for offset in range(RECORDS // PARTITIONS)} == seen
