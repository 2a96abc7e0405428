"""
Benchmark three Tidemill brokers against three Apache Kafka brokers: replication factor 3, acks=all, one directory each.

    python -m benchmarks.replicated [--only CASE]… [--rounds N] [--quick] [--without tidemill|kafka]

A produce run must last for at least three checkpoints of each of our brokers, or its case counts as missed: a run that
fits into the journal proves no sustained rate. If this would take Kafka too long, Kafka gets fewer records, and a note
says so.  The benchmark compares rates and CPU seconds per million records.  It takes about 22 minutes and 15 GB of
disk.
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.__main__ import OURS, TABLE_WIDTH, YARDSTICK, arguments_of, chosen_cases
from benchmarks.broker import Unavailable
from benchmarks.cases import REPLICATED, Case, Kind
from benchmarks.clusters import BROKERS, Cluster, StartCluster, three_kafkas, three_tidemills
from benchmarks.measure import Bench, Figures, prepare_machine

STABILIZE_SECONDS = 5.0  # time in which brokers join and internal topics get their replicas
WARM_UP_PART = 2  # a warm-up sends half of the records
SYNCED_BYTES = 512 << 20
SYNCED_BLOCK_BYTES = 1 << 20


def synced_rate(directory: Path) -> float:
    """Return the MB/s that this disk writes in blocks of 1 MiB, each synced, into an existing file."""
    block = os.urandom(SYNCED_BLOCK_BYTES)
    path = directory / "synced"
    with path.open("wb") as file:
        for _ in range(SYNCED_BYTES // SYNCED_BLOCK_BYTES):
            file.write(block)
    with path.open("r+b", buffering=0) as file:
        os.fsync(file.fileno())
        started = time.perf_counter()
        for _ in range(SYNCED_BYTES // SYNCED_BLOCK_BYTES):
            file.write(block)
            os.fdatasync(file.fileno())
        seconds = time.perf_counter() - started
    path.unlink()
    return SYNCED_BYTES / seconds / 1e6


def main() -> int:
    options = arguments_of("python -m benchmarks.replicated", REPLICATED)
    console = Console(width=TABLE_WIDTH, soft_wrap=True)
    cases = chosen_cases(REPLICATED, options.only, rounds=options.rounds, quick=options.quick)
    outcomes = {case.name: report.Outcome(case) for case in cases}
    starts: dict[str, StartCluster] = {YARDSTICK: three_kafkas, OURS: three_tidemills}
    notes: list[str] = []
    with ExitStack() as stack:
        clusters: dict[str, Cluster] = {}
        for name, start in starts.items():
            if name.split()[-1].lower() in options.without:
                continue
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-bench-")))
            try:
                clusters[name] = start(directory)
            except Unavailable as reason:
                notes.append(f"{name} is skipped: {reason}.")
                console.print(notes[-1], markup=False)
                continue
            stack.callback(clusters[name].stop)
        time.sleep(STABILIZE_SECONDS)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-bench-")))
        run(cases, clusters, outcomes, console, notes, scratch)
    report.publish(
        list(outcomes.values()), ours=OURS, yardstick=YARDSTICK, notes=notes, console=console, cpu="cpu per million"
    )
    return 0


def run(
    cases: Sequence[Case],
    clusters: dict[str, Cluster],
    outcomes: dict[str, report.Outcome],
    console: Console,
    notes: list[str],
    scratch: Path,
) -> None:
    benches = {name: Bench(cluster, replication_factor=BROKERS) for name, cluster in clusters.items()}
    rates = []
    for round_index in range(-1, max(case.rounds_max for case in cases)):  # round -1 is a warm-up and is not counted
        for case in cases:
            if round_index >= case.rounds_max or case.kind is Kind.MEMORY_AFTER:
                continue
            if round_index < 0 and not case.warm_up:
                continue
            for name, bench in benches.items():
                prepare_machine()
                asked = case.for_yardstick() if name == YARDSTICK else case
                figures = measure(bench, clusters[name], asked.part(WARM_UP_PART) if round_index < 0 else asked)
                bench.drop_topics()
                if round_index >= 0:
                    outcomes[case.name].add(name, figures)
                report.show_round(console, round_index, case, name, figures)
        prepare_machine()
        rates.append(synced_rate(scratch))
    rate = sorted(rates)[len(rates) // 2]
    notes += [
        f"{case.name}: {YARDSTICK} is sent {case.yardstick_records:,} records, {OURS} {case.load.records:,}."
        for case in cases
        if case.yardstick_records is not None
    ]
    notes.append(f"The disk writes {rate:,.0f} MB/s, synced in blocks of 1 MiB; a sixth of it is {rate / 6:,.0f} MB/s.")
    for case in cases:
        if case.kind is Kind.MEMORY_AFTER:
            for name, bench in benches.items():
                outcomes[case.name].add(name, bench.measure(case))


def measure(bench: Bench, cluster: Cluster, case: Case) -> Figures:
    """Measure a case, and add the CPU seconds per million records and the smallest number of checkpoints per broker."""
    before = cluster.checkpoints()
    figures = bench.measure(case)
    figures["cpu per million"] = figures["cpu"] / case.load.records * 1e6
    if before:
        figures["checkpoints"] = min(now - was for was, now in zip(before, cluster.checkpoints(), strict=True))
    return figures


if __name__ == "__main__":
    sys.exit(main())
