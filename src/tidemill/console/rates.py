"""Computes how fast partitions grow, from the end offsets that were read for earlier pages.

A broker does not count the records that other leaders append, but two observations of a partition's end offset give its
rate.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Final

from tidemill.model.clock import Clock
from tidemill.model.partition import TopicPartition

PARTITIONS_MAX: Final = 20_000  # beyond this, the partitions observed longest ago are forgotten
SPAN_MS: Final = 5_000  # a rate is measured over at least this time and at most twice this time
FORGOTTEN_MS: Final = 60_000  # an older observation says nothing about the present


class Rates:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._looks: dict[TopicPartition, tuple[tuple[int, int], tuple[int, int]]] = {}  # older, newer: (time, offset)

    def observe(self, end_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Remember end offsets.  Return the records per second of those partitions that were observed before."""
        now_ms = self._clock.monotonic_ms()
        rates = {}
        with self._lock:
            for partition, end_offset in end_offsets.items():
                seen = now_ms, end_offset
                older, newer = self._looks.pop(partition, (seen, seen))
                if now_ms - newer[0] > FORGOTTEN_MS or end_offset < older[1]:
                    older = newer = seen
                elif now_ms - newer[0] >= SPAN_MS:
                    older, newer = newer, seen
                self._looks[partition] = older, newer
                if now_ms > older[0]:
                    rates[partition] = (end_offset - older[1]) * 1_000 / (now_ms - older[0])
            while len(self._looks) > PARTITIONS_MAX:
                del self._looks[next(iter(self._looks))]
        return rates
