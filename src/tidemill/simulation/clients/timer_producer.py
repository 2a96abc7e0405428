"""Producers of a timer topic: one of records that may wait, and one of batches that must be refused.

Due times are given in each of the allowed forms.  Some have passed, many are equal, most are near, and some are far
away.  Timers of one partition share a few ids, so that records replace or cancel those of other producers.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import Header
from tidemill.model import errors
from tidemill.simulation.clients.client import BY_NAME, Client, Unreachable, check_retriable
from tidemill.simulation.clients.producer import Producer
from tidemill.simulation.clients.timer_history import SentTimer, TimerHistory
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.machine import BEGIN_MS
from tidemill.timer.due_time import DELAY, DELIVER_AT, DUE_MS_MAX, UNLIMITED
from tidemill.timer.timer_headers import ARRIVAL, CANCEL, ID_BYTES_MAX, TIMER_ID, TIMESTAMP
from tidemill.wire.messages import produce

IDS: Final = 6  # of timers in a partition
HOUR_MS: Final = 3_600_000
EQUAL_MS: Final = 250  # many records are due at whole multiples of this
CODECS: Final = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD)
_DIGITS_OF_FRACTION: Final = 9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

BAD_DELAYS: Final = (
    None,
    b"",
    b"-5",
    b"+5",
    b" 5",
    b"5 ",
    b"1.5s",
    b"1w",
    b"1S",
    b"five",
    b"0x10",
    b"1_000",
    "٣".encode(),
    b"9" * 18,
    b"1" * 19,
    b"999999999999d",
    b"1" * 65,
)
BAD_MOMENTS: Final = (
    None,
    b"",
    b"-62135596800001",  # before the year 1
    b"1700000000",
    b"253402300800000",
    b"1" * 19,
    b"NaN",
    b"2027-01-01",
    b"2027-01-01T00:00:00",
    b"2027-13-01T00:00:00Z",
    b"2027-02-30T00:00:00Z",
    b"2027-01-01T24:00:00Z",
    b"2027-01-01T00:60:00Z",
    b"2027-01-01T00:00:61Z",
    b"2027-01-01T00:00:00.Z",
    b"2027-01-01T00:00:00.1234567890Z",
    b"2027-01-01T00:00:00+24:00",
    b"2027-01-01T00:00:00+0100",
    b"Fri, 01 Jan 2027 00:00:00 GMT",
)


class TimerProducer(Producer):
    """An idempotent producer for one partition of a timer topic."""

    def __init__(
        self,
        client: Client,
        history: TimerHistory,
        topic: str,
        number: int,
        *,
        in_flight: int,
        acks: int,
        delay_ms_max: int = UNLIMITED,
        batches_max: int | None = None,
        are_near: bool = False,
    ) -> None:
        """`delay_ms_max` is that of the topic.  If `are_near`, every record is due soon."""
        super().__init__(
            client, history, topic, number, in_flight=in_flight, acks=acks, batches_max=batches_max, keys=3
        )
        self._timers = history
        self._delay_ms_max = delay_ms_max
        self._are_near = are_near

    def _codec(self) -> Codec:
        return self._client.random.choice(CODECS)

    def _next_record(self) -> RecordTuple:
        random = self._client.random
        key, value, _, now_ms = super()._next_record()
        assert value is not None, "records have values"
        headers, at_ms, delay_ms = self._due(now_ms)
        timer_id, only_cancels = None, False
        if random.random() < 0.25:
            timer_id = b"timer %d" % random.randrange(IDS)
            headers.append((TIMER_ID, timer_id))
            only_cancels = random.random() < 0.2
            if only_cancels:
                headers.append((CANCEL, random.choice((b"", None, b"yes"))))
        if random.random() < 0.2:
            headers.insert(random.randint(0, len(headers)), ("trace", random.choice((None, b"", b"\0\xff"))))
        if random.random() < 0.1:
            headers.insert(random.randint(0, len(headers)), (random.choice((ARRIVAL, TIMESTAMP)), b"7"))
        self._timers.timers[value] = SentTimer(key, headers, now_ms, at_ms, delay_ms, timer_id, only_cancels)
        return key, value, headers, now_ms

    def _due(self, now_ms: int) -> tuple[list[Header], int | None, int]:
        """Return headers, and what they mean: the due time, or None and the delay from the append time."""
        random = self._client.random
        kind = random.random() * (0.85 if self._are_near else 1)
        if kind < 0.1:
            return [], None, 0
        if kind < 0.4:
            return _delay(random.choice((0, 1, random.randrange(50), random.randrange(2_000))), random.randrange(3))
        if kind < 0.55:
            at_ms = now_ms + random.randint(-2_000, 2_000)
            return [(DELIVER_AT, b"%d" % at_ms)], at_ms, 0
        if kind < 0.7:
            at_ms = (now_ms // EQUAL_MS + random.randint(0, 4)) * EQUAL_MS
            return [(DELIVER_AT, b"%d" % at_ms)], at_ms, 0
        if kind < 0.85:
            at_ns = (now_ms + random.randint(-500, 2_000)) * 1_000_000 + random.randrange(1_000_000)
            text, at_ms = as_text(at_ns, random.randrange(_DIGITS_OF_FRACTION + 1), random.randint(-720, 840))
            return [(DELIVER_AT, text)], at_ms, 0
        if self._delay_ms_max != UNLIMITED:
            return _delay(self._delay_ms_max - random.randrange(HOUR_MS), 0)
        at_ms = random.choice((now_ms + 24 * HOUR_MS + random.randrange(HOUR_MS), DUE_MS_MAX))
        return [(DELIVER_AT, b"%d" % at_ms)], at_ms, 0


class RefusedProducer:
    """Sends batches of which one record has headers that are not valid, and checks that they are refused."""

    def __init__(
        self, client: Client, history: TimerHistory, topic: str, number: int, *, delay_ms_max: int = UNLIMITED
    ) -> None:
        self._client = client
        self._history = history
        self._topic = topic
        self._number = number
        self._delay_ms_max = delay_ms_max
        self._made = 0

    async def run(self, pause_s: Callable[[], float], is_over: Callable[[], bool]) -> None:
        """Run until `is_over` says so, and the last batch has been refused."""
        while not is_over():
            await self._send()
            await asyncio.sleep(pause_s())

    async def _send(self) -> None:
        random = self._client.random
        now_ms = BEGIN_MS + int(asyncio.get_running_loop().time() * 1_000)
        count = random.choice((1, 2, 4))
        bad = random.randrange(count)
        records: list[RecordTuple] = []
        for at in range(count):
            self._made += 1
            value = f"{self._client.name}/{self._topic}-{self._number}/{self._made}/".encode()
            self._history.refused.add(value)
            records.append((None, value, self._bad_headers() if at == bad else (), now_ms))
        data = memoryview(bytes(build_batch(records, codec=random.choice(CODECS))))
        code, index = errors.NETWORK_EXCEPTION, -1
        while code != errors.INVALID_RECORD:
            check_retriable(f"Produce of {records[bad][2]}", code)
            await self._client.back_off()
            code, index = await self._ask(data)
            if not code:
                raise InvariantViolation(f"a record with the headers {records[bad][2]} was accepted")
        if index != bad:
            raise InvariantViolation(f"record {bad} has the headers {records[bad][2]}, and record {index} is refused")
        self._history.refusals += 1

    async def _ask(self, data: memoryview) -> tuple[int, int]:
        """Send the batch once.  Return the error code, and the index of the record that is refused."""
        client = self._client
        leader = await client.leader(self._topic, self._number)
        partition = produce.Request.Topic.Partition(index=self._number, records=data)
        topic = produce.Request.Topic(name=self._topic, partition_data=[partition])
        request = produce.Request(transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=[topic])
        try:
            response = await (await client.connection(leader.address)).ask(request, BY_NAME)
        except Unreachable:
            client.forget_leader(self._topic, self._number)
            return errors.NETWORK_EXCEPTION, -1
        answer = response.responses[0].partition_responses[0]
        if answer.error_code != errors.INVALID_RECORD:
            client.forget_leader(self._topic, self._number)
            return answer.error_code, -1
        (refused,) = answer.record_errors
        return answer.error_code, refused.batch_index

    def _bad_headers(self) -> list[Header]:
        random = self._client.random
        moment = (DELIVER_AT, b"1800000000000")
        kinds: list[list[Header]] = [
            [(DELAY, random.choice(BAD_DELAYS))],
            [(DELIVER_AT, random.choice(BAD_MOMENTS))],
            [(random.choice((DELAY, DELIVER_AT)), b"\x80" + random.randbytes(random.randrange(40)))],
            [(DELAY, b"5"), moment],
            [moment, moment],
            [(CANCEL, b"")],
            [(TIMER_ID, random.choice((None, b"", b"i" * (ID_BYTES_MAX + 1))))],
            [(TIMER_ID, b"one"), (TIMER_ID, b"two"), (CANCEL, None)],
        ]
        if self._delay_ms_max != UNLIMITED:
            kinds.append([(DELAY, b"%d" % (self._delay_ms_max + 1))])
        return random.choice(kinds)


def _delay(delay_ms: int, form: int) -> tuple[list[Header], None, int]:
    """Return the header of a delay, in one of three forms."""
    if form == 2:
        delay_ms -= delay_ms % 1_000
        return [(DELAY, b"%ds" % (delay_ms // 1_000))], None, delay_ms
    return [(DELAY, b"%d" % delay_ms if form else b"%dms" % delay_ms)], None, delay_ms


def as_text(at_ns: int, digits: int, offset_minutes: int) -> tuple[bytes, int]:
    """
    Return a moment as in RFC 3339, with so many digits of its fraction, in the time zone of an offset; and the first
    whole millisecond that is not before it.
    """
    unit = 10 ** (_DIGITS_OF_FRACTION - digits)
    at_ns -= at_ns % unit
    second, fraction = divmod(at_ns, 10**_DIGITS_OF_FRACTION)
    local = _EPOCH + timedelta(seconds=second, minutes=offset_minutes)
    text = local.strftime("%Y-%m-%dT%H:%M:%S")
    if digits:
        text += "." + str(fraction).zfill(_DIGITS_OF_FRACTION)[:digits]
    sign, minutes = ("-", -offset_minutes) if offset_minutes < 0 else ("+", offset_minutes)
    text += f"{sign}{minutes // 60:02}:{minutes % 60:02}" if offset_minutes else "Z"
    return text.encode(), -(-at_ns // 1_000_000)
