"""A table of a plan or a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """
    Rows with named columns.

    Cells are values that JSON and a terminal can represent; a terminal shows None as a dash.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]

    def to_json(self) -> dict[str, Any]:
        """Return the table as one object per row, under its title."""
        return {"title": self.title, "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows]}
