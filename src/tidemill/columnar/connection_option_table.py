"""The documented connection keys of source and sink, except the TLS and SASL keys (see `security_keys`)."""

from typing import Final

from tidemill.columnar.option_table import Option

OPTIONS: Final = (
    Option("kafka.client.id", "string", "tidemill", "The name of the client in the broker's log and metrics."),
    Option(
        "kafka.socket.connection.setup.timeout.ms",
        "milliseconds",
        "10000",
        "How long a connection may take to open, and how long the first contact with the cluster may take in all.",
    ),
    Option("kafka.request.timeout.ms", "milliseconds", "30000", "How long a broker may take to respond."),
    Option(
        "kafka.default.api.timeout.ms",
        "milliseconds",
        "60000",
        "How long one call, such as a look-up of offsets, is retried.",
    ),
    Option("kafka.retry.backoff.ms", "milliseconds", "100", "The first pause before a retry."),
    Option("kafka.retry.backoff.max.ms", "milliseconds", "1000", "The longest pause before a retry."),
    Option(
        "kafka.fetch.max.wait.ms", "milliseconds", "500", "Source only. How long a broker may wait for new records."
    ),
    Option(
        "kafka.fetch.max.bytes",
        "bytes",
        "8388608",
        "Source only. The largest response to a Fetch request. The lower value of this key and the next one applies.",
    ),
    Option(
        "kafka.max.partition.fetch.bytes", "bytes", "8388608", "Source only. The largest part of one topic partition."
    ),
    Option("kafka.check.crcs", "boolean", "true", "Source only. Whether the checksums of record batches are checked."),
)
