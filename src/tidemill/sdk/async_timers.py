"""The records that wait in a timer topic, for asyncio: they are listed, cancelled and rescheduled."""

import reprlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from tidemill.model.delayed_record import DUE_MS_MAX
from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.delays import moment
from tidemill.sdk.durations import Duration, milliseconds
from tidemill.sdk.json_text import bytes_of, headers_of, time_of
from tidemill.sdk.utf8 import utf8

PAGE_MAX: Final = 1_000  # records in a response
Id = str | bytes


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """
    A record that waits.

    `arrival` is its number in its partition.  `value` is None, too, if values were not asked for.
    """

    topic: str
    partition: int
    arrival: int
    due: datetime
    timer_id: bytes | None
    timestamp: datetime | None
    size: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class AsyncTimers:
    """
    The records that wait in one topic.

    Every method raises RequestRefused, such as for a topic of another kind, or BrokersUnavailable.
    """

    def __init__(self, api: ApiClient, topic: str) -> None:
        self.topic = topic
        self._api = api
        self._path = f"/v1/topics/{quote(topic, safe='')}/timers"

    async def list(
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

        Raise ValueError for an id or a key that is not UTF-8, and TypeError for several ids: only `cancel` and
        `reschedule` choose by these.
        """
        _check_limit(limit)
        of_id, of_key = _query_text("timer_id", timer_id), _query_text("key", key)
        of_prefix = _query_text("key_prefix", key_prefix)
        chosen: dict[str, object] = {
            **_selection(of_id, of_key, of_prefix, due_from, due_before, partition),
            **({"values": "true"} if values else {}),
        }
        found: list[Waiting] = []
        while len(found) < limit:
            query = urlencode({**chosen, "limit": min(limit - len(found), PAGE_MAX)})
            page = await self._api.call("GET", f"{self._path}?{query}")
            found += [_waiting(self.topic, it) for it in page["records"]]
            if page["cursor"] is None:
                break
            chosen["cursor"] = page["cursor"]
        return found

    async def cancel(
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

        Raise ValueError for records of another topic, whose numbers other records have here, and for text that UTF-8
        cannot represent.
        """
        _check_records(self.topic, records)
        body = _choice(records, timer_id, key, key_prefix, due_from, due_before, partition, is_all=all)
        response = await self._api.call("POST", f"{self._path}:cancel", body)
        count: int = response["cancelled"]
        return count

    async def reschedule(
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
        _check_records(self.topic, records)
        times: dict[str, object] = {}
        if at is not None:
            times["at"] = moment(at)
        if delay is not None:
            times["delay"] = milliseconds("delay", delay, at_most_ms=DUE_MS_MAX)
        if shift is not None:
            times["shift"] = milliseconds("shift", shift, at_least_ms=-DUE_MS_MAX, at_most_ms=DUE_MS_MAX)
        if len(times) != 1:
            raise ValueError(f"at={at!r}, delay={delay!r}, shift={shift!r}: give exactly one of them")
        body = _choice(records, timer_id, key, key_prefix, due_from, due_before, partition, is_all=all) | times
        response = await self._api.call("POST", f"{self._path}:reschedule", body, is_repeatable=shift is None)
        count: int = response["rescheduled"]
        return count

    async def stats(self) -> dict[str, Any]:
        """Return how much waits in the topic and in each partition, as `GET /v1/topics/{topic}/timers/stats` does."""
        found: dict[str, Any] = await self._api.call("GET", f"{self._path}/stats")
        return found


def _check_records(topic: str, records: Sequence[object]) -> None:
    """
    Raise TypeError for what is no record, and ValueError for a record of another topic: its number names another record
    of this one.
    """
    for it in records:
        if not isinstance(it, Waiting):
            raise TypeError(
                f"{reprlib.repr(it)}: use timer_id=…, or pass records of list with *, such as cancel(*records)"
            )
        if it.topic != topic:
            raise ValueError(
                f"arrival {it.arrival} of partition {it.partition} is a record of topic {it.topic}, not of {topic}: "
                f"use mill.timers({it.topic!r})"
            )


def _check_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"limit={limit!r}: use a number of records")
    if limit < 0:
        raise ValueError(f"limit={limit}: use a number of records, from 0 on")


def _query_text(name: str, content: str | bytes | None) -> str | None:
    """
    Return text for a query, which cannot say other bytes.  Raise ValueError or TypeError, which name the argument.
    """
    if content is None:
        return None
    if isinstance(content, str):
        return utf8(f"{name}={content!r}", content).decode()
    if not isinstance(content, bytes):
        several = "; list chooses by one id only" if name == "timer_id" else ""
        raise TypeError(f"{name}={reprlib.repr(content)}: use text or bytes{several}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}={content!r}: list chooses by UTF-8 only; leave it out, and compare here") from error


def _selection(
    timer_id: str | None,
    key: object,
    key_prefix: object,
    due_from: datetime | None,
    due_before: datetime | None,
    partition: int | None,
) -> dict[str, object]:
    fields = {
        "id": timer_id,
        "key": key,
        "key_prefix": key_prefix,
        "due_from": None if due_from is None else moment(due_from, name="due_from"),
        "due_before": None if due_before is None else moment(due_before, name="due_before"),
        "partition": partition,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _choice(
    records: Sequence[Waiting],
    timer_id: Id | Sequence[Id] | None,
    key: str | bytes | None,
    key_prefix: str | bytes | None,
    due_from: datetime | None,
    due_before: datetime | None,
    partition: int | None,
    *,
    is_all: bool,
) -> dict[str, object]:
    """Return the body that chooses records.  A broker refuses one that chooses in two ways."""
    body = _selection(None, _text("key", key), _text("key_prefix", key_prefix), due_from, due_before, partition)
    if records:
        body["arrivals"] = [[it.partition, it.arrival] for it in records]
    if timer_id is not None:
        ids = timer_id if isinstance(timer_id, Iterable) and not isinstance(timer_id, str | bytes) else [timer_id]
        body["ids"] = [_text("timer_id", it) for it in ids]
    if is_all:
        body["all"] = True
    return body


def _text(name: str, content: str | bytes | None) -> object:
    """Return text or bytes for a body.  Raise ValueError or TypeError, which name the argument."""
    if isinstance(content, bytes):
        return {"base64": b64encode(content).decode()}
    if isinstance(content, str):
        return utf8(f"{name}={content!r}", content).decode()
    if content is not None:
        raise TypeError(f"{name}={reprlib.repr(content)}: use text or bytes")
    return None


def _waiting(topic: str, found: Mapping[str, Any]) -> Waiting:
    return Waiting(
        topic=topic,
        partition=found["partition"],
        arrival=found["arrival"],
        due=_time(found["due"]),
        timer_id=bytes_of(found["timer_id"]),
        timestamp=time_of(found["timestamp"]),
        size=found["size"],
        key=bytes_of(found["key"]),
        value=bytes_of(found.get("value")),
        headers=headers_of(found["headers"]),
    )


def _time(milliseconds_since_epoch: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds_since_epoch)
