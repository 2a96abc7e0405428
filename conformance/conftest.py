"""Fixtures for the brokers and for each client library that runs the client contract in this folder."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker import Unavailable
from conformance import jvm
from conformance.franz_client import FranzClient
from conformance.java_client import JavaClient
from conformance.kafka_tools import KafkaTools
from tests.integration.clients.adapters import CLIENTS
from tests.integration.clients.client_port import Client
from tests.integration.clients.conftest import (
    RunningBroker,
    RunningCluster,
    broker,
    cluster,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)

__all__ = ["broker", "cluster", "pytest_runtest_makereport", "pytest_terminal_summary"]

EVERY_CLIENT = {**CLIENTS, JavaClient.name: JavaClient, FranzClient.name: FranzClient}


def connected(name: str, bootstrap: str) -> Client:
    try:
        return EVERY_CLIENT[name](bootstrap)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module", params=EVERY_CLIENT)
def client(request: pytest.FixtureRequest, broker: RunningBroker) -> Iterator[Client]:
    with closing(connected(request.param, broker.bootstrap)) as client:
        yield client


@pytest.fixture(scope="module", params=EVERY_CLIENT)
def moving_client(request: pytest.FixtureRequest, cluster: RunningCluster) -> Iterator[Client]:
    with closing(connected(request.param, cluster.bootstrap)) as client:
        yield client


@pytest.fixture(scope="session")
def java() -> None:
    try:
        jvm.command()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def tools(java: None, broker: RunningBroker) -> KafkaTools:
    return KafkaTools(broker.bootstrap)


@pytest.fixture(scope="session")
def cluster_tools(java: None, cluster: RunningCluster) -> KafkaTools:
    return KafkaTools(cluster.bootstrap)


@pytest.fixture
def apache_kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    """Yield a running broker of Apache Kafka."""
    try:
        broker = ApacheKafka(tmp_path / "kafka")
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        broker.wait_until_ready()
        yield broker
    finally:
        broker.stop()
