"""Calculates and prints the times, rates and percentiles of benchmarks."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from tidemill.cli.output import counted, print_fields, print_json

PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
BUSY: Final = 0.9  # if the client thread is busy for more than this share of the time, the client is the bottleneck


class Timing(NamedTuple):
    seconds: float
    cpu_seconds: float  # CPU time of the entire client process
    thread_seconds: float  # CPU time of the thread that sends or receives


class Stopwatch:
    """Measures elapsed time and CPU time from its construction on."""

    def __init__(self) -> None:
        self._start = (time.perf_counter(), time.process_time(), time.thread_time())

    def read(self) -> Timing:
        started, cpu, thread = self._start
        return Timing(time.perf_counter() - started, time.process_time() - cpu, time.thread_time() - thread)


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return percentiles (nearest rank) in milliseconds, or None if there are no values."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        name: round(1000 * ordered[min(max(math.ceil(share * len(ordered)) - 1, 0), last)], 3)
        for name, share in PERCENTILES.items()
    }


def rates(records: int, size: int, timing: Timing) -> dict[str, Any]:
    """Return the duration, the rates and the CPU load as they appear in a result; `size` is in bytes."""
    seconds = max(timing.seconds, 1e-9)
    return {
        "seconds": round(timing.seconds, 3),
        "records_per_s": round(records / seconds),
        "mib_per_s": round(size / seconds / (1 << 20), 2),
        "client_cpu_percent": round(100 * timing.cpu_seconds / seconds),
        "is_client_the_limit": timing.thread_seconds / seconds > BUSY,
    }


@contextmanager
def advance_bar(task: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress on stderr if it is a terminal.  Yield a function to call with the number of records done so far."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return

    from rich.console import Console  # imported here because the import is slow (decision 12)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as progress:
        shown = progress.add_task(task, total=total)
        yield lambda done: progress.update(shown, completed=done)


def print_result(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    topic = f"{result['topic']} ({counted(result['partitions'], 'partition')}"
    fields: dict[str, object] = {
        "topic": f"{topic}, deleted)" if result["is_temporary"] else f"{topic})",
        "records": f"{result['records']:,} of {result['size']:,} bytes in {result['seconds']:.1f} s",
        "rate": f"{result['records_per_s']:,} records/s, {result['mib_per_s']:,} MiB/s",
    }
    if "first_record_ms" in result:
        fields["first record"] = f"after {result['first_record_ms'] or 0:.1f} ms"
    if "latency_ms" in result:
        fields["acknowledged after"] = _in_words(result["latency_ms"])
    if "end_to_end_ms" in result:
        fields["consumed after"] = _in_words(result["end_to_end_ms"])
    options = [f"{name} {result[name]}" for name in ("acks", "compression") if result.get(name) is not None]
    if "linger_ms" in result:
        options.append(f"linger {result['linger_ms']:g} ms")
    if options:
        fields["options"] = ", ".join(options)
    if "warm_up_records" in result:
        fields["warm-up"] = f"{counted(result['warm_up_records'], 'record')}, not counted"
    fields["client"] = f"{result['client_cpu_percent']} % of a core" + (
        "; it limits the rate: run several at once to find the broker's limit" if result["is_client_the_limit"] else ""
    )
    print_fields(fields)


def _in_words(percentiles: dict[str, float] | None) -> str:
    if percentiles is None:
        return "-"
    return ", ".join(f"{name} {value:.1f} ms" for name, value in percentiles.items())
