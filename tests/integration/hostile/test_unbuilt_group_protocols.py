"""Consumers whose group protocol is not implemented wait without an error; the broker logs them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, ShareConsumer, TopicPartition

from tests.integration.hostile.attacked_broker import AttackedBroker

EVENT = "consumer does not join its group"


@contextmanager
def client(broker: AttackedBroker, kind: Any, client_id: str, **more: str) -> Iterator[Any]:
    config = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": client_id,
        "group.id": f"group-of-{client_id}",
    }
    opened = kind({**config, **more})
    try:
        yield opened
    finally:
        opened.close()


def test_consumers_of_unbuilt_protocols_are_logged(broker: AttackedBroker) -> None:
    """
    librdkafka's consumer with group.protocol=consumer and its share consumer are logged once each, with the setting to
    change.  A member of a classic group and a consumer with an assigned partition, which run at the same time, are not
    logged.
    """
    topic = broker.topic()
    broker.new_lines()
    with ExitStack() as opened:
        classic = opened.enter_context(client(broker, Consumer, "classic"))
        classic.subscribe([topic])
        assigned = opened.enter_context(client(broker, Consumer, "assigned"))
        assigned.assign([TopicPartition(topic, 0, 0)])
        while not classic.assignment():
            classic.poll(0.05)
        new = opened.enter_context(client(broker, Consumer, "new", **{"group.protocol": "consumer"}))
        new.subscribe([topic])
        share = opened.enter_context(client(broker, ShareConsumer, "share"))
        share.subscribe([topic])

        logged = {event["client_id"]: event for event in broker.awaited_events([EVENT], 2)}

    assert {"new", "share"} == logged.keys()
    assert {"group-of-new", "group-of-share"} == {event["group"] for event in logged.values()}
    for event in logged.values():
        assert "ConsumerGroupHeartbeat" in event["problem"] and "ShareGroupHeartbeat" in event["problem"]
        assert "group.protocol=classic" in event["fix"]
