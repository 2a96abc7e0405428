"""The records of one run: when each is due, and what is to happen to it while it waits."""

import random
from array import array
from enum import IntEnum

CANCELLED_SHARE = 0.2
MOVED_SHARE = 0.2
RACING = 0.02  # the fraction of the changed records whose change races with their release
AHEAD_MS = (300, 12_000)  # how long before a record is due the others are changed


class Plan(IntEnum):
    """What a run does about a record that waits."""

    NOTHING = 0
    CANCEL = 1  # by a request
    CANCEL_BY_RECORD = 2  # which names its timer
    MOVE = 3  # by a request
    REPLACE = 4  # by a record of the same timer, with another time


BY_REQUEST = (Plan.CANCEL, Plan.MOVE)
BY_RECORD = (Plan.CANCEL_BY_RECORD, Plan.REPLACE)


class DelayedRecords:
    """
    Records that are numbered from 0.  The one that replaces record n has the number n + `count`.

    All times are in milliseconds since the epoch.
    """

    def __init__(
        self, seed: int, count: int, partitions: int, begin_ms: int, end_ms: int, *, are_changed: bool
    ) -> None:
        """The records are due at random between `begin_ms` and `end_ms`."""
        drawn = random.Random(seed)
        self.count = count
        self.partitions = partitions
        self.due_ms = array("q", (drawn.randrange(begin_ms, end_ms) for _ in range(count)))
        self.plans = array("b", bytes(count))
        self.change_ms = array("q", bytes(8 * count))  # when a record is to be changed
        self.new_due_ms = array("q", bytes(8 * count))  # of those that are moved or replaced
        self.arrivals = array("q", [-1]) * (2 * count)
        self.acknowledged_ms = array("q", [-1]) * (2 * count)  # when the producer was told that a record waits
        self.gone_ms = array("q", [-1]) * count  # when the producer was told that a record was cancelled or replaced
        for number in range(count if are_changed else 0):
            plan = drawn.random()
            if plan < CANCELLED_SHARE:
                self.plans[number] = drawn.choice((Plan.CANCEL, Plan.CANCEL_BY_RECORD))
            elif plan < CANCELLED_SHARE + MOVED_SHARE:
                self.plans[number] = drawn.choice(BY_REQUEST[1:] + BY_RECORD[1:])
            else:
                continue
            ahead_ms = 0 if drawn.random() < RACING else drawn.randrange(*AHEAD_MS)
            self.change_ms[number] = self.due_ms[number] - ahead_ms
            self.new_due_ms[number] = drawn.randrange(max(self.change_ms[number], begin_ms), end_ms + 2_000)

    def partition(self, number: int) -> int:
        return number % self.count % self.partitions

    def timer_id(self, number: int) -> bytes:
        return b"timer %d" % (number % self.count)

    def has_id(self, number: int) -> bool:
        return self.plans[number] in BY_RECORD

    def changes(self, plans: tuple[Plan, ...]) -> list[int]:
        """Return the records with these plans in the order in which they are to be changed."""
        return sorted((it for it in range(self.count) if self.plans[it] in plans), key=self.change_ms.__getitem__)
