"""Compares records with the same key: for every key, the record counts, a checksum that ignores order, and one that
depends on order.

The records of a key are in one partition, in the order in which they were written, so they are ordered by
partition and offset.  The order of records without a key is not compared.
"""

from typing import TYPE_CHECKING, Any

from tidemill.spark.pipelines.audit import key_differences
from tidemill.spark.pipelines.audit import sides as both
from tidemill.spark.pipelines.audit.checksum import SOURCE, TARGET, checksum, halves
from tidemill.spark.pipelines.audit.difference import table_of
from tidemill.spark.pipelines.audit.options import AuditOptions, Ignored
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.report import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYLESS_PARTS = 1024


def run(job: Job[AuditOptions]) -> Report:
    """Compare both sides in one step.  An audit that is killed starts over."""
    job.state.claim("audit", job.options.identity)
    sides = both.resolve(job)
    total = sides.source.offset_count + sides.target.offset_count
    job.progress.begin("comparing", total)
    rows = both.rows(job, sides)
    counts = dict.fromkeys(("source_records", "target_records", "keys", "differing_keys", "reordered_keys"), 0)
    if rows is None:
        return _report(job, counts, 0, [])
    checked = rows.withColumn("checksum", checksum(job.options.ignore))
    keys = _keys(checked, is_ordered=Ignored.ORDER not in job.options.ignore)
    counts |= _counts(keys)
    job.progress.advance(total, lag=0)
    if not counts["differing_keys"]:
        return _report(job, counts, 0, [])
    job.progress.begin("finding the differences", None)
    differing = keys.where("is_different").select("key", "is_reordered").persist()
    try:
        duplicates = key_differences.duplicates(checked, differing)
        differences = key_differences.first_of(checked, differing, job.options)
    finally:
        differing.unpersist()
    return _report(job, counts, duplicates, differences)


def _keys(rows: "DataFrame", *, is_ordered: bool) -> "DataFrame":
    """Return each key with its record counts on both sides, and whether its records differ or only their order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    slim = rows.select("side", "partition", "offset", "key", "checksum")
    position = F.lit(0)
    if is_ordered:
        # Records without a key are divided into parts, because otherwise a single task would have to sort all of them.
        part = F.when(F.col("key").isNull(), F.col("offset") % KEYLESS_PARTS)
        order = Window.partitionBy("side", "key", part).orderBy("partition", "offset")
        position = F.when(F.col("key").isNull(), position).otherwise(F.row_number().over(order))
    slim = slim.withColumn("position", position)
    sign = F.when(F.col("side") == SOURCE, 1).otherwise(-1)
    low, high = halves(F.col("checksum"))
    ordered_low, ordered_high = halves(F.xxhash64("checksum", "position"))
    summed = slim.groupBy("key").agg(
        F.count_if(F.col("side") == SOURCE).alias("source_count"),
        F.count_if(F.col("side") == TARGET).alias("target_count"),
        *(
            F.sum(sign * value).alias(name)
            for name, value in (
                ("low", low),
                ("high", high),
                ("ordered_low", ordered_low),
                ("ordered_high", ordered_high),
            )
        ),
    )
    has_other_records = F.expr("source_count <> target_count or low <> 0 or high <> 0")
    has_other_order = F.expr("ordered_low <> 0 or ordered_high <> 0")
    return summed.select(
        "key",
        "source_count",
        "target_count",
        (has_other_records | has_other_order).alias("is_different"),
        (~has_other_records & has_other_order).alias("is_reordered"),
    )


def _counts(keys: "DataFrame") -> dict[str, Any]:
    from pyspark.sql import functions as F  # noqa: N812

    row = keys.agg(
        F.sum("source_count").alias("source_records"),
        F.sum("target_count").alias("target_records"),
        F.count("*").alias("keys"),
        F.count_if("is_different").alias("differing_keys"),
        F.count_if("is_reordered").alias("reordered_keys"),
    ).first()
    assert row is not None
    return {name: value or 0 for name, value in row.asDict().items()}


def _report(job: Job[AuditOptions], counts: dict[str, int], duplicates: int, differences: list[Any]) -> Report:
    options = job.options
    rows: dict[str, int | float | str] = {
        "topic": options.topic,
        "target": options.target or str(options.archive),
        "by": options.by.value,
        **counts,
        "duplicates": duplicates,
    }
    if not counts["differing_keys"]:
        return Report(rows)
    failure = f"{counts['differing_keys']} of {counts['keys']} keys differ"
    return Report(rows, (table_of(differences, options.differences),), is_success=False, failure=failure)
