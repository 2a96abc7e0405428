"""The faults that strike the brokers of a timer topic, one after the other."""

import random
import time
from collections import Counter
from collections.abc import Callable

from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.timers.wrong_clock import SET_S_MAX, WrongClock

AWAY_S = 3.0  # a broker that is silent for so long loses its leadership
DEAD_S = 1.0
LAG_S = 0.2  # between two looks at replicas that lag
STEP_S = 3_000.0
WRONG = 3  # the broker whose clock is set wrong


class TimerFaults:
    """
    Kills, pauses and cuts off leaders, and sets the clock of one broker wrong.

    Two voters with right clocks are up at any time: while the clock is behind, no other broker is struck.
    """

    def __init__(self, cluster: ClusterProcesses, topic: str, clock: WrongClock, seed: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._clock = clock
        self._random = random.Random(seed)
        self._left: list[Callable[[], None]] = []
        self.counts: Counter[str] = Counter()

    def strike(self) -> None:
        """
        Let the next fault strike, and end it: all kinds in turn, in an order that is drawn for each round.  Do nothing
        while a broker still lags after the last one.
        """
        if not self._cluster.is_in_sync(self._topic):
            time.sleep(LAG_S)
            return
        if not self._left:
            self._left = [self._kill, self._pause, self._cut, self._ahead, self._behind]
            self._random.shuffle(self._left)
        fault = self._left.pop()
        fault()
        self.counts[fault.__name__.strip("_")] += 1

    def _leader(self, *, but: int = 0) -> int:
        """Return a leader of the topic that is not the broker `but`."""
        found = sorted({*self._cluster.leaders(self._topic).values()} - {but})
        return self._random.choice(found) if found else 1

    def _kill(self) -> None:
        self._kill_one(self._leader())

    def _kill_one(self, victim: int) -> None:
        self._cluster.kill(victim)
        time.sleep(DEAD_S)
        self._cluster.start(victim)

    def _pause(self) -> None:
        victim = self._leader()
        self._cluster.pause(victim)
        time.sleep(AWAY_S)
        self._cluster.resume(victim)

    def _cut(self) -> None:
        assert self._cluster.proxies is not None
        self._cluster.proxies.isolate(self._leader())
        time.sleep(AWAY_S)
        self._cluster.proxies.heal()

    def _ahead(self) -> None:
        """A clock that is ahead is harmless even while another broker is down."""
        self._clock.set(STEP_S)
        time.sleep(SET_S_MAX)
        self._kill_one(self._leader(but=WRONG))
        self._clock.set(0)

    def _behind(self) -> None:
        self._clock.set(-STEP_S)
        time.sleep(AWAY_S)
        self._clock.set(0)
        time.sleep(SET_S_MAX)  # before another broker is struck
