"""Print the final table, and save the same figures as JSON: medians, all rounds, ratio, target, pass or miss."""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cases import Case
from benchmarks.measure import Figures

VERDICTS = {True: "[green]pass[/]", False: "[red]miss[/]", None: ""}
CPU_TITLES = {"cpu": "CPU s", "cpu per million": "CPU s/M"}
RESULTS = Path(__file__).parent / "results"


@dataclass(slots=True)
class Outcome:
    """The figures of one case by broker name and round.  A broker that did not take part has no rounds."""

    case: Case
    rounds: dict[str, list[Figures]] = field(default_factory=dict)

    def add(self, broker: str, figures: Figures) -> None:
        self.rounds.setdefault(broker, []).append(figures)

    def median(self, broker: str, figure: str = "value") -> float | None:
        values = [figures[figure] for figures in self.rounds.get(broker, ()) if figure in figures]
        return median(values) if values else None

    def ratio(self, ours: str, yardstick: str) -> float | None:
        mine, theirs = self.median(ours), self.median(yardstick)
        return mine / theirs if mine is not None and theirs else None

    def least(self, broker: str, figure: str) -> float | None:
        return min((figures[figure] for figures in self.rounds.get(broker, ()) if figure in figures), default=None)

    def promises(self, ours: str, yardstick: str) -> dict[str, bool | None]:
        """
        Return for each target, as text with its result, whether it was met, or None if there is nothing to compare.
        """
        case = self.case
        promises: dict[str, bool | None] = {}
        if case.target is not None:
            ratio = self.ratio(ours, yardstick)
            words = f"{_ratio(ratio)} of {yardstick}'s, {case.sign} {case.target:g} wanted"
            promises[words] = None if ratio is None else case.is_kept(ratio, case.target)
        if case.bound is not None:
            value = self.median(ours)
            words = f"{_figure(self, ours)}, {case.sign} {case.bound:g} {case.unit} wanted"
            promises[words] = None if value is None else case.is_kept(value, case.bound)
        if case.checkpoints_min:
            least = self.least(ours, "checkpoints")
            words = f"a run had {_count(least)} checkpoints on a broker, ≥ {case.checkpoints_min} wanted"
            promises[words] = None if least is None else least >= case.checkpoints_min
        return promises

    def passes(self, ours: str, yardstick: str) -> bool | None:
        kept = self.promises(ours, yardstick).values()
        if False in kept:
            return False
        return None if None in kept or not kept else True

    def misses(self, ours: str, yardstick: str) -> list[str]:
        return [words for words, kept in self.promises(ours, yardstick).items() if kept is False]


def show(
    outcomes: Sequence[Outcome],
    *,
    ours: str,
    yardstick: str,
    notes: Sequence[str],
    console: Console,
    cpu: str = "cpu",
    durability: str = "unsynced default",
) -> None:
    """
    Print the table and name each missed target.  `cpu` is the title of the CPU columns, and `durability` says what an
    acknowledgement of the yardstick means.
    """
    table = Table(title=f"{ours} (every acknowledgement synced) beside {yardstick} ({durability}), medians")
    table.add_column("case", no_wrap=True)
    cpu_title = CPU_TITLES[cpu]
    checkpoints = ["checkpoints"] if any(outcome.case.checkpoints_min for outcome in outcomes) else []
    for name in (yardstick, cpu_title, ours, cpu_title, "ratio", "target", *checkpoints, ""):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        table.add_row(
            outcome.case.name,
            _figure(outcome, yardstick),
            _seconds(outcome.median(yardstick, cpu)),
            _figure(outcome, ours),
            _seconds(outcome.median(ours, cpu)),
            _ratio(outcome.ratio(ours, yardstick)),
            _target(outcome.case),
            *[_count(outcome.least(ours, name)) for name in checkpoints],
            VERDICTS[outcome.passes(ours, yardstick)],
        )
    console.print(table)
    for outcome in outcomes:
        for words in outcome.misses(ours, yardstick):
            console.print(f"{outcome.case.name}: {words}: miss", markup=False)
    for note in notes:
        console.print(note, markup=False)


def show_round(console: Console, round_index: int, case: Case, name: str, figures: Figures) -> None:
    """Print one round as soon as it is measured; round −1 is the warm-up."""
    label = f"round {round_index + 1}" if round_index >= 0 else "warm-up"
    shown = " ".join(f"{key}={value:,.2f}" for key, value in figures.items())
    console.print(f"{label:8} {case.name:16} {name:13} {shown}", markup=False, highlight=False)


def publish(
    outcomes: Sequence[Outcome],
    *,
    ours: str,
    yardstick: str,
    notes: Sequence[str],
    console: Console,
    cpu: str = "cpu",
) -> None:
    """Print the table and save the file."""
    show(outcomes, ours=ours, yardstick=yardstick, notes=notes, console=console, cpu=cpu)
    path = save(outcomes, ours=ours, yardstick=yardstick, notes=notes)
    console.print(f"saved as {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


def save(outcomes: Sequence[Outcome], *, ours: str, yardstick: str, notes: Sequence[str], name: str = "kafka") -> Path:
    RESULTS.mkdir(exist_ok=True)
    moment = datetime.now(UTC)
    path = RESULTS / f"{name}-{moment:%Y%m%dT%H%M%SZ}.json"
    document = {
        "at": moment.isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "python": platform.python_version()},
        "notes": list(notes),
        "cases": [_as_json(outcome, ours, yardstick) for outcome in outcomes],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def _as_json(outcome: Outcome, ours: str, yardstick: str) -> dict[str, Any]:
    return {
        "case": outcome.case.name,
        "unit": outcome.case.unit,
        "target": outcome.case.target,
        "bound": outcome.case.bound,
        "checkpoints_min": outcome.case.checkpoints_min,
        "higher_is_better": outcome.case.higher_is_better,
        "medians": {broker: outcome.median(broker) for broker in outcome.rounds},
        "ratio": outcome.ratio(ours, yardstick),
        "passes": outcome.passes(ours, yardstick),
        "misses": outcome.misses(ours, yardstick),
        "rounds": outcome.rounds,
    }


def _figure(outcome: Outcome, broker: str) -> str:
    value = outcome.median(broker)
    if value is None:
        return "-"
    tails = [outcome.median(broker, name) for name in ("p99", "p999")]
    if tails[0] is not None:
        return " · ".join(f"{each:.2f}" for each in (value, *tails) if each is not None) + f" {outcome.case.unit}"
    return (
        f"{value:,.0f} {outcome.case.unit.replace('records', '')}"
        if value >= 100
        else f"{value:.2f} {outcome.case.unit}"
    )


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _target(case: Case) -> str:
    ratio = [] if case.target is None else [f"{case.sign} {case.target:g}"]
    bound = [] if case.bound is None else [f"{case.sign} {case.bound:g} {case.unit}"]
    return ", ".join([*ratio, *bound])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
