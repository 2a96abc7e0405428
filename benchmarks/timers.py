"""
Benchmark timer topics beside the scheduled messages of NATS JetStream and the delayed jobs of beanstalkd.

    python -m benchmarks.timers [--only CASE]… [--rounds N] [--seconds N] [--quick] [--without SYSTEM]…

Every acknowledgement of Tidemill is synced.  NATS and beanstalkd run with their defaults, which acknowledge before the
disk has a message, and with a sync for each.  NATS is built from its Go module, and beanstalkd is Debian's package;
what is missing is skipped.  Each measurement has a new broker, which runs alone.  All messages are inserted before the
first is due, and the consumer has a process of its own.

late-10k, late-50k   how late messages come that are due at random, 10,000 or 50,000 a second: p50, p99 and maximum
insert               messages that are due in an hour, until the last acknowledgement
release              messages that are all due at one moment, until the last has come
delays               messages with delays, which the broker rewrites, beside messages with times in digits
cancel               timers that are cancelled by records, beside their insertion
memory, restart      ten million wait: the memory above that of an idle broker; kill -9, and the time from the start of
                     the process until a message comes that was due meanwhile

The time in parentheses is the CPU time of the broker for each message.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.beanstalkd import Beanstalkd
from benchmarks.broker import BrokerProcess, Unavailable, free_port
from benchmarks.cases import Case, Kind
from benchmarks.measure import REPOSITORY, STABILIZE_SECONDS, Figures, prepare_machine
from benchmarks.nats import Nats
from benchmarks.tidemill_broker import TidemillBroker

OURS: Final = "Tidemill"
NATS: Final = "NATS"
NATS_SYNCED: Final = "NATS synced"
BEANSTALKD: Final = "beanstalkd"
BEANSTALKD_SYNCED: Final = "beanstalkd -f0"
TABLE_WIDTH: Final = 140

SAMPLE: Final = 5_000  # messages that show the rate of insertion
LEAD_SECONDS: Final = 4.0  # from the order to insert until the first message is due, and twice the time of inserting
ATTEMPTS: Final = 3  # to insert all messages before the first is due
WAIT_SECONDS: Final = 30.0  # after the last message is due: what comes later, counts as this late
SLOW_SECONDS_MAX: Final = 5  # for which messages are due at random, if the system syncs each of them
FAR_SECONDS: Final = 3_600.0
CLIENT_SECONDS_MAX: Final = 1_800.0
SOON_SECONDS: Final = 2.0  # until a message is due for which the restarted broker is awaited
QUICK_PART: Final = 10
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A broker to measure, and the client for it (`timer_clients`)."""

    client: str
    start: Callable[[Path, int], BrokerProcess]


SYSTEMS: Final = {
    OURS: System(client="tidemill", start=lambda directory, port: TidemillBroker(directory, port=port)),
    NATS: System(client="nats", start=lambda directory, port: Nats(directory, port=port)),
    NATS_SYNCED: System(client="nats", start=lambda directory, port: Nats(directory, port=port, is_synced=True)),
    BEANSTALKD: System(client="beanstalkd", start=lambda directory, port: Beanstalkd(directory, port=port)),
    BEANSTALKD_SYNCED: System(
        client="beanstalkd", start=lambda directory, port: Beanstalkd(directory, port=port, is_synced=True)
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerCase(Case):
    kind: Kind = Kind.TIMER
    target: float | None = None
    targets: dict[str, float] = field(default_factory=dict)  # our figure divided by that of another system
    records: int = 0
    rate: int = 0  # due a second, for a number of seconds that the caller chooses
    slow_records: int = 0  # for systems that sync each message; 0: as many as for others
    systems: Sequence[str] = tuple(SYSTEMS)
    rounds_max: int = 3

    def records_of(self, system: str) -> int:
        is_slow = self.slow_records and system in (NATS_SYNCED, BEANSTALKD_SYNCED)
        return self.slow_records if is_slow else self.records


CASES: Final = (
    TimerCase(name="late-10k", unit="ms", rate=10_000, bound=25.0, targets={NATS: 0.1, BEANSTALKD: 0.33},
              higher_is_better=False),
    TimerCase(name="late-50k", unit="ms", rate=50_000, bound=50.0, systems=(OURS,), higher_is_better=False),
    TimerCase(name="insert", unit="/s", records=300_000, slow_records=30_000, targets={NATS: 1.0, NATS_SYNCED: 15.0}),
    TimerCase(name="release", unit="/s", records=300_000, slow_records=20_000, targets={NATS_SYNCED: 20.0}),
    TimerCase(name="delays", unit="of inserting", records=300_000, bound=0.8, systems=(OURS,)),
    TimerCase(name="cancel", unit="of inserting", records=100_000, bound=0.5, systems=(OURS,)),
    TimerCase(name="memory", unit="MB", records=10_000_000, bound=150.0, systems=(OURS,), higher_is_better=False,
              rounds_max=1),
    TimerCase(name="restart", unit="s", records=10_000_000, bound=10.0, systems=(OURS,), higher_is_better=False,
              rounds_max=1),
)  # fmt: skip


class Bench:
    """Runs the measurements of one broker that has been started."""

    def __init__(self, system: System, broker: BrokerProcess, port: int) -> None:
        self.broker = broker
        self._order = {"system": system.client, "address": f"127.0.0.1:{port}"}

    def client(self, do: str, topic: str, **order: object) -> Figures:
        with self.begun(do, topic, **order) as process:
            return result(process)

    @contextmanager
    def begun(self, do: str, topic: str, **order: object) -> Iterator["subprocess.Popen[str]"]:
        """Run a client process.  Its lines are to be read; it is killed at the end if it still runs."""
        whole = json.dumps({"do": do, "topic": topic, **self._order, **order})
        command = [sys.executable, "-m", "benchmarks.timer_load", whole]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def topic(self) -> str:
        name = f"timers-{next(_numbers)}"
        self.client("create", name)
        return name

    def insert(self, topic: str, records: int, first_ms: int, span_ms: int = 0) -> Figures:
        before = self.broker.cpu_seconds()
        found = self.client("insert", topic, records=records, first_ms=first_ms, span_ms=span_ms)
        return {**found, "cpu": (self.broker.cpu_seconds() - before) * 1e6 / records}

    def insert_far(self, records: int) -> Figures:
        return self.insert(self.topic(), records, in_ms(FAR_SECONDS))

    def deliver(self, records: int, span_ms: int) -> Figures:
        """Insert messages, and return how they are delivered."""
        rate = self.insert_far(min(SAMPLE, records))["value"]
        lead = LEAD_SECONDS + 2 * records / rate
        for _ in range(ATTEMPTS):
            topic, first_ms = self.topic(), in_ms(lead)
            order = {"records": records, "first_ms": first_ms, "span_ms": span_ms, "wait_ms": WAIT_SECONDS * 1_000}
            with self.begun("receive", topic, **order) as receiver:
                assert receiver.stdout is not None
                receiver.stdout.readline()  # it is connected
                inserted = self.insert(topic, records, first_ms, span_ms)
                if inserted["ended_ms"] < first_ms:
                    before = self.broker.cpu_seconds()
                    found = result(receiver)
                    used = self.broker.cpu_seconds() - before
                    return {**found, "cpu": used * 1e6 / max(records - found["missing"], 1)}
            lead *= 2
        raise RuntimeError(f"{self.broker.name} did not take {records} messages in {lead / 2:.0f} s")

    def delays(self, records: int) -> Figures:
        topic = self.topic()
        self.insert(topic, SAMPLE, in_ms(FAR_SECONDS))  # the first requests are slower
        found = self.client("delays", topic, records=records, first_ms=in_ms(FAR_SECONDS), span_ms=0)
        return {"value": found["value"] / found["inserted"], "rate": found["value"], "inserted": found["inserted"]}

    def cancel(self, records: int) -> Figures:
        topic = self.topic()
        rate = self.client("insert", topic, records=SAMPLE, first_ms=in_ms(FAR_SECONDS), span_ms=0)["value"]
        first_ms = in_ms(LEAD_SECONDS + 8 * records / rate)
        found = self.client("cancel", topic, records=records, first_ms=first_ms, span_ms=0)
        return {"value": found["value"] / found["inserted"], "rate": found["value"], "inserted": found["inserted"]}


def result(process: "subprocess.Popen[str]") -> Figures:
    told, _ = process.communicate(timeout=CLIENT_SECONDS_MAX)
    if process.returncode != 0:
        raise RuntimeError(f"the client failed: {process.args!r}")
    figures: Figures = json.loads(told.splitlines()[-1])
    return figures


def in_ms(seconds: float) -> int:
    """Return the time in `seconds`, in ms since the epoch."""
    return int((time.time() + seconds) * 1_000)


@contextmanager
def started(name: str) -> Iterator[Bench]:
    """Start a broker on an empty directory."""
    system, port = SYSTEMS[name], free_port()
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        broker = system.start(Path(directory), port)
        try:
            broker.wait_until_ready()
            yield Bench(system, broker, port)
        finally:
            broker.stop()


def measure(name: str, case: TimerCase) -> Figures:
    records = case.records_of(name)
    with started(name) as bench:
        if case.rate:
            found = bench.deliver(records, records * 1_000 // case.rate)
            return {"value": found["p99"], **found}
        if case.name == "insert":
            bench.insert_far(SAMPLE)  # the first requests are slower
            return bench.insert_far(records)
        if case.name == "release":
            found = bench.deliver(records, 0)
            return {"value": found["rate"], **found}
        return bench.delays(records) if case.name == "delays" else bench.cancel(records)


def measure_waiting(records: int) -> tuple[Figures, Figures]:
    """Return the memory that waiting messages take, and the time of a restart."""
    system, port = SYSTEMS[OURS], free_port()
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        broker = system.start(Path(directory), port)
        try:
            broker.wait_until_ready()
            bench = Bench(system, broker, port)
            topic = bench.topic()
            bench.insert(topic, SAMPLE, in_ms(FAR_SECONDS))
            time.sleep(STABILIZE_SECONDS)
            idle = broker.resident_bytes()
            inserted = bench.insert(topic, records, in_ms(FAR_SECONDS), int(FAR_SECONDS * 1_000))
            time.sleep(STABILIZE_SECONDS)
            memory = (broker.resident_bytes() - idle) / 1e6
            bench.insert(topic, 1, in_ms(SOON_SECONDS))
            broker.kill()
            time.sleep(SOON_SECONDS)  # the message is due meanwhile
            with bench.begun("first", topic) as receiver:
                assert receiver.stdout is not None
                receiver.stdout.readline()  # the client is running and retries to connect
                broker = system.start(Path(directory), port)
                moment = result(receiver)["moment"]
            restart = {"value": moment - broker.started_at, "cpu seconds": broker.cpu_seconds()}
            return {"value": memory, "inserted": inserted["value"]}, restart
        finally:
            broker.stop()


def available(wanted: Sequence[str], notes: list[str]) -> list[str]:
    """Return the systems that can be started here, and note why others are skipped."""
    found = []
    for name in wanted:
        try:
            with started(name):
                found.append(name)
        except Unavailable as reason:
            notes.append(f"{name} is skipped: {reason}.")
    return found


def verdicts(outcome: report.Outcome, case: TimerCase) -> list[str]:
    """Return each target of a case, with the figure and whether it is met."""
    value = outcome.median(OURS)
    told = []
    if value is not None and case.bound is not None:
        words = f"{value:,.2f} {case.unit}, {case.sign} {case.bound:g} wanted"
        told.append(f"{case.name}: {words}: {'pass' if case.is_kept(value, case.bound) else 'miss'}")
    for name, target in case.targets.items():
        ratio = outcome.ratio(OURS, name)
        if ratio is not None:
            words = f"{ratio:.3g} of {name}'s, {case.sign} {target:g} wanted"
            told.append(f"{case.name}: {words}: {'pass' if case.is_kept(ratio, target) else 'miss'}")
    return told


def rows(outcome: report.Outcome) -> Iterator[tuple[str, str]]:
    """Yield title and figure of each row of a case."""
    case = outcome.case
    if case.unit == "ms":
        yield from ((f"{case.name}, {name}, ms", name) for name in ("p50", "p99", "max"))
    else:
        yield f"{case.name}, {case.unit}", "value"


def cell(outcome: report.Outcome, name: str, figure: str) -> str:
    value, cpu = outcome.median(name, figure), outcome.median(name, "cpu")
    if value is None:
        return "-"
    told = f"{value:,.{0 if value >= 100 else 2}f}"
    return told if cpu is None else f"{told} ({cpu:.0f} µs)"


def show(outcomes: Sequence[report.Outcome], names: Sequence[str], notes: Sequence[str], console: Console) -> None:
    table = Table(title="Messages that wait until they are due, medians")
    table.add_column("case", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        for title, figure in rows(outcome):
            table.add_row(title, *[cell(outcome, name, figure) for name in names])
    console.print(table)
    for note in notes:
        console.print(note, markup=False)


def chosen(options: argparse.Namespace) -> list[TimerCase]:
    """Return the cases of a command line, with their numbers of messages and rounds."""
    cases = []
    for case in CASES:
        if options.only is None or case.name in options.only:
            records = case.rate * options.seconds or case.records
            slow_records = case.rate * min(options.seconds, SLOW_SECONDS_MAX) or case.slow_records
            part = QUICK_PART if options.quick else 1
            cases.append(
                replace(
                    case,
                    records=records // part,
                    slow_records=slow_records // part,
                    rounds_max=1 if options.quick else min(case.rounds_max, options.rounds),
                )
            )
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timers", description=__doc__.splitlines()[1])
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20, help="for which messages are due at random")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, and one round")
    parser.add_argument("--without", action="append", choices=list(SYSTEMS), default=[], metavar="SYSTEM")
    options = parser.parse_args()
    console = Console(width=TABLE_WIDTH, soft_wrap=True)
    cases = chosen(options)
    notes: list[str] = []
    names = available([name for name in SYSTEMS if name not in options.without], notes)
    outcomes = {case.name: report.Outcome(case) for case in cases}
    for index in range(max(case.rounds_max for case in cases)):
        for case in cases:
            if index >= case.rounds_max or case.name in ("memory", "restart"):
                continue
            for name in names:
                if name in case.systems:
                    prepare_machine()
                    figures = measure(name, case)
                    outcomes[case.name].add(name, figures)
                    report.show_round(console, index, case, name, figures)
    for case in cases:
        if case.name in ("memory", "restart") and OURS in names and not outcomes[case.name].rounds:
            prepare_machine()
            for figured, figures in zip(("memory", "restart"), measure_waiting(case.records), strict=True):
                if figured in outcomes:
                    outcomes[figured].add(OURS, figures)
                    report.show_round(console, 0, outcomes[figured].case, OURS, figures)
    notes += [told for case in cases for told in verdicts(outcomes[case.name], case)]
    show(list(outcomes.values()), names, notes, console)
    path = report.save(list(outcomes.values()), ours=OURS, yardstick=NATS, notes=notes, name="timers")
    console.print(f"saved as {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
