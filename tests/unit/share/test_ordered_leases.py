"""`Leases` of shares with an order or priorities, compared with rules for single offsets."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.back_off import BackOff, Growth
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement, AcknowledgementRefused
from tidemill.share.blockage import blocked_by
from tidemill.share.claim import Acquired, Decided, Held
from tidemill.share.leases import Leases
from tidemill.share.opened_batches import PRIORITY_DEFAULT, OpenedBatches, OpenedRecord
from tidemill.share.record_status import RecordState, Run
from tidemill.share.share import Share
from tidemill.share.share_settings import Mode, Order, ShareSettings

OFFSETS = 8
LOCK_MS = 100
DELAY_MS = 70


class ShareWorld:
    """A share whose records have keys and priorities, and its uncommitted rows."""

    def __init__(self, keys: Sequence[int | None], priorities: Sequence[int] | None = None, **changed: Any) -> None:
        self.keys = keys
        self.priorities = priorities or [PRIORITY_DEFAULT] * len(keys)
        self.share = Share(number=1, group="g", incarnation=1, state_epoch=0, start=0)
        given: dict[str, Any] = {"order": Order.KEY, "lock_ms": LOCK_MS, "delivery_limit": 5, **changed}
        self.leases = Leases(self.share, ShareSettings(**given), lambda: 0.0)
        self.rows: list[list[Run]] = []
        self.now = 0

    def open(self, end: int) -> None:
        """Extend the look-ahead up to `end`."""
        look_ahead = self.leases.availability.look_ahead
        assert look_ahead is not None
        start = self.leases.availability.unopened(end)
        records = [OpenedRecord(it, self.keys[it], self.priorities[it]) for it in range(start, end)]
        self.leases.availability.opened(OpenedBatches(end, records))

    def acquire(self, member: str = "m", count: int = 99, batches: Sequence[tuple[int, int]] = ((0, 99),)) -> list[int]:
        got = self.leases.acquire(
            member, batches, records_max=count, batch_size=99, is_limit_strict=True, now=self.now, wall=self.now
        )
        assert got == sorted(got), "acquired ranges ascend"
        return offsets_of(got)

    def say(self, kind: Acknowledgement, *offsets: int, member: str = "m") -> None:
        said = [AcknowledgedRange(offset, offset + 1, kind) for offset in offsets]
        self.propose(self.leases.acknowledge(member, said, now=self.now, wall=self.now))

    def propose(self, runs: list[Run]) -> None:
        if runs:
            self.rows.append(runs)

    def commit(self) -> None:
        while self.rows:
            self.commit_one()

    def commit_one(self) -> None:
        row = self.rows.pop(0)
        self.share.set_runs(row)
        self.leases.committed(row)

    def finish(self, *offsets: int) -> None:
        self.say(Acknowledgement.ACCEPT, *offsets)
        self.commit()

    def available(self) -> list[int]:
        found: list[int] = []
        offset = 0
        while one := self.leases.next_available(offset, len(self.keys), self.now):
            found += range(one.first, one.end)
            offset = one.end
        return found

    def unfinished(self) -> list[int]:
        runs = self.share.runs
        offsets = range(self.share.start, len(self.keys))
        return [offset for offset in offsets if runs.get(offset).state == RecordState.AVAILABLE]

    def in_flight(self) -> list[int]:
        claims = [it for it in self.leases._claims if not (isinstance(it.value, Decided) and it.value.is_available)]
        return [offset for it in claims for offset in range(it.first, it.end)]

    def is_ready(self, offset: int) -> bool:
        """Return whether a record could be acquired if there were no order."""
        claim = self.leases._claims.get(offset)
        if isinstance(claim, Held) or (isinstance(claim, Decided) and not claim.is_available):
            return False
        status = self.share.runs.get(offset) if claim is None else claim.status
        return status.state == RecordState.AVAILABLE and status.release_at <= self.now


def offsets_of(acquired: list[Acquired]) -> list[int]:
    return [offset for one in acquired for offset in range(one.first, one.end)]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["acquire", "acquire", "acquire", "say", "say", "say", "commit", "wait", "leave", "retain", "open"]
        ),
        st.sampled_from("ab"),
        st.integers(0, OFFSETS - 1),
        st.sampled_from([one for one in Acknowledgement if one != Acknowledgement.RENEW]),
    ),
    min_size=10,
    max_size=60,
)


def play(world: ShareWorld, event: tuple[str, str, int, Acknowledgement]) -> None:
    kind, member, number, said = event
    match kind:
        case "acquire":
            world.acquire(member, number + 1)
        case "say":
            mine = [offset for offset in world.in_flight() if is_held_by(world, offset, member)]
            if mine:
                world.say(said, mine[number % len(mine)], member=member)
            else:
                with pytest.raises(AcknowledgementRefused):
                    world.say(said, len(world.keys) - 1, member=member)
        case "commit" if world.rows:
            world.commit_one()
        case "wait":
            world.now += 15 * number
            world.propose(world.leases.expire(now=world.now, wall=world.now))
        case "leave":
            world.propose(world.leases.leave(member))
        case "retain" if number < 3:
            world.share.log_starts_at(number)
            world.leases.start_moved()
        case "open" if world.leases.availability.look_ahead is not None:
            world.open(max(world.leases.availability.look_ahead.end, number + 1))


def is_held_by(world: ShareWorld, offset: int, member: str) -> bool:
    claim = world.leases._claims.get(offset)
    return isinstance(claim, Held) and claim.member == member


@settings(max_examples=300)
@given(st.lists(st.sampled_from([None, 1, 2, 3]), min_size=OFFSETS, max_size=OFFSETS), EVENTS, st.booleans())
def test_one_record_of_a_key_at_a_time(
    keys: list[int | None], events: list[tuple[str, str, int, Acknowledgement]], has_dead_letters: bool
) -> None:
    """
    After any events, a known record can be acquired exactly if it could without an order and every earlier record of
    its key is finished or dead.  So no two records of a key are in flight, and nothing that could be delivered waits.
    """
    back_off = BackOff(growth=Growth.CONSTANT, first_ms=DELAY_MS)
    world = ShareWorld(keys, delivery_limit=3, back_off=back_off, has_dead_letters=has_dead_letters)
    world.open(3)
    for event in events:
        if event[0] == "say" and not any(is_held_by(world, it, event[1]) for it in world.in_flight()):
            continue
        play(world, event)

        look_ahead = world.leases.availability.look_ahead
        assert look_ahead is not None
        unfinished = world.unfinished()
        waiting = {
            it for it in unfinished if keys[it] is not None and keys[it] in [keys[o] for o in unfinished if o < it]
        }
        known = range(world.share.start, look_ahead.end)
        assert [it for it in known if world.is_ready(it) and it not in waiting] == world.available()
        flying = [keys[it] for it in world.in_flight() if keys[it] is not None and it >= world.share.start]
        assert len(flying) == len(set(flying)), "one record of each key is in flight"


@settings(max_examples=200)
@given(EVENTS)
def test_partition_order_has_one_batch_in_flight(events: list[tuple[str, str, int, Acknowledgement]]) -> None:
    """
    After any events: while a record is held or pending, none can be acquired; else exactly those before the first
    delayed one, and an acquisition takes records of one batch.
    """
    back_off = BackOff(growth=Growth.CONSTANT, first_ms=DELAY_MS)
    world = ShareWorld([None] * OFFSETS, order=Order.PARTITION, delivery_limit=3, back_off=back_off)
    for event in events:
        if event[0] == "say" and not any(is_held_by(world, it, event[1]) for it in world.in_flight()):
            continue
        if event[0] == "acquire":
            got = world.acquire(event[1], batches=[(0, 3), (3, 6), (6, OFFSETS)])
            assert len({offset // 3 for offset in got}) <= 1
        else:
            play(world, event)

        expected: list[int] = []
        if not world.in_flight():
            for offset in world.unfinished():
                if not world.is_ready(offset):
                    break
                expected.append(offset)
        assert expected == world.available()


def test_a_delayed_record_blocks_its_key_only() -> None:
    """
    While the first record of a key is delayed, the others of its key wait, and those of other keys are delivered.
    """
    world = ShareWorld([1, 1, 2, None], back_off=BackOff(growth=Growth.CONSTANT, first_ms=DELAY_MS))
    world.open(4)
    assert [0, 2, 3] == world.acquire()
    world.say(Acknowledgement.RELEASE, 0)
    world.finish(2, 3)

    assert [] == world.available()
    world.now += DELAY_MS
    assert [0] == world.acquire()
    world.finish(0)
    assert [1] == world.acquire()


def test_a_dead_record_unblocks_its_key() -> None:
    """
    A rejected record blocks its key until the rejection commits, and not until its dead letter is written.
    """
    world = ShareWorld([1, 1], has_dead_letters=True)
    world.open(2)
    world.acquire()
    world.say(Acknowledgement.REJECT, 0)
    assert [] == world.acquire()
    world.commit()

    assert RecordState.ARCHIVING == world.share.runs.get(0).state
    assert [1] == world.acquire()


def test_the_look_ahead_begins_at_the_first_available_record() -> None:
    """
    Records that are held do not use up the look-ahead, so that a slow consumer stops only its keys.  Records that wait
    for a hot key do, which bounds the memory.
    """
    world = ShareWorld([1, *[2] * 9], look_ahead=3)
    world.open(world.leases.availability.look_ahead_end(10, 0))
    assert world.leases.availability.look_ahead is not None and 3 == world.leases.availability.look_ahead.end

    assert [0, 1] == world.acquire()
    assert 5 == world.leases.availability.look_ahead_end(10, 0)
    world.open(5)
    assert [] == world.acquire()
    assert 5 == world.leases.availability.look_ahead_end(10, 0)
    world.finish(1)
    assert [2] == world.acquire()
    assert 6 == world.leases.availability.look_ahead_end(10, 0)


def test_finished_records_are_not_opened() -> None:
    """
    A new leader does not open what is finished, and the records of a key wait only for unfinished ones.
    """
    world = ShareWorld([1, 1, 2, 1, 3])
    world.share.set_runs([Run(1, 3, world.share.runs.default._replace(state=RecordState.ACKNOWLEDGED))])
    world.open(1)
    assert 3 == world.leases.availability.unopened(5)
    world.leases = Leases(world.share, world.leases.settings, lambda: 0.0)
    world.open(5)

    assert [0, 4] == world.available()


def test_priorities_order_the_acquisition() -> None:
    """
    The highest priority goes first, the smallest offset first within one; an acquisition ends at the first record
    whose batch was not read.
    """
    world = ShareWorld([None] * 6, [4, 9, 4, 0, 9, 5], order=Order.NONE, is_prioritized=True)
    world.open(6)

    assert [1] == world.acquire(count=1)
    assert [] == world.acquire(batches=[(0, 4)])  # the next one, 4, is not in these batches
    assert [0, 4, 5] == world.acquire(count=3)
    assert [2, 3] == world.acquire()


def test_every_tenth_acquisition_is_by_offset() -> None:
    """
    A record with a low priority is delivered although records with a higher one never end.
    """
    count = 40
    world = ShareWorld([None] * count, [0, *[9] * (count - 1)], order=Order.NONE, is_prioritized=True)
    world.open(count)

    got = [world.acquire(count=1)[0] for _ in range(11)]

    assert [*range(1, 10), 0, 10] == got


def test_priorities_and_keys_together() -> None:
    """
    A record with a high priority does not pass an earlier record of its key.
    """
    world = ShareWorld([1, 1, 2], [4, 9, 5], is_prioritized=True)
    world.open(3)

    assert [2] == world.acquire(count=1)
    assert [0] == world.acquire(count=1)
    assert [] == world.acquire(count=1)
    world.finish(0)
    assert [1] == world.acquire(count=1)


def test_an_order_of_the_partition_ignores_priorities() -> None:
    """
    The order of all records leaves nothing to choose.
    """
    world = ShareWorld([None] * 4, [4, 4, 9, 9], order=Order.PARTITION, is_prioritized=True)

    assert [0, 1] == world.acquire(batches=[(0, 2), (2, 4)])


def test_one_member_of_an_exclusive_share_acquires() -> None:
    """
    Another member acquires when the active one has lost a lock, and holds nothing more.
    """
    world = ShareWorld([None] * 4, order=Order.NONE, mode=Mode.EXCLUSIVE)
    assert [0] == world.acquire("a", 1)
    world.now += 50
    assert [] == world.acquire("b", 1)
    assert [1] == world.acquire("a", 1)

    world.now += 50
    world.propose(world.leases.expire(now=world.now, wall=world.now))
    assert [] == world.acquire("b", 1)  # `a` still holds offset 1
    world.say(Acknowledgement.ACCEPT, 1, member="a")
    assert [0] == world.acquire("b", 1)
    world.propose(world.leases.leave("b"))
    assert [0] == world.acquire("a", 1)


def test_a_silent_active_member_is_replaced() -> None:
    """
    The active member is replaced if it holds nothing and does not fetch for a lock duration.  A member that works on a
    record is not silent, and neither is one while nothing is available.
    """
    world = ShareWorld([None] * 2, order=Order.NONE, mode=Mode.EXCLUSIVE)

    def passes(duration_ms: int, *, has_fetch: bool = False, end: int = 2) -> bool:
        world.now += duration_ms
        return world.leases.replaces_silent(has_fetch=has_fetch, end=end, now=world.now, wall=world.now)

    world.acquire("a", 1)
    assert not passes(0) and not passes(2 * LOCK_MS)
    world.say(Acknowledgement.ACCEPT, 0, member="a")
    world.commit()
    assert not passes(2 * LOCK_MS, end=1)
    assert not passes(2 * LOCK_MS, has_fetch=True)
    assert not passes(1)
    assert [] == world.acquire("b")
    assert str(blocked_by(world.share, world.leases, 2)).startswith("a has no fetch waiting, and tidemill.share.mode")
    assert not passes(LOCK_MS - 1)
    assert passes(1)
    assert blocked_by(world.share, world.leases, 2) is None
    assert [1] == world.acquire("b", 1)


def test_a_change_of_the_order_waits_for_what_is_held() -> None:
    """
    After a change, nothing is acquired until the records that are held then are finished or released.
    """
    world = ShareWorld([1, 1, 2], order=Order.NONE)
    assert [0, 1] == world.acquire(count=2)
    world.leases.configure(ShareSettings(order=Order.KEY, lock_ms=LOCK_MS))
    world.open(3)
    assert [] == world.acquire()
    world.finish(1)
    assert [] == world.acquire()
    world.finish(0)

    assert [2] == world.acquire()


def test_nothing_is_acquired_before_the_wait_after_a_failover_is_over() -> None:
    """
    The wait ends once, at the given time.
    """
    world = ShareWorld([1])
    world.open(1)
    world.leases.resume_at = 50

    assert [] == world.acquire()
    assert not world.leases.resumes(49)
    assert world.leases.resumes(50) and not world.leases.resumes(51)
    assert [0] == world.acquire()


def test_what_blocks_an_ordered_share() -> None:
    """
    An administrator is told that records wait for others, for a new leader, or for records held in another order.
    """
    world = ShareWorld([1, 1])
    world.leases.resume_at = 1
    assert "failover.wait" in str(blocked_by(world.share, world.leases, 2))
    assert world.leases.resumes(1)
    world.open(2)
    assert blocked_by(world.share, world.leases, 2) is None
    world.acquire()
    assert "order is key" in str(blocked_by(world.share, world.leases, 2))

    world.leases.configure(ShareSettings(lock_ms=LOCK_MS, mode=Mode.EXCLUSIVE))
    assert "has changed" in str(blocked_by(world.share, world.leases, 2))
    world.leases.configure(ShareSettings(lock_ms=LOCK_MS, order=Order.PARTITION))
    assert "order is partition" in str(blocked_by(world.share, world.leases, 2))
    world.finish(0)
    assert blocked_by(world.share, world.leases, 2) is None


def test_a_look_ahead_begins_at_a_record_whose_delay_has_just_ended() -> None:
    """
    Also if the look-ahead is what notices that the delay has ended.  Otherwise it never reaches the record, and the
    record is never delivered.
    """
    world = ShareWorld([1], back_off=BackOff(growth=Growth.CONSTANT, first_ms=DELAY_MS))
    world.open(1)
    assert [0] == world.acquire()
    world.say(Acknowledgement.RELEASE, 0)
    world.commit()
    next_leader = Leases(world.share, world.leases.settings, lambda: 0.0).availability

    assert [0, 1] == [next_leader.look_ahead_end(1, wall) for wall in (0, DELAY_MS)]
