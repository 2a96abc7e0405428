"""Receipts: what a consumer over HTTP gets for each record it holds, and sends back to acknowledge the record.

    at  size  field
     0     1  version, 1
     1    16  topic id
    17     4  partition
    21     8  offset
    29     4  term of the leader that delivered the record
    33     2  delivery count, including this delivery
    35     8  lease: a random number of the receive request, above 0

A receipt is a fencing token: the leader compares term, delivery count and lease with what it knows, so the receipt of
an earlier delivery acknowledges nothing.  It is no secret, and does not say who the consumer is.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from struct import Struct
from typing import Final, NamedTuple

from tidemill.model.topic import TopicId

_VERSION: Final = 1
_FIELDS: Final = Struct(">B16siqihq")
_PADDING: Final = "="
_TEXT_LENGTH: Final = 58  # of 43 bytes in base64url, without padding


class Receipt(NamedTuple):
    topic_id: TopicId
    partition: int
    offset: int
    term: int
    delivery_count: int
    lease: int

    def encode(self) -> str:
        """Return the receipt as base64url without padding (RFC 4648): 58 characters."""
        data = _FIELDS.pack(_VERSION, *self)
        return urlsafe_b64encode(data).decode().rstrip(_PADDING)


def decode_receipt(text: str) -> Receipt | None:
    """Return the receipt that `text` encodes; None if it is not one."""
    if len(text) != _TEXT_LENGTH or not text.isascii():
        return None
    try:
        data = urlsafe_b64decode(text + _PADDING * (-_TEXT_LENGTH % 4))
    except (binascii.Error, ValueError):
        return None
    if len(data) != _FIELDS.size or data[0] != _VERSION:
        return None
    _, topic_id, *numbers = _FIELDS.unpack(data)
    receipt = Receipt(TopicId(topic_id), *numbers)
    is_plausible = min(numbers) >= 0 and receipt.delivery_count > 0 and receipt.lease > 0
    return receipt if is_plausible and receipt.encode() == text else None
