"""Compares what was delivered with what was produced, cancelled and moved.

Each record that was acknowledged is delivered once, or was cancelled or replaced while it waited, and none comes
before it is due.  A change whose outcome is unknown may have happened or not: one by a record that was acknowledged
after the other record was due, and a request whose first attempt was not answered.

A record is late by no more than the failover: when its partition is served again, what has become due meanwhile comes
within as long a time as the longest failover of the run took.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.fault.pauses import quantile
from tests.fault.timers.delayed_records import BY_RECORD, DelayedRecords, Plan
from tests.fault.timers.deliveries import Deliveries
from tests.fault.timers.served_times import ServedTimes
from tests.fault.timers.timer_changes import Decision

SPARE_MS = 2_000  # in which the reader gets what was committed, on a busy machine


class Outcomes:
    def __init__(
        self, records: DelayedRecords, decisions: Sequence[Decision], deliveries: Deliveries, served: ServedTimes
    ) -> None:
        self._records = records
        self._served = served
        self._decisions = decisions
        self._seen = deliveries
        self._times = Counter(deliveries.numbers)  # how often each record was delivered
        self._due_of = dict(zip(deliveries.numbers, deliveries.dues_ms, strict=True))  # as delivered

    def violations(self) -> Iterator[str]:
        """Yield a message for each violation of a promise."""
        yield from self._numbering()
        yield from self._early()
        yield from self._disorder()
        yield from self._produced()
        yield from self._changed_by_records()
        for decision in self._decisions:
            yield from self._decided(decision)

    def late(self) -> Iterator[str]:
        """Yield a message for each record that was seen later than a failover explains."""
        seen, served = self._seen, self._served
        late_ms_max = served.failover_ms + SPARE_MS
        for number, partition, due_ms, ready_ms, at_ms in zip(
            seen.numbers, seen.partitions, seen.dues_ms, self._ready_ms(), seen.seen_ms, strict=True
        ):
            served_ms = served.served_ms(partition, ready_ms)
            if at_ms - max(ready_ms, served_ms) > late_ms_max:
                yield (
                    f"record {number}, due at {due_ms} and ready at {ready_ms}, was seen at {at_ms}; partition "
                    f"{partition} was served by {served_ms}, and the longest failover took {served.failover_ms} ms"
                )

    def changed_in_time(self) -> float:
        """Return the share of the records named by requests that waited, and so were cancelled or moved."""
        return sum(it.changed for it in self._decisions) / sum(len(it.records) for it in self._decisions)

    def _ready_ms(self) -> Iterator[int]:
        """Yield when each delivered record was due, acknowledged, and moved if it was: it may be seen from then on."""
        records, seen = self._records, self._seen
        moved_ms = {number: it.answered_ms for it in self._decisions for number in it.records}
        for number, due_ms in zip(seen.numbers, seen.dues_ms, strict=True):
            yield max(due_ms, records.acknowledged_ms[number], moved_ms.get(number, 0))

    def _lateness_s(self) -> list[float]:
        """Return how late each record was seen."""
        return [
            max(at_ms - ready_ms, 0) / 1_000
            for at_ms, ready_ms in zip(self._seen.seen_ms, self._ready_ms(), strict=True)
        ]

    def summary(self) -> str:
        lateness = self._lateness_s()
        plans = Counter(self._records.plans)
        over = sum(it.over for it in self._decisions)
        unanswered = sum(not it.is_first for it in self._decisions)
        p50, p99, most = (1_000 * it for it in (quantile(lateness, 0.5), quantile(lateness, 0.99), max(lateness)))
        return (
            f"\n{self._records.count} records: {', '.join(f'{plans[it]} {it.name.lower()}' for it in Plan)}; "
            f"{len(self._seen)} delivered\n{len(self._decisions)} requests, {unanswered} of them sent again; "
            f"{over} records were over before\n"
            f"seen late by {p50:.0f} ms (p50), {p99:.0f} ms (p99), {most:.0f} ms (most); "
            f"longest failover {self._served.failover_ms} ms"
        )

    def _numbering(self) -> Iterator[str]:
        """Each offset is read once, and names the arrival number with which its producer was answered."""
        seen, records = self._seen, self._records
        next_offset = [0] * records.partitions
        for number, partition, offset, arrival in zip(
            seen.numbers, seen.partitions, seen.offsets, seen.arrivals, strict=True
        ):
            if offset != next_offset[partition] or partition != records.partition(number):
                yield f"record {number} is at {partition}/{offset}, after {next_offset[partition] - 1}"
            next_offset[partition] = offset + 1
            if arrival != records.arrivals[number]:
                yield f"record {number} has arrival {arrival}; its producer was told {records.arrivals[number]}"

    def _early(self) -> Iterator[str]:
        seen = self._seen
        for number, due_ms, stamp_ms, at_ms in zip(
            seen.numbers, seen.dues_ms, seen.stamps_ms, seen.seen_ms, strict=True
        ):
            if min(stamp_ms, at_ms) < due_ms:
                yield f"record {number}, due at {due_ms}, has append time {stamp_ms} and was seen at {at_ms}"

    def _disorder(self) -> Iterator[str]:
        """What no request has named, and what was acknowledged before it was due, comes in order of due and arrival."""
        seen, records = self._seen, self._records
        last = [(0, 0)] * records.partitions
        for number, partition, due_ms, arrival in zip(
            seen.numbers, seen.partitions, seen.dues_ms, seen.arrivals, strict=True
        ):
            is_plain = number < records.count and records.plans[number] == Plan.NOTHING
            if is_plain and records.acknowledged_ms[number] < due_ms:
                if (due_ms, arrival) < last[partition]:
                    yield f"record {number}, {(due_ms, arrival)}, comes after {last[partition]}"
                last[partition] = due_ms, arrival

    def _produced(self) -> Iterator[str]:
        """What no request concerns is delivered once, with its own time."""
        records = self._records
        for number in range(records.count):
            plan = records.plans[number]
            if plan == Plan.NOTHING:
                yield from self._once(number, records.due_ms[number])
            elif plan == Plan.REPLACE:
                yield from self._once(number + records.count, records.new_due_ms[number])
            elif number + records.count in self._times:
                yield f"record {number} was delivered as if it had been replaced"

    def _once(self, number: int, due_ms: int) -> Iterator[str]:
        if self._records.acknowledged_ms[number] < 0:
            yield f"record {number} was not acknowledged"
        if self._times[number] != 1 or self._due_of[number] != due_ms:
            yield f"record {number}, due at {due_ms}, was delivered {self._times[number]} times"

    def _changed_by_records(self) -> Iterator[str]:
        records = self._records
        for number in range(records.count):
            if records.plans[number] in BY_RECORD:
                is_known = 0 <= records.gone_ms[number] < records.due_ms[number]
                if self._times[number] > (0 if is_known else 1):
                    name = Plan(records.plans[number]).name
                    yield (
                        f"record {number}, due at {records.due_ms[number]}, was delivered {self._times[number]} times, "
                        f"and {name} was acknowledged at {records.gone_ms[number]}"
                    )

    def _decided(self, decision: Decision) -> Iterator[str]:
        """Check that as many records are over as the leader says, and others cancelled, or due at the new time."""
        records, named = self._records, decision.records
        often = [number for number in named if self._times[number] > 1]
        if often:
            yield f"records {often} were delivered more than once; {decision}"
        if decision.changed + decision.over != len(named):
            yield f"{decision} does not tell the outcome of each record"
        came = [number for number in named if self._times[number]]
        if decision.due_ms is None:
            unchanged, undecided = len(came), 0
        else:
            lost = [number for number in named if not self._times[number]]
            if lost:
                yield f"records {lost} were moved and lost; {decision}"
            strange = [it for it in came if self._due_of[it] not in (decision.due_ms, records.due_ms[it])]
            if strange:
                yield f"records {strange} were delivered with other times; {decision}"
            unchanged = sum(self._due_of[it] != decision.due_ms for it in came)
            undecided = sum(records.due_ms[it] == decision.due_ms for it in named)  # both times are the same
        if not decision.over - undecided <= unchanged <= decision.over and decision.is_first:
            yield f"{unchanged} records were delivered in spite of {decision}"
        if unchanged > decision.over:
            yield f"{unchanged} records were delivered after {decision}"
