"""What a consumer's member metadata says it reads: the topics, which is the part that every version begins with."""

from tidemill.coordinator.group.log_records import BadRecord

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """int16 version, then an array of topic names; BadRecord when it is not that."""
    at = 6
    if len(metadata) < at:
        raise BadRecord("consumer metadata ends before its topics")
    count = int.from_bytes(metadata[2:6], "big", signed=True)
    if not 0 <= count <= len(metadata) // 2:  # a name has a length of two bytes
        raise BadRecord(f"consumer metadata claims {count} topics in {len(metadata)} bytes")
    topics = []
    for _ in range(count):
        begin = at + 2
        at = begin + int.from_bytes(metadata[at:begin], "big")
        if at > len(metadata):
            raise BadRecord("consumer metadata ends inside a topic name")
        topics.append(metadata[begin:at].decode(errors="replace"))
    return frozenset(topics)
