"""Kafka's own commands work with three brokers whose leaders move, except while a test keeps them still."""

import json
import re
import uuid
from collections.abc import Iterator

import pytest

from conformance.kafka_tools import KafkaTools
from tests.integration.clients.client_contract import Stage
from tests.integration.clients.conftest import RunningCluster

LED = re.compile(r"Partition: (\d+)\tLeader: (\d+)\tReplicas: (\S+)\tIsr: (\S+)")


@pytest.fixture
def topic(cluster_tools: KafkaTools) -> Iterator[str]:
    """Create a topic with three partitions, and yield its name."""
    name = f"tools-{uuid.uuid4().hex[:10]}"
    sized = ("--partitions", "3", "--replication-factor", "3")
    cluster_tools.run("kafka-topics", "--create", "--topic", name, *sized)
    yield name
    cluster_tools.run("kafka-topics", "--delete", "--topic", name)


def leaders(tools: KafkaTools, topic: str) -> list[tuple[int, int]]:
    """Return the leader and the preferred leader of each partition."""
    rows = LED.findall("\n".join(tools.run("kafka-topics", "--describe", "--topic", topic)))
    assert [["1", "2", "3"]] * len(rows) == [sorted(replicas.split(",")) for _, _, replicas, _ in rows]
    assert [["1", "2", "3"]] * len(rows) == [sorted(isr.split(",")) for _, _, _, isr in rows]
    return [(int(leader), int(replicas.split(",")[0])) for _, leader, replicas, _ in rows]


def test_preferred_leaders_are_elected(cluster_tools: KafkaTools, cluster: RunningCluster, topic: str) -> None:
    def strayed() -> bool:
        return any(leader != preferred for leader, preferred in leaders(cluster_tools, topic))

    elected: list[str] = []
    while not elected:  # by chance, all leaders may be the preferred ones
        until = cluster.mover.rounds + 1
        Stage.until(lambda until=until: cluster.mover.rounds >= until, "leaders move")  # type: ignore[misc]
        with cluster.mover.still():
            if strayed():
                election = ("--election-type", "preferred", "--all-topic-partitions")
                elected = cluster_tools.run("kafka-leader-election", *election)
                assert not strayed()

    assert elected[0].startswith("Successfully completed leader election (PREFERRED) for partitions")
    assert f"{topic}-" in elected[0]


def test_nothing_is_under_replicated(cluster_tools: KafkaTools, topic: str) -> None:
    assert [] == cluster_tools.run("kafka-topics", "--describe", "--under-replicated-partitions", "--topic", topic)
    assert [] == cluster_tools.run("kafka-topics", "--describe", "--unavailable-partitions", "--topic", topic)


def test_three_voters_are_described(cluster_tools: KafkaTools, cluster: RunningCluster) -> None:
    with cluster.mover.still():
        status = dict(line.split(":", 1) for line in cluster_tools.run("kafka-metadata-quorum", "describe", "--status"))
        _, *replicas = cluster_tools.run("kafka-metadata-quorum", "describe", "--replication")

    assert [1, 2, 3] == [voter["id"] for voter in json.loads(status["CurrentVoters"])]
    roles = {line.split()[0]: line.split()[-1] for line in replicas}
    assert {**dict.fromkeys("123", "Follower"), status["LeaderId"].strip(): "Leader"} == roles


def test_exactly_the_acknowledged_records_exist_while_leaders_move(
    cluster_tools: KafkaTools, cluster: RunningCluster, topic: str
) -> None:
    """
    Exactly the acknowledged records exist after leadership transfers, which lose no response.  The verifiable producer
    does not retry, so a refused record was not stored.
    """
    until = ("--topic", topic, "--max-messages", "3000", "--throughput", "500")
    before = cluster.mover.rounds

    told = [json.loads(line) for line in cluster_tools.run("kafka-verifiable-producer", *until, "--acks", "-1")]

    acked = [(each["partition"], each["offset"]) for each in told if each["name"] == "producer_send_success"]
    refused = [each["exception"] for each in told if each["name"] == "producer_send_error"]
    assert 3000 == len(acked) + len(refused)
    assert len(acked) == len(set(acked)) > 0
    assert {"class org.apache.kafka.common.errors.NotLeaderOrFollowerException"} >= set(refused)
    ends = cluster_tools.run("kafka-get-offsets", "--topic", topic)
    assert len(acked) == sum(int(line.rpartition(":")[2]) for line in ends)
    assert cluster.mover.rounds > before
