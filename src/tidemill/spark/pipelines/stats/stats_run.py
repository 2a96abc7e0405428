"""Runs the pipeline: counts the range step by step, merges the counts, and writes tables, charts and page."""

import time
from typing import Any

from tidemill.columnar.data_loss import OnDataLoss
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.table import Table
from tidemill.spark.pipelines.stats import aggregates, drawing, gather, run_state, topic_range
from tidemill.spark.pipelines.stats.charts import charts_of
from tidemill.spark.pipelines.stats.figures import HashBucket, SizeFigures, Timeline, TopicFigures
from tidemill.spark.pipelines.stats.figures import PartitionFigures as Partition
from tidemill.spark.pipelines.stats.key_hash import BUCKET_COUNT
from tidemill.spark.pipelines.stats.key_label import label
from tidemill.spark.pipelines.stats.options import StatsOptions
from tidemill.spark.pipelines.stats.output import PAGE, Output
from tidemill.spark.pipelines.stats.page import page
from tidemill.spark.pipelines.stats.run_state import RunState
from tidemill.spark.pipelines.stats.topic_range import TopicRange

_KEYS_REPORTED = 10  # rows of the report's table; the table hot_keys contains more


def run(job: Job[StatsOptions]) -> Report:
    """
    Count the records in the range.

    An interrupted run resumes with the same range, at the step that was interrupted.
    """
    options = job.options
    drawing.check_installed()
    job.state.claim("stats", options.identity)
    output = Output(options.directory, options.topic)
    output.check()
    current = run_state.load(job.state)
    if current is None:
        run_state.remove_steps(job.state)
        read = topic_range.resolve(job.kafka, options.topic, options.start, options.end)
        current = RunState(read, options.step_records, 0, is_done=False)
        run_state.save(job.state, current)
    elif current.step_count:
        job.progress.note(f"resumes after {current.step_count} steps, with the range of the first run")
    output.begin()
    steps = current.read.steps(current.step_records)
    current = _count(job, current, steps)
    if current.step_count < len(steps):
        return Report({"topic": options.topic, "steps done": current.step_count, "steps": len(steps)})
    job.progress.begin("merging and drawing", None)
    figures = _figures(job, output, current.read, len(steps))
    _write(output, figures)
    run_state.save(job.state, RunState(current.read, current.step_records, len(steps), is_done=True))
    run_state.remove_steps(job.state)
    return _report(figures, output)


def _count(job: Job[StatsOptions], current: RunState, steps: list[TopicRange]) -> RunState:
    """Count the remaining steps, until a stop is requested."""
    source = dict(job.kafka)
    if job.options.on_data_loss is not OnDataLoss.FAIL:
        source["onDataLoss"] = job.options.on_data_loss.value
    left = sum(step.offset_count for step in steps[current.step_count :])
    job.progress.begin("counting", left)
    while current.step_count < len(steps) and not job.stop_requested():
        step = steps[current.step_count]
        counts = aggregates.counted_step(job.spark, source, job.options.topic, step, job.options.bucket_s)
        path = run_state.step_path(job.state, current.step_count)
        counts.write.mode("overwrite").parquet(path)
        current = current.done_step()
        run_state.save(job.state, current)
        left -= step.offset_count
        job.progress.advance(step.offset_count, lag=left)
    return current


def _figures(job: Job[StatsOptions], output: Output, read: TopicRange, step_count: int) -> TopicFigures:
    paths = [run_state.step_path(job.state, index) for index in range(step_count)]
    if paths and not job.spark.read.parquet(*paths).isEmpty():
        options = job.options
        return gather.gather(job.spark, paths, output, options.topic, read, options.bucket_s, options.top)
    buckets = tuple(HashBucket(bucket=number) for number in range(BUCKET_COUNT))
    gather.write_key_tables(job.spark, output, (), buckets)
    output.remove_per_minute()
    return TopicFigures(
        topic=job.options.topic,
        total=SizeFigures(),
        partitions=tuple(
            Partition(partition=partition, start_offset=start, end_offset=read.ends[partition], sizes=SizeFigures())
            for partition, start in sorted(read.starts.items())
        ),
        timeline=Timeline(step_s=job.options.bucket_s),
        size_bins=(),
        key_count=0,
        hot_keys=(),
        hash_buckets=buckets,
    )


def _write(output: Output, figures: TopicFigures) -> None:
    charts = charts_of(figures)
    output.write_charts({chart.name: drawing.png(chart) for chart in charts})
    output.write_page(page(figures, charts, time.time()))
    output.write_summary(
        {
            **_rows(figures),
            "offsets": {str(one.partition): [one.start_offset, one.end_offset] for one in figures.partitions},
        }
    )


def _rows(figures: TopicFigures) -> dict[str, Any]:
    total = figures.total
    return {
        "records": total.records,
        "bytes": total.bytes,
        "partitions": len(figures.partitions),
        "different_keys": figures.key_count,
        "without_key": total.without_key,
        "records_per_s": round(total.records / total.span_s, 3) if total.span_s else 0.0,
        "size_mean": round(total.size_mean, 1),
        "size_p50": total.size_p50,
        "size_p99": total.size_p99,
        "size_max": total.size_max,
    }


def _report(figures: TopicFigures, output: Output) -> Report:
    partitions = [
        (one.partition, one.sizes.records, one.sizes.bytes, one.sizes.size_p99, one.sizes.size_max)
        for one in figures.partitions
    ]
    keys = [(label(key.key), key.records, key.bytes) for key in figures.keys_by_records()[:_KEYS_REPORTED]]
    return Report(
        {"topic": figures.topic, **_rows(figures), "page": str(output.directory / PAGE)},
        (
            Table("Partitions", ("partition", "records", "bytes", "size_p99", "size_max"), partitions),
            Table("Hot keys", ("key", "records", "bytes"), keys),
        ),
    )
