"""Runs a pipeline for `tidemill pipeline run`: session, progress, signals, plan, report and exit code."""

import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import typer

from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.output import print_fields, print_json, print_table
from tidemill.cli.pipeline_progress import shown_progress
from tidemill.cli.pipeline_session import require_spark, spark_session
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.progress import Progress
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.run import make_job, run
from tidemill.spark.pipelines.frame.table import Table

DIFFERENT: Final = ExitCode.FAILED  # 1: the check found differences
NOT_DONE: Final = ExitCode.USAGE  # 2: usage error, or the run failed


class StopRequest:
    """A signal handler.  The first Ctrl-C or SIGTERM requests a stop; the second one interrupts immediately."""

    def __init__(self, progress: Progress) -> None:
        self.is_requested = False
        self._progress = progress

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        self._progress.note("stopping after the step at hand; Ctrl-C again stops at once")


@contextmanager
def stop_requests(progress: Progress) -> Iterator[StopRequest]:
    """
    Handle Ctrl-C and SIGTERM during the block.

    This replaces the handler that PySpark installs, which would cancel the current step.
    """
    request = StopRequest(progress)
    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """One run of a pipeline, as specified on the command line."""

    pipeline: Pipeline[Any]
    options: Mapping[str, object]
    state: str
    bootstrap_servers: str
    kafka: Mapping[str, str]
    is_continuous: bool
    is_dry_run: bool
    as_json: bool

    def execute(self, master: str, conf: Mapping[str, str]) -> None:
        """
        Run the pipeline and print its report, or print its plan.

        Raise `Failed` or `typer.Exit` unless the run succeeds.
        """
        require_spark()
        began = time.monotonic()
        try:
            with spark_session(f"tidemill pipeline {self.pipeline.name}", master, conf) as spark:
                report, is_stopped = self._result(spark)
        except KeyboardInterrupt:
            print(f"interrupted; {self._resume()}", file=sys.stderr)
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        if report is None:
            return
        self._print_report(report, time.monotonic() - began)
        if not report.is_success:
            raise Failed(report.failure or f"the check of {self.pipeline.name} failed", exit_code=DIFFERENT)
        if is_stopped and not self.is_continuous:
            print(f"stopped; {self._resume()}", file=sys.stderr)
            raise typer.Exit(ExitCode.INTERRUPTED)

    def _result(self, spark: Any) -> tuple[Report | None, bool]:
        """Return the report, or None after printing the plan; and whether a stop was requested."""
        with self._failures():
            if self.is_dry_run:
                self._print_plan(self.pipeline.plan(self._job(spark)))
                return None, False
            with shown_progress(as_json=self.as_json) as progress, stop_requests(progress) as request:
                job = self._job(spark, progress=progress, stop_requested=lambda: request.is_requested)
                return run(self.pipeline, job), request.is_requested

    def _job(self, spark: Any, **more: Any) -> Job[Any]:
        return make_job(
            spark,
            self.pipeline,
            self.options,
            state=self.state,
            bootstrap_servers=self.bootstrap_servers,
            kafka=self.kafka,
            is_continuous=self.is_continuous,
            **more,
        )

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """
        Convert expected errors of a run into a one-sentence message.

        Any other error is a bug and shows its traceback.
        """
        from pyspark.errors import PySparkException

        from tidemill.cli.spark_error import sentence
        from tidemill.client.failures import ClientError
        from tidemill.columnar.data_loss import DataLossError

        try:
            yield
        except (ClientError, DataLossError, ValueError, OSError, PySparkException) as error:
            raise Failed(sentence(error), exit_code=NOT_DONE) from error
        except Exception as error:
            traceback.print_exc()
            raise Failed(f"{type(error).__name__}: {error}", exit_code=NOT_DONE) from error

    def _print_plan(self, plan: Plan) -> None:
        if self.as_json:
            print_json(plan.to_json())
            return
        print(f"{plan.title}\n")
        print_fields(dict(plan.rows))
        self._print_tables(plan.tables)
        print("\nNothing was written.")

    def _print_report(self, report: Report, seconds: float) -> None:
        if self.as_json:
            head = {"event": "report", "pipeline": self.pipeline.name, "seconds": round(seconds, 1)}
            print_json({**head, **report.to_json()})
            return
        self._print_tables(report.tables)
        rows = [*report.rows.items(), ("seconds", round(seconds, 1))]
        print_table((self.pipeline.name, "value"), [(name, _cell(value)) for name, value in rows])

    def _print_tables(self, tables: tuple[Table, ...]) -> None:
        for table in tables:
            if table.rows:
                print(f"\n{table.title}")
                print_table(table.columns, table.rows)

    def _resume(self) -> str:
        return f"the same command resumes it from --state {self.state}"


def _cell(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
