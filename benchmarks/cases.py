"""The benchmark cases, each with its load, its unit, and its target against Apache Kafka."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    PRODUCE = "produce"
    CONSUME = "consume"
    LATENCY = "latency"
    SHARE = "share"
    TIMER = "timer"
    START = "start"
    MEMORY_IDLE = "memory-idle"
    MEMORY_AFTER = "memory-after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The work of one client process; two cases with the same load may share a topic."""

    record_bytes: int = 100
    partitions: int = 2
    records: int
    one_record_per_request: bool = False
    by_lot: bool = False  # pass records to the client 10,000 at a time, so that it makes its largest requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    kind: Kind
    unit: str
    target: (
        float | None
    )  # our figure divided by Kafka's: at least this for rates, at most this for other units; None: only shown
    bound: float | None = None  # bound of our figure itself, in the same direction
    checkpoints_min: int = 0  # checkpoints that each of our brokers must complete in every run
    load: Load = Load(records=1)
    yardstick_records: int | None = None  # records sent to Kafka if ours would take it too long
    higher_is_better: bool = True
    warm_up: bool = True  # False when earlier cases have warmed the broker up
    rounds_max: int = 5

    @property
    def sign(self) -> str:
        return "≥" if self.higher_is_better else "≤"

    def is_kept(self, value: float, wanted: float) -> bool:
        return value >= wanted if self.higher_is_better else value <= wanted

    def part(self, divisor: int) -> "Case":
        """Return the same case with the number of records divided by `divisor`."""
        fewer = self.yardstick_records and max(1, self.yardstick_records // divisor)
        load = replace(self.load, records=max(1, self.load.records // divisor))
        return replace(self, load=load, yardstick_records=fewer)

    def for_yardstick(self) -> "Case":
        records = self.yardstick_records or self.load.records
        return replace(self, load=replace(self.load, records=records))


PRODUCE_100B = Load(records=2_000_000)
PRODUCE_64 = Load(records=2_000_000, partitions=64)
PRODUCE_1KB = Load(records=800_000, record_bytes=1_000)
SINGLE = Load(records=40_000, one_record_per_request=True)
LOTS_100B = Load(records=2_000_000, by_lot=True)
LOTS_64 = Load(records=2_000_000, partitions=64, by_lot=True)
LONG = Load(records=4_000_000, record_bytes=1_000)  # 4 GB: several laps of the journal, many checkpoints
LATENCY = Load(records=10_000)  # ten seconds at 1,000 records/s

RATE = "records/s"

CASES = (
    Case(name="start", kind=Kind.START, unit="s", target=0.2, higher_is_better=False, warm_up=False),
    Case(name="memory-idle", kind=Kind.MEMORY_IDLE, unit="MB", target=0.25, higher_is_better=False, rounds_max=1),
    Case(name="produce-100b", kind=Kind.PRODUCE, unit=RATE, target=1.0, load=PRODUCE_100B),
    Case(name="consume-100b", kind=Kind.CONSUME, unit=RATE, target=1.2, load=PRODUCE_100B),
    Case(name="produce-100b-64", kind=Kind.PRODUCE, unit=RATE, target=1.6, load=PRODUCE_64),
    Case(name="consume-100b-64", kind=Kind.CONSUME, unit=RATE, target=1.0, load=PRODUCE_64),
    Case(name="produce-1kb", kind=Kind.PRODUCE, unit=RATE, target=1.0, load=PRODUCE_1KB),
    Case(name="consume-1kb", kind=Kind.CONSUME, unit=RATE, target=1.2, load=PRODUCE_1KB),
    Case(name="produce-single", kind=Kind.PRODUCE, unit=RATE, target=1.8, load=SINGLE),
    Case(name="lots-100b", kind=Kind.PRODUCE, unit=RATE, target=None, load=LOTS_100B),
    Case(name="lots-100b-64", kind=Kind.PRODUCE, unit=RATE, target=None, load=LOTS_64),
    Case(name="latency-p50", kind=Kind.LATENCY, unit="ms", target=1.35, load=LATENCY, higher_is_better=False),
    Case(name="produce-long", kind=Kind.PRODUCE, unit=RATE, target=0.9, load=LONG, warm_up=False),
    Case(name="memory-after", kind=Kind.MEMORY_AFTER, unit="MB", target=0.25, higher_is_better=False, rounds_max=1),
)  # fmt: skip

# With three brokers and replication factor 3, each broker journals every record and begins a checkpoint after 128 MiB
# or ten seconds. These cases last at least twice as long as three checkpoints, because a checkpoint may take as long
# as the next 128 MiB: 0.9 GB in records of 100 bytes (111 in the journal), 1.2 GB in records of 1 KB. The case of
# single records is bounded by the ten seconds: at 10,000 records/s it has enough records for three checkpoints.
CHECKPOINTS_MIN = 3
LONG_100B = Load(records=8_000_000)
LONG_64 = Load(records=8_000_000, partitions=64)
LONG_1KB = Load(records=1_200_000, record_bytes=1_000)
LONG_SINGLE = Load(records=320_000, one_record_per_request=True)
KAFKA_SINGLE = 40_000  # records that take Kafka 20 seconds
P50_MS_MAX = 20.0

REPLICATED = (
    Case(name="produce-100b", kind=Kind.PRODUCE, unit=RATE, target=1.0, load=LONG_100B,
         checkpoints_min=CHECKPOINTS_MIN),
    Case(name="produce-100b-64", kind=Kind.PRODUCE, unit=RATE, target=2.0, load=LONG_64,
         checkpoints_min=CHECKPOINTS_MIN, rounds_max=3),
    Case(name="produce-1kb", kind=Kind.PRODUCE, unit=RATE, target=1.0, load=LONG_1KB,
         checkpoints_min=CHECKPOINTS_MIN),
    Case(name="produce-single", kind=Kind.PRODUCE, unit=RATE, target=3.0, load=LONG_SINGLE,
         checkpoints_min=CHECKPOINTS_MIN, yardstick_records=KAFKA_SINGLE, rounds_max=3),
    Case(name="latency-p50", kind=Kind.LATENCY, unit="ms", target=None, bound=P50_MS_MAX, load=LATENCY,
         higher_is_better=False),
    Case(name="memory-after", kind=Kind.MEMORY_AFTER, unit="MB", target=0.25, higher_is_better=False, rounds_max=1),
)  # fmt: skip
