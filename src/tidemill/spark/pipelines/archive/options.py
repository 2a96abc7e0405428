"""The options of the pipeline `archive`."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from tidemill.columnar.data_loss import OnDataLoss
from tidemill.spark.pipelines.archive.layout import PartitionBy
from tidemill.spark.pipelines.frame.option import option
from tidemill.spark.pipelines.frame.quantity import parse_duration, parse_size

_PATTERN_SIGNS: Final = "*?[]{}\\"


class TableFormat(StrEnum):
    PARQUET = "parquet"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    topic: str = option("The topic to archive.", metavar="TOPIC")
    to: str = option(
        "The directory of the archive, which driver and executors see under the same path; with --format iceberg the "
        "table, NAMESPACE.TABLE.",
        metavar="DIR",
    )
    format: TableFormat = option("Parquet files with a manifest, or an Iceberg table.", default=TableFormat.PARQUET)
    partition_by: PartitionBy = option(
        "Divide files by the UTC date and hour of their records, by date, or not at all.", default=PartitionBy.HOUR
    )
    target_size: int = option(
        "The size of a file. It is estimated before the file is written, so files differ from it; a time that has "
        "fewer records has a smaller file.",
        default=128 << 20,
        parse=parse_size,
        metavar="SIZE",
    )
    batch_records: int = option("The most offsets of one batch, which is committed as a whole.", default=10_000_000)
    batch_bytes: int = option(
        "The most bytes of one batch as the topic stores them (compressed), estimated.",
        default=1 << 30,
        parse=parse_size,
        metavar="SIZE",
    )
    on_data_loss: OnDataLoss = option(
        "What happens if records were removed from the topic before they were archived: fail; skip them, and name them "
        "in the manifest; or report, which also lists them at the end.",
        default=OnDataLoss.FAIL,
    )
    poll_interval: timedelta = option(
        "With --continuous: how long to wait for more records before the next batch.",
        default=timedelta(minutes=1),
        parse=parse_duration,
        metavar="DURATION",
    )
    iceberg_catalog: str = option(
        "The catalog of the table, as PyIceberg's configuration names it (~/.pyiceberg.yaml).", default="default"
    )
    iceberg_property: tuple[str, ...] = option(
        "A property of the catalog, such as uri=sqlite:////data/catalog.db; repeat the option for more. Keep secrets "
        "in PyIceberg's configuration.",
        default=(),
        metavar="KEY=VALUE",
    )

    def __post_init__(self) -> None:
        if self.batch_records < 1:
            raise ValueError(f"batch_records={self.batch_records}: a batch has at least 1 record; pass more")
        if self.poll_interval <= timedelta(0):
            raise ValueError(f"poll_interval={self.poll_interval}: it must be above 0; pass for example 10s")
        if self.format is TableFormat.ICEBERG:
            if len(self.to.split(".")) < 2:
                raise ValueError(f"to={self.to}: an Iceberg table has a namespace; write NAMESPACE.TABLE")
            for one in self.iceberg_property:
                if "=" not in one:
                    raise ValueError(f"iceberg_property={one}: write KEY=VALUE")
            return
        if "://" in self.to and not self.to.startswith("file:///"):
            raise ValueError(
                f"to={self.to}: an archive of Parquet files needs a directory of a file system, in which links and "
                "renames are atomic; pass a path"
            )
        if set(self.to) & set(_PATTERN_SIGNS):
            raise ValueError(
                f"to={self.to}: Spark takes a path with one of {_PATTERN_SIGNS} for a pattern; use another"
            )
        if self.iceberg_property:
            raise ValueError("iceberg_property is used only with format=iceberg: set that, or remove iceberg_property")

    @property
    def directory(self) -> Path:
        return Path(self.to.removeprefix("file://")).absolute()

    @property
    def catalog_properties(self) -> dict[str, str]:
        return dict(one.split("=", 1) for one in self.iceberg_property)

    @property
    def identity(self) -> dict[str, str]:
        """The options that must be the same in every run that uses the same state directory."""
        to = self.to if self.format is TableFormat.ICEBERG else str(self.directory)
        return {"topic": self.topic, "to": to, "format": self.format.value, "partition_by": self.partition_by.value}
