"""Print a topic's records from the first to the last, without a group.  Usage: python examples/consume.py TOPIC"""

import os
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
topic = sys.argv[1]
consumer = Consumer(
    {
        "bootstrap.servers": os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092"),
        "group.id": "unused",  # librdkafka requires a name, also of a consumer that joins no group
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
)
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
unread = set(partitions)
while unread:
    for message in consumer.consume(100, timeout=1):
        if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
            unread.discard(message.partition())
        elif message.error():
            sys.exit(str(message.error()))
        else:
            print(message.partition(), message.offset(), (message.key() or b"").decode(), message.value().decode())
consumer.close()
