"""Three brokers, whose leaders all move every two seconds: clients notice nothing but a moment's pause."""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from benchmarks.clusters import BROKERS
from tests.integration.clients.adapters import CLIENTS, connect
from tests.integration.clients.client_contract import CASES, Case, Stage
from tests.integration.clients.client_port import Client, Outgoing, Unsupported
from tests.integration.clients.conftest import RunningCluster
from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.connection_settings import from_keys
from tidemill.model.partition import TopicPartition

NUMBERS = itertools.count(1)
ELECTIONS = 5
ELECTED_SECONDS_MAX = 60  # for so many; each takes two seconds


@pytest.fixture(scope="module", params=CLIENTS)
def moving_client(request: pytest.FixtureRequest, cluster: RunningCluster) -> Iterator[Client]:
    connected = connect(request.param, cluster.bootstrap)
    yield connected
    connected.close()


def staged(client: Client, cluster: RunningCluster) -> Stage:
    name = f"moving-{os.getpid()}-{next(NUMBERS)}"
    return Stage(client, name=name, broker_pid=None, replicas=BROKERS, still=cluster.mover.still)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_client_contract_holds_while_leaders_move(
    moving_client: Client, case: Case, cluster: RunningCluster
) -> None:
    """
    Also for the controller, and for the coordinators of groups.
    """
    with staged(moving_client, cluster) as stage:
        try:
            case(stage)
        except Unsupported as reason:
            pytest.skip(str(reason))


@pytest.mark.parametrize("before", [0, 3], ids=["empty", "read"])
def test_an_idle_consumer_is_neither_reset_nor_stuck(
    moving_client: Client, before: int, cluster: RunningCluster
) -> None:
    """
    At the end of a partition in which nothing is written, across five elections: a consumer without a reset policy
    would be told of a reset, and what is written afterwards comes, once and at once.
    """
    with staged(moving_client, cluster) as stage:
        topic = stage.topic()
        if before:
            stage.send(topic, [Outgoing(value=b"before", partition=0)] * before)
        consumer = stage.consumer(reset="none")
        consumer.assign({(topic, 0): 0})
        stage.take(consumer, before)
        elected = [epoch_of(cluster, topic)]
        until = time.monotonic() + ELECTED_SECONDS_MAX
        came = []
        while len(elected) <= ELECTIONS and time.monotonic() < until:
            came += consumer.poll(0.5)
            elected = sorted({*elected, epoch_of(cluster, topic)})

        stage.send(topic, [Outgoing(value=b"after", partition=0)])
        sent_at = time.monotonic()
        after = stage.take(consumer, 1)

        assert ([], [(before, b"after")]) == (came, [(record.offset, record.value) for record in after])
        assert time.monotonic() - sent_at < 5
        assert len(elected) > ELECTIONS, f"leader epochs of {topic}: {elected}"


def epoch_of(cluster: RunningCluster, topic: str) -> int:
    """Of whoever leads its first partition, or led it last."""
    known = ClusterMetadata(from_keys({"bootstrap.servers": cluster.bootstrap}))
    try:
        while True:
            known.refresh([topic])
            with suppress(LeaderUnknown):
                return known.leader(TopicPartition(topic, 0)).epoch
    finally:
        known.close()
