"""The pipeline `audit`: counts and checksums of two topics, or of a topic and its archive, and their differences."""

from tidemill.spark.pipelines.audit import by_key, by_offset, sides
from tidemill.spark.pipelines.audit.bounds import steps
from tidemill.spark.pipelines.audit.options import AuditOptions, By
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.table import Table


def plan(job: Job[AuditOptions]) -> Plan:
    _refuse_continuous(job)
    options = job.options
    found = sides.resolve(job)
    ignored = ", ".join(it.value for it in options.ignore) or "nothing"
    rows = [
        ("topic", options.topic),
        ("target", options.target or f"archive {options.archive}"),
        ("by", options.by.value),
        ("ignored", ignored),
    ]
    offsets = [
        (p, start, found.source.ends[p], found.target.starts.get(p), found.target.ends.get(p))
        for p, start in sorted(found.source.starts.items())
    ]
    if options.by is By.OFFSET:
        count = found.compared.offset_count
        parts = len(steps(found.compared, options.range_records))
        rows += [("records", str(count)), ("steps", str(parts)), ("range_records", str(options.range_records))]
    else:
        rows += [("source_records", str(found.source.offset_count)), ("target_records", str(found.target.offset_count))]
    columns = ("partition", "start", "end", "target_start", "target_end")
    return Plan("Compare records", tuple(rows), (Table("Offsets", columns, offsets),))


def run(job: Job[AuditOptions]) -> Report:
    _refuse_continuous(job)
    return by_offset.run(job) if job.options.by is By.OFFSET else by_key.run(job)


def _refuse_continuous(job: Job[AuditOptions]) -> None:
    if job.is_continuous:
        raise ValueError("continuous: an audit compares what is there, and then ends; run it with --once")


PIPELINE = Pipeline(
    name="audit",
    summary="compare two topics, or a topic with its archive",
    options=AuditOptions,
    plan=plan,
    run=run,
    checks="Counts and checksums of every range of offsets, or of every key; the records that differ are shown.",
    example="--topic flights --target flights-copy",
)
