"""A consumer whose group protocol is not implemented fails with an error that says so, and the broker logs it."""

from confluent_kafka import Consumer, KafkaError, KafkaException

from tests.integration.hostile.attacked_broker import AttackedBroker

EVENT = "group protocol is not implemented"
API = "ConsumerGroupHeartbeat"


def first_error(consumer: Consumer) -> KafkaError:
    """Poll until the consumer reports an error, and return it."""
    while True:
        try:
            message = consumer.poll(1.0)
        except KafkaException as raised:
            return raised.args[0]  # type: ignore[no-any-return]
        if message is not None and (error := message.error()) is not None:
            return error  # type: ignore[no-any-return]


def test_a_consumer_of_an_unbuilt_protocol_fails_and_is_logged(broker: AttackedBroker) -> None:
    """
    librdkafka's consumer with group.protocol=consumer gets an error that names the API.  The broker logs it once, with
    the setting to change.
    """
    broker.new_lines()
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap,
        "client.id": "new",
        "group.id": "group-of-new",
        "group.protocol": "consumer",
        "log_level": 0,
    })  # fmt: skip
    try:
        consumer.subscribe([broker.topic()])
        error = first_error(consumer)
        (event,) = broker.awaited_events([EVENT], 1)
    finally:
        consumer.close()

    assert API in error.str() and "not supported" in error.str()
    assert ("new", "group-of-new") == (event["client_id"], event["group"])
    assert API in event["problem"] and "group.protocol=classic" in event["problem"]
