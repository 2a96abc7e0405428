"""Draws charts with matplotlib, as PNG files and as SVG for the page.  Only this module imports matplotlib.

No global state of matplotlib is used or changed: a Figure is drawn directly, without `pyplot`, and settings apply only
within `rc_context`.
"""

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tidemill.spark.pipelines.stats import readable
from tidemill.spark.pipelines.stats.axis_ticks import dates, is_in_calendar, powers_of_two, value_ticks, whole_numbers
from tidemill.spark.pipelines.stats.chart import Bars, Chart, Steps
from tidemill.spark.pipelines.stats.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE: Final = (1080, 270)  # width and height in CSS pixels
HALF: Final = (520, 270)
NARROW: Final = (340, 250)
TEXT_PX: Final = 11.5
_PNG_SCALE: Final = 2  # PNG pixels per CSS pixel
_POINTS_PER_INCH: Final = 72  # with this resolution, a point of the SVG is a CSS pixel
_SETTINGS: Final = {
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and selected
    "svg.hashsalt": "tidemill",  # ids do not change from run to run
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib
    "font.size": TEXT_PX,
    "text.parse_math": False,  # a key may contain dollar signs
}


class MatplotlibMissing(ImportError):
    """The extra `stats` is not installed."""


def check_installed() -> None:
    """Raise MatplotlibMissing if charts cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MatplotlibMissing(
            "the charts of stats need matplotlib, which is not installed: pip install 'tidemill[stats]'"
        ) from error


def png(chart: Chart) -> bytes:
    """Return the chart as a PNG with title, summary and legend, in light colours."""
    with _settings():
        width, height = WIDE if chart.is_wide else HALF
        figure, axes = _figure(width, height + 84)
        figure.subplots_adjust(**_margins(chart, width, height + 84, top_px=84))
        figure.text(16 / width, 1 - 24 / (height + 84), chart.title, color=LIGHT["text"], fontsize=15, weight="bold")
        summary = "\n".join(textwrap.wrap(chart.summary, width // 7)[:2])
        figure.text(16 / width, 1 - 34 / (height + 84), summary, color=LIGHT["muted"], fontsize=10, va="top")
        if chart.legend:
            _legend(figure, chart, top_px=58)
        _draw(axes, chart, width)
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=_POINTS_PER_INCH * _PNG_SCALE, facecolor=LIGHT["surface"])
        return out.getvalue()


def svg(chart: Chart, size: tuple[int, int]) -> str:
    """Return the chart as an SVG document of this size, without title and legend, which the page shows as text."""
    with _settings():
        width, height = size
        figure, axes = _figure(width, height)
        figure.subplots_adjust(**_margins(chart, width, height, top_px=22))
        _draw(axes, chart, width)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        return out.getvalue()


@contextmanager
def _settings() -> Iterator[None]:
    check_installed()
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box in the PNG; for the SVG, the browser uses another font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def _figure(width: int, height: int) -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / _POINTS_PER_INCH, height / _POINTS_PER_INCH), dpi=_POINTS_PER_INCH)
    axes = figure.add_subplot()
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LIGHT["line"])
    axes.tick_params(colors=LIGHT["muted"], length=0, pad=7)
    axes.set_facecolor("none")
    return figure, axes


def _margins(chart: Chart, width: int, height: int, top_px: int) -> dict[str, float]:
    if isinstance(chart.shape, Bars):
        left, right = _label_width(chart.shape), 8
    else:
        left, right = 58, 14 if chart.shape.mean is None else 44
    return {"left": left / width, "right": 1 - right / width, "bottom": 30 / height, "top": 1 - top_px / height}


def _label_width(bars: Bars) -> int:
    return 24 + round(max(map(len, bars.labels)) * TEXT_PX * 0.6)


def _legend(figure: "Figure", chart: Chart, top_px: int) -> None:
    from matplotlib.patches import Patch

    top = 1 - top_px / (figure.get_figheight() * _POINTS_PER_INCH)

    patches = [Patch(color=LIGHT[colour], label=label) for colour, label in chart.legend]
    figure.legend(
        handles=patches, loc="upper right", bbox_to_anchor=(0.99, top), ncols=8, frameon=False, fontsize=9,
        labelcolor=LIGHT["muted"], handlelength=0.9, handleheight=0.9, columnspacing=1.2,
    )  # fmt: skip


def _draw(axes: "Axes", chart: Chart, width: int) -> None:
    if isinstance(chart.shape, Bars):
        _draw_bars(axes, chart.shape, width)
    else:
        _draw_steps(axes, chart.shape, width)


def _draw_bars(axes: "Axes", bars: Bars, width: int) -> None:
    places = range(len(bars.labels))
    largest = max(bars.values)
    axes.barh(places, bars.values, height=0.68, color=LIGHT[bars.colour])
    room = max(map(len, bars.texts)) * TEXT_PX * 0.6 + 10
    plotted = width - _label_width(bars) - 8
    axes.set_xlim(0, largest * plotted / max(plotted - room, plotted / 4))
    axes.set_ylim(len(bars.labels) - 0.4, -0.6)
    axes.set_yticks(places, bars.labels)
    axes.set_xticks([])
    axes.tick_params(axis="y", labelcolor=LIGHT["text"])
    axes.spines["bottom"].set_visible(False)
    for place, value, text in zip(places, bars.values, bars.texts, strict=True):
        axes.annotate(
            text, (value, place), xytext=(6, 0), textcoords="offset points", va="center", color=LIGHT["muted"]
        )
    if bars.reference is not None:
        axes.axvline(bars.reference, color=LIGHT["text"], linewidth=1, linestyle=(0, (3, 3)))


def _draw_steps(axes: "Axes", steps: Steps, width: int) -> None:
    below = [0.0] * (len(steps.edges) - 1)
    for series in steps.series:
        above = [low + value for low, value in zip(below, series.values, strict=True)]
        _fill(axes, steps, below, above, LIGHT[series.colour])
        below = above
    heights = value_ticks(max(*below, steps.mean or 0), is_size=steps.is_size)
    axes.set_ylim(0, heights[-1])
    axes.set_yticks(heights, [readable.tick(height, is_size=steps.is_size) for height in heights])
    axes.grid(axis="y", color=LIGHT["line"], linewidth=1)
    axes.set_axisbelow(True)
    if steps.is_logarithmic:
        axes.set_xscale("symlog", base=2, linthresh=1) if steps.edges[0] == 0 else axes.set_xscale("log", base=2)
    axes.set_xlim(steps.edges[0], steps.edges[-1])
    _tick_edges(axes, steps, width)
    if steps.mean is not None:
        axes.axhline(steps.mean, color=LIGHT["text"], linewidth=1, linestyle=(0, (3, 3)))
        axes.annotate(
            "mean", (1, steps.mean), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            va="center", color=LIGHT["text"],
        )  # fmt: skip
    _draw_marks(axes, steps)


def _fill(axes: "Axes", steps: Steps, below: Sequence[float], above: Sequence[float], colour: str) -> None:
    if steps.is_separate:
        starts = [(low + high) / 2 for low, high in pairwise(steps.edges)]
        heights = [high - low for low, high in zip(below, above, strict=True)]
        axes.bar(starts, heights, width=0.8, bottom=below, color=colour)
        return
    from matplotlib.patches import StepPatch

    # `Axes.stairs` would also compute the limits of the axes from the patch, which takes most of the time.
    axes.add_artist(StepPatch(above, steps.edges, baseline=below, fill=True, color=colour, linewidth=0))


def _draw_marks(axes: "Axes", steps: Steps) -> None:
    """Draw the marks with their labels above the axes; the label of the last mark extends to the right."""
    for index, (place, label) in enumerate(steps.marks):
        is_last = index == len(steps.marks) - 1
        axes.axvline(place, color=LIGHT["text"], linewidth=1, linestyle=(0, (3, 3)))
        axes.annotate(
            label, (place, 1), xycoords=("data", "axes fraction"), xytext=(3 if is_last else -3, 3),
            textcoords="offset points", ha="left" if is_last else "right", va="bottom", color=LIGHT["text"],
        )  # fmt: skip


def _tick_edges(axes: "Axes", steps: Steps, width: int) -> None:
    label_px = 90 if steps.is_time or steps.is_size_axis else 45
    count_max = max(4, width // label_px)
    first, last = steps.edges[0], steps.edges[-1]
    if steps.is_time and is_in_calendar(first) and is_in_calendar(last):
        axes.set_xticks(*zip(*dates(first, last, count_max), strict=True))
        return
    places = powers_of_two(first, last, count_max) if steps.is_logarithmic else whole_numbers(first, last, count_max)
    axes.set_xticks(places, [readable.tick(place, is_size=steps.is_size_axis) for place in places])
    axes.xaxis.minorticks_off()
