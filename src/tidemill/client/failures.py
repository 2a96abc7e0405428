"""The errors of the client: one type for each case that callers handle differently."""

from tidemill.model.partition import TopicPartition


class ClientError(Exception):
    """A request failed.  The message says what was requested, from which broker, and what to do."""


class SettingsError(ClientError, ValueError):
    """A connection setting is not supported, or the broker refuses it, so that a retry would fail in the same way.

    The message names the key, the value and the fix.
    """


class BrokerUnreachable(ClientError):
    """A connection to the broker could not be opened, or it failed.  Retry later or with another broker."""


class ProtocolMismatch(ClientError):
    """The broker and this client have no version of an API in common, or the broker refuses ApiVersions."""


class RetriesExhausted(ClientError):
    """A request was retried without success until the deadline."""


class UnknownTopic(ClientError):
    """The topic or the partition does not exist, or no longer exists."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(f"topic {topic!r}: {detail}")
        self.topic = topic


class TopicRecreated(UnknownTopic):
    """The topic was deleted and created again, so the caller's offsets belong to the old topic."""


class OffsetOutOfRange(ClientError):
    """Requested offsets are not in the partition.  The caller decides whether this is data loss."""

    def __init__(self, partition: TopicPartition, fetch_offset: int, log_start_offset: int, end_offset: int) -> None:
        super().__init__(
            f"offset {fetch_offset} of {partition.topic}-{partition.partition} is out of range: "
            f"the partition has offsets {log_start_offset} to {end_offset} (exclusive)"
        )
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.end_offset = end_offset
