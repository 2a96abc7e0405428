"""Send ten orders, and report what the broker acknowledged.  Usage: python examples/produce.py TOPIC"""

import os
import sys

from confluent_kafka import KafkaError, KafkaException, Message, Producer

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
topic = sys.argv[1]
producer = Producer(
    {
        "bootstrap.servers": os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092"),
        "enable.idempotence": True,  # a retry is stored once, and the order is kept
        "partitioner": "murmur2_random",  # as in Java: one key has one partition, whoever writes it
    }
)


def report(error: KafkaError | None, message: Message) -> None:
    if error:
        raise KafkaException(error)
    print(f"partition {message.partition()}, offset {message.offset()}")


for number in range(10):
    producer.produce(topic, key=f"customer-{number % 3}", value=f"order {number}", on_delivery=report)
    producer.poll(0)
sys.exit("some orders were not acknowledged" if producer.flush(30) else 0)
