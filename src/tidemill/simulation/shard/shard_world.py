"""The virtual time and the randomness that all parts of one simulated shard share."""

import heapq
from collections.abc import Callable
from random import Random

from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.shard.shard_knobs import ShardKnobs

STORM_EVENTS, STORM_EVENTS_PER_MS = 30_000, 10  # a hundred times the events of an ordinary run


class ShardWorld:
    """An event queue, with times in ms.  Events that are due at the same time run in the order of scheduling."""

    def __init__(self, seed: int, random: Random, knobs: ShardKnobs) -> None:
        self.seed = seed
        self.random = random
        self.knobs = knobs
        self.now_ms = 0
        self.events = 0
        self.is_healed = False  # once true, there are no more faults, and the network and the disks are fast
        self._heap: list[tuple[int, int, Callable[[], None]]] = []

    def after(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.events += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self.events, call))

    def run_until(self, end_ms: int) -> None:
        """
        Run every event that is due by `end_ms`.  Raise `InvariantViolation` if the number of events grows without
        bound.
        """
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, call = heapq.heappop(heap)
            call()
            if self.events > STORM_EVENTS + STORM_EVENTS_PER_MS * self.now_ms:
                raise InvariantViolation(
                    f"seed {self.seed}: {self.events} events within {self.now_ms} ms: a storm of messages"
                )
        self.now_ms = end_ms
