"""Consumers whose group protocol is not implemented fail with an error that says so, and the broker logs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, ShareConsumer

from tests.integration.hostile.attacked_broker import AttackedBroker

EVENT = "group protocol is not implemented"


@contextmanager
def consumer(broker: AttackedBroker, kind: Any, client_id: str, **more: str) -> Iterator[Any]:
    config = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": client_id,
        "group.id": f"group-of-{client_id}",
        "log_level": 0,
    }
    opened = kind({**config, **more})
    try:
        opened.subscribe([broker.topic()])
        yield opened
    finally:
        opened.close()


def first_error(opened: Any) -> KafkaError:
    """Poll until the consumer reports an error, and return it."""
    while True:
        try:
            polled = opened.poll(1.0)
        except KafkaException as raised:
            return raised.args[0]  # type: ignore[no-any-return]
        for message in polled if isinstance(polled, list) else [polled]:
            if message is not None and (error := message.error()) is not None:
                return error  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "api", "more"),
    [
        (Consumer, "ConsumerGroupHeartbeat", {"group.protocol": "consumer"}),
        (ShareConsumer, "ShareGroupHeartbeat", {}),
    ],
    ids=["consumer", "share"],
)
def test_consumers_of_unbuilt_protocols_fail_and_are_logged(
    broker: AttackedBroker, kind: Any, api: str, more: dict[str, str]
) -> None:
    """
    librdkafka's consumer with group.protocol=consumer and its share consumer get an error that names the API.  The
    broker logs each once, with the setting to change.
    """
    broker.new_lines()
    with consumer(broker, kind, f"new-{api}", **more) as opened:
        error = first_error(opened)
        (event,) = broker.awaited_events([EVENT], 1)

    assert api in error.str() and "not supported" in error.str()
    assert (f"new-{api}", f"group-of-new-{api}") == (event["client_id"], event["group"])
    assert api in event["problem"] and "group.protocol=classic" in event["problem"]
