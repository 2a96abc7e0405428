"""The history of what clients sent and read, and its invariants, which are checked after the run.

A send whose outcome is unknown may take effect at any later time or not at all, so its value may be missing.  Every
value contains its producer, its sequence number and a CRC, so that a misplaced or damaged record can be recognized on
its own.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

VALUE_BYTES = 120  # large enough for the fields, but small enough for many values to be in flight during a kill


class Law(StrEnum):
    ONE_VALUE_PER_OFFSET = "an offset always holds the same value"
    ONE_OFFSET_PER_VALUE = "an idempotent producer's value is stored once"
    NOTHING_LOST = "an acknowledged value is in the log"
    NOTHING_INVENTED = "a value in the log was sent, and is intact"
    SEND_ORDER = "a producer's values are in a partition in the order of sending"
    DENSE = "a partition's offsets have no gap"


@dataclass(frozen=True, slots=True)
class Send:
    """One record that a producer has sent.  `offset` is None until the record is acknowledged."""

    producer: int
    sequence: int
    partition: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Read:
    partition: int
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Violation:
    law: Law
    what: str


@dataclass(slots=True)
class History:
    """
    What producers sent and consumers read.  `reads` come from all consumers during the run; `final` is one complete
    read after the run.
    """

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final: list[Read] = field(default_factory=list)


def value_of(producer: int, sequence: int) -> bytes:
    name = b"%d-%d-" % (producer, sequence)
    body = name.ljust(VALUE_BYTES - 8, b".")
    return body + b"%08x" % zlib.crc32(body)


def parse_value(value: bytes) -> tuple[int, int] | None:
    """Return the producer and the sequence number, or None if the value was not made by `value_of`."""
    body, crc = value[:-8], value[-8:]
    if len(value) != VALUE_BYTES or crc != b"%08x" % zlib.crc32(body):
        return None
    producer, sequence, _ = body.split(b"-", 2)
    return int(producer), int(sequence)


def violations(history: History) -> list[Violation]:
    return [
        *_offsets_that_changed(history),
        *_values_stored_twice(history),
        *_values_lost(history),
        *_values_invented(history),
        *_values_out_of_order(history),
        *_gaps(history),
    ]


def _offsets_that_changed(history: History) -> Iterator[Violation]:
    values: dict[tuple[int, int], bytes] = {}
    for place, value in _sightings(history):
        known = values.setdefault(place, value)
        if known != value:
            yield Violation(Law.ONE_VALUE_PER_OFFSET, f"{_place(place)} held {_name(known)}, then {_name(value)}")


def _values_stored_twice(history: History) -> Iterator[Violation]:
    places: dict[bytes, set[tuple[int, int]]] = defaultdict(set)
    for place, value in _sightings(history):
        places[value].add(place)
    for value, seen in places.items():
        if len(seen) > 1:
            where = ", ".join(_place(place) for place in sorted(seen))
            yield Violation(Law.ONE_OFFSET_PER_VALUE, f"{_name(value)} is at {where}")


def _values_lost(history: History) -> Iterator[Violation]:
    final = {(read.partition, read.offset): read.value for read in history.final}
    for send in history.sends:
        if send.offset is not None and (send.partition, send.offset) not in final:
            value = value_of(send.producer, send.sequence)
            yield Violation(
                Law.NOTHING_LOST, f"{_name(value)}, acknowledged at {_place((send.partition, send.offset))}"
            )
    for read in history.reads:
        if (read.partition, read.offset) not in final:
            what = f"{_name(read.value)}, read before at {_place((read.partition, read.offset))}"
            yield Violation(Law.NOTHING_LOST, what)


def _values_invented(history: History) -> Iterator[Violation]:
    sent = {(send.producer, send.sequence): send.partition for send in history.sends}
    for read in [*history.reads, *history.final]:
        name = parse_value(read.value)
        if name is None or sent.get(name) != read.partition:
            where = _place((read.partition, read.offset))
            yield Violation(Law.NOTHING_INVENTED, f"{_name(read.value)} at {where}")


def _values_out_of_order(history: History) -> Iterator[Violation]:
    """Check each producer's order, both by acknowledged offsets and by the log, which also contains unacknowledged
    sends.
    """
    by_send = [
        (send.producer, send.sequence, send.partition, send.offset) for send in history.sends if send.offset is not None
    ]
    by_read = [
        (*name, read.partition, read.offset) for read in history.final if (name := parse_value(read.value)) is not None
    ]
    reported: set[str] = set()
    for places in (by_send, by_read):
        newest: dict[tuple[int, int], tuple[int, int]] = {}
        for producer, sequence, partition, offset in sorted(places, key=lambda place: (place[0], place[1])):
            before = newest.get((producer, partition))
            if before is not None and offset <= before[1]:
                what = (
                    f"producer {producer}: {sequence} is at {_place((partition, offset))}, {before[0]} at {before[1]}"
                )
                if what not in reported:
                    reported.add(what)
                    yield Violation(Law.SEND_ORDER, what)
            newest[producer, partition] = (sequence, offset)


def _gaps(history: History) -> Iterator[Violation]:
    offsets: dict[int, set[int]] = defaultdict(set)
    for read in history.final:
        offsets[read.partition].add(read.offset)
    for partition, seen in sorted(offsets.items()):
        missing = sorted(set(range(max(seen) + 1)) - seen)
        if missing:
            yield Violation(Law.DENSE, f"partition {partition} lacks {len(missing)} offsets, the first is {missing[0]}")


def _sightings(history: History) -> Iterator[tuple[tuple[int, int], bytes]]:
    for send in history.sends:
        if send.offset is not None:
            yield (send.partition, send.offset), value_of(send.producer, send.sequence)
    for read in [*history.reads, *history.final]:
        yield (read.partition, read.offset), read.value


def _place(place: tuple[int, int]) -> str:
    return f"{place[0]}@{place[1]}"


def _name(value: bytes) -> str:
    name = parse_value(value)
    return f"{name[0]}-{name[1]}" if name is not None else f"damaged {value[:20]!r}"


def summary(history: History) -> str:
    acknowledged = sum(send.offset is not None for send in history.sends)
    sent, read, final = len(history.sends), len(history.reads), len(history.final)
    return f"{sent} sent, {acknowledged} acknowledged, {read} read during the run, {final} at the end"


def distinct_laws(found: Sequence[Violation]) -> set[Law]:
    return {violation.law for violation in found}
