"""Runs every case of the client contract with every client and a broker process."""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.integration.clients.adapters import CLIENTS, connect
from tests.integration.clients.client_contract import CASES, Case, Stage
from tests.integration.clients.client_port import Client, Unsupported
from tests.integration.clients.conftest import RunningBroker
from tests.integration.clients.timer_contract import TIMER_CASES

NUMBERS = itertools.count(1)


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, broker: RunningBroker) -> Iterator[Client]:
    connected = connect(request.param, broker.bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("case", [*CASES, *TIMER_CASES], ids=lambda case: case.__name__)
def test_client_contract(client: Client, case: Case, broker: RunningBroker) -> None:
    """
    Every case of the contract holds with every client, as it does with Apache Kafka, except for those of timer topics.
    """
    if case in TIMER_CASES and broker.http is None:
        pytest.skip("the broker of TIDEMILL_TEST_BOOTSTRAP may have no timer topics")
    name = f"contract-{os.getpid()}-{next(NUMBERS)}"
    with Stage(client, name=name, broker_pid=broker.pid) as stage:
        try:
            case(stage)
        except Unsupported as reason:
            pytest.skip(str(reason))
