"""Tagged fields: a sequence of (tag, length, bytes), of which a reader skips those that it does not know.

A frame is such a sequence: its fields are the sections.  The bodies of HEARTBEAT and LOAD are others.  Byte table:
`docs/formats/peer.md`.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

TAG: Final = Struct(">BI")  # tag, length of the field


class MalformedFrame(ValueError):
    """Received bytes that are not a valid frame; the link is closed."""


def tagged(tag: int, field: bytes) -> bytes:
    return TAG.pack(tag, len(field)) + field


def tagged_fields(data: memoryview, of: str) -> Iterator[tuple[int, memoryview]]:
    """
    Yield the tag and the bytes of each field of `data`, which errors call `of`.  Each field is checked when the
    iterator reaches it.  Raises MalformedFrame.
    """
    at = 0
    while at < len(data):
        if len(data) - at < TAG.size:
            raise MalformedFrame(f"{len(data) - at} bytes at the end of {of} are too few for a field")
        tag, length = TAG.unpack_from(data, at)
        at += TAG.size
        field = data[at : at + length]
        if len(field) < length:
            raise MalformedFrame(f"field {tag} of {of} announces {length} bytes; {len(field)} are left")
        yield tag, field
        at += length
