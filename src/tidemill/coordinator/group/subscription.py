"""Reads the subscribed topics from a consumer's member metadata; every version of the format begins with them."""

from tidemill.coordinator.record_fields import BadRecord

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the subscribed topics.  Raises BadRecord for malformed metadata.

    The metadata begins with an int16 version and an array of topic names.
    """
    at = 6
    if len(metadata) < at:
        raise BadRecord("consumer metadata ends before its topics")
    count = int.from_bytes(metadata[2:6], "big", signed=True)
    if not 0 <= count <= len(metadata) // 2:  # each name has a length prefix of two bytes
        raise BadRecord(f"consumer metadata claims {count} topics in {len(metadata)} bytes")
    topics = []
    for _ in range(count):
        begin = at + 2
        at = begin + int.from_bytes(metadata[at:begin], "big")
        if at > len(metadata):
            raise BadRecord("consumer metadata ends inside a topic name")
        topics.append(metadata[begin:at].decode(errors="replace"))
    return frozenset(topics)
