"""Kafka's own commands work with three brokers whose leaders move, except while a test keeps them still."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.kafka_tools import KafkaTools, reassignment_file
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


def test_nothing_is_under_replicated(cluster_tools: KafkaTools, cluster: RunningCluster, topic: str) -> None:
    with cluster.mover.still():  # a partition has neither a leader nor replicas in sync while its leader moves
        for kind in ("--under-replicated-partitions", "--unavailable-partitions"):
            command = ("kafka-topics", "--describe", kind, "--topic", topic)
            Stage.until(lambda command=command: cluster_tools.run(*command) == [], kind)  # type: ignore[misc]


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


# ---- kafka-reassign-partitions


@pytest.fixture
def assigned(cluster_tools: KafkaTools) -> Iterator[str]:
    """Create a topic with two partitions on brokers 1 and 2, which are one shard, and yield its name."""
    name = f"moved-{uuid.uuid4().hex[:10]}"
    cluster_tools.run("kafka-topics", "--create", "--topic", name, "--replica-assignment", "1:2,1:2")
    yield name
    cluster_tools.run("kafka-topics", "--delete", "--topic", name)


def listed(tools: KafkaTools) -> list[str]:
    """
    Return what is under way.  A new controller, of which there is one every few seconds here, counts what has moved
    before as under way until the leaders have reported to it; therefore these tests also use `--additional`.
    """
    return tools.run("kafka-reassign-partitions", "--list")


def test_replicas_move_with_a_throttle(cluster_tools: KafkaTools, assigned: str, tmp_path: Path) -> None:
    """The throttle is set while replicas move, and verifying removes it once they have arrived."""
    file = reassignment_file(tmp_path / "plan", assigned, {0: [3, 1], 1: [3, 1]})

    def throttles() -> list[str]:
        told = [
            *cluster_tools.run("kafka-configs", "--describe", "--entity-type", "brokers"),
            *cluster_tools.run("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", assigned),
        ]
        return sorted({*re.findall(r"(\w+\.replication\.throttled\.\w+=\S+)", "\n".join(told))})

    told = cluster_tools.run("kafka-reassign-partitions", *file, "--execute", "--additional", "--throttle", "10000000")
    during = throttles()
    verified: list[str] = []

    def is_complete() -> bool:
        verified[:] = cluster_tools.run("kafka-reassign-partitions", *file, "--verify")
        return f"Reassignment of partition {assigned}-1 is completed." in verified

    Stage.until(is_complete, "the replicas have moved")

    assert f"Successfully started partition reassignments for {assigned}-0,{assigned}-1" in told
    assert {"leader.replication.throttled.rate=10000000", "follower.replication.throttled.rate=10000000"} <= {*during}
    assert any(each.startswith("leader.replication.throttled.replicas=") for each in during)
    assert f"Clearing topic-level throttles on topic {assigned}" in verified
    assert [] == throttles()
    rows = LED.findall("\n".join(cluster_tools.run("kafka-topics", "--describe", "--topic", assigned)))
    assert ["3,1", "3,1"] == [replicas for _, _, replicas, _ in rows]
    Stage.until(lambda: assigned not in " ".join(listed(cluster_tools)), "nothing of the topic is under way")


def test_partitions_that_move_together_cannot_part(cluster_tools: KafkaTools, assigned: str, tmp_path: Path) -> None:
    """The refusal names the partitions that must be given the same brokers, and nothing moves."""
    file = reassignment_file(tmp_path / "plan", assigned, {0: [3, 1], 1: [3, 2]})

    complaint = cluster_tools.complaint("kafka-reassign-partitions", *file, "--execute", "--additional")
    cancelled = cluster_tools.complaint("kafka-reassign-partitions", *file, "--cancel")

    assert f"partitions 0 to 1 of {assigned} are one shard, whose replicas move together" in complaint
    assert "None of the specified partition moves are active." in cancelled
    Stage.until(lambda: assigned not in " ".join(listed(cluster_tools)), "nothing of the topic is under way")
