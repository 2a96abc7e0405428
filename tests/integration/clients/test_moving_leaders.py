"""Three brokers whose leaders all move every two seconds; clients notice only short delays."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from benchmarks.clusters import BROKERS
from tests.integration.clients.adapters import CLIENTS, connect
from tests.integration.clients.client_contract import CASES, Case, Stage
from tests.integration.clients.client_port import WAIT_SECONDS_MAX, Client, GroupDescription, Outgoing, Unsupported
from tests.integration.clients.confluent_adapter import ConfluentClient
from tests.integration.clients.conftest import MOVE_SECONDS, OFFSETS_PARTITIONS, RunningCluster
from tests.integration.clients.timer_contract import TIMER_CASES
from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.connection_settings import from_keys
from tidemill.coordinator.group.group_partition import partition_for
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import OFFSETS_TOPIC

NUMBERS = itertools.count(1)
ELECTIONS = 5
ELECTED_SECONDS_MAX = 60  # time limit for the elections; there is one every two seconds


@pytest.fixture(scope="module", params=CLIENTS)
def moving_client(request: pytest.FixtureRequest, cluster: RunningCluster) -> Iterator[Client]:
    connected = connect(request.param, cluster.bootstrap)
    yield connected
    connected.close()


def staged(client: Client, cluster: RunningCluster) -> Stage:
    name = f"moving-{os.getpid()}-{next(NUMBERS)}"
    return Stage(client, name=name, broker_pid=None, replicas=BROKERS, still=cluster.mover.still)


@pytest.mark.parametrize("case", [*CASES, *TIMER_CASES], ids=lambda case: case.__name__)
def test_the_client_contract_holds_while_leaders_move(
    moving_client: Client, case: Case, cluster: RunningCluster
) -> None:
    """
    The client contract holds while all leaders move, including the controller and the group coordinators.
    """
    with staged(moving_client, cluster) as stage:
        try:
            case(stage)
        except Unsupported as reason:
            pytest.skip(str(reason))


def test_idle_consumers_are_neither_reset_nor_stuck(moving_client: Client, cluster: RunningCluster) -> None:
    """
    Two consumers, one at the end of an empty partition and one at the end of a partition that it has read, survive five
    elections in each partition.  Without a reset policy, a reset would raise an error.  A record that is written
    afterwards arrives once.
    """
    with staged(moving_client, cluster) as stage:
        idle = {stage.topic(): stage.consumer(reset="none"), stage.topic(): stage.consumer(reset="none")}
        read = dict(zip(idle, (0, 3), strict=True))
        for topic, consumer in idle.items():
            stage.send(topic, [Outgoing(value=b"before", partition=0)] * read[topic])
            consumer.assign({(topic, 0): 0})
            stage.take(consumer, read[topic])
        elected = {topic: {epoch_of(cluster, topic)} for topic in idle}
        until = time.monotonic() + ELECTED_SECONDS_MAX
        came = []
        while min(map(len, elected.values())) <= ELECTIONS and time.monotonic() < until:
            for topic, consumer in idle.items():
                came += consumer.poll(0.25)
                elected[topic].add(epoch_of(cluster, topic))

        for topic, consumer in idle.items():
            stage.send(topic, [Outgoing(value=b"after", partition=0)])
            after = stage.take(consumer, 1)

            assert ([], [(read[topic], b"after")]) == (came, [(record.offset, record.value) for record in after])
            assert len(elected[topic]) > ELECTIONS, f"leader epochs of {topic}: {sorted(elected[topic])}"


def test_a_member_whose_coordinator_moves_before_it_asks_for_its_offsets_reads_them(cluster: RunningCluster) -> None:
    """
    A member whose OffsetFetch gets NOT_COORDINATOR fetches its offsets from the new coordinator (librdkafka's issue
    5586).  The long heartbeat interval ensures that no heartbeat tells the member of the move earlier.
    """
    client = ConfluentClient(cluster.bootstrap)
    with staged(client, cluster) as stage:
        topic, group = stage.topic(), f"{stage.name}-group"
        stage.send(topic, [Outgoing(value=b"%d" % index, partition=0) for index in range(3)])

        def assigned(consumer: Consumer, partitions: list[KafkaPartition]) -> None:
            partition = partition_for(group, OFFSETS_PARTITIONS)
            before = epoch_of(cluster, OFFSETS_TOPIC, partition)
            stage.until(lambda: epoch_of(cluster, OFFSETS_TOPIC, partition) > before, "the coordinator moves")
            stack.enter_context(stage.still())
            consumer.assign(partitions)

        consumer = Consumer({
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 60_000,
            "heartbeat.interval.ms": 50_000,
            "log_level": 0,
        })  # fmt: skip
        told, values = set(), []
        with ExitStack() as stack:
            stack.callback(consumer.close)
            consumer.subscribe([topic], on_assign=assigned)
            until = time.monotonic() + WAIT_SECONDS_MAX
            while len(values) < 3 and time.monotonic() < until:
                if (message := consumer.poll(0.2)) is not None:
                    error = message.error()
                    told.add(error.code() if error else None)
                    values += [] if error else [message.value()]

        assert [b"0", b"1", b"2"] == values
        assert KafkaError.NOT_COORDINATOR in told, f"the member knew the new coordinator before it asked: {told}"


def test_a_group_is_described_after_its_coordinator_has_moved(moving_client: Client, cluster: RunningCluster) -> None:
    """
    A client that has asked the old coordinator gets the answer of the new one, and the coordinator need not move back.
    """
    with staged(moving_client, cluster) as stage:
        topic, group = stage.topic(), f"{stage.name}-group"
        member = stage.consumer(group)
        member.assign({(topic, 0): 0})
        member.commit({(topic, 0): 0})
        partition = partition_for(group, OFFSETS_PARTITIONS)
        assert moving_client.describe_group(group).state == "empty"
        before = epoch_of(cluster, OFFSETS_TOPIC, partition)
        stage.until(lambda: epoch_of(cluster, OFFSETS_TOPIC, partition) > before, "the coordinator moves")

        with stage.still():
            described = moving_client.describe_group(group)

        assert GroupDescription(state="empty", member_count=0) == described


def test_a_view_of_the_cluster_survives_the_moves_of_coordinators(cluster: RunningCluster) -> None:
    """
    `tidemill top` reads the offsets of groups before and after their coordinators have moved.
    """
    client = ConfluentClient(cluster.bootstrap)
    with staged(client, cluster) as stage:
        topic = stage.topic()
        for number in range(OFFSETS_PARTITIONS):
            member = stage.consumer(f"{stage.name}-group-{number}")
            member.assign({(topic, 0): 0})
            member.commit({(topic, 0): 0})

        command = ["tidemill", "top", "--json", "--interval", f"{1.5 * MOVE_SECONDS}", "--bootstrap", cluster.bootstrap]
        top = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)

        assert (0, True) == (top.returncode, top.stdout.startswith("{")), top.stderr


def epoch_of(cluster: RunningCluster, topic: str, partition: int = 0) -> int:
    """Return the leader epoch of a partition, waiting for a leader if there is none."""
    known = ClusterMetadata(from_keys({"bootstrap.servers": cluster.bootstrap}))
    try:
        while True:
            known.refresh([topic])
            with suppress(LeaderUnknown):
                return known.leader(TopicPartition(topic, partition)).epoch
    finally:
        known.close()
