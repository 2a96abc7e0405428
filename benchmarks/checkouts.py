"""
Compare two revisions of this repository: does a refactoring cost throughput or CPU?

    python -m benchmarks.checkouts REVISION [--pairs N] [--only CASE]... [--brokers 1|3]

REVISION is checked out into a temporary directory; the working tree is the other side. A pair measures both sides with
the same load, one after the other, and every second pair in reverse order, so that changes of the machine's speed
affect both. The table shows the median of the ratios of the pairs, new to old: throughput, and CPU seconds per million
records of all brokers. A second table compares the time from the start of one broker to its first acknowledged record,
and its memory when idle. Ten pairs of every case take about 50 minutes.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.broker import Broker
from benchmarks.cases import CASES, REPLICATED, Case, Kind
from benchmarks.clusters import BROKERS, three_tidemills
from benchmarks.measure import Bench, idle_memory, prepare_machine, start_seconds
from benchmarks.tidemill_broker import REPOSITORY, TidemillBroker

SIDES: Final = ("old", "new")
PAIRS: Final = 10
STARTS: Final = "start"  # the name of the comparison of starts and idle memory
START_SECONDS: Final = 5.0  # time in which brokers join and internal topics get their replicas
RATIO_MIN: Final = 0.9
CPU_RATIO_MAX: Final = 1.1
START_RATIO_MAX: Final = 1.05  # of the time to start, and of the memory when idle
# In a replicated case, a pair moves the number of records of the comparison with Kafka divided by this.
REPLICATED_DIVISOR: Final = 4
KINDS: Final = (Kind.PRODUCE, Kind.CONSUME)
NOT_COMPARED: Final = ("produce-long", "lots-100b", "lots-100b-64")  # these take the same code paths as shorter cases


@dataclass(slots=True)
class Pairs:
    """The figures of one case: records per second, and CPU seconds per million records, of each side in each pair."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})
    cpu: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})


def median_ratio(figures: dict[str, list[float]]) -> float:
    """Return the median over the pairs of new divided by old."""
    return statistics.median(new / old for old, new in zip(figures["old"], figures["new"], strict=True))


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Check `revision` out into a temporary directory, compile its extension, and yield its `src` folder."""
    with tempfile.TemporaryDirectory(prefix="tidemill-old-") as parent:
        directory = Path(parent) / "checkout"
        git = ["git", "-C", str(REPOSITORY)]
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(directory), revision], check=True)
        try:
            build = [sys.executable, str(directory / "tools" / "build_extension.py"), "--require"]
            subprocess.run(build, cwd=directory, check=True, capture_output=True)
            yield directory / "src"
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(directory)], check=True)


def start_broker(directory: Path, source: Path, brokers: int) -> Broker:
    if brokers > 1:
        return three_tidemills(directory, source=source)
    broker = TidemillBroker(directory, source=source)
    broker.wait_until_ready()
    return broker


def compare(sources: dict[str, Path], cases: list[Case], *, brokers: int, pairs: int, console: Console) -> bool:
    """Measure all pairs and print the table; return whether every case keeps both bounds."""
    figures = {case.name: Pairs() for case in cases}
    with ExitStack() as stack:
        benches = {}
        for side, source in sources.items():
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-bench-")))
            broker = start_broker(directory, source, brokers)
            stack.callback(broker.stop)
            benches[side] = Bench(broker, replication_factor=brokers)
        time.sleep(START_SECONDS)
        for pair in range(-1, pairs):  # pair -1 warms up and is not counted
            for case in cases:
                for side in SIDES if pair % 2 else reversed(SIDES):
                    prepare_machine()
                    found = benches[side].measure(case)
                    benches[side].drop_topics()
                    if pair >= 0:
                        figures[case.name].rates[side].append(found["value"])
                        figures[case.name].cpu[side].append(found["cpu"] / case.load.records * 1e6)
            console.print(f"{brokers} broker(s): pair {pair + 1} of {pairs}", highlight=False)
    return show(figures, brokers, console)


def compare_starts(sources: dict[str, Path], *, pairs: int, console: Console) -> bool:
    """Measure starts and idle memory in pairs and print the table; return whether both keep the bound."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    megabytes: dict[str, list[float]] = {side: [] for side in SIDES}
    for pair in range(-1, pairs):  # pair -1 warms up and is not counted
        for side in SIDES if pair % 2 else reversed(SIDES):
            source = sources[side]
            prepare_machine()
            started = start_seconds(lambda directory, port: TidemillBroker(directory, port=port, source=source))  # noqa: B023 - called at once
            with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
                broker = start_broker(Path(directory), source, 1)
                try:
                    idle = idle_memory(broker)
                finally:
                    broker.stop()
            if pair >= 0:
                seconds[side].append(started["value"])
                megabytes[side].append(idle["value"])
    table = Table(title="one broker, medians; ratios are new to old, pair by pair")
    for column in ("case", "old", "new", "ratio", ""):
        table.add_column(column, justify="left" if column in ("case", "") else "right")
    all_kept = True
    for name, figures in (("seconds to the first acknowledged record", seconds), ("idle memory, MB", megabytes)):
        ratio = median_ratio(figures)
        all_kept &= ratio <= START_RATIO_MAX
        medians = [f"{statistics.median(figures[side]):.2f}" for side in SIDES]
        table.add_row(name, *medians, f"{ratio:.2f}", "kept" if ratio <= START_RATIO_MAX else "MISSED")
    console.print(table)
    return all_kept


def show(figures: dict[str, Pairs], brokers: int, console: Console) -> bool:
    table = Table(title=f"{brokers} broker(s), medians; ratios are new to old, pair by pair")
    for column in ("case", "old /s", "new /s", "ratio", "old CPU s/M", "new CPU s/M", "ratio", ""):
        table.add_column(column, justify="left" if column in ("case", "") else "right")
    all_kept = True
    for name, it in figures.items():
        rate, cpu = median_ratio(it.rates), median_ratio(it.cpu)
        is_kept = rate >= RATIO_MIN and cpu <= CPU_RATIO_MAX
        all_kept &= is_kept
        rates = [f"{statistics.median(it.rates[side]):,.0f}" for side in SIDES]
        seconds = [f"{statistics.median(it.cpu[side]):.2f}" for side in SIDES]
        verdict = "kept" if is_kept else "MISSED"
        table.add_row(name, *rates, f"{rate:.2f}", *seconds, f"{cpu:.2f}", verdict)
    console.print(table)
    return all_kept


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkouts", description=__doc__)
    parser.add_argument("revision", help="the old side: anything that `git rev-parse` knows")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", action="append", metavar="CASE")
    parser.add_argument("--brokers", type=int, choices=(1, BROKERS), action="append")
    options = parser.parse_args()
    console = Console(width=120, soft_wrap=True)
    chosen = {
        1: [case for case in CASES if case.kind in KINDS and case.name not in NOT_COMPARED],
        BROKERS: [replace(case.part(REPLICATED_DIVISOR)) for case in REPLICATED if case.kind in KINDS],
    }
    all_kept = True
    with checked_out(options.revision) as old:
        sources = {"old": old, "new": REPOSITORY / "src"}
        for brokers in options.brokers or (1, BROKERS):
            cases = [case for case in chosen[brokers] if options.only is None or case.name in options.only]
            if cases:
                all_kept &= compare(sources, cases, brokers=brokers, pairs=options.pairs, console=console)
        if options.only is None or STARTS in options.only:
            all_kept &= compare_starts(sources, pairs=options.pairs, console=console)
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
