"""The smallest complete pipeline: it counts in steps, and resumes from the number that it reached."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.option import option
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.quantity import parse_duration, parse_size
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.table import Table

REACHED = "reached"


class Order(StrEnum):
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, kw_only=True)
class CountingOptions:
    topic: str = option("The topic that the numbers are called after.", metavar="TOPIC")
    until: int = option("The number to count to.", default=10, metavar="N")
    step_bytes: int = option("Bytes of one step.", default=1 << 20, parse=parse_size, metavar="SIZE")
    pause: timedelta = option(
        "How long to wait.", default=timedelta(minutes=10), parse=parse_duration, metavar="DURATION"
    )
    order: Order = option("Up or down.", default=Order.UP)
    mode: Literal["fast", "slow"] = option("How fast.", default="fast")
    is_loud: bool = option("Say each number.", default=False)
    label: tuple[str, ...] = option("A label.", default=(), metavar="TEXT")
    limit: float | None = option("A limit.", default=None)

    def __post_init__(self) -> None:
        if self.until < 1:
            raise ValueError(f"until={self.until} is below 1: write at least 1")


def plan(job: Job[CountingOptions]) -> Plan:
    reached = (job.state.read(REACHED) or {"number": 0})["number"]
    rows = (("topic", job.options.topic), ("from", str(reached)), ("to", str(job.options.until)))
    return Plan("Count numbers", rows, (Table("Steps", ("step", "number"), [(1, reached)]),))


def run(job: Job[CountingOptions]) -> Report:
    options = job.options
    job.state.claim("counting", {"topic": options.topic})
    reached = (job.state.read(REACHED) or {"number": 0})["number"]
    if reached:
        job.progress.note(f"resumes at {reached}")
    job.progress.begin("counting", options.until - reached)
    while reached < options.until and not job.stop_requested():
        reached += 1
        job.state.write(REACHED, {"number": reached})
        job.progress.advance(1, bytes=options.step_bytes, lag=options.until - reached)
    is_success = options.mode == "fast"
    failure = None if is_success else "2 numbers differ"
    table = Table("Numbers", ("number", "label"), [(reached, None)])
    return Report({"topic": options.topic, "records": reached}, (table,), is_success, failure)


PIPELINE = Pipeline(
    name="counting",
    summary="count numbers",
    options=CountingOptions,
    plan=plan,
    run=run,
    checks="The last number is the one that was asked for.",
    example="--topic numbers --until 20",
)
