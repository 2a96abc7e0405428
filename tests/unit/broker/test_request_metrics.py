"""Requests and their latencies are counted per API, and errors in responses per API and error code."""

from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld, Client
from tidemill.batches.builder import build_batch
from tidemill.broker.connection.dispatch import HANDLERS
from tidemill.model import errors
from tidemill.telemetry.prometheus import PrometheusText
from tidemill.wire.api import ALL
from tidemill.wire.messages import api_versions, describe_cluster, heartbeat, produce


def produce_to(*topics: str, acks: int = -1) -> produce.Request:
    batch = build_batch([(None, b"value", (), 1_700_000_000_000)])
    data = produce.Request.Topic.Partition(index=0, records=memoryview(batch))
    asked = [produce.Request.Topic(name=topic, partition_data=[data]) for topic in topics]
    return produce.Request(transactional_id=None, acks=acks, timeout_ms=1_000, topic_data=asked)


def counted(world: BrokerWorld, prefix: str) -> dict[str, float]:
    """Return the samples of `/metrics` whose names start with `tidemill_` followed by `prefix`."""
    names = {key: api.name for key, api in ALL.items()}
    lines = PrometheusText(world.broker.metrics, names, errors.name).render().splitlines()
    samples = dict(line.removeprefix("tidemill_").rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples.items() if name.startswith(prefix)}


@pytest.mark.parametrize("acks", [-1, 0])
def test_the_latency_of_a_request_ends_with_its_response(acks: int) -> None:
    """
    The latency includes the time for which the request waits for the disk.  With acks=0, it ends when the batch is in
    the journal.
    """
    world = BrokerWorld()
    world.create("flights")
    world.writes = False
    Client(world).send(produce_to("flights", acks=acks), 9)
    world.stabilize()
    world.clock.now_ms += 30
    before = counted(world, "request_seconds_count")

    world.writes = True
    world.stabilize()

    seconds = counted(world, "request_seconds")
    assert {} == {name: value for name, value in before.items() if 'api="produce"' in name and value}
    assert (1, 0.03) == (
        seconds['request_seconds_count{api="produce"}'],
        seconds['request_seconds_sum{api="produce"}'],
    )
    assert [0, 1, 1] == [
        seconds[f'request_seconds_bucket{{api="produce",le="{bound}"}}'] for bound in ("0.025", "0.05", "+Inf")
    ]


def test_the_error_codes_of_a_response_are_counted_wherever_they_are() -> None:
    """
    Each refused partition counts once, and code 0 does not count as an error.
    """
    world = BrokerWorld()
    world.create("flights")

    world.ask(produce_to("nowhere", "flights", "somewhere"), 9)
    world.ask(heartbeat.Request(group_id="g", generation_id=1, member_id="m"), 4)

    assert {
        'request_errors_total{api="heartbeat",error="UNKNOWN_MEMBER_ID"}': 1,
        'request_errors_total{api="produce",error="UNKNOWN_TOPIC_OR_PARTITION"}': 2,
    } == counted(world, "request_errors_total")


def failing(request: object, context: object) -> Any:
    raise ZeroDivisionError("a defect")


def test_a_handler_that_fails_is_counted_as_an_unknown_server_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A request whose handler fails is counted with UNKNOWN_SERVER_ERROR, and its latency is recorded, too.
    """
    world = BrokerWorld()
    monkeypatch.setitem(HANDLERS, describe_cluster.API.key, failing)

    world.ask(describe_cluster.Request(include_cluster_authorized_operations=False), 1)

    assert {'request_errors_total{api="describe_cluster",error="UNKNOWN_SERVER_ERROR"}': 1} == counted(
        world, "request_errors_total"
    )
    assert 1 == counted(world, "request_seconds_count")['request_seconds_count{api="describe_cluster"}']


def test_an_unknown_version_of_api_versions_is_counted_as_an_error() -> None:
    """
    An ApiVersions request with an unknown version is counted as an error, although no handler is called for it.
    """
    world = BrokerWorld()
    client = Client(world)
    frame = bytearray(b"".join(bytes(it) for it in api_versions.API.encode_request(0, api_versions.Request(), 1, "c")))
    frame[6:8] = (99).to_bytes(2)

    client.connection.get_buffer(-1)[: len(frame)] = frame
    client.connection.received(len(frame))

    assert {'request_errors_total{api="api_versions",error="UNSUPPORTED_VERSION"}': 1} == counted(
        world, "request_errors_total"
    )
    assert 1 == counted(world, "requests_total")['requests_total{api="api_versions"}']
