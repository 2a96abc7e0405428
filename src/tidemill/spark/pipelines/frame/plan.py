"""The plan of a run: what it would read, write and do, before anything is written."""

from dataclasses import dataclass
from typing import Any

from tidemill.spark.pipelines.frame.table import Table


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: named values, in the order in which they are shown, and tables."""

    title: str
    rows: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"plan": self.title, **dict(self.rows), "tables": [table.to_json() for table in self.tables]}
