"""Work on the records of a topic, together with other workers of the same group, until Ctrl-C.

Usage: python examples/queue_worker.py TOPIC GROUP
"""

import os
import signal
import sys
import threading

from confluent_kafka import AcknowledgeType, ShareConsumer

if len(sys.argv) != 3:
    sys.exit(__doc__)
topic, group = sys.argv[1:]
consumer = ShareConsumer(
    {
        "bootstrap.servers": os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092"),
        "group.id": group,
        "share.acknowledgement.mode": "explicit",  # each record is acknowledged alone
    }
)
consumer.subscribe([topic])
stop = threading.Event()
signal.signal(signal.SIGINT, lambda *_: stop.set())  # on Ctrl-C, finish what is in hand
print(f"ready: waiting for records of {topic}", flush=True)
while not stop.is_set():
    messages = consumer.poll(1)
    for message in messages:
        job = message.value().decode()
        decision = AcknowledgeType.ACCEPT
        if job.startswith("broken"):
            decision = AcknowledgeType.REJECT  # no attempt can succeed: set it aside
        elif job.startswith("busy"):
            decision = AcknowledgeType.RELEASE  # try again later, perhaps elsewhere
        consumer.acknowledge(message, decision)
        print(f"{decision.name.lower()} {job!r}, delivery {message.delivery_count()}", flush=True)
    if messages:
        consumer.commit_sync()
consumer.close()
