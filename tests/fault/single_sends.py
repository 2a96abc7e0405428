"""
Sends records one at a time, each only after the previous one was acknowledged, for tests in which every record matters.
"""

from confluent_kafka import KafkaError, Message, Producer

from tests.fault.history import History, Send, value_of

WAIT_SECONDS_MAX = 60.0


def send_acknowledged(producer: Producer, topic: str, history: History, sequence: int) -> None:
    def answered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        history.sends.append(Send(0, sequence, 0, message.offset()))

    producer.produce(topic, value_of(0, sequence), partition=0, on_delivery=answered)
    left = producer.flush(WAIT_SECONDS_MAX)
    assert left == 0, f"value {sequence} was not acknowledged"
