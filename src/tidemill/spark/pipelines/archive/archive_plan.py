"""Plans an archive without writing: what is pending, in how many batches, and where it would be written."""

from contextlib import closing
from math import ceil

from tidemill.spark.pipelines.archive import next_batch
from tidemill.spark.pipelines.archive.file_plan import plan_files
from tidemill.spark.pipelines.archive.options import ArchiveOptions
from tidemill.spark.pipelines.archive.source_topic import SourceTopic
from tidemill.spark.pipelines.archive.targets import open_target
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.quantity import size_text
from tidemill.spark.pipelines.frame.table import Table


def plan(job: Job[ArchiveOptions]) -> Plan:
    """Return what a run would archive now.  Raise the errors that a run would raise before its first batch."""
    options = job.options
    with closing(open_target(job)) as target:
        last = target.last()
    next_batch.check_division(last, options.partition_by)
    with closing(SourceTopic(job.kafka, options.topic)) as source:
        pending = next_batch.everything(last, source.bounds(last))
        profiles = source.profiles(pending)
    stored = next_batch.stored_bytes(pending, profiles)
    files = plan_files(pending.offset_count, stored, options.target_size, last)
    batches = max(ceil(pending.offset_count / options.batch_records), ceil(stored / options.batch_bytes))
    size = size_text(options.target_size)
    division = f", at least one for each {options.partition_by.columns[-1]}" if options.partition_by.columns else ""
    rows = (
        ("topic", options.topic),
        ("to", options.identity["to"]),
        ("format", options.format.value),
        ("partition by", options.partition_by.value),
        ("next batch", str(pending.number)),
        ("offsets", str(pending.offset_count)),
        ("lost offsets", str(sum(one.end - one.start for one in pending.lost))),
        ("batches", f"about {batches}"),
        ("stored bytes", f"about {stored}"),
        ("bytes of files", f"about {files.estimated_bytes}"),
        (
            "files",
            f"about {files.task_count if pending.offset_count else 0} of {size}{division}",
        ),
    )
    offsets = [
        (one.partition, pending.begins[one], pending.starts[one], pending.ends[one]) for one in sorted(pending.ends)
    ]
    return Plan(
        f"archive {options.topic}",
        rows,
        (Table("offsets", ("partition", "archived up to", "start", "end"), offsets),),
    )
