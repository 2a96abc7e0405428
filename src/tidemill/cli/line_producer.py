"""A producer for lines of stdin.  It counts acknowledged and refused records."""

import json
import sys
import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tidemill.cli.kafka import REQUEST_TIMEOUT_S, client_config, error_name, failed
from tidemill.cli.output import counted
from tidemill.client.producer_properties import PRODUCER_PROPERTIES

REFUSALS_SHOWN_MAX: Final = 10  # the first refusals are printed to show the cause; further refusals are only counted
DELIVERY_TIMEOUT_MS: Final = 30_000
FLUSH_POLL_S: Final = 0.5  # bounds the latency of Ctrl-C
CREATION_WAIT_S: Final = 3.0  # a broker that creates a topic on demand first reports that the topic is unknown
RECORD_BYTES_MAX: Final = 1_000_000_000  # the highest that librdkafka allows, so that only the broker's limit applies
_LOST: Final = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
_NOT_YET: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})


class LineProducer:
    """Sends records and counts the results.  Construction raises `Failed` if the topic does not exist."""

    def __init__(self, bootstrap: str, topic: str, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self.produced_count = 0
        self.refused_count = 0
        self.lost_broker = False
        self._topic = topic
        config = client_config(
            bootstrap,
            **{
                **PRODUCER_PROPERTIES,
                "linger.ms": 5,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "message.max.bytes": RECORD_BYTES_MAX,
            },
        )
        self._producer = Producer(config)
        self._await_topic(bootstrap)

    def _await_topic(self, bootstrap: str) -> None:
        """Raise `Failed` if the topic does not exist.

        Without this check, every record would fail only after its delivery timeout.
        """
        deadline = time.monotonic() + CREATION_WAIT_S
        while True:
            try:
                error = self._producer.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S).topics[self._topic].error
            except KafkaException as exception:
                raise failed(exception.args[0], f"topic {self._topic!r}", bootstrap) from exception
            if error is None:
                return
            if error.code() not in _NOT_YET or time.monotonic() > deadline:
                raise failed(error, f"topic {self._topic!r}", bootstrap)
            time.sleep(0.1)

    def send(self, record: dict[str, Any], line_number: int) -> None:
        """Queue a record, waiting while the client's queue is full.  A refusal's message has `line_number`."""

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is None:
                self.produced_count += 1
            else:
                self.lost_broker = self.lost_broker or error.code() in _LOST
                self.refuse(f"line {line_number}: {error_name(error)}: {error.str()}")

        while True:
            try:
                self._producer.produce(self._topic, on_delivery=delivered, **record)
            except BufferError:
                self._producer.poll(FLUSH_POLL_S)
            except KafkaException as exception:  # The client library refused the record.
                delivered(exception.args[0], None)
                return
            else:
                self._producer.poll(0)
                return

    def refuse(self, reason: str) -> None:
        """Count a refused record.  Print the reason to stderr for the first REFUSALS_SHOWN_MAX refusals."""
        self.refused_count += 1
        if self.refused_count <= REFUSALS_SHOWN_MAX:
            row = json.dumps({"event": "refused", "message": reason})
            print(row if self._as_json else f"tidemill: refused: {reason}", file=sys.stderr)

    def flush(self) -> None:
        """Wait until every record is acknowledged or refused.  The delivery timeout limits the wait."""
        while self._producer.flush(FLUSH_POLL_S):
            pass

    def report(self) -> None:
        """Print the counts to stderr."""
        counts = {"produced": self.produced_count, "refused": self.refused_count}
        if self._as_json:
            print(json.dumps({"event": "produced", "topic": self._topic, **counts}), file=sys.stderr)
        else:
            print(
                f"produced {counted(self.produced_count, 'record')} to {self._topic}, {self.refused_count} refused",
                file=sys.stderr,
            )
