"""Dead letters: the names of their headers (KIP-1191), and the groups that send dead letters back.

Byte table: `docs/formats/dead_letters.md`.
"""

from typing import Final

from tidemill.model import errors
from tidemill.model.errors import KafkaError

PREFIX: Final = "__dlq."  # of all headers that describe a dead letter
TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"
TIMESTAMP: Final = "__dlq.errors.timestamp"  # of the record, in ms since the epoch; Kafka has no such header
OMITTED: Final = "__dlq.errors.omitted"  # why the record's own headers, key and value are missing; not in Kafka
REDRIVE_COUNT: Final = "__redrive.count"  # how often a record was sent back from a dead-letter topic

# The values of `MESSAGE`.
REJECTED: Final = "Offset rejected by client."
DELIVERY_LIMIT: Final = "Offset delivery count exceeded the threshold."
EXPIRED: Final = "Record expired."

# The values of `OMITTED`.
TOO_LARGE: Final = "too large"
REMOVED: Final = "removed by retention"
UNREADABLE: Final = "unreadable"

REDRIVE_GROUP: Final = "__redrive"
_TO: Final = REDRIVE_GROUP + "."


def is_redrive(group: str) -> bool:
    """Return whether the dead letters of a group are sent back, without `__dlq.` headers."""
    return group == REDRIVE_GROUP or group.startswith(_TO)


def check_has_consumers(group: str) -> None:
    """Raise KafkaError if a group cannot have consumers, because it sends dead letters back."""
    if is_redrive(group):
        raise KafkaError(
            errors.INVALID_GROUP_ID,
            f"{group!r} is a group that sends dead letters back, and has no consumers; use another group id",
        )


def redrive_topic(group: str) -> str | None:
    """Return the topic to which a redrive group sends records; None: each goes back to the topic in its headers."""
    return group.removeprefix(_TO) if group.startswith(_TO) else None
