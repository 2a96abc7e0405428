"""The report of a run: its counts, and whether its check succeeded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.spark.pipelines.frame.table import Table


@dataclass(frozen=True, slots=True)
class Report:
    """
    A report: named values, in the order in which they are shown, and tables.

    `is_success` is False if the pipeline's check has failed; `failure` is then a sentence that describes the failure.
    A run that cannot complete raises an error instead.
    """

    rows: Mapping[str, int | float | str]
    tables: tuple[Table, ...] = ()
    is_success: bool = True
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        tables = [table.to_json() for table in self.tables]
        return {**self.rows, "tables": tables, "is_success": self.is_success, "failure": self.failure}
