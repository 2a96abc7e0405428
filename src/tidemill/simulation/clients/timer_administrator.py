"""Cancels and reschedules records that wait, by arrival number, by id or by a selection, and checks the answers.

An answer may be lost.  Then the decision may or may not have been taken, and it is not repeated.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from tidemill.model import errors
from tidemill.peer import timer_resolve
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, SHIFT, Selection
from tidemill.simulation.clients.client import Client, Unreachable, check_retriable
from tidemill.simulation.clients.timer_history import TimerHistory
from tidemill.simulation.clients.timer_oracle import TimerOracle
from tidemill.simulation.clients.timer_producer import IDS
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.machine import BEGIN_MS

NAMED_MAX: Final = 3
SOON_MS: Final = 3_000  # records are rescheduled to a time at most so far ahead
LATER_MS: Final = 10_000  # after the next occurrence of every short schedule
SKIPPED: Final = re.compile(r"arrival (\d+): tidemill-missed=none: .* would be skipped")
FAR_MS: Final = 3_600_000  # what is due so long after the beginning may be at the limit, and is not shifted further


class TimerAdministrator:
    def __init__(
        self,
        client: Client,
        history: TimerHistory,
        topic: str,
        number: int,
        schedule_ids: Sequence[bytes] = (),
        *,
        selects_later: bool = False,
    ) -> None:
        """
        `schedule_ids`: those of recurring records, if there are any.  `selects_later`: cancel mostly what is due later.
        """
        self._client = client
        self._history = history
        self._topic = topic
        self._number = number
        self._ids = [*(b"timer %d" % it for it in range(IDS + 1)), *schedule_ids]
        self._has_schedules = bool(schedule_ids)
        self._selects_later = selects_later
        self._cancelled: set[int] = set()  # arrivals of which an answer has said that they are cancelled

    async def run(self, pause_s: Callable[[], float], is_over: Callable[[], bool]) -> None:
        steps = [self._cancel_arrival, self._reschedule_arrival, self._name_several, self._name_ids, self._select]
        if self._has_schedules:
            steps += [self._repeat_occurrence, self._name_ids]
        if self._selects_later:
            steps += [self._select_later] * len(steps)
        while not is_over():
            await self._client.random.choice(steps)()
            await asyncio.sleep(pause_s())

    async def _cancel_arrival(self) -> None:
        """Cancel one arrival: it never becomes visible if the answer says that it was changed."""
        number, arrived = self._any_arrival(), len(self._oracle.arrivals)
        found = await self._ask(operation=CANCEL, arrivals=[number])
        if found is None:
            return
        outcome, oracle = (found.changed, found.over, found.unknown), self._oracle
        ended, released = oracle.ended.get(number), oracle.released.get(number)
        is_right = {
            (1, 0, 0): ended == "cancelled" and number not in self._cancelled,
            (0, 1, 0): ended is not None or released is not None,
            (0, 0, 1): number >= arrived,
        }
        if not is_right.get(outcome, False):
            raise InvariantViolation(
                f"the answer to the cancellation of arrival {number} is {found}, and it is {ended or released}"
            )
        if found.changed:
            self._cancelled.add(number)

    async def end(self, timer_ids: Sequence[bytes]) -> None:
        """Cancel timers until an answer says that each is over."""
        while (found := await self._ask(operation=CANCEL, timer_ids=timer_ids)) is None or found.error_code:
            pass

    async def _reschedule_arrival(self) -> None:
        await self._reschedule(self._any_arrival(), self._any_time())

    async def _repeat_occurrence(self) -> None:
        """Let the last occurrence of a schedule come again."""
        begun = [(number, it.last_ms) for number, it in self._oracle.schedules.items() if it.last_ms >= 0]
        if begun:
            await self._reschedule(*self._client.random.choice(begun))

    async def _reschedule(self, number: int, due: int) -> None:
        arrived = len(self._oracle.arrivals)
        found = await self._ask(operation=RESCHEDULE, arrivals=[number], due_ms=due)
        if found is None or self._is_forbidden(found):
            return
        oracle = self._oracle
        is_over = number in oracle.ended or number in oracle.released
        is_right = {
            (1, 0, 0): (number, due) in oracle.rescheduled,
            (0, 1, 0): is_over,
            (0, 0, 1): number >= arrived,
        }
        if not is_right.get((found.changed, found.over, found.unknown), False):
            raise InvariantViolation(f"the answer to rescheduling arrival {number} to {due} is {found}")

    async def _name_several(self) -> None:
        random = self._client.random
        arrived = len(self._oracle.arrivals)
        numbers = [self._any_arrival() for _ in range(random.randint(1, NAMED_MAX))]
        operation = random.choice((CANCEL, RESCHEDULE, SHIFT))
        due = random.randint(-SOON_MS, SOON_MS) if operation == SHIFT else self._any_time()
        found = await self._ask(operation=operation, arrivals=numbers, due_ms=due)
        if found is None or self._is_forbidden(found):
            return
        if found.error_code:
            if not (operation == SHIFT and due > 0 and any(self._was_far(it) for it in numbers)):
                what = f"operation {operation} by {due} ms about arrivals {numbers}"
                raise InvariantViolation(f"{what} is refused: {found}")
            return
        # A record that is named twice is cancelled once; and records that do not wait cannot be shifted.
        counted = found.changed + found.over + found.unknown
        if not (counted <= len(numbers) and (counted >= len(set(numbers)) or operation == SHIFT)):
            raise InvariantViolation(f"the answer about arrivals {numbers} is {found}")
        left = [number for number in numbers if number < arrived and number in self._oracle.waiting]
        if operation == CANCEL and left:
            raise InvariantViolation(f"arrivals {left} wait, and were cancelled; the answer was {found}")

    async def _name_ids(self) -> None:
        """Cancel or reschedule by an id; the answer counts at most the record that waits with it."""
        random = self._client.random
        timer_id = random.choice(self._ids)
        operation = random.choice((CANCEL, RESCHEDULE))
        found = await self._ask(operation=operation, timer_ids=[timer_id], due_ms=self._any_time())
        if found is None or self._is_forbidden(found):
            return
        # For a time that is long past by the clocks of the brokers, the leader reads which arrival has the id, and this
        # may be over when the decision is committed.
        over_max = 1 if operation == RESCHEDULE else 0
        if found.changed + found.unknown + found.over != 1 or found.over > over_max:
            raise InvariantViolation(f"the answer about the id {timer_id!r} is {found}")

    async def _select(self) -> None:
        """Cancel all records of a key that are due in a range: no acknowledged one that waited before may wait on."""
        random, oracle = self._client.random, self._oracle
        key = b"%d" % random.randint(1, 3)
        first = self._any_time()
        end = first + random.randrange(SOON_MS)
        acknowledged = self._history.partition(self._topic, self._number).acknowledged
        named = {
            number
            for value, number in acknowledged.items()
            if first <= oracle.waiting.get(number, -1) < end and self._history.timers[value].key == key
        }
        selection = Selection(key=key, due_from_ms=first, due_before_ms=end)
        changes, changes_led = oracle.changes, oracle.changes_led
        found = await self._ask(operation=CANCEL, selection=selection)
        if found is None:
            return
        left = named & oracle.waiting.keys()
        if found.error_code or (left and oracle.changes == changes == changes_led):
            raise InvariantViolation(f"arrivals {left} wait, and were cancelled by {selection}: {found}")

    async def _select_later(self) -> None:
        """Cancel all that is due after some time.  Schedules that occur sooner go on, as the history checks."""
        now_ms = BEGIN_MS + int(asyncio.get_running_loop().time() * 1_000)
        found = await self._ask(operation=CANCEL, selection=Selection(due_from_ms=now_ms + LATER_MS))
        if found is not None and found.error_code:
            raise InvariantViolation(f"the answer to cancelling all records that are due later is {found}")

    def _is_forbidden(self, found: timer_resolve.Response) -> bool:
        """Return whether an answer refuses to move a record to where its schedule would skip the occurrence."""
        refused = SKIPPED.match(found.error_message or "")
        if refused is None:
            return False
        schedule = self._oracle.arrivals[int(refused[1])].schedule
        if found.error_code != errors.INVALID_REQUEST or schedule is None or schedule.missed != "none":
            raise InvariantViolation(f"arrival {refused[1]} is not moved, and has the schedule {schedule}: {found}")
        return True

    @property
    def _oracle(self) -> TimerOracle:
        return self._history.oracles[self._number]

    def _any_arrival(self) -> int:
        """Return an arrival; most wait, and some are not there yet."""
        random, oracle = self._client.random, self._oracle
        if oracle.waiting and random.random() < 0.7:
            return random.choice([*oracle.waiting])
        return random.randrange(len(oracle.arrivals) + 3)

    def _was_far(self, number: int) -> bool:
        """Return whether an arrival has ever been due long after all that this simulation does."""
        oracle = self._oracle
        moves = (due for arrival, due in oracle.rescheduled if arrival == number)
        first = (it.due_ms for it in oracle.arrivals[number : number + 1])
        occurrence = (it.next_ms for it in (oracle.schedules.get(number),) if it is not None)
        return max(chain(first, moves, occurrence), default=0) > BEGIN_MS + FAR_MS

    def _any_time(self) -> int:
        now_ms = BEGIN_MS + int(asyncio.get_running_loop().time() * 1_000)
        return now_ms + self._client.random.randint(-SOON_MS // 2, SOON_MS)

    async def _ask(self, **fields: Any) -> timer_resolve.Response | None:
        """Return the leader's answer, a refusal as well, or None if the outcome is not known."""
        client = self._client
        topic_id = await client.topic_id(self._topic)
        request = timer_resolve.Request(topic_id=topic_id, partition=self._number, **fields)
        if request.operation == CANCEL:
            self._history.cancels[self._number].append(request)
        leader = await client.leader(self._topic, self._number)
        try:
            found: timer_resolve.Response = await (await client.connection(leader.address)).ask(request)
        except Unreachable:
            code = errors.NETWORK_EXCEPTION
        else:
            code = found.error_code
            if code in (errors.NONE, errors.INVALID_REQUEST):
                return found
        check_retriable(f"TimerResolve of {self._topic}-{self._number}", code)
        client.forget_leader(self._topic, self._number)
        await client.back_off()
        return None
