"""
Benchmark one Tidemill broker against one Apache Kafka broker, in alternating rounds of every case.

    python -m benchmarks [--only CASE]… [--rounds N] [--quick] [--without tidemill|kafka]
"""

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker import BrokerProcess, Unavailable
from benchmarks.cases import CASES, Case, Kind
from benchmarks.measure import Bench, StartBroker, idle_memory, prepare_machine, start_seconds
from benchmarks.tidemill_broker import TidemillBroker

OURS, YARDSTICK = "Tidemill", "Apache Kafka"
TABLE_WIDTH = 140  # for files, too
QUICK_SHARE = 10  # a quick run moves a tenth of the records, only to try the benchmark


def tidemill(directory: Path, port: int) -> BrokerProcess:
    return TidemillBroker(directory, port=port)


def kafka(directory: Path, port: int) -> BrokerProcess:
    return ApacheKafka(directory, port=port or None)


def arguments_of(program: str, cases: Sequence[Case]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=program, description="Tidemill beside Apache Kafka.")
    parser.add_argument("--only", action="append", choices=[case.name for case in cases], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records and one round")
    parser.add_argument("--without", action="append", choices=["tidemill", "kafka"], default=[])
    return parser.parse_args()


def chosen_cases(all_cases: Sequence[Case], only: Sequence[str] | None, *, rounds: int, quick: bool) -> list[Case]:
    cases = [case for case in all_cases if only is None or case.name in only]
    if quick:
        cases = [dataclasses.replace(case.part(QUICK_SHARE), rounds_max=1, warm_up=False) for case in cases]
    return [dataclasses.replace(case, rounds_max=min(case.rounds_max, rounds)) for case in cases]


def main() -> int:
    options = arguments_of("python -m benchmarks", CASES)
    console = Console(width=TABLE_WIDTH, soft_wrap=True)
    cases = chosen_cases(CASES, options.only, rounds=options.rounds, quick=options.quick)
    starts: dict[str, StartBroker] = {}
    notes: list[str] = []
    if "kafka" not in options.without:
        starts[YARDSTICK] = kafka
    if "tidemill" not in options.without:
        starts[OURS] = tidemill
    outcomes = {case.name: report.Outcome(case) for case in cases}
    with ExitStack() as stack:
        brokers: dict[str, BrokerProcess] = {}
        for name, start in list(starts.items()):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-bench-")))
            try:
                brokers[name] = start(directory, 0)
            except Unavailable as reason:
                del starts[name]
                notes.append(f"{name} is skipped: {reason}. `python -m benchmarks.raw_load` is the yardstick instead.")
                console.print(notes[-1], markup=False)
                continue
            stack.callback(brokers[name].stop)
            brokers[name].wait_until_ready()
        run(cases, starts, brokers, outcomes, console)
    report.publish(list(outcomes.values()), ours=OURS, yardstick=YARDSTICK, notes=notes, console=console)
    return 0


def run(
    cases: Sequence[Case],
    starts: dict[str, StartBroker],
    brokers: dict[str, BrokerProcess],
    outcomes: dict[str, report.Outcome],
    console: Console,
) -> None:
    """
    Measure idle memory and start times, then the rounds, alternating the brokers, and finally the memory after the run.
    """
    for case in cases:
        if case.kind is Kind.MEMORY_IDLE:
            for name, broker in brokers.items():
                outcomes[case.name].add(name, idle_memory(broker))
        if case.kind is Kind.START:
            for _ in range(case.rounds_max):
                for name, start in starts.items():
                    prepare_machine()
                    outcomes[case.name].add(name, start_seconds(start))
    benches = {name: Bench(broker) for name, broker in brokers.items()}
    loads = [case for case in cases if case.kind in (Kind.PRODUCE, Kind.CONSUME, Kind.LATENCY)]
    rounds = max((case.rounds_max for case in loads), default=0)
    for round_index in range(-1, rounds):  # round -1 is a warm-up and is not counted
        for case in loads:
            if round_index >= case.rounds_max or (round_index < 0 and not case.warm_up):
                continue
            for name, bench in benches.items():
                prepare_machine()
                figures = bench.measure(case)
                if round_index >= 0:
                    outcomes[case.name].add(name, figures)
                report.show_round(console, round_index, case, name, figures)
        for bench in benches.values():
            bench.drop_topics()
    for case in cases:
        if case.kind is Kind.MEMORY_AFTER:
            for name, bench in benches.items():
                outcomes[case.name].add(name, bench.measure(case))


if __name__ == "__main__":
    sys.exit(main())
