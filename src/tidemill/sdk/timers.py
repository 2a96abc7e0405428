"""The records that wait in a timer topic, for threads."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

from tidemill.sdk.async_timers import PAGE_MAX, AsyncTimers, Id, Waiting
from tidemill.sdk.durations import Duration


class Timers:
    """
    The records that wait in one topic; threads may share it.

    Every method raises RequestRefused, such as for a topic of another kind, or BrokersUnavailable.
    """

    def __init__(self, timers: AsyncTimers, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.topic = timers.topic
        self._timers = timers
        self._call = call

    def list(
        self,
        *,
        timer_id: Id | None = None,
        key: str | bytes | None = None,
        key_prefix: str | bytes | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        partition: int | None = None,
        limit: int = PAGE_MAX,
        values: bool = False,
    ) -> list[Waiting]:
        """
        Return records that wait, in the order in which they are due: those with all of these properties.

        Args:
            limit: Return at most so many records.
            values: Whether the records have their values.
        """
        found: list[Waiting] = self._call(
            self._timers.list(
                timer_id=timer_id,
                key=key,
                key_prefix=key_prefix,
                due_from=due_from,
                due_before=due_before,
                partition=partition,
                limit=limit,
                values=values,
            )
        )
        return found

    def cancel(
        self,
        *records: Waiting,
        timer_id: Id | Sequence[Id] | None = None,
        key: str | bytes | None = None,
        key_prefix: str | bytes | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        partition: int | None = None,
        all: bool = False,
    ) -> int:
        """
        Cancel records that wait, and return how many: they are never delivered.

        Choose `records`, those with one or several ids, or those with all of the other properties.  To choose all
        records, of the topic or of a partition, set `all`.  What was released or cancelled before is not counted.
        """
        count: int = self._call(
            self._timers.cancel(
                *records,
                timer_id=timer_id,
                key=key,
                key_prefix=key_prefix,
                due_from=due_from,
                due_before=due_before,
                partition=partition,
                all=all,
            )
        )
        return count

    def reschedule(
        self,
        *records: Waiting,
        at: datetime | None = None,
        delay: Duration | None = None,
        shift: Duration | None = None,
        timer_id: Id | Sequence[Id] | None = None,
        key: str | bytes | None = None,
        key_prefix: str | bytes | None = None,
        due_from: datetime | None = None,
        due_before: datetime | None = None,
        partition: int | None = None,
        all: bool = False,
    ) -> int:
        """
        Change when records that wait are due, and return how many.  Choose them as in `cancel`.

        Args:
            at: When they are due.
            delay: How much later than now, by the clock of the brokers.
            shift: How much later than now set, or earlier: such as `"-5m"`.
        """
        count: int = self._call(
            self._timers.reschedule(
                *records,
                at=at,
                delay=delay,
                shift=shift,
                timer_id=timer_id,
                key=key,
                key_prefix=key_prefix,
                due_from=due_from,
                due_before=due_before,
                partition=partition,
                all=all,
            )
        )
        return count

    def stats(self) -> dict[str, Any]:
        """Return how much waits in the topic and in each partition, as `GET /v1/topics/{topic}/timers/stats` does."""
        found: dict[str, Any] = self._call(self._timers.stats())
        return found
