"""The plan of a replay: its range, the number of its records, and when they were written."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.columnar.offset_ranges import waiting_count
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.table import Table
from tidemill.spark.pipelines.replay.histogram import bar, bucket_width_ms
from tidemill.spark.pipelines.replay.options import ReplayOptions
from tidemill.spark.pipelines.replay.replay_run import ReplayRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plan(job: Job[ReplayOptions], run: ReplayRun) -> Plan:
    """Return the plan.  Spark reads the range twice: to find its first and last timestamp, and to count its records."""
    options, state, ends = job.options, run.state, run.ends()
    times, histogram = _times(run.selected(ends))
    rows = [
        ("topic", options.topic),
        ("to", options.to),
        ("partitions", str(len(ends))),
        ("offsets", str(waiting_count(state.done, ends))),
        ("steps", f"at most {-(-waiting_count(state.done, ends) // options.step_records) or 0}"),
        ("resumes", "yes" if state.counts.steps or state.step else "no"),
    ]
    if options.filter is not None:
        rows.append(("filter", options.filter))
    rows.append(("records", str(sum(count for _, count in histogram))))
    if times is not None:
        first, last = times
        rows += [
            ("timestamps", f"{_text(first)} to {_text(last)}"),
            _shifted(first, last, options, run),
        ]
        if options.paced_speed is not None:
            rows.append(("takes at least", str(timedelta(seconds=round((last - first) / 1_000 / options.paced_speed)))))
    count_max = max((count for _, count in histogram), default=0)
    return Plan(
        f"Replay {options.topic} to {options.to}",
        tuple(rows),
        (
            Table(
                "Offsets",
                ("partition", "start", "end", "offsets"),
                [(p.partition, state.done[p], ends[p], ends[p] - state.done[p]) for p in sorted(ends)],
            ),
            Table(
                "Records by timestamp",
                ("from", "records", "share"),
                [(_text(begin), count, bar(count, count_max)) for begin, count in histogram],
            ),
        ),
    )


def _times(frame: "DataFrame") -> tuple[tuple[int, int] | None, list[tuple[int, int]]]:
    """Return the first and last timestamp, and the start and count of each time bucket that has records."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

    milliseconds = frame.select(F.unix_millis("timestamp").alias("ms"))
    first, last = milliseconds.agg(F.min("ms"), F.max("ms")).collect()[0]
    if first is None:
        return None, []
    width = bucket_width_ms(first, last)
    begin = (F.floor(F.col("ms") / width) * width).alias("begin")
    counted = milliseconds.groupBy(begin).count().orderBy("begin").collect()
    return (first, last), [(int(row["begin"]), int(row["count"])) for row in counted]


def _shifted(first_ms: int, last_ms: int, options: ReplayOptions, run: ReplayRun) -> tuple[str, str]:
    """Return the row with the timestamps that will be written, or with the times at which records will be due."""
    if options.into_timer:
        due = run.due_times(first_ms)
        return "due", f"{_text(due.due_ms(first_ms))} to {_text(due.due_ms(last_ms))}"
    shift_ms = options.shift_by // timedelta(milliseconds=1)
    return "shifted timestamps", f"{_text(first_ms + shift_ms)} to {_text(last_ms + shift_ms)}"


def _text(milliseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)).isoformat().replace("+00:00", "Z")
