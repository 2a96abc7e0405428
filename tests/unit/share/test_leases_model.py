"""`Leases` compared with a model that treats every offset on its own, after random sequences of events."""

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model import errors
from tidemill.model.back_off import BackOff, Growth
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement, AcknowledgementRefused
from tidemill.share.claim import Acquired
from tidemill.share.leases import Leases
from tidemill.share.record_status import NEVER_DELIVERED, Reason, RecordState, RecordStatus, Run
from tidemill.share.share import Share
from tidemill.share.share_settings import ShareSettings

OFFSETS = 6
SETTINGS = ShareSettings(
    lock_ms=100,
    delivery_limit=3,
    locks_max=4,
    back_off=BackOff(growth=Growth.CONSTANT, first_ms=70),
)


class Event(NamedTuple):
    kind: str
    member: str
    first: int
    end: int
    type: int


@dataclass
class ModelRecord:
    """One offset: its durable status, and at most one of a holder and an uncommitted decision."""

    durable: RecordStatus = NEVER_DELIVERED
    holder: str = ""
    deadline: int = 0
    count: int = 0  # the delivery count while the record is held
    decided: RecordStatus | None = None
    is_released: bool = False  # the decision is an expiry or the end of a session, so the record is available already

    def available(self, wall: int) -> int | None:
        """Return the delivery count if the record can be acquired, otherwise None."""
        status = self.decided if self.is_released else self.durable if self.decided is None else None
        if self.holder or status is None or status.state != RecordState.AVAILABLE or status.release_at > wall:
            return None
        return status.delivery_count

    def decide(self, status: RecordStatus, is_released: bool = False) -> RecordStatus:
        self.holder, self.decided, self.is_released = "", status, is_released
        return status

    def fail(self, release_at: int, is_released: bool) -> RecordStatus:
        if self.count >= SETTINGS.delivery_limit:
            return self.decide(RecordStatus(RecordState.ARCHIVED, self.count, reason=Reason.DELIVERY_LIMIT))
        return self.decide(RecordStatus(RecordState.AVAILABLE, self.count, release_at), is_released)


@dataclass
class Model:
    records: list[ModelRecord] = field(default_factory=lambda: [ModelRecord() for _ in range(OFFSETS)])
    start: int = 0
    window_end: int = 0

    def held(self, member: str = "") -> list[int]:
        return [
            offset
            for offset in range(self.start, OFFSETS)
            if self.records[offset].holder and member in ("", self.records[offset].holder)
        ]

    def available(self, wall: int) -> dict[int, int]:
        counts = {offset: self.records[offset].available(wall) for offset in range(self.start, OFFSETS)}
        return {offset: count for offset, count in counts.items() if count is not None}

    def acquire(self, member: str, first: int, end: int, now: int) -> dict[int, int]:
        """
        Acquire one offset after the other, up to the limit on locks.  A record whose last permitted delivery begins is
        acquired alone.
        """
        acquired: dict[int, int] = {}
        for offset, count in self.available(now).items():
            if not first <= offset < end or len(self.held()) >= SETTINGS.locks_max:
                continue
            is_last = count >= SETTINGS.delivery_limit - 1
            if is_last and acquired:
                continue
            acquired[offset] = count + 1
            one = self.records[offset]
            one.holder, one.deadline, one.count = member, now + SETTINGS.lock_ms, count + 1
            one.is_released = False
            self.window_end = max(self.window_end, offset + 1)
            if is_last:
                break
        return acquired

    def refusal(self, event: Event) -> int:
        for offset in range(max(event.first, self.start), event.end):
            if event.end > self.window_end:
                return errors.INVALID_REQUEST
            if self.records[offset].holder != event.member:
                return errors.INVALID_RECORD_STATE
        return errors.NONE

    def acknowledge(self, event: Event, now: int) -> dict[int, RecordStatus]:
        decided: dict[int, RecordStatus] = {}
        for offset in range(max(event.first, self.start), event.end):
            one = self.records[offset]
            match event.type:
                case Acknowledgement.RENEW:
                    one.deadline = now + SETTINGS.lock_ms
                case Acknowledgement.ACCEPT:
                    decided[offset] = one.decide(RecordStatus(RecordState.ACKNOWLEDGED, one.count))
                case Acknowledgement.REJECT:
                    rejected = RecordStatus(RecordState.ARCHIVED, one.count, reason=Reason.REJECTED)
                    decided[offset] = one.decide(rejected)
                case _:
                    decided[offset] = one.fail(now + 70, is_released=False)
        return decided

    def archive(self, first: int, end: int) -> dict[int, RecordStatus]:
        available = self.available(1 << 62)
        return {
            offset: self.records[offset].decide(RecordStatus(RecordState.ARCHIVED, available[offset]))
            for offset in range(first, end)
            if offset in available
        }

    def commit(self, decided: dict[int, RecordStatus]) -> None:
        for offset, status in decided.items():
            if offset < self.start:
                continue
            one = self.records[offset]
            one.durable = status
            if one.decided == status and not one.holder:
                one.decided, one.is_released = None, False
        self.advance()

    def advance(self) -> None:
        while self.start < OFFSETS and self.records[self.start].durable.is_finished:
            self.start += 1


def by_offset(runs: list[Run]) -> dict[int, RecordStatus]:
    decided = [(offset, run.value) for run in runs for offset in range(run.first, run.end)]
    assert len(decided) == len(dict(decided)), "one decision for each offset"
    return dict(decided)


def listed(acquired: list[Acquired]) -> dict[int, int]:
    return {offset: one.delivery_count for one in acquired for offset in range(one.first, one.end)}


EVENTS = st.builds(
    lambda kind, member, first, length, type_: Event(kind, member, first, min(first + length, OFFSETS), type_),
    st.sampled_from(
        ["acquire", "acquire", "acquire", "say", "say", "say", "commit", "wait", "leave", "archive", "retain"]
    ),
    st.sampled_from("ab"),
    st.integers(0, OFFSETS - 1),
    st.integers(1, OFFSETS),
    st.sampled_from(Acknowledgement),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, min_size=10, max_size=80))
def test_leases_agree_with_a_model_of_single_offsets(events: list[Event]) -> None:
    """
    After any events, every offset is held, decided or available as in the model, and each event leads to the same
    acquisitions, decisions and refusals.
    """
    share = Share(number=1, group="g", incarnation=1, state_epoch=0, start=0)
    leases, model = Leases(share, SETTINGS, lambda: 0.0), Model()
    rows: list[list[Run]] = []
    now = 0
    for event in events:
        decided: list[Run] = []
        match event.kind:
            case "acquire":
                got = leases.acquire(
                    event.member,
                    [(event.first, event.end)],
                    records_max=99,
                    batch_size=99,
                    is_limit_strict=False,
                    now=now,
                    wall=now,
                )
                assert model.acquire(event.member, event.first, event.end, now) == listed(got)
            case "say" | "say held":
                held = model.held(event.member)
                if event.kind == "say held" and held:
                    offset = held[event.first % len(held)]
                    event = event._replace(first=offset, end=offset + 1)
                said = [AcknowledgedRange(event.first, event.end, event.type)]
                refusal = model.refusal(event)
                try:
                    decided = leases.acknowledge(event.member, said, now=now, wall=now)
                except AcknowledgementRefused as refused:
                    assert refusal == refused.code
                else:
                    assert errors.NONE == refusal
                    assert model.acknowledge(event, now) == by_offset(decided)
            case "wait":
                now += 15 * event.end
                decided = leases.expire(now=now, wall=now)
                late = [offset for offset in model.held() if model.records[offset].deadline <= now]
                expired = {offset: model.records[offset].fail(now + 70, is_released=True) for offset in late}
                assert expired == by_offset(decided)
            case "leave":
                decided = leases.leave(event.member)
                left = {o: model.records[o].fail(0, is_released=True) for o in model.held(event.member)}
                assert left == by_offset(decided)
            case "archive":
                decided = leases.archive(event.first, event.end)
                assert model.archive(event.first, event.end) == by_offset(decided)
            case "commit" if rows:
                row = rows.pop(0)
                share.set_runs(row)
                leases.committed(row)
                model.commit(by_offset(row))
            case "retain" if event.type == Acknowledgement.RENEW:
                share.log_starts_at(event.first)
                leases.start_moved()
                model.start = max(model.start, event.first)
                model.advance()
        if decided:
            rows.append(decided)
        assert model.start == share.start
        assert len(model.held()) == leases.held_count <= SETTINGS.locks_max
        found: dict[int, int] = {}
        offset = 0
        while one := leases.next_available(offset, OFFSETS, now):
            found |= dict.fromkeys(range(one.first, one.end), one.value)
            offset = one.end
        assert model.available(now) == found
