"""The options of Spark's Kafka sink, parsed into one frozen value that is pickled to executors.

Spark passes option names in lower case.  Keys with the prefix `kafka.` are keys of Kafka's producer.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidemill.client import connection_settings, producer_settings
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.producer_settings import ProducerSettings
from tidemill.columnar.option_table import Option
from tidemill.columnar.option_values import kafka_keys, truth, warn_of_unknown

_LOG = logging.getLogger(__name__)

OPTIONS: Final = (
    Option(
        "topic", "string", "", "The topic of all rows. It wins over the column `topic`. The sink creates no topics."
    ),
    Option(
        "includeHeaders",
        "boolean",
        "false",
        "Accepted without effect, as in Spark's Kafka sink: a column `headers` is always written.",
    ),
    Option("kafka.bootstrap.servers", "HOST:PORT,…", "", "The brokers to ask first. Required."),
    Option("kafka.acks", "all", "all", "Only `all` (or -1): a write is complete when all in-sync replicas have it."),
    Option(
        "kafka.enable.idempotence",
        "boolean",
        "true",
        "Retries neither duplicate nor reorder records. With `false`, order is kept by one request in flight, but a "
        "retry may duplicate records.",
    ),
    Option("kafka.compression.type", "string", "none", "`none`, `gzip`, `snappy`, `lz4` or `zstd`."),
    Option("kafka.compression.gzip.level", "1 to 9", "-1", "The level of `gzip`; -1 is the codec's default."),
    Option("kafka.compression.lz4.level", "1 to 17", "fast", "The level of `lz4`."),
    Option("kafka.compression.zstd.level", "-131072 to 22", "3", "The level of `zstd`."),
    Option(
        "kafka.batch.size",
        "bytes",
        "1048576",
        "The largest size of a record batch before compression; the topic's `max.message.bytes` limits it as well. "
        "Rows without a key go to another partition after this many bytes.",
    ),
    Option(
        "kafka.max.request.size",
        "bytes",
        "4194304",
        "The largest Produce request. A record that exceeds it is refused with its topic, partition and row. The "
        "topic's `max.message.bytes` limits records as well.",
    ),
    Option(
        "kafka.buffer.memory",
        "bytes",
        "33554432",
        "Encoded batches that a task keeps until they are acknowledged. If the buffer is full, the task waits.",
    ),
    Option(
        "kafka.delivery.timeout.ms",
        "milliseconds",
        "120000",
        "How long a batch may wait, be sent and be retried. After that, the write fails and names partition and cause. "
        "A task also waits so long for brokers that are away when it starts.",
    ),
    Option(
        "kafka.request.timeout.ms",
        "milliseconds",
        "30000",
        "How long a broker may take to respond before the request is retried on a new connection.",
    ),
    Option("kafka.max.in.flight.requests.per.connection", "1 to 5", "5", "Produce requests in flight per broker."),
    Option(
        "kafka.retries", "number", "", "The most retries of a batch; by default only the delivery timeout limits them."
    ),
    Option("kafka.retry.backoff.ms", "milliseconds", "100", "The first pause before a retry."),
    Option("kafka.retry.backoff.max.ms", "milliseconds", "1000", "The longest pause before a retry."),
    Option(
        "kafka.partitioner.ignore.keys",
        "boolean",
        "false",
        "Whether rows with a key are routed like rows without one.",
    ),
)
"""The sink's options, for the documentation.  Connection keys (TLS, SASL, addresses) are the same as for the source."""

KNOWN: Final = {
    "checkpointlocation": "checkpointLocation",  # set for every streaming query
    "includeheaders": "includeHeaders",
    "path": "path",  # set by `save(path)`; ignored, as in Spark's sink
    "topic": "topic",
}
"""The documented spelling of each option by its name in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a write."""

    connection: ConnectionSettings
    producer: ProducerSettings
    topic: str | None = None  # None: the column `topic` contains the topic of each row

    def for_tasks(self) -> "SinkOptions":
        """Return the options for the tasks of a job whose driver has reached the cluster."""
        return replace(self, connection=self.connection.reached())


def parse(options: Mapping[str, str]) -> SinkOptions:
    """
    Parse the options of a write, whose names are in lower case.

    Raise ValueError; its message names the option, its value and the fix.
    """
    warn_of_unknown(options, KNOWN)
    truth(options, "includeHeaders", default=False)
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise ValueError(f"topic={topic!r} is empty: name a topic, or leave the option out and add a column 'topic'")
    keys = kafka_keys(options)
    if "bootstrap.servers" not in keys:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring the Tidemill sink")
    producer = producer_settings.from_keys(keys)
    for key in connection_settings.unknown_keys({key: keys[key] for key in producer_settings.unknown_keys(keys)}):
        _LOG.warning("option kafka.%s has no effect: the Tidemill sink does not know it", key)
    return SinkOptions(
        connection=connection_settings.from_keys(keys),
        producer=producer,
        topic=None if topic is None else topic.strip(),
    )
