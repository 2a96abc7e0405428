"""Topic names, topic ids, and the rules for legal names."""

import base64
import re
from typing import NewType

from tidemill.model.entropy import Entropy

TopicId = NewType("TopicId", bytes)  # 16 bytes: a version 4 UUID, as on the wire

NO_TOPIC_ID = TopicId(bytes(16))
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")  # the id of Kafka's own metadata topic (`Uuid.METADATA_TOPIC_ID`)

METADATA_TOPIC = "__tidemill_metadata"
OFFSETS_TOPIC = "__consumer_offsets"

NAME_LENGTH_MAX = 249  # as in Kafka, whose directory names, `name-partition`, have at most 255 characters
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Return why `name` is not a legal topic name (Kafka's `Topic.validate`), or None if it is legal."""
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return f"topic name {name!r} is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"topic name has {len(name)} characters; at most {NAME_LENGTH_MAX} are allowed"
    if not _LEGAL_NAME.fullmatch(name):
        return f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def new_topic_id(entropy: Entropy) -> TopicId:
    """
    Return a random version 4 UUID (RFC 9562 §5.4).

    Its text form never starts with `-`, because command-line tools would read that as an option.
    """
    while True:
        drawn = bytearray(entropy.random_bytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        topic_id = TopicId(bytes(drawn))
        if not topic_id_text(topic_id).startswith("-"):
            return topic_id


def topic_id_text(topic_id: TopicId) -> str:
    """Return Kafka's text form of a topic id: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_from_text(text: str) -> TopicId:
    """
    Return the topic id whose text form is `text`; the inverse of `topic_id_text`.  Raise ValueError if `text` is not
    valid.
    """
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"topic id {text!r} has {len(raw)} bytes; must have 16")
    return TopicId(raw)
