"""What can go wrong between us and somebody else's broker, one type for each thing that a caller decides on."""

from tidemill.model.partition import TopicPartition


class ClientError(Exception):
    """The request cannot be served; the sentence says what was asked, of whom, and what to do."""


class SettingsError(ClientError, ValueError):
    """A connection setting that we cannot obey.  Names the key, the value and the fix."""


class BrokerUnreachable(ClientError):
    """No connection, or one that broke.  Worth another try, elsewhere or later."""


class ProtocolMismatch(ClientError):
    """The broker answers, but not in a version that we speak, or not in Kafka's protocol at all."""


class RetriesExhausted(ClientError):
    """Everything that can be tried again was, until the deadline."""


class UnknownTopic(ClientError):
    """The topic, or the partition, does not exist (any more)."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(f"topic {topic!r}: {detail}")
        self.topic = topic


class TopicRecreated(UnknownTopic):
    """A topic of this name exists, but it is not the one whose offsets we hold."""


class OffsetOutOfRange(ClientError):
    """Records that were asked for are not in the partition.  Whether that is a loss is the caller's to say."""

    def __init__(self, partition: TopicPartition, fetch_offset: int, log_start_offset: int, end_offset: int) -> None:
        super().__init__(
            f"offset {fetch_offset} of {partition.topic}-{partition.partition} is not there: "
            f"the partition now holds offsets {log_start_offset} to {end_offset} (exclusive)"
        )
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.end_offset = end_offset
