"""Charts as values: what is drawn, but not how.  `drawing` draws them, and `page` shows them with their tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    label: str
    values: tuple[float, ...]
    colour: str  # a name of `palette.COLOURS`


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A filled step chart over an axis that is divided into intervals; several series are stacked."""

    edges: tuple[float, ...]  # the borders of the intervals: one more than each series has values
    series: tuple[Series, ...]
    is_time: bool = False  # edges are seconds since 1970
    is_size_axis: bool = False  # edges are bytes
    is_logarithmic: bool = False  # whether the axis of the edges is logarithmic
    is_separate: bool = False  # draw each step as a bar, with gaps between the bars
    is_size: bool = False  # values are bytes
    mean: float | None = None  # drawn as a dashed line
    marks: tuple[tuple[float, str], ...] = ()  # labelled positions on the axis of the edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A horizontal bar per label, from top to bottom, with its value as text at the end."""

    labels: tuple[str, ...]
    values: tuple[float, ...]
    texts: tuple[str, ...]
    colour: str
    reference: float | None = None  # drawn as a dashed line


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The numbers behind a chart."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[int] = frozenset({0})  # all other columns are numbers, aligned to the right


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    name: str  # name of the PNG file, without extension
    title: str
    summary: str  # one sentence that describes the chart, including for people who cannot see it
    shape: Steps | Bars
    table: Table
    is_wide: bool = False
    legend: tuple[tuple[str, str], ...] = field(default=())  # pairs of a colour and its label


def stack_legend(series: Sequence[Series]) -> tuple[tuple[str, str], ...]:
    """Return the legend of stacked series; it is empty for a single series, which needs none."""
    return tuple((one.colour, one.label) for one in series) if len(series) > 1 else ()
