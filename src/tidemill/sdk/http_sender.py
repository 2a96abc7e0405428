"""Sends records over HTTP: those of a topic that wait while a request is in flight travel together in the next one.

begin ─▶ the queue of the topic ─▶ one request at a time ─▶ where each record is, or why it was not written

One request at a time keeps the order of a topic's records.  No record waits for company, so requests are small while
records are few, and large when they come fast.
"""

import asyncio
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from threading import Condition
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from tidemill.sdk.api_client import MAY_BE_WRITTEN, PAUSE_S, ApiClient
from tidemill.sdk.problems import BrokersUnavailable, OutcomeUnknown, RequestRefused, SendFailed
from tidemill.sdk.record import NewRecord, Sent
from tidemill.sdk.sender import FLUSH_S_MAX

BUFFERED_MAX: Final = 10_000  # records on their way; beyond it, `begin` raises BufferError
BUFFERED_BYTES_MAX: Final = 64 << 20  # of their JSON, likewise
RECORDS_MAX: Final = 1_000  # in a request, which a broker answers within a second: it takes 10,000
BODY_BYTES_MAX: Final = 512 << 10  # likewise: it takes 1 MiB; a larger record is a request of its own
OF_ONE_RECORD: Final = frozenset({400, 413})  # statuses of requests in which single records are wrong


class _Waiting(NamedTuple):
    json: bytes
    sent: "Future[Sent]"
    ends_at: float  # monotonic seconds: the record is sent no more


class HttpSender:
    """No record is sent again if a broker may have written it."""

    def __init__(self, api: ApiClient, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """A record fails if no request has taken it for `timeout_s`, and a request if no broker answers for so long."""
        self._api = api
        self._loop = loop
        self._timeout_s = timeout_s
        self._changed = Condition()  # guards the fields below; notified when nothing is on its way any more
        self._queues: dict[str, deque[_Waiting]] = {}  # by topic, while it has a request in flight
        self._count = 0  # of records on their way
        self._bytes = 0  # of their JSON
        self._is_closed = False
        self._sending: set[asyncio.Task[None]] = set()  # one for each topic; only the loop uses it

    def problem(self, _: NewRecord) -> str | None:
        """A record that brokers refuse is sent again without others, and fails alone."""
        return None

    def begin(self, record: NewRecord) -> "Future[Sent]":
        one = _Waiting(_encoded(record), Future(), monotonic() + self._timeout_s)
        one.sent.set_running_or_notify_cancel()  # the record is written even if its caller does not wait
        with self._changed:
            if self._is_closed:
                raise ValueError("the client is closed")
            is_full = self._count >= BUFFERED_MAX or self._bytes + len(one.json) > BUFFERED_BYTES_MAX
            if is_full and self._count:
                raise BufferError
            queue = self._queues.get(record.topic)
            if queue is None:
                queue = deque()
                self._loop.call_soon_threadsafe(self._start, record.topic, queue)
                self._queues[record.topic] = queue
            queue.append(one)
            self._count += 1
            self._bytes += len(one.json)
        return one.sent

    def flush(self, timeout_s: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: not self._count, timeout_s)
            return self._count

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
        left = self.flush(FLUSH_S_MAX)
        if left:
            asyncio.run_coroutine_threadsafe(self._abandon(), self._loop).result()
            raise SendFailed(f"{left} records were not written within {FLUSH_S_MAX:.0f} s; send them again")

    async def _abandon(self) -> None:
        """Let the records fail that are left: their callers may wait."""
        sending = [*self._sending]
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    def _start(self, topic: str, queue: deque[_Waiting]) -> None:
        task = self._loop.create_task(self._send_all(topic, queue))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_all(self, topic: str, queue: deque[_Waiting]) -> None:
        """Send the records of a topic until none waits."""
        part: Sequence[_Waiting] = ()
        now = 0.0  # no record is late without a request before it
        try:
            while part := self._next_part(topic, queue, now):
                await self._send(topic, part)
                now = monotonic()
        finally:
            with self._changed:
                left = [*queue]  # and `part`, if the client is closed meanwhile
                queue.clear()
                if self._queues.get(topic) is queue:
                    del self._queues[topic]
            closed = "the client was closed meanwhile"
            self._fail(topic, part, OutcomeUnknown(closed))
            self._fail(topic, left, BrokersUnavailable(closed))

    def _next_part(self, topic: str, queue: deque[_Waiting], now: float) -> Sequence[_Waiting]:
        """Return the records of the next request.  Without any, the topic is done: its next record starts it again."""
        part: list[_Waiting] = []
        late: list[_Waiting] = []
        size = 0
        with self._changed:
            while queue and len(part) < RECORDS_MAX and (not part or size + len(queue[0].json) <= BODY_BYTES_MAX):
                one = queue.popleft()
                if one.ends_at < now:
                    late.append(one)
                    continue
                part.append(one)
                size += len(one.json) + 1
            if not part:
                del self._queues[topic]
        behind = f"the requests before it have taken more than {self._timeout_s:g} s"
        self._fail(topic, late, BrokersUnavailable(behind))
        return part

    async def _send(self, topic: str, part: Sequence[_Waiting]) -> None:
        """
        Send records in their order, until each is written or has failed.  Where single records are wrong, the others
        are sent without them: halves of the request are tried, and halves of those.
        """
        ends_at = part[-1].ends_at
        parts = [part]  # those to be sent first are last
        while parts:
            part = parts.pop()
            try:
                refused = await self._request(topic, part, max(ends_at - monotonic(), 0))
            except Exception as problem:
                self._fail(topic, part, problem)
                continue
            left = [it for it in part if not it.sent.done()]
            if refused is None or not left:
                continue
            if refused.status in OF_ONE_RECORD and len(left) > 1:
                half = len(left) // 2
                parts += [left[half:], left[:half]]
            elif refused.status == 503 and not _may_be_written(refused) and monotonic() < ends_at:
                parts.append(left)
                await asyncio.sleep(PAUSE_S)
            else:
                self._fail(topic, left, refused)

    async def _request(self, topic: str, part: Sequence[_Waiting], timeout_s: float) -> RequestRefused | None:
        """Say where records are that were written, and return the refusal of the others.  Raise BrokersUnavailable."""
        path = f"/v1/topics/{quote(topic, safe='')}/records"
        body = {"records": [msgspec.Raw(it.json) for it in part]}
        try:
            response = await self._api.call("POST", path, body, is_repeatable=False, timeout_s=timeout_s)
        except RequestRefused as refused:
            written = refused.fields.get("written") or ()
            assert isinstance(written, Sequence), "as docs/http.md says"
            places = [None if it is None else Sent(topic, *it) for it in written]
            self._finish(part[: len(places)], places)
            return refused
        self._finish(part, [Sent(topic, it["partition"], it["offset"]) for it in response["records"]])
        return None

    def _fail(self, topic: str, part: Iterable[_Waiting], problem: Exception) -> None:
        failed = [it for it in part if not it.sent.done()]
        self._finish(failed, [_failed(topic, problem) for _ in failed])  # each is raised in a thread of its own

    def _finish(self, part: Sequence[_Waiting], outcomes: Sequence[Sent | Exception | None]) -> None:
        """Give each record its outcome; one with None is not finished."""
        count = size = 0
        for it, outcome in zip(part, outcomes, strict=True):
            if outcome is None:
                continue
            count += 1
            size += len(it.json)
            if isinstance(outcome, Exception):
                it.sent.set_exception(outcome)
            else:
                it.sent.set_result(outcome)
        with self._changed:
            self._count -= count
            self._bytes -= size
            if not self._count:
                self._changed.notify_all()


def _encoded(record: NewRecord) -> bytes:
    one: dict[str, object] = {}
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None:
            one[name] = _content(data)
    if record.headers:
        one["headers"] = [(name, None if data is None else _content(data)) for name, data in record.headers]
    if record.partition is not None:
        one["partition"] = record.partition
    if record.timestamp_ms is not None:
        one["timestamp"] = record.timestamp_ms
    return msgspec.json.encode(one)


def _content(data: bytes) -> object:
    return {"base64": b64encode(data).decode()}


def _may_be_written(problem: Exception) -> bool:
    if isinstance(problem, RequestRefused):
        is_unknown = problem.status >= 500 and problem.status != 503  # such as 504 of a proxy
        return is_unknown or problem.fields.get("error") in MAY_BE_WRITTEN
    return isinstance(problem, OutcomeUnknown) or not isinstance(problem, BrokersUnavailable)


def _failed(topic: str, problem: Exception) -> SendFailed:
    if _may_be_written(problem):
        found = SendFailed(
            f"a record may have been written to topic {topic}: {problem}; look for it before you send it again: it may "
            "be there twice then"
        )
    else:
        found = SendFailed(f"a record was not written to topic {topic}: {problem}")
    found.__cause__ = problem
    return found
