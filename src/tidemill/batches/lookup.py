"""The first record at or after a timestamp: the last step of ListOffsets, once the time index has named the batch."""

from tidemill.batches.batch import HEADER_BYTES, LENGTH_BYTES, Buffer, MalformedBatch, read_header
from tidemill.batches.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from tidemill.batches.native import scan


def first_at_or_after(
    batch: Buffer, timestamp: int, position: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX
) -> tuple[int, int] | None:
    """(offset, timestamp) of the batch's first record at or after `timestamp`, or None.  ValueError if unreadable."""
    header = read_header(batch, position)
    end = position + LENGTH_BYTES + header.batch_length
    if not position + HEADER_BYTES <= end <= len(batch):
        raise MalformedBatch(f"batch length {header.batch_length} does not fit into the {len(batch)} bytes at hand")
    if header.max_timestamp < timestamp:
        return None
    if header.is_log_append_time:
        return header.base_offset, header.max_timestamp
    start = position + HEADER_BYTES
    if header.codec != Codec.NONE:
        batch = decompress(header.codec, memoryview(batch)[start:end], size_max)
        start, end = 0, len(batch)
    found = scan.first_at_or_after(batch, start, end, header.record_count, header.base_timestamp, timestamp)
    return None if found is None else (header.base_offset + found[0], found[1])
