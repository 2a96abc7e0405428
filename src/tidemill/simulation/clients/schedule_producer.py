"""Producers of recurring records, which replace and cancel each other's by their ids.

The short schedules recur every few seconds, and are cancelled before a simulated run lets hours pass.  The long ones
recur a bounded number of times within those hours.  Some begin in the past, so that occurrences were missed.
"""

from typing import Final

from tidemill.batches.builder import RecordTuple
from tidemill.batches.compression import Codec
from tidemill.batches.records import Header
from tidemill.simulation.clients.client import Client
from tidemill.simulation.clients.producer import Producer
from tidemill.simulation.clients.schedule_oracle import schedule_of
from tidemill.simulation.clients.timer_history import SentTimer, TimerHistory
from tidemill.simulation.clients.timer_producer import CODECS, IDS
from tidemill.timer.due_time import DELAY, DELIVER_AT
from tidemill.timer.timer_headers import CANCEL, MISSED, SCHEDULE, TIMER_ID, TIMEZONE

SHORT_IDS: Final = tuple(b"short %d" % it for it in range(3))
LONG_IDS: Final = tuple(b"long %d" % it for it in range(3))
SHORT: Final = (b"every 1s", b"every 1s", b"every 2s", b"every 3s")
LONG: Final = (b"every 300s", b"every 7m", b"every 1h")
# In each of the zones, an expression matches at least every six hours, which is less than a topic's longest delay.
CRONS: Final = (
    (b"cron */10 * * * *", None),
    (b"cron 0,5,30 * * * *", b"Asia/Kathmandu"),
    (b"cron 15 */6 * * *", b"Australia/Lord_Howe"),
    (b"cron 30-50/7 * * * *", b"America/St_Johns"),
    (b"cron 0 * * * *", b"Europe/Berlin"),
)
MISSED_VALUES: Final = (None, b"one", b"all", b"none")
PAST_MS_MAX: Final = 1_800_000  # of the begin of a long schedule


class ScheduleProducer(Producer):
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
        batches_max: int | None = None,
        may_leap: bool = False,
    ) -> None:
        """`may_leap`: the time may leap by an hour, so no short schedule makes up for all occurrences."""
        super().__init__(
            client, history, topic, number, in_flight=in_flight, acks=acks, batches_max=batches_max, keys=3
        )
        self._timers = history
        self._may_leap = may_leap

    def _codec(self) -> Codec:
        return self._client.random.choice(CODECS)

    def _next_record(self) -> RecordTuple:
        random = self._client.random
        key, value, _, now_ms = super()._next_record()
        assert value is not None, "records have values"
        is_short, kind = random.random() < 0.5, random.random()
        timer_id = random.choice(SHORT_IDS if is_short else (*LONG_IDS, b"timer %d" % random.randrange(IDS)))
        headers: list[Header] = [(TIMER_ID, timer_id)]
        at_ms, delay_ms = None, 0
        if kind < 0.8:
            headers += self._schedule(is_short)
            if random.random() < 0.5:
                past_ms = random.randrange(5_000 if is_short else PAST_MS_MAX)
                at_ms = now_ms + random.choice((-past_ms, -past_ms, random.randrange(2_000)))
                headers.append((DELIVER_AT, b"%d" % at_ms))
        elif kind < 0.9:
            headers.append((CANCEL, b""))
        else:
            delay_ms = random.randrange(2_000)
            headers.append((DELAY, b"%d" % delay_ms))
        random.shuffle(headers)
        only_cancels, schedule = 0.8 <= kind < 0.9, schedule_of(dict(headers))
        self._timers.timers[value] = SentTimer(key, headers, now_ms, at_ms, delay_ms, timer_id, only_cancels, schedule)
        return key, value, headers, now_ms

    def _schedule(self, is_short: bool) -> list[Header]:
        random, zone = self._client.random, None
        missed = random.choice(MISSED_VALUES)
        if is_short:
            text = random.choice(SHORT)
            missed = b"one" if missed == b"all" and self._may_leap else missed
        else:
            text, zone = random.choice((*CRONS, *((it, None) for it in LONG)))
        headers = [(SCHEDULE, text), (TIMEZONE, zone), (MISSED, missed)]
        return [(name, content) for name, content in headers if content is not None]
