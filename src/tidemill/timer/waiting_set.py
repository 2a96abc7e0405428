"""What waits of one timer partition, as all replicas know it: it changes by committed entries only, in their order.

arrive ─▶ waits ─▶ released, cancelled, or replaced by a later arrival with the same id: over, for good
             ├─▶ rescheduled: waits on, until another time
             └─▶ released, with a schedule: waits on, until its next occurrence, which the leader computes and logs

The ids of timers are hashes, so that each takes a fixed size.  They are not part of the encoded state: a replica that
restores it reads them from the arrivals that wait.  Encoded, integers big-endian:

    version      1   1
    base         8   the first arrival that waits, or `end`
    end          8   the next arrival number
    bits         …   `waiting_bits`
    rescheduled  4   count; each: arrival uint64, due int64 in milliseconds since the epoch
    recurring    4   count; each: arrival uint64, last and next occurrence and time of the last release, int64 each
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from struct import Struct
from typing import Any, Final, NamedTuple

from tidemill.timer.due_time import DUE_MS_MAX
from tidemill.timer.waiting_bits import BitView, MalformedBits, WaitingBits

VERSION: Final = 1
NOT_YET_KNOWN: Final = DUE_MS_MAX + 1  # later than every time at which a record may be due
_HEAD: Final = Struct(">BQQI")  # with the size of the bits
_COUNT: Final = Struct(">I")
_MOVED: Final = Struct(">Qq")
_RECURRENCE: Final = Struct(">Qqqq")


class TimerArrival(NamedTuple):
    """A record of a batch of arrivals that has the id of a timer."""

    at: int  # its index in the batch
    due_ms: int
    timer_id: bytes  # the hash of its id
    only_cancels: bool = False  # it cancels the timer with its id, and waits for nothing itself
    is_recurring: bool = False  # it has a schedule: it waits on after each release


class Recurrence(NamedTuple):
    """How far an arrival with a schedule has come.  Times are in ms since the epoch."""

    last_ms: int  # the occurrence that was released last; -1 before the first
    next_ms: int  # the occurrence for which it waits; `NOT_YET_KNOWN` until the leader has logged it
    released_ms: int  # append time of the last release; -1 before the first

    def after_release(self, append_time: int) -> "Recurrence":
        return Recurrence(self.next_ms, NOT_YET_KNOWN, append_time)


class Outcome(NamedTuple):
    """What has become of the arrivals, or ids, that a request named."""

    changed: int = 0  # cancelled or rescheduled
    over: int = 0  # they were over before: released, cancelled or replaced
    unknown: int = 0  # there are no such arrivals, or no timer with such an id waits


class WaitingView(NamedTuple):
    """A copy of what waits, for other threads."""

    bits: WaitingBits
    moved: Mapping[int, int]
    recurring: Mapping[int, Recurrence]

    @property
    def first(self) -> int:
        return self.bits.first_waiting()

    @property
    def end(self) -> int:
        return self.bits.end

    def waits(self, number: int) -> bool:
        return self.bits.waits(number)

    def due_ms(self, number: int, at_arrival_ms: int) -> int:
        """Return when an arrival is due; `at_arrival_ms` unless it was rescheduled."""
        return self.moved.get(number, at_arrival_ms)


class WaitingSet:
    def __init__(self, base: int = 0) -> None:
        """Nothing waits, and the next arrival has the number `base`."""
        self._bits = WaitingBits(base)
        self._of_id: dict[bytes, int] = {}
        self._ids: dict[int, bytes] = {}  # of arrivals that wait
        self._moved: dict[int, int] = {}  # arrivals that wait until another time than when they arrived
        self.recurring: dict[int, Recurrence] = {}  # arrivals with schedules
        self.unscheduled: dict[int, None] = {}  # those of them whose next occurrence is not yet known

    @property
    def end(self) -> int:
        return self._bits.end

    @property
    def count(self) -> int:
        """How many arrivals wait."""
        return self._bits.count

    @property
    def over(self) -> int:
        """How many arrivals are over.  A later state never has fewer."""
        return self.end - self.count

    def first_waiting(self) -> int:
        """Return the first arrival that waits, or `end`: no byte of an earlier one is needed any more."""
        return self._bits.first_waiting()

    def waits(self, number: int) -> bool:
        return self._bits.waits(number)

    def due_ms(self, number: int, at_arrival_ms: int) -> int:
        """Return when an arrival is due; `at_arrival_ms` unless it was rescheduled."""
        return self._moved.get(number, at_arrival_ms)

    def view(self) -> WaitingView:
        return WaitingView(deepcopy(self._bits), dict(self._moved), dict(self.recurring))

    @property
    def rescheduled(self) -> dict[int, int]:
        """The arrivals that were rescheduled and wait, and when they are due."""
        return self._moved

    @property
    def has_ids(self) -> bool:
        """Whether any arrival that waits has an id."""
        return bool(self._ids)

    def id_of(self, number: int) -> bytes | None:
        """Return the id of an arrival that waits, if it has one."""
        return self._ids.get(number)

    def bits(self) -> BitView:
        """Return the bits of what waits, which are valid until the next change."""
        return self._bits.view()

    def fixed_bits(self) -> BitView:
        """Return the bits of what waits as a copy, for a job."""
        bits = self._bits.view()
        return bits._replace(over=bytes(bits.over))

    def numbers(self) -> Iterator[int]:
        """Yield the arrivals that wait, in order."""
        return self._bits.numbers()

    def count_between(self, first: int, end: int) -> int:
        """Return how many of the arrivals from `first` until before `end` wait."""
        return self._bits.count_between(first, end)

    def any_between(self, first: int, end: int) -> bool:
        """Return whether an arrival from `first` until before `end` waits."""
        return self._bits.any_between(first, end)

    def arrival_of(self, timer_id: bytes) -> int | None:
        """Return the arrival that waits with an id."""
        return self._of_id.get(timer_id)

    def arrive(self, count: int, timers: Iterable[TimerArrival] = ()) -> list[int]:
        """
        Add the records of a committed batch, and return the arrivals that they replace or cancel.  `timers` are those
        of the `count` records that have ids, in order.
        """
        replaced = []
        numbers = self._bits.arrive(count)
        for at, due, timer_id, only_cancels, is_recurring in timers:
            number = numbers[at]
            former = self._of_id.get(timer_id)
            if former is not None:
                self._end(former)
                replaced.append(former)
            if only_cancels:
                self._bits.remove(number)
                continue
            self._name(number, timer_id)
            if is_recurring:
                self.recurring[number] = Recurrence(-1, due, -1)
        return replaced

    def release(self, numbers: Iterable[int], append_time: int = 0) -> None:
        """
        Note arrivals whose records a committed entry, with this append time, has made visible.  All of them wait.
        """
        if not (self._moved or self.recurring or self._ids):  # the common case, which is long: many records at once
            for number in numbers:
                was_waiting = self._bits.remove(number)
                assert was_waiting, f"arrival {number} is released, and did not wait"
            return
        for number in numbers:
            recurrence = self.recurring.get(number)
            if recurrence is not None:
                self.recurring[number] = recurrence.after_release(append_time)
                self._moved[number] = NOT_YET_KNOWN
                self.unscheduled[number] = None
                continue
            was_waiting = self._end(number)
            assert was_waiting, f"arrival {number} is released, and did not wait"

    def cancel(self, numbers: Iterable[int]) -> Outcome:
        changed = over = unknown = 0
        for number in numbers:
            if self._end(number):
                changed += 1
            elif 0 <= number < self.end:
                over += 1
            else:
                unknown += 1
        return Outcome(changed, over, unknown)

    def cancel_ids(self, ids: Iterable[bytes]) -> Outcome:
        changed = unknown = 0
        for timer_id in ids:
            number = self._of_id.get(timer_id)
            if number is None:
                unknown += 1
            else:
                self._end(number)
                changed += 1
        return Outcome(changed, 0, unknown)

    def reschedule(self, dues: Mapping[int, int]) -> Outcome:
        """Let arrivals wait until other times, in milliseconds since the epoch."""
        changed = over = unknown = 0
        for number, due in dues.items():
            if self.waits(number):
                self._wait_until(number, due)
                changed += 1
            elif 0 <= number < self.end:
                over += 1
            else:
                unknown += 1
        return Outcome(changed, over, unknown)

    def reschedule_ids(self, dues: Mapping[bytes, int]) -> Outcome:
        known = {self._of_id[timer_id]: due for timer_id, due in dues.items() if timer_id in self._of_id}
        return self.reschedule(known)._replace(unknown=len(dues) - len(known))

    def recur(self, number: int, after_ms: int, next_ms: int) -> bool:
        """
        Let an arrival with a schedule wait for its next occurrence, NOT_YET_KNOWN if there is none, after the one at
        `after_ms`, which was released or is skipped.  Return False if another occurrence has come between.
        """
        recurrence = self.recurring.get(number)
        if recurrence is None:
            return False
        is_released = recurrence.next_ms == NOT_YET_KNOWN and recurrence.last_ms == after_ms
        if not is_released and recurrence.next_ms != after_ms:
            return False
        if next_ms == NOT_YET_KNOWN:
            self._end(number)
            return False
        self._wait_until(number, next_ms)
        return True

    def _wait_until(self, number: int, due_ms: int) -> None:
        self._moved[number] = due_ms
        if number in self.recurring:
            self.recurring[number] = self.recurring[number]._replace(next_ms=due_ms)
            self.unscheduled.pop(number, None)

    def restore_ids(self, ids: Iterable[tuple[int, bytes]]) -> None:
        """Add the ids of arrivals, in any order, after the rest was decoded.  Some may be over."""
        for number, timer_id in ids:
            if self.waits(number):
                self._name(number, timer_id)

    def encode(self) -> bytes:
        """Return the state without the ids."""
        base, bits = self.first_waiting(), self._bits.encode()
        moved = sorted(self._moved.items())
        head = _HEAD.pack(VERSION, base, self.end, len(bits))
        recurring = sorted((number, *recurrence) for number, recurrence in self.recurring.items())
        return b"".join(
            [
                head,
                bits,
                _COUNT.pack(len(moved)),
                *(_MOVED.pack(*one) for one in moved),
                _COUNT.pack(len(recurring)),
                *(_RECURRENCE.pack(*one) for one in recurring),
            ]
        )

    @classmethod
    def decode(cls, data: bytes) -> "WaitingSet":
        """Raise MalformedBits if `data` is no such state, or is of another version."""
        if len(data) < _HEAD.size:
            raise MalformedBits(f"{len(data)} bytes of a state of timers")
        version, base, end, size = _HEAD.unpack_from(data)
        if version != VERSION:
            raise MalformedBits(f"a state of timers of version {version}; this program knows {VERSION}")
        rest = _HEAD.size + size
        if len(data) < rest + _COUNT.size:
            raise MalformedBits(f"{len(data)} bytes of a state of timers, with {size} bytes of bits")
        found = cls(end)
        found._bits = WaitingBits.decode(data[_HEAD.size : rest], base, end)
        moved, rest = _items(_MOVED, data, rest)
        recurring, rest = _items(_RECURRENCE, data, rest)
        if rest != len(data):
            raise MalformedBits(f"{len(data) - rest} bytes follow a state of timers")
        found._moved = dict(moved)
        found.recurring = {number: Recurrence(*rest) for number, *rest in recurring}
        found.unscheduled = {it: None for it, at in found.recurring.items() if at.next_ms == NOT_YET_KNOWN}
        if not all(map(found.waits, (*found._moved, *found.recurring))):
            raise MalformedBits("an arrival was rescheduled that does not wait")
        return found

    def _name(self, number: int, timer_id: bytes) -> None:
        self._of_id[timer_id] = number
        self._ids[number] = timer_id

    def _end(self, number: int) -> bool:
        """Return whether the arrival waited until now."""
        if not self._bits.remove(number):
            return False
        self._moved.pop(number, None)
        self.recurring.pop(number, None)
        self.unscheduled.pop(number, None)
        timer_id = self._ids.pop(number, None)
        if timer_id is not None:
            del self._of_id[timer_id]
        return True


def _items(item: Struct, data: bytes, position: int) -> tuple[list[Any], int]:
    """Return the items of a list that begins with its count, and the position behind it."""
    if len(data) < position + _COUNT.size:
        raise MalformedBits(f"a state of timers ends at {len(data)}, before a list")
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    end = position + count * item.size
    if len(data) < end:
        raise MalformedBits(f"{len(data) - position} bytes for {count} items of {item.size} bytes")
    return list(item.iter_unpack(data[position:end])), end
