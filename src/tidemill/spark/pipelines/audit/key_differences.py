"""Finds which records of a key differ, after the checksums have shown which keys differ."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.spark.pipelines.audit.checksum import SOURCE, TARGET, described
from tidemill.spark.pipelines.audit.difference import Difference, RecordText, changed_parts, record_text
from tidemill.spark.pipelines.audit.options import AuditOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORD = ("side", "partition", "offset", "key_text", "value_text", "headers_text", "timestamp_us")


def duplicates(rows: "DataFrame", differing: "DataFrame") -> int:
    """Return how many records of the target are duplicates: repetitions beyond the occurrences in the source topic."""
    from pyspark.sql import functions as F  # noqa: N812

    counts = (
        _of_keys(rows, differing)
        .groupBy("key", "checksum")
        .agg(
            F.count_if(F.col("side") == SOURCE).alias("source_count"),
            F.count_if(F.col("side") == TARGET).alias("target_count"),
        )
    )
    # A record that only the target has counts as additional once, and its repetitions as duplicates.
    surplus = F.greatest(F.col("target_count") - F.greatest("source_count", F.lit(1)), F.lit(0))
    found = counts.agg(F.sum(surplus)).first()
    assert found is not None
    return int(found[0] or 0)


def first_of(rows: "DataFrame", differing: "DataFrame", options: AuditOptions) -> list[Difference]:
    """Return the first differences, ordered by key; keys whose records differ only in their order come last."""
    keys = differing.orderBy("key").limit(options.differences)
    found = [*_unpaired(_described(rows, keys.where("not is_reordered")), options)]
    if len(found) < options.differences:
        found += _reordered(_described(rows, keys.where("is_reordered")), options)
    return found[: options.differences]


def _described(rows: "DataFrame", keys: "DataFrame") -> "DataFrame":
    return _of_keys(rows, keys).select("key", "checksum", "side", "partition", "offset", *described())


def _of_keys(rows: "DataFrame", keys: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    wanted = keys.select(F.col("key").alias("wanted"))
    return rows.join(wanted, rows["key"].eqNullSafe(wanted["wanted"]), "left_semi")


def _unpaired(rows: "DataFrame", options: AuditOptions) -> Iterator[Difference]:
    """Yield the differences for records that only one side has, or that one side has more often than the other."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    same = Window.partitionBy("side", "key", "checksum").orderBy("partition", "offset")
    # Limit the rows that the driver collects.  A changed record takes two of these rows, and all rows may have the same
    # key.
    rows_max = 100 * options.differences
    found = (
        rows.withColumn("occurrence", F.row_number().over(same))
        .groupBy("key", "checksum", "occurrence")
        .agg(F.collect_list(F.struct(*_RECORD)).alias("records"))
        .where(F.size("records") == 1)
        .select("key", "occurrence", F.col("records")[0].alias("record"))
        .orderBy("key", "record.partition", "record.offset")
        .limit(rows_max)
        .collect()
    )
    by_key: defaultdict[Any, tuple[list[RecordText], list[RecordText], list[RecordText]]]
    by_key = defaultdict(lambda: ([], [], []))
    for row in found:
        source, target, repeated = by_key[None if row.key is None else bytes(row.key)]
        text = record_text(row.record)
        if row.record.side == SOURCE:
            source.append(text)
        else:
            (repeated if row.occurrence > 1 else target).append(text)
    for source, target, repeated in by_key.values():
        yield from _paired(source, target, options)
        yield from (Difference("duplicate", None, it) for it in repeated)


def _paired(source: Sequence[RecordText], target: Sequence[RecordText], options: AuditOptions) -> Iterator[Difference]:
    """Pair the records of one key in order, yield the pairs as changed, then yield the records left on one side."""
    count = min(len(source), len(target))
    for one, other in zip(source[:count], target[:count], strict=True):
        yield Difference(changed_parts(one, other, options.ignore), one, other)
    yield from (Difference("missing", it, None) for it in source[count:])
    yield from (Difference("additional", None, it) for it in target[count:])


def _reordered(rows: "DataFrame", options: AuditOptions) -> Iterator[Difference]:
    """For each key with the same records in a different order, yield the first position at which the records differ."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    order = Window.partitionBy("side", "key").orderBy("partition", "offset")
    found = (
        rows.withColumn("position", F.row_number().over(order))
        .groupBy("key", "position")
        .agg(F.count_distinct("checksum").alias("checksums"), F.collect_list(F.struct(*_RECORD)).alias("records"))
        .where("checksums > 1")
        .groupBy("key")
        .agg(F.min_by("records", "position").alias("records"))
        .orderBy("key")
        .limit(options.differences)
        .collect()
    )
    for row in found:
        source, target = sorted(row.records, key=lambda it: it.side == TARGET)
        yield Difference("order", record_text(source), record_text(target))
