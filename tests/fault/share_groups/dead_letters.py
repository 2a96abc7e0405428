"""Reads the dead letters of a share group."""

from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as LibraryTopicPartition

from tests.fault.share_groups.ledger import RecordId

READ_S = 30.0


def letters_of(bootstrap: str, topic: str) -> Counter[RecordId]:
    """Return the number of letters in a topic by the partition and offset of their records."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "letters",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    })  # fmt: skip
    found: Counter[RecordId] = Counter()
    try:
        partitions = consumer.list_topics(topic, READ_S).topics[topic].partitions
        consumer.assign([LibraryTopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        unread = set(partitions)
        while unread:
            message = consumer.poll(READ_S)
            assert message is not None, f"partitions {sorted(unread)} of {topic} were not read within {READ_S} s"
            if message.error() is not None:
                unread.discard(message.partition() or 0)
                continue
            headers = dict(message.headers() or ())
            found[int(headers["__dlq.errors.partition"]), int(headers["__dlq.errors.offset"])] += 1
    finally:
        consumer.close()
    return found
