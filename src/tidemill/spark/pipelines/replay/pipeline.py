"""The pipeline `replay`: writes a range of a topic to a topic again, with shifted timestamps and at a chosen speed."""

from typing import TYPE_CHECKING, Final

from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.replay.options import ReplayOptions

if TYPE_CHECKING:
    from tidemill.spark.pipelines.replay.replay_run import ReplayRun


def _plan(job: Job[ReplayOptions]) -> Plan:
    from tidemill.spark.pipelines.replay import replay_plan

    with _opened(job) as run:
        return replay_plan.plan(job, run)


def _run(job: Job[ReplayOptions]) -> Report:
    with _opened(job) as run:
        run.replay()
        return run.report()


def _opened(job: Job[ReplayOptions]) -> "ReplayRun":
    from tidemill.spark.pipelines.replay.replay_run import ReplayRun

    return ReplayRun(job)


PIPELINE: Final = Pipeline(
    name="replay",
    summary="write a range of a topic to a topic again, with shifted times, at a chosen speed, filtered",
    options=ReplayOptions,
    plan=_plan,
    run=_run,
    checks="The target has grown by at least the records that were written; the order of every key is kept.",
    example="--topic flights --to flights-again --start 2013-01-01T05:00:00-05:00 --shift 364d --speed 60",
)
