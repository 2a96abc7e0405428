"""Divides a batch that is too large for the broker, as Java's producer does."""

from tidemill.batches.arrow import batches_from, record_batch_from
from tidemill.batches.batch import read_header


def halves(batch: bytearray, level: int | None) -> list[tuple[bytearray, int]]:
    """Return smaller batches with the same records, each with its number of records.  `level` is the codec's level."""
    codec = read_header(batch).codec
    rows = record_batch_from(batch, "", 0, columns=("key", "value", "timestamp", "headers"), check_crc=False)
    half = rows.num_rows // 2
    parts = [
        part
        for piece in (rows.slice(0, half), rows.slice(half))
        for part in batches_from(piece, timestamp=0, codec=codec, level=level)
    ]
    return [(part, read_header(part).record_count) for part in parts]
