"""Which records have outlived their time to live: by the setting of the group, and by the record's own header.

The age of a record is counted from its timestamp; a record without a timestamp has no age.  The header of a batch often
decides: all records have expired if the latest timestamp is too old.  None has if the first one is young enough: a
batch whose later records are older than its first one is treated as if they were not.  Otherwise, and for headers of
records, the batch is opened.
"""

import re
from typing import Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, BatchHeader, Buffer, read_header
from tidemill.batches.compression import Codec
from tidemill.batches.records import OPENED_BYTES_MAX, RecordPlace, open_block

HEADER: Final = "tidemill-ttl"  # of a record; its value is the time to live in ms, as decimal digits
_NAME: Final = HEADER.encode()
DIGITS_MAX: Final = 15
_MILLISECONDS: Final = re.compile(rb"[0-9]{1,%d}" % DIGITS_MAX)
RANGES_MAX: Final = 10_000
"""
Expired records of a batch that are found at a time, in ranges: a small batch may have millions when it is decompressed.
The next fetch finds those behind them; until then, they may be delivered.
"""

OffsetRange = tuple[int, int]
"""The first offset, and the offset after the last one."""


class TimeToLive(NamedTuple):
    group_ms: int  # of every record; -1: not limited
    has_headers: bool  # whether records may have the header

    @property
    def is_limited(self) -> bool:
        return self.group_ms >= 0 or self.has_headers


def are_all_expired(batch: Buffer, ttl: TimeToLive, wall: int) -> bool | None:
    """Return whether all records of a batch have expired, or none has (False); None if the batch must be opened."""
    header = read_header(batch)
    if ttl.group_ms >= 0 and 0 <= header.max_timestamp <= wall - ttl.group_ms:
        return True
    if ttl.has_headers and _may_name_header(batch, header):
        return None
    first = header.max_timestamp if header.is_log_append_time else header.base_timestamp
    return None if ttl.group_ms >= 0 and 0 <= first <= wall - ttl.group_ms else False


def expired_in(batch: Buffer, ttl: TimeToLive, wall: int, first: int = 0) -> list[OffsetRange]:
    """
    Open a batch, and return its expired records from offset `first` on, in at most RANGES_MAX ranges.  A batch that
    cannot be opened, or has more than OPENED_BYTES_MAX decompressed bytes, has none: its consumer gets it.
    """
    ranges: list[OffsetRange] = []
    try:
        block = open_block(batch, size_max=OPENED_BYTES_MAX)
        view = memoryview(block.data)
        for place in block.places(HEADER if ttl.has_headers else "", first=first, is_last=True):
            if _is_expired(view, place, ttl, wall):
                joins = bool(ranges) and ranges[-1][1] == place.offset
                if not joins and len(ranges) == RANGES_MAX:
                    break
                begin = ranges.pop()[0] if joins else place.offset
                ranges.append((begin, place.offset + 1))
    except ValueError:
        return []
    return ranges


def _may_name_header(batch: Buffer, header: BatchHeader) -> bool:
    return header.codec != Codec.NONE or _NAME in bytes(batch[HEADER_BYTES:])


def _is_expired(block: memoryview, place: RecordPlace, ttl: TimeToLive, wall: int) -> bool:
    limits = [ttl.group_ms] if ttl.group_ms >= 0 else []
    if 0 < place.header_length <= DIGITS_MAX:
        own = bytes(block[place.header_start : place.header_start + place.header_length])
        if _MILLISECONDS.fullmatch(own):
            limits.append(int(own))
    return bool(limits) and 0 <= place.timestamp <= wall - min(limits)
