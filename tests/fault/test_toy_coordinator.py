"""
A coordinator with its own internal topic runs in real processes and loses its leader while requests are in flight.
"""

import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.extent import times
from tests.toy.member_set_apis import ADD, READ, AddRequest, ReadRequest
from tests.toy.member_sets import KEY_TYPE, MEMBER_SETS
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.connection_settings import ConnectionSettings, Endpoint
from tidemill.client.failures import BrokerUnreachable
from tidemill.wire.messages import find_coordinator
from tidemill.wire.schema import Api, Message

KEY = "k"
SETTINGS = ConnectionSettings(bootstrap=(), connect_timeout_ms=2_000, request_timeout_ms=5_000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    directory: Path = tmp_path_factory.mktemp("toy")
    program = (sys.executable, "-m", "tests.fault.toy_broker")
    with ClusterProcesses(directory, settings={"offsets.topic.num.partitions": 1}, program=program) as cluster:
        cluster.start_all()
        yield cluster


class Client(threading.Thread):
    """Adds one member after another until it is stopped, and retries after every error."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.sent: list[str] = []
        self.acknowledged: list[str] = []
        self.is_stopping = threading.Event()
        self._connection: BrokerConnection | None = None

    def run(self) -> None:
        while not self.is_stopping.is_set():
            member = f"m{len(self.sent):05}"
            self.sent.append(member)
            while not self.is_stopping.is_set():
                answer = self.ask(ADD, AddRequest(key=KEY, member=member))
                if answer is not None:
                    self.acknowledged.append(member)
                    break

    def read(self) -> list[str]:
        answers: list[Any] = []

        def is_answered() -> bool:
            answers[:] = [self.ask(READ, ReadRequest(key=KEY))]
            return answers != [None]

        wait_until(is_answered, "answer to a read")
        return list(answers[0].members)

    def ask(self, api: Api, request: Message) -> Any:
        """Return the response, or None after any error, in which case the caller must retry."""
        try:
            if self._connection is None:
                number = coordinator_of(self.cluster)
                endpoint = Endpoint("127.0.0.1", self.cluster.kafka_ports[number])
                self._connection = BrokerConnection(endpoint, SETTINGS)
            response = self._connection.request(api, request)
        except BrokerUnreachable:
            response = None
        if response is None or response.error_code:
            self.close()
            time.sleep(0.02)
            return None
        return response

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def coordinator_of(cluster: ClusterProcesses) -> int:
    """Return the broker that FindCoordinator names.  Raise `BrokerUnreachable` if no broker knows a coordinator at the
    moment.
    """
    request = find_coordinator.Request(key=KEY, key_type=KEY_TYPE, coordinator_keys=[KEY])
    for number in cluster.numbers:
        try:
            connection = BrokerConnection(Endpoint("127.0.0.1", cluster.kafka_ports[number]), SETTINGS)
            try:
                (found,) = connection.request(find_coordinator.API, request).coordinators
            finally:
                connection.close()
        except BrokerUnreachable:
            continue
        if not found.error_code:
            return int(found.node_id)
    raise BrokerUnreachable("no coordinator is known")


@pytest.mark.timeout(times(120, 1_800))
def test_what_a_toy_coordinator_acknowledged_survives_kills_of_its_leader(cluster: ClusterProcesses) -> None:
    """
    Each time the leader is killed, another broker becomes the coordinator.  At the end every acknowledged member is
    stored, and every stored member was sent.
    """
    client = Client(cluster)
    client.start()
    wait_until(lambda: client.acknowledged, "first acknowledgement")
    wait_until(lambda: cluster.is_in_sync(MEMBER_SETS.topic.name), "replicas in sync")
    leaders: list[int] = []

    for _ in range(times(3, 50)):
        leader = cluster.leaders(MEMBER_SETS.topic.name)[0]
        leaders.append(leader)
        time.sleep(random.uniform(0.0, 0.1))
        cluster.kill(leader)
        count = len(client.acknowledged)
        wait_until(lambda count=count: len(client.acknowledged) >= count + 10, "acknowledgements of the next leader")
        leaders.append(cluster.leaders(MEMBER_SETS.topic.name, but=[leader])[0])
        cluster.start(leader)
        cluster.wait_until_in_sync(MEMBER_SETS.topic.name)
    client.is_stopping.set()
    client.join(30)
    found = set(client.read())
    client.close()

    assert all(before != after for before, after in zip(leaders[::2], leaders[1::2], strict=True))
    assert set() == set(client.acknowledged) - found
    assert set() == found - set(client.sent)
