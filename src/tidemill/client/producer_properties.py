"""The librdkafka properties that all of Tidemill's own producers share.

All programs that write a key must choose the same partition for it; otherwise the order of the key's records is lost.
Java's producer, Kafka Connect and Kafka Streams hash keys with murmur2; librdkafka's default is CRC-32.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PRODUCER_PROPERTIES: Final[Mapping[str, str | bool]] = MappingProxyType({
    "partitioner": "murmur2_random",  # like Java's producer: records without a key go to any partition
    "enable.idempotence": True,  # retries neither duplicate nor reorder records
})  # fmt: skip
