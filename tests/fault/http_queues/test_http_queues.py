"""Every message of a queue is acknowledged, whatever happens to consumers, brokers and responses."""

import http.client
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from select import select
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.extent import times
from tests.fault.http_queues.lossy_proxy import LossyProxies
from tests.fault.http_queues.queue_consumers import Consumer, Ledger

PARTITIONS = 4
MESSAGES = times(5_000, 50_000)
CONSUMERS = times(6, 12)
KILLS = times(2, 20)  # of brokers, and as many of consumers
LOST_SHARE = 0.05
HOLD_S_MAX = 3  # how long a consumer that is to be killed may wait for messages
DELIVERIES_MAX = 10  # of a message: beyond, it would be set aside without an acknowledgement
TOPIC, GROUP = "jobs", "workers"
PATH = f"/v1/queues/{TOPIC}/{GROUP}"
SETTINGS: dict[str, str | int] = {"group.share.min.record.lock.duration.ms": 1_000}


@pytest.mark.timeout(times(300, 3_600))
def test_every_message_is_acknowledged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Consumers acknowledge, release, reject, extend and forget messages at random, through proxies that lose every 20th
    response; brokers and consumers are killed.  Each message is acknowledged, none is delivered after a response said
    so, and the receipt of a former delivery is refused while a later one is valid.
    """
    ledger = Ledger()
    with ClusterProcesses(tmp_path, settings=SETTINGS) as cluster:
        cluster.start_all()
        _create(cluster.bootstrap)
        proxies = LossyProxies(cluster.http_ports.values(), lost_share=LOST_SHARE, seed=1)
        consumers = [Consumer(proxies.ports, PATH, ledger, seed) for seed in range(CONSUMERS)]
        for consumer in consumers:
            consumer.start()
        try:
            for kill in range(KILLS):
                _produce(cluster.bootstrap, kill * MESSAGES // KILLS, (kill + 1) * MESSAGES // KILLS)
                victim = kill % 3 + 1
                cluster.kill(victim)
                _kill_a_consumer(cluster.http_ports[victim % 3 + 1])
                cluster.start(victim)
            wait_until(lambda: _left(cluster) == 0, "the end of the queue", seconds_max=times(120, 600))
        finally:
            for consumer in consumers:
                consumer.is_stopping = True
            for consumer in consumers:
                consumer.join(60)
            proxies.close()

    deliveries = Counter(ledger.attempts.values())
    unfinished = ledger.attempts.keys() - ledger.finished_at.keys()
    with capsys.disabled():
        print(
            f"\n{MESSAGES} messages; by number of deliveries: {dict(sorted(deliveries.items()))}; responses lost: "
            f"{proxies.lost}; requests sent again: {ledger.unknown}; former receipts: {dict(ledger.stale)}; finished "
            f"without a response: {len(unfinished)}"
        )
    assert [] == [it.error for it in consumers if it.error is not None]
    assert [] == ledger.violations
    assert {str(number) for number in range(MESSAGES)} == set(ledger.values.values())
    assert [] == [it for it in unfinished if ledger.attempts[it] >= DELIVERIES_MAX], "set aside, and not acknowledged"
    assert proxies.lost > 0 and ledger.stale["expired, same term"] > 0


def _create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(DELIVERIES_MAX)}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def _produce(bootstrap: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(first, end):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
        producer.poll(0)
    assert 0 == producer.flush(60)


def _kill_a_consumer(port: int) -> None:
    """Kill a consumer as soon as it holds messages; if all are taken by others, as soon as it waits for them."""
    command = [sys.executable, "-m", "tests.fault.http_queues.doomed_consumer", str(port), PATH]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as doomed:
        select([doomed.stdout], [], [], HOLD_S_MAX)
        doomed.kill()


def _left(cluster: ClusterProcesses) -> int | None:
    """Return how many messages are not finished; None if that is not known now."""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.http_ports[1], timeout=15)
    try:
        connection.request("GET", PATH)
        response = connection.getresponse()
        found: Any = json.loads(response.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if response.status != 200 or sum(it["end"] or 0 for it in found["partitions"]) < MESSAGES:
        return None
    return sum(it["available"] + it["delayed"] + it["locked"] + it["archiving"] for it in found["partitions"])
