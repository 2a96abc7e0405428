"""
Benchmark share groups of one Tidemill broker against those of one Apache Kafka broker.

    python -m benchmarks.share_groups [--only CASE]… [--rounds N] [--quick] [--without tidemill|kafka]

Both brokers get the same load from Kafka's Java client: `KafkaShareConsumer` with explicit acknowledgement and
`commitAsync`, and records of 100 bytes.  A record counts when it has been accepted.  Before the clock starts, the
consumers have joined, all records are in the topic, and a quarter more has been accepted.  A poll that returns records
is a round.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import report
from benchmarks.__main__ import OURS, TABLE_WIDTH, YARDSTICK, arguments_of, chosen_cases, kafka, tidemill
from benchmarks.apache_kafka import ARTIFACTS
from benchmarks.broker import BrokerProcess, Unavailable
from benchmarks.cases import RATE, Case, Kind, Load
from benchmarks.maven import jars
from benchmarks.measure import CLIENT_SECONDS_MAX, Figures, StartBroker, prepare_machine

DRIVER: Final = Path(__file__).parent / "java" / "ShareDriver.java"
ACCEPTED: Final = 1_000_000  # records of a case in which all are accepted
RELEASING: Final = 300_000  # records of a case in which some are released
RELEASED_PERCENT: Final = 10
NO_COMPILER: Final = "this Java cannot compile: module jdk.compiler is missing (Debian package openjdk-17-jdk)"
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCase(Case):
    consumers: int
    released_percent: int = 0


def share_case(consumers: int, partitions: int, released_percent: int) -> ShareCase:
    """Return a case.  Its target against Kafka holds for several consumers; one consumer is only shown."""
    records = RELEASING if released_percent else ACCEPTED
    target = None if consumers == 1 else (1.0 if released_percent else 0.8)
    return ShareCase(
        name=f"share-{consumers}x{partitions}" + ("-released" if released_percent else ""),
        kind=Kind.SHARE,
        unit=RATE,
        target=target,
        load=Load(records=records, partitions=partitions),
        consumers=consumers,
        released_percent=released_percent,
        rounds_max=3,
        warm_up=False,
    )


CASES: Final = tuple(
    share_case(consumers, partitions, released)
    for released in (0, RELEASED_PERCENT)
    for partitions in (1, 8)
    for consumers in (1, 4)
)


@cache
def driver_command() -> tuple[str, ...]:
    """Return the command that compiles and runs the driver.  Raise `Unavailable` if something is missing."""
    classpath = f"{jars('kafka', ARTIFACTS)}/*"
    modules = subprocess.run(["java", "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler@" not in modules:
        raise Unavailable(NO_COMPILER)
    return ("java", "-Xmx1G", "-cp", classpath, str(DRIVER))


def measure(broker: BrokerProcess, case: ShareCase) -> Figures:
    """Run the consumers of a case once, on a new topic."""
    load = case.load
    arguments = (load.partitions, case.consumers, load.records, load.record_bytes, case.released_percent)
    command = [*driver_command(), broker.bootstrap, f"{case.name}-{next(_numbers)}", *map(str, arguments)]
    before = broker.cpu_seconds()
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS_MAX)
    if outcome.returncode != 0:
        raise RuntimeError(f"the consumers of {case.name} failed: {outcome.stderr.strip()[-1_000:]}")
    figures: Figures = json.loads(outcome.stdout.splitlines()[-1])
    return {**figures, "cpu": broker.cpu_seconds() - before}


def run(
    cases: Sequence[ShareCase],
    brokers: dict[str, BrokerProcess],
    outcomes: dict[str, report.Outcome],
    console: Console,
) -> None:
    """Measure the cases, alternating the brokers."""
    for round_index in range(max((case.rounds_max for case in cases), default=0)):
        for case in cases:
            for name, broker in brokers.items():
                if round_index < case.rounds_max:
                    prepare_machine()
                    figures = measure(broker, case)
                    outcomes[case.name].add(name, figures)
                    report.show_round(console, round_index, case, name, figures)


def rounds_note(outcome: report.Outcome) -> str:
    """Return how many rounds a second the consumer of a case has made with each broker."""
    medians = ((name, outcome.median(name, "rounds")) for name in outcome.rounds)
    told = ", ".join(f"{name} {median:,.0f}" for name, median in medians if median is not None)
    return f"{outcome.case.name}: rounds a second: {told}."


def main() -> int:
    options = arguments_of("python -m benchmarks.share_groups", CASES)
    console = Console(width=TABLE_WIDTH, soft_wrap=True)
    chosen = chosen_cases(CASES, options.only, rounds=options.rounds, quick=options.quick)
    cases = [case for case in chosen if isinstance(case, ShareCase)]
    try:
        driver_command()
    except Unavailable as reason:
        console.print(f"The benchmark of share groups is skipped: {reason}.", markup=False)
        return 0
    starts: dict[str, StartBroker] = {YARDSTICK: kafka, OURS: tidemill}
    outcomes = {case.name: report.Outcome(case) for case in cases}
    with ExitStack() as stack:
        brokers: dict[str, BrokerProcess] = {}
        for name, start in starts.items():
            if name.split()[-1].lower() not in options.without:
                directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-bench-")))
                brokers[name] = start(directory, 0)
                stack.callback(brokers[name].stop)
                brokers[name].wait_until_ready()
        run(cases, brokers, outcomes, console)
    found = list(outcomes.values())
    notes = [rounds_note(outcomes[case.name]) for case in cases if case.consumers == 1]
    report.show(found, ours=OURS, yardstick=YARDSTICK, notes=notes, console=console)
    path = report.save(found, ours=OURS, yardstick=YARDSTICK, notes=notes, name="share")
    console.print(f"saved as {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
