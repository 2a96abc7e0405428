"""Writes files to a topic, in event-time order and at a limited rate.

`preparation` scans the files and makes the plan; `part_loop` writes the parts; `live_tail` then copies the live topic.
"""

import shutil
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tidemill.spark.pipelines.backfill import live_tail
from tidemill.spark.pipelines.backfill.backfill_state import BackfillPlan, BackfillState, Position
from tidemill.spark.pipelines.backfill.options import BackfillOptions
from tidemill.spark.pipelines.backfill.part_loop import PartLoop
from tidemill.spark.pipelines.backfill.part_writer import PartWriter
from tidemill.spark.pipelines.backfill.preparation import Preparation, prepare
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.state_directory import PIPELINE as PIPELINE_FILE
from tidemill.spark.pipelines.frame.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "backfill"
_FILES_SHOWN: Final = 50


def plan(job: Job[BackfillOptions]) -> Plan:
    """Return the plan of the first run if there was one, or else what a first run would do.  The files are scanned."""
    if job.state.read(PIPELINE_FILE) is not None:
        job.state.claim(NAME, job.options.identity())  # writes nothing here: raises StateRefused if the options differ
    prepared = prepare(job)
    position = BackfillState(job.state).position()
    options, made = job.options, prepared.plan
    sorted_groups = [group for group in made.groups if group.is_sorted_first]
    part_count = sum(group.part_count(made.part_records) for group in made.groups)
    rows = [
        (
            "files",
            f"{len(made.files):,}, of which {sum(len(group.files) for group in sorted_groups):,} are sorted first",
        ),
        ("records", f"{made.records:,}"),
        ("bytes", f"{made.bytes:,} of keys, values and headers"),
        ("events", f"{_time(made.groups[0].first_us)} to {_time(made.groups[-1].last_us)}" if made.groups else "none"),
        ("parts", f"about {part_count:,}"),
        ("topic", f"{options.topic}, {made.partition_count} partitions"),
        ("rate", _rate(options)),
        ("duration", _duration(options, made, position)),
    ]
    if made.then is not None:
        rows.append(("then", f"{options.then} from {', '.join(f'{p}:{offset}' for p, offset in made.then.items())}"))
    if prepared.is_resumed:
        rows.append(("done", f"{position.parts:,} parts with {position.records:,} records"))
    if prepared.refusals:
        rows.append(("refused", "; ".join(prepared.refusals)))
    if prepared.notes:
        rows.append(("notes", "; ".join(prepared.notes)))
    return Plan(f"Backfill {options.topic} from {options.source}", tuple(rows), _tables(made))


def run(job: Job[BackfillOptions]) -> Report:
    """Write the records that are not written yet, and return the counts of all runs together."""
    options = job.options
    job.state.claim(NAME, options.identity())
    state = BackfillState(job.state)
    prepared = prepare(job)
    for note in prepared.notes:
        job.progress.note(note)
    if job.is_continuous and options.then is None:
        job.progress.note("the run ends with the files: name a topic with the option then to go on with it")
    before = state.position()
    if prepared.refusals and before.group < len(prepared.plan.groups):
        raise ValueError("; ".join(prepared.refusals))
    if not prepared.is_resumed:
        state.keep_plan(prepared.plan)
    job.progress.begin(f"writing {options.topic}", prepared.plan.records - before.records)
    began = time.monotonic()
    position = PartLoop(job=job, prepared=prepared, state=state, writer=_writer(job, prepared)).run()
    wall_s = time.monotonic() - began
    is_complete = position.group == len(prepared.plan.groups)
    copied = None
    if is_complete:
        shutil.rmtree(state.sorted_directory(0).parent, ignore_errors=True)
        if prepared.plan.then is not None and not job.stop_requested():
            copied = live_tail.copy(job, prepared.plan.then)
    return Report(_counts(options, prepared.plan, before, position, wall_s, copied))


def _writer(job: Job[BackfillOptions], prepared: Preparation) -> PartWriter:
    rate, is_in_bytes = job.options.rate
    return PartWriter(
        reader=prepared.reader,
        sink=prepared.sink,
        partition_count=prepared.plan.partition_count,
        task_max=job.options.tasks or _cores(job.spark),
        rate=rate,
        is_rate_in_bytes=is_in_bytes,
    )


def _cores(spark: "SparkSession") -> int:
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:  # Spark Connect provides no SparkContext
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _counts(
    options: BackfillOptions,
    made: BackfillPlan,
    before: Position,
    position: Position,
    wall_s: float,
    copied: int | None,
) -> dict[str, int | float | str]:
    is_complete = position.group == len(made.groups)
    rows: dict[str, int | float | str] = {
        "topic": options.topic,
        "status": "complete" if is_complete else "stopped: the same command goes on",
        "files": len(made.files),
        "parts": position.parts,
        "records": position.records,
        "bytes": position.bytes,
        "records_of_this_run": position.records - before.records,
        "seconds_of_this_run": round(wall_s, 3),
        "seconds_of_writing": round(position.seconds, 3),
        "rate_limit": _rate(options),
        "records_per_second": round(position.records / position.seconds, 1) if position.seconds else 0,
        "bytes_per_second": round(position.bytes / position.seconds, 1) if position.seconds else 0,
        "repeated_parts": position.repeated_parts,
        "duplicates_at_most": position.extra_records,
    }
    if copied is not None:
        rows["copied_records"] = copied
    return rows


def _tables(made: BackfillPlan) -> tuple[Table, ...]:
    shown = [
        (file.path, file.records, _time(file.first_us), _time(file.last_us), number, group.is_sorted_first)
        for number, group in enumerate(made.groups, 1)
        for file in group.files
    ]
    columns = ("file", "records", "first_event", "last_event", "group", "sorted_first")
    more = "" if len(shown) <= _FILES_SHOWN else f" (the first {_FILES_SHOWN} of {len(shown):,})"
    rows = [(*row[:5], "yes" if row[5] else "no") for row in shown[:_FILES_SHOWN]]
    return (Table(f"Files in event-time order{more}", columns, rows),)


def _rate(options: BackfillOptions) -> str:
    rate, is_in_bytes = options.rate
    return "unlimited" if rate is None else f"{rate:,} {'bytes' if is_in_bytes else 'records'} a second"


def _duration(options: BackfillOptions, made: BackfillPlan, position: Position) -> str:
    rate, is_in_bytes = options.rate
    if rate is None:
        return "as fast as the topic accepts records"
    left = made.bytes - position.bytes if is_in_bytes else made.records - position.records
    return f"at least {int(left / rate):,} s"


def _time(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


PIPELINE: Final = Pipeline(
    name=NAME,
    summary="write Parquet, CSV or JSON files to a topic, in event-time order and at a bounded rate",
    options=BackfillOptions,
    plan=plan,
    run=run,
    checks="Each row is checked before the first is written; each part has as many records as its files.",
    example="--source flights --format parquet --topic flights --timestamp time_hour --key carrier --rate-records 9000",
)
