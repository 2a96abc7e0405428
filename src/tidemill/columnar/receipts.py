"""Receipts: the names of acquired records, with which user code in executors decides what happens to them.

A receipt names the record and the member that holds it, and contains no address and no secret.
"""

from typing import NamedTuple

from tidemill.columnar.share_batch import Holder
from tidemill.model.partition import TopicPartition


class Receipt(NamedTuple):
    group: str
    holder: Holder
    offset: int


def receipt_parts(topic: str, partition: int, member: str, group: str) -> tuple[str, str]:
    """Return the text before the offset, and the text after it.  Only the group may contain a slash."""
    return f"{topic}/{partition}/", f"/{member}/{group}"


def parse(text: str | None) -> Receipt:
    """Raise ValueError if the text is not a receipt."""
    parts = (text or "").split("/", 4)
    if len(parts) < 5 or not parts[1].isdecimal() or not parts[2].isdecimal():
        raise ValueError(f"receipt={text!r} is not a receipt: pass the column `receipt` of the stream unchanged")
    topic, partition, offset, member, group = parts
    return Receipt(group, Holder(TopicPartition(topic, int(partition)), member), int(offset))
