"""Compares records with the same offset: checksums of ranges, then the records of the ranges that differ."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill.spark.pipelines.audit import sides as both
from tidemill.spark.pipelines.audit.bounds import Bounds, steps
from tidemill.spark.pipelines.audit.checksum import SOURCE, TARGET, checksum, described, halves
from tidemill.spark.pipelines.audit.difference import Difference, changed_parts, record_text, table_of
from tidemill.spark.pipelines.audit.options import AuditOptions
from tidemill.spark.pipelines.audit.sides import Sides
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.table import Table

PROGRESS = "progress"  # name under which the state directory stores `_Found`
RANGES_MAX = 1_000  # differing ranges stored in the state and listed in the report; others are only counted


@dataclass(slots=True)
class _Found:
    """The results of the steps so far.  They are stored in the state directory after each step."""

    step: int = 0  # the next step to compare
    source_records: int = 0
    target_records: int = 0
    ranges: int = 0
    differing_ranges: int = 0
    duplicates: int = 0
    differing: list[list[int]] = field(default_factory=list)  # partition, start, end, source records, target records


def run(job: Job[AuditOptions]) -> Report:
    """Compare both sides step by step.  A stopped audit resumes with the next step, and with the same offsets."""
    job.state.claim("audit", job.options.identity)
    sides, found = _begun(job)
    parts = steps(sides.compared, job.options.range_records)
    left = sum(part.offset_count for part in parts[found.step :])
    if found.step:
        job.progress.note(f"resumes after {sides.compared.offset_count - left:,} records")
    job.progress.begin("comparing", left)
    for part in parts[found.step :]:
        if job.stop_requested():
            break
        _compare(job, sides, part, found)
        _save(job, sides, found, is_done=False)
        left -= part.offset_count
        job.progress.advance(part.offset_count, lag=left)
    differences: list[Difference] = []
    if found.step == len(parts):
        differences = _differences(job, sides, found.differing)
        _save(job, sides, found, is_done=True)
    return _report(job, sides, found, differences)


def _begun(job: Job[AuditOptions]) -> tuple[Sides, _Found]:
    """Return the saved state of an audit that was stopped or killed, or the initial state of a new audit."""
    saved = job.state.read(PROGRESS)
    if saved is None or saved["is_done"]:
        return both.resolve(job), _Found()
    names = ("source", "target", "compared")
    sides = Sides(**{name: Bounds.from_json(saved["offsets"][name]) for name in names})
    return sides, _Found(**saved["found"])


def _save(job: Job[AuditOptions], sides: Sides, found: _Found, *, is_done: bool) -> None:
    offsets = {name: getattr(sides, name).to_json() for name in ("source", "target", "compared")}
    counts = {name: getattr(found, name) for name in _Found.__slots__}
    job.state.write(PROGRESS, {"is_done": is_done, "offsets": offsets, "found": counts})


def _compare(job: Job[AuditOptions], sides: Sides, part: Bounds, found: _Found) -> None:
    """Compare the ranges of a step, and add the result to `found`."""
    from pyspark.sql import functions as F  # noqa: N812

    size = job.options.range_records
    found.step += 1
    # Count the ranges here, because a range without records on either side is equal, but has no row in the result
    # below.
    found.ranges += sum(-(-end // size) - start // size for start, end in part.non_empty().values())
    rows = both.rows(job, sides, part)
    if rows is None:
        return
    low, high = halves(checksum(job.options.ignore, "offset"))
    sign = F.when(F.col("side") == SOURCE, 1).otherwise(-1)
    ranges = (
        rows.groupBy("partition", F.expr(f"offset div {size}").alias("range"))
        .agg(
            F.count_if(F.col("side") == SOURCE).alias("source_count"),
            F.count_if(F.col("side") == TARGET).alias("target_count"),
            F.sum(sign * low).alias("low"),
            F.sum(sign * high).alias("high"),
        )
        .orderBy("partition", "range")
        .collect()
    )
    found.source_records += sum(it.source_count for it in ranges)
    found.target_records += sum(it.target_count for it in ranges)
    differing = [it for it in ranges if it.source_count != it.target_count or it.low or it.high]
    found.differing_ranges += len(differing)
    for it in differing[: RANGES_MAX - len(found.differing)]:
        start, end = (
            max(it.range * size, part.starts[it.partition]),
            min((it.range + 1) * size, part.ends[it.partition]),
        )
        found.differing.append([it.partition, start, end, it.source_count, it.target_count])
    if differing and job.options.archive is not None:  # a topic, unlike an archive, contains no offset twice
        found.duplicates += _duplicates(rows, size, [(it.partition, it.range) for it in differing])


def _duplicates(rows: Any, size: int, ranges: list[tuple[int, int]]) -> int:
    """Return how many records of the target repeat the offset of another record of the target."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted = rows.sparkSession.createDataFrame(ranges, "partition int, range bigint")
    counts = (
        rows.where(F.col("side") == TARGET)
        .withColumn("range", F.expr(f"offset div {size}"))
        .join(F.broadcast(wanted), ["partition", "range"])
        .groupBy("partition", "offset")
        .count()
    )
    return int(counts.agg(F.coalesce(F.sum(F.col("count") - 1), F.lit(0))).first()[0])


def _differences(job: Job[AuditOptions], sides: Sides, differing: list[list[int]]) -> list[Difference]:
    """Return the first differences, and read only as many ranges as are needed to find them."""
    found: list[Difference] = []
    if differing:
        job.progress.begin("finding the differences", None)
    for partition, start, end, *_ in differing:
        if len(found) >= job.options.differences or job.stop_requested():
            break
        found += _in_range(job, sides, Bounds({partition: start}, {partition: end}))
    return found[: job.options.differences]


def _in_range(job: Job[AuditOptions], sides: Sides, part: Bounds) -> Iterator[Difference]:
    from pyspark.sql import functions as F  # noqa: N812

    rows = both.rows(job, sides, part)
    assert rows is not None
    low, high = halves(checksum(job.options.ignore, "offset"))
    sign = F.when(F.col("side") == SOURCE, 1).otherwise(-1)
    offsets = (
        rows.select("side", "partition", "offset", (sign * low).alias("low"), (sign * high).alias("high"), *described())
        .groupBy("partition", "offset")
        .agg(
            F.sum("low").alias("low"),
            F.sum("high").alias("high"),
            F.collect_list(
                F.struct("side", "partition", "offset", "key_text", "value_text", "headers_text", "timestamp_us")
            ).alias("records"),
        )
        .where((F.col("low") != 0) | (F.col("high") != 0))
        .orderBy("offset")
        .limit(job.options.differences)
        .collect()
    )
    for row in offsets:
        source = [record_text(it) for it in row.records if it.side == SOURCE]
        target = [record_text(it) for it in row.records if it.side == TARGET]
        if not source:
            yield Difference("additional", None, target[0])
        elif not target:
            yield Difference("missing", source[0], None)
        else:
            changed = [(changed_parts(source[0], it, job.options.ignore), it) for it in target]
            yield from (Difference(what, source[0], it) for what, it in changed if what)
            yield from (Difference("duplicate", source[0], it) for it in target[1:])


def _report(job: Job[AuditOptions], sides: Sides, found: _Found, differences: list[Difference]) -> Report:
    options = job.options
    rows: dict[str, int | float | str] = {
        "topic": options.topic,
        "target": options.target or str(options.archive),
        "by": options.by.value,
        "source_records": found.source_records,
        "target_records": found.target_records,
        "ranges": found.ranges,
        "differing_ranges": found.differing_ranges,
        "duplicates": found.duplicates,
    }
    if options.archive is None and options.start == "earliest":
        rows["expired_on_one_side"] = sides.expired
    if options.archive is not None and not options.complete:
        rows["not_archived_yet"] = sides.not_archived
    if not found.differing_ranges:
        return Report(rows)
    ranges = Table(
        "Ranges that differ", ("partition", "start", "end", "source_records", "target_records"), found.differing
    )
    first = found.differing[0]
    failure = (
        f"{found.differing_ranges} of {found.ranges} ranges differ; the first is partition {first[0]}, offsets "
        f"{first[1]} to {first[2] - 1}"
    )
    shown = replace(ranges, rows=found.differing[: options.differences])
    return Report(rows, (shown, table_of(differences, options.differences)), is_success=False, failure=failure)
