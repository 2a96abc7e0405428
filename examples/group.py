"""Handle records as a member of a group, until Ctrl-C.  Usage: python examples/group.py TOPIC GROUP"""

import os
import signal
import sys
import threading

from confluent_kafka import Consumer

topic, group = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
consumer = Consumer(
    {
        "bootstrap.servers": os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092"),
        "group.id": group,
        "auto.offset.reset": "earliest",  # where a group begins that has committed nothing
        "enable.auto.commit": False,
    }
)
consumer.subscribe([topic])
stop = threading.Event()
signal.signal(signal.SIGINT, lambda *_: stop.set())  # Ctrl-C: what was handled is still committed
while not stop.is_set():
    messages = consumer.consume(100, timeout=1)
    for message in messages:
        if message.error():
            sys.exit(str(message.error()))
        print("handled", message.value().decode(), flush=True)
    if messages:
        consumer.commit(asynchronous=False)  # after the work: a crash repeats records, and loses none
consumer.close()  # the other members take over at once
