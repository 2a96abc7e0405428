"""Shows the progress of a pipeline on stderr: a bar on a terminal, otherwise lines, with --json as JSON."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidemill.cli.progress_meter import ProgressMeter
from tidemill.spark.pipelines.frame.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LINE_EVERY_S: Final = 5.0  # often enough to see that the run is alive, and rarely enough for a readable log


class _Metered:
    """Measures the current phase of a pipeline, and lets a subclass show it."""

    def __init__(self) -> None:
        self._meter: ProgressMeter | None = None

    def begin(self, what: str, total_records: int | None) -> None:
        self.end()
        self._meter = ProgressMeter(what, total_records, time.monotonic())
        self._began(self._meter)

    def advance(self, records: int, bytes: int = 0, lag: int | None = None) -> None:
        if self._meter is None:
            self.begin("running", None)
        assert self._meter is not None
        now = time.monotonic()
        self._meter.advance(records, bytes, lag, now)
        self._advanced(self._meter, now)

    def end(self) -> None:
        """End the current phase."""
        if self._meter is not None:
            self._ended(self._meter, time.monotonic())
        self._meter = None

    def note(self, text: str) -> None:
        raise NotImplementedError

    def _began(self, meter: ProgressMeter) -> None: ...

    def _advanced(self, meter: ProgressMeter, now: float) -> None: ...

    def _ended(self, meter: ProgressMeter, now: float) -> None: ...


class LineProgress(_Metered):
    """Prints a line when a phase begins, every few seconds while it runs, and when it ends, for logs and programs."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._printed = 0.0

    def note(self, text: str) -> None:
        self._print(json.dumps({"event": "note", "message": text}, ensure_ascii=False) if self._as_json else text)

    def _began(self, meter: ProgressMeter) -> None:
        self._printed = time.monotonic()
        count = "" if meter.total_records is None else f": {meter.total_records:,} records"
        self._print(json.dumps(meter.to_json(self._printed)) if self._as_json else meter.what + count)

    def _advanced(self, meter: ProgressMeter, now: float) -> None:
        if now - self._printed >= LINE_EVERY_S:
            self._printed = now
            self._show(meter, now)

    def _ended(self, meter: ProgressMeter, now: float) -> None:
        self._show(meter, now)

    def _show(self, meter: ProgressMeter, now: float) -> None:
        self._print(json.dumps(meter.to_json(now)) if self._as_json else f"{meter.what}: {meter.text(now)}")

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class BarProgress(_Metered):
    """Draws a bar with counts, rate, lag and the remaining time."""

    def __init__(self, bar: "Bar") -> None:
        super().__init__()
        self._bar = bar
        self._task = bar.add_task("starting", total=None, text="")

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def _began(self, meter: ProgressMeter) -> None:
        self._bar.reset(self._task, total=meter.total_records, description=meter.what, text="")

    def _advanced(self, meter: ProgressMeter, now: float) -> None:
        self._bar.update(self._task, completed=meter.records, text=meter.text(now))

    def _ended(self, meter: ProgressMeter, now: float) -> None:
        self.note(f"{meter.what}: {meter.records:,} records in {meter.seconds(now):.1f} s")


@contextmanager
def shown_progress(*, as_json: bool) -> Iterator[Progress]:
    """Yield a Progress that shows the progress of a run, and remove its display when the block ends."""
    if as_json or not sys.stderr.isatty():
        lines = LineProgress(as_json=as_json)
        yield lines
        lines.end()
        return

    from rich.console import Console  # imported here because the import is slow (decision 12)
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
        shown = BarProgress(bar)
        yield shown
        shown.end()
