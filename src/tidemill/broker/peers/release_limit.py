"""ReleaseLimit: the wall clocks of the other brokers as heartbeats tell them, for the leaders of timer partitions.

There is one for the whole broker, because a clock is that of a broker and not of a shard.  The rule is that of
`timer/release_clock`.

Time since a heartbeat is counted by the machine's monotonic clock, unlike the time until a peer counts as silent
(`broker/stall_tolerant_clock`).  A peer's clock also runs while this process is stopped.  By the stall-tolerant clock,
a reading from before a stall of an hour would still count as new afterwards, and be an hour behind.
"""

from collections.abc import Collection, Mapping

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.clock import Clock
from tidemill.timer.release_clock import DRIFT_MAX, ReleaseClock


class ReleaseLimit:
    """The wall clocks of this broker and of the others."""

    def __init__(self, clock: Clock, drift_max: float = DRIFT_MAX) -> None:
        """
        `clock` is that of the machine.  Its monotonic time may run faster than real time by the fraction `drift_max`.
        """
        self._clock = clock
        self._readings = ReleaseClock[ReplicaKey](drift_max)

    def heard(self, voter: ReplicaKey, wall_ms: int) -> None:
        """Note the wall clock of another broker, from a heartbeat that has just arrived."""
        self._readings.heard(voter, wall_ms, self._clock.monotonic_ms())

    def keep_only(self, voters: Collection[ReplicaKey]) -> None:
        """Forget the clocks of brokers that have left the cluster."""
        self._readings.keep_only(voters)

    def limit(self, voters: Collection[ReplicaKey], me: ReplicaKey) -> int | None:
        """
        Return the time up to which a leader with these `voters` may release records, in ms since the epoch; None while
        too few of their clocks are known.  If `me`, this broker, is the only voter, this is its own wall clock.
        """
        return self._readings.limit(voters, me, self._clock.wall_ms(), self._clock.monotonic_ms())

    def offsets(self) -> Mapping[ReplicaKey, int]:
        """
        Return how many ms each other broker's wall clock is ahead of this broker's; negative if it is behind.  The time
        that a heartbeat takes counts as being behind.  Brokers that were not heard lately are left out.
        """
        wall_ms = self._clock.wall_ms()
        readings = self._readings.readings(self._clock.monotonic_ms())
        return {voter: reading - wall_ms for voter, reading in readings.items()}
