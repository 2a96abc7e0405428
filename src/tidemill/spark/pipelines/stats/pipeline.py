"""The pipeline `stats`: statistics of a topic's records, as tables, charts and one page."""

from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.table import Table
from tidemill.spark.pipelines.stats import drawing, run_state, topic_range
from tidemill.spark.pipelines.stats.options import StatsOptions
from tidemill.spark.pipelines.stats.output import Output


def plan(job: Job[StatsOptions]) -> Plan:
    """Return the range that a run would read."""
    options = job.options
    _refuse_continuous(job)
    drawing.check_installed()
    Output(options.directory, options.topic).check()
    current = run_state.load(job.state)
    if current is None:
        read = topic_range.resolve(job.kafka, options.topic, options.start, options.end)
        steps_done, step_records = 0, options.step_records
    else:
        read, steps_done, step_records = current.read, current.step_count, current.step_records
    rows = [
        (partition, start, read.ends[partition], read.ends[partition] - start)
        for partition, start in read.starts.items()
    ]
    return Plan(
        f"Count the records of {options.topic}",
        (
            ("topic", options.topic),
            ("to", str(options.directory)),
            ("records", f"{read.offset_count:,} at most"),
            ("steps", f"{len(read.steps(step_records))}, of which {steps_done} are done"),
            ("table per_minute", f"a row per partition and {options.bucket_s} s"),
        ),
        (Table("Offsets", ("partition", "from", "to", "records at most"), sorted(rows)),),
    )


def run(job: Job[StatsOptions]) -> Report:
    from tidemill.spark.pipelines.stats import stats_run  # imported here because it imports pyspark

    _refuse_continuous(job)
    return stats_run.run(job)


def _refuse_continuous(job: Job[StatsOptions]) -> None:
    if job.is_continuous:
        raise ValueError("stats counts a range that ends: leave out --continuous, and run it again for newer records")


PIPELINE = Pipeline(
    name="stats",
    summary="count rates, sizes, hot keys and hashes of keys: tables, charts and one page",
    options=StatsOptions,
    plan=plan,
    run=run,
    checks="Every record of the range is counted once.",
    example="--topic orders --to orders-stats",
)
