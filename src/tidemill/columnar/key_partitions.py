"""Computes the partition that Java's producer chooses for a key, from the key's hash, without writing anything."""

from array import array
from typing import TYPE_CHECKING

from tidemill.batches.native import scan
from tidemill.batches.row_encoder import binary_buffers

if TYPE_CHECKING:
    import pyarrow as pa


def key_partitions(keys: "pa.Array", partition_count: int) -> "pa.Array":
    """
    Return the partition of each key (text or binary) as int32, in a topic of `partition_count` partitions.

    A null key has no partition: the result is null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = len(keys)
    no_values = memoryview(bytes(4 * (rows + 1))).cast("i")
    router = scan.RowRouter(rows, array("i", [partition_count]), array("q", [0, 0]), 1, no_values)
    router.have_keys(*binary_buffers(keys))
    _, starts, order = router.route()
    grouped = array("i")
    for partition in range(partition_count):
        grouped.extend(array("i", [partition]) * (starts[partition + 1] - starts[partition]))
    places = pc.sort_indices(pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(order)]))
    found = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(grouped)]).take(places)
    return pc.if_else(keys.is_valid(), found, pa.scalar(None, pa.int32()))
