"""Archive both topics, prove that the archives equal them, and draw the statistics page, with Tidemill's pipelines."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import Progress as Bars

from examples.failure import DemoFailed, check
from examples.flights import FlightTable
from tidemill.spark import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineBar:
    """Shows the phases of a pipeline as one bar."""

    def __init__(self, bars: Bars, title: str) -> None:
        self._bars = bars
        self._bar = bars.add_task(title, total=None)

    def begin(self, what: str, total_records: int | None) -> None:
        """Begin a phase; one whose length is unknown leaves the bar as it is."""
        if total_records:
            self._bars.update(self._bar, total=total_records, completed=0)

    def advance(self, records: int, bytes: int = 0, lag: int | None = None) -> None:
        self._bars.advance(self._bar, records)

    def note(self, text: str) -> None:
        self._bars.console.print(text)


class PipelineRuns:
    """Runs pipelines on one cluster, each with its state below one directory."""

    def __init__(self, spark: "SparkSession", bootstrap: str, output: Path, bars: Bars) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._output = output
        self._bars = bars

    def archive(self, topic: str, record_count: int) -> int:
        """Archive a topic, and compare the archive with it.  Return the number of records."""
        directory = self._output / "archive" / topic
        archived = pipelines.archive(
            self._spark,
            topic=topic,
            to=str(directory),
            partition_by="none",  # a year of days would be a year of small files
            progress=PipelineBar(self._bars, f"Archive: {topic}"),
            **self._places(f"archive-{topic}"),
        )
        check(f"records archived of {topic}", record_count, archived.rows["records"])
        audited = pipelines.audit(
            self._spark,
            topic=topic,
            archive=str(directory),
            complete=True,
            progress=PipelineBar(self._bars, f"Audit: {topic}"),
            **self._places(f"audit-{topic}"),
        )
        if not audited.is_success:
            raise DemoFailed(f"the archive of {topic} differs: {audited.failure}")
        for side in ("source_records", "target_records"):
            check(f"{side} of {topic} compared", record_count, audited.rows[side])
        return record_count

    def stats(self, topic: str, table: FlightTable) -> int:
        """Draw the statistics of the flights, and compare them with the package's table.  Return the records."""
        report = pipelines.stats(
            self._spark,
            topic=topic,
            to=str(self._output / "stats"),
            progress=PipelineBar(self._bars, f"Statistics: {topic}"),
            **self._places("stats"),
        )
        check("records counted", table.by_carrier.total(), report.rows["records"])
        hot_keys = self._spark.read.parquet(str(self._output / "stats" / "hot_keys")).collect()
        by_carrier = {bytes(row.key).decode(): row.records for row in hot_keys}
        check("records by carrier", dict(table.by_carrier), by_carrier)
        return int(report.rows["records"])

    def _places(self, name: str) -> dict[str, str]:
        return {"state": str(self._output / "state" / name), "bootstrap_servers": self._bootstrap}
