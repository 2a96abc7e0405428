"""
What only a partition's leader knows about a share group: locks, uncommitted decisions, and limits on acquisitions.
"""

import random
from collections.abc import Callable

import pytest

from tidemill.model import errors
from tidemill.model.back_off import BackOff, Growth
from tidemill.share.acknowledgement import (
    AcknowledgedRange,
    Acknowledgement,
    AcknowledgementBatch,
    AcknowledgementRefused,
    acknowledged_ranges,
)
from tidemill.share.claim import Acquired
from tidemill.share.interval_map import Interval
from tidemill.share.leases import Leases
from tidemill.share.record_status import Reason, RecordState, RecordStatus, Run
from tidemill.share.share import Share
from tidemill.share.share_settings import ShareSettings

ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT
LOCK_MS = 1_000


class Hand:
    """The state of a share group on a partition, with its leases and the rows that are proposed but not committed."""

    def __init__(self, **settings: object) -> None:
        self.share = Share(number=1, group="g", incarnation=1, state_epoch=0, start=0)
        defaults: dict[str, object] = {"lock_ms": LOCK_MS}
        self.leases = Leases(self.share, ShareSettings(**(defaults | settings)), lambda: 0.0)  # type: ignore[arg-type]
        self.proposed: list[list[Run]] = []
        self.now = 0

    def acquire(self, member: str, *batches: tuple[int, int], records_max: int = 500, strict: bool = True):  # type: ignore[no-untyped-def]
        return self.leases.acquire(
            member, batches, records_max=records_max, batch_size=64, is_limit_strict=strict, now=self.now, wall=self.now
        )

    def say(self, member: str, first: int, end: int, *types: int) -> list[Run]:
        said = acknowledged_ranges([AcknowledgementBatch(first, end, types)], may_renew=True)
        return self.propose(self.leases.acknowledge(member, said, now=self.now, wall=self.now))

    def expire(self) -> list[Run]:
        return self.propose(self.leases.expire(now=self.now, wall=self.now))

    def propose(self, runs: list[Run]) -> list[Run]:
        if runs:
            self.proposed.append(runs)
        return runs

    def commit(self) -> None:
        """Commit all proposed rows."""
        while self.proposed:
            self.commit_one()

    def commit_one(self) -> None:
        runs = self.proposed.pop(0)
        self.share.set_runs(runs)
        self.leases.committed(runs)

    def code_of(self, act: Callable[[], object]) -> int:
        with pytest.raises(AcknowledgementRefused) as refused:
            act()
        return refused.value.code


def test_a_record_is_held_by_one_consumer_until_its_lock_expires() -> None:
    """
    A locked record is not delivered to another consumer.  After the lock has expired, the record is delivered with the
    next delivery count.
    """
    hand = Hand()
    assert [Acquired(0, 10, 1)] == hand.acquire("a", (0, 10))
    assert [] == hand.acquire("b", (0, 10))

    hand.now = LOCK_MS
    expired = hand.expire()

    assert [Interval(0, 10, RecordStatus(RecordState.AVAILABLE, 1))] == expired
    assert [Acquired(0, 10, 2)] == hand.acquire("b", (0, 10))


def test_an_accepted_record_is_answered_when_its_row_commits() -> None:
    """
    While an acknowledgement is not committed, the lock of its record cannot expire, and the record cannot be
    acknowledged again.
    """
    hand = Hand()
    hand.acquire("a", (0, 10))
    hand.say("a", 0, 4, ACCEPT)

    hand.now = LOCK_MS
    assert [] == [run for run in hand.expire() if run.first < 4]
    assert errors.INVALID_RECORD_STATE == hand.code_of(lambda: hand.say("a", 2, 3, RELEASE))
    assert [Acquired(4, 10, 2)] == hand.acquire("b", (0, 10))

    hand.commit()
    assert 4 == hand.share.start
    assert [] == hand.say("a", 0, 4, ACCEPT)


def test_acknowledgements_are_refused_as_a_whole() -> None:
    """If one offset of a batch cannot be acknowledged, none of the batch's offsets are."""
    hand = Hand()
    hand.acquire("a", (0, 5))
    hand.acquire("b", (5, 10))

    assert errors.INVALID_RECORD_STATE == hand.code_of(lambda: hand.say("a", 0, 6, ACCEPT))
    assert [Interval(0, 5, RecordStatus(RecordState.ACKNOWLEDGED, 1))] == hand.say("a", 0, 5, ACCEPT)


def test_an_offset_that_was_never_acquired_is_refused() -> None:
    """An acknowledgement beyond the acquired offsets is an invalid request, and no part of it takes effect."""
    hand = Hand()
    hand.acquire("a", (0, 10))

    assert errors.INVALID_REQUEST == hand.code_of(lambda: hand.say("a", 9, 11, ACCEPT))
    assert 10 == hand.leases.held_count


def test_each_offset_can_have_its_own_type() -> None:
    """
    A batch may have a different acknowledgement type for each offset; consecutive offsets with the same type become one
    run.
    """
    hand = Hand(has_dead_letters=True)
    hand.acquire("a", (0, 5))

    decided = hand.say("a", 0, 5, ACCEPT, ACCEPT, REJECT, RELEASE, ACCEPT)

    assert [
        (0, 2, RecordStatus(RecordState.ACKNOWLEDGED, 1)),
        (2, 3, RecordStatus(RecordState.ARCHIVING, 1, reason=Reason.REJECTED)),
        (3, 4, RecordStatus(RecordState.AVAILABLE, 1)),
        (4, 5, RecordStatus(RecordState.ACKNOWLEDGED, 1)),
    ] == [tuple(run) for run in decided]


@pytest.mark.parametrize("has_dead_letters", [False, True])
def test_the_last_delivery_that_fails_ends_the_record(has_dead_letters: bool) -> None:
    """
    A record whose last permitted delivery has failed is archived; if there is a topic for dead letters, its dead letter
    is written first.
    """
    hand = Hand(delivery_limit=2, has_dead_letters=has_dead_letters)
    hand.acquire("a", (0, 1))
    hand.say("a", 0, 1, RELEASE)
    hand.commit()
    assert [Acquired(0, 1, 2)] == hand.acquire("a", (0, 1))

    hand.now = LOCK_MS
    (dead,) = hand.expire()

    state = RecordState.ARCHIVING if has_dead_letters else RecordState.ARCHIVED
    assert RecordStatus(state, 2, reason=Reason.DELIVERY_LIMIT) == dead.value
    assert [] == hand.acquire("b", (0, 1))


def test_a_renewed_lock_expires_later() -> None:
    """A renewed lock expires a whole lock duration after the renewal, and not at its old deadline."""
    hand = Hand()
    hand.acquire("a", (0, 2))
    hand.now = LOCK_MS - 1
    assert [] == hand.say("a", 0, 1, Acknowledgement.RENEW)

    hand.now = LOCK_MS
    assert [(1, 2)] == [run[:2] for run in hand.expire()]
    hand.now = 2 * LOCK_MS - 1
    assert [(0, 1)] == [run[:2] for run in hand.expire()]


def test_locks_are_not_renewed_if_the_group_forbids_it() -> None:
    hand = Hand(is_renewable=False)
    hand.acquire("a", (0, 1))

    assert errors.INVALID_RECORD_STATE == hand.code_of(lambda: hand.say("a", 0, 1, Acknowledgement.RENEW))


def test_a_consumer_that_leaves_gives_its_records_back_at_once() -> None:
    """
    The end of a session releases the consumer's records without a delay, keeps their delivery counts, and frees their
    locks.
    """
    hand = Hand(back_off=BackOff(growth=Growth.CONSTANT, first_ms=60_000))
    hand.acquire("a", (0, 3))
    hand.acquire("b", (3, 6))

    left = hand.propose(hand.leases.leave("a"))

    assert [Interval(0, 3, RecordStatus(RecordState.AVAILABLE, 1))] == left
    assert 3 == hand.leases.held_count
    assert [Acquired(0, 3, 2)] == hand.acquire("b", (0, 6))


def test_a_delivery_that_never_left_is_not_counted() -> None:
    """If records were acquired but not sent, `undo` sets their delivery counts back to what they were before."""
    hand = Hand(delivery_limit=2)
    for _ in range(5):
        got = hand.acquire("a", (0, 3))
        assert [Acquired(0, 3, 1)] == got
        hand.leases.undo(got)
    assert 0 == hand.leases.held_count

    hand.acquire("a", (0, 3))
    hand.say("a", 0, 3, RELEASE)
    hand.leases.undo(hand.acquire("a", (0, 3)))
    hand.commit()
    hand.leases.undo(hand.acquire("a", (0, 3)))
    assert [Acquired(0, 3, 2)] == hand.acquire("a", (0, 3))


def test_a_row_that_commits_late_leaves_the_next_holder_alone() -> None:
    """
    A lock expires, another consumer acquires the record, and only then the row with the expiry commits.  The other
    consumer keeps its lock.
    """
    hand = Hand()
    hand.acquire("a", (0, 1))
    hand.now = LOCK_MS
    hand.expire()
    hand.acquire("b", (0, 1))

    hand.commit()

    assert [] == hand.acquire("c", (0, 1))
    assert [Interval(0, 1, RecordStatus(RecordState.ACKNOWLEDGED, 2))] == hand.say("b", 0, 1, ACCEPT)


def test_a_delayed_record_lets_others_pass() -> None:
    """
    While the redelivery of a record is delayed, other records are delivered, and the delayed record does not count
    towards the limit on locks.  It is delivered again when the delay has ended.
    """
    hand = Hand(back_off=BackOff(growth=Growth.CONSTANT, first_ms=500), locks_max=2)
    hand.acquire("a", (0, 2))
    hand.say("a", 0, 2, RELEASE)
    hand.commit()

    assert [Acquired(2, 4, 1)] == hand.acquire("a", (0, 10))
    hand.say("a", 2, 4, ACCEPT)
    hand.commit()
    assert [False, True, False] == [hand.leases.takes_due(wall) for wall in (499, 500, 500)]
    hand.now = 500
    assert [Acquired(0, 2, 2)] == hand.acquire("a", (0, 10))


def test_a_new_leader_waits_for_the_time_in_the_row() -> None:
    """
    The row of a release contains the time of the redelivery, so a new leader does not deliver the record before that
    time either.
    """
    hand = Hand(back_off=BackOff(growth=Growth.CONSTANT, first_ms=500))
    hand.acquire("a", (0, 1))
    hand.say("a", 0, 1, RELEASE)
    hand.commit()
    hand.leases = Leases(hand.share, hand.leases.settings, lambda: 0.0)

    assert [] == hand.acquire("b", (0, 1))
    hand.now = 500
    assert [Acquired(0, 1, 2)] == hand.acquire("b", (0, 1))


@pytest.mark.parametrize("first_event", ["acknowledge", "expire", "leave"])
def test_a_pending_decision_has_no_rival(first_event: str) -> None:
    """
    While a decision about a record is not committed, an acknowledgement of the record is refused, and its lock cannot
    expire.  If the log start moves past the record in the meantime, the late commit has no effect on the record
    (KAFKA-18084, KAFKA-19476).
    """
    hand = Hand(delivery_limit=1)
    hand.acquire("a", (0, 4))
    hand.now = LOCK_MS
    match first_event:
        case "acknowledge":
            hand.say("a", 0, 4, RELEASE)
        case "expire":
            hand.expire()
        case "leave":
            hand.propose(hand.leases.leave("a"))
    assert 1 == len(hand.proposed)

    assert errors.INVALID_RECORD_STATE == hand.code_of(lambda: hand.say("a", 0, 4, ACCEPT))
    assert ([], [], []) == (hand.expire(), hand.leases.leave("a"), hand.acquire("b", (0, 4)))
    hand.share.log_starts_at(2)
    hand.leases.start_moved()
    assert [] == hand.say("a", 0, 2, ACCEPT)
    hand.commit()

    assert (4, 0, []) == (hand.share.start, hand.leases.held_count, list(hand.leases._claims))


def test_a_late_acknowledgement_is_refused() -> None:
    """
    A consumer's acknowledgement is refused after its lock has expired, even if another consumer holds the record by
    then.
    """
    hand = Hand()
    hand.acquire("a", (0, 2))
    hand.now = LOCK_MS
    hand.expire()
    assert errors.INVALID_RECORD_STATE == hand.code_of(lambda: hand.say("a", 0, 2, RELEASE))

    hand.acquire("b", (0, 2))

    assert errors.INVALID_RECORD_STATE == hand.code_of(lambda: hand.say("a", 0, 2, ACCEPT))
    assert [Interval(0, 2, RecordStatus(RecordState.ACKNOWLEDGED, 2))] == hand.say("b", 0, 2, ACCEPT)


def test_acknowledgements_of_several_batches_are_refused_as_a_whole() -> None:
    """
    If one of several batches in a request is refused, the batches before it have no effect either, not even a renewal.
    """
    hand = Hand()
    hand.acquire("a", (0, 4))
    said = [AcknowledgedRange(0, 1, Acknowledgement.RENEW), AcknowledgedRange(1, 2, ACCEPT)]
    hand.now = LOCK_MS // 2

    refused = [*said, AcknowledgedRange(9, 10, ACCEPT)]
    assert errors.INVALID_REQUEST == hand.code_of(lambda: hand.leases.acknowledge("a", refused, now=hand.now, wall=0))

    hand.now = LOCK_MS
    assert [(0, 4)] == [run[:2] for run in hand.expire()]


def test_acknowledgements_below_the_start_succeed() -> None:
    """
    Acknowledging records below the start of the share, which are finished, succeeds without an effect.  If a range also
    contains records above the start, the consumer must hold these.
    """
    hand = Hand(is_renewable=False)
    hand.acquire("a", (0, 4))
    hand.say("a", 0, 2, ACCEPT)
    hand.commit()

    assert [] == hand.say("b", 0, 2, Acknowledgement.RENEW)
    assert errors.INVALID_RECORD_STATE == hand.code_of(lambda: hand.say("b", 1, 3, ACCEPT))
    assert [Interval(2, 3, RecordStatus(RecordState.ACKNOWLEDGED, 1))] == hand.say("a", 1, 3, ACCEPT)


def test_a_gap_does_not_destroy_a_record() -> None:
    """
    A consumer that acknowledges an acquired record as a gap could not read it, so the record is released and not
    archived.
    """
    hand = Hand(delivery_limit=2)
    hand.acquire("a", (0, 1))

    assert [Interval(0, 1, RecordStatus(RecordState.AVAILABLE, 1))] == hand.say("a", 0, 1, Acknowledgement.GAP)


def test_sessions_that_end_reach_the_delivery_limit() -> None:
    """
    If every consumer's session ends before it acknowledges a record, the record still reaches its delivery limit,
    because the end of a session does not lower the delivery count (KAFKA-19972).
    """
    hand = Hand(delivery_limit=3)
    counts = []
    while (got := hand.acquire("a", (0, 1))) and len(counts) < 10:
        counts.append(got[0].delivery_count)
        hand.propose(hand.leases.leave("a"))
        hand.commit()

    assert [1, 2, 3] == counts
    assert 1 == hand.share.start


def test_a_clock_that_steps_back_strands_no_record() -> None:
    """A record whose delay has ended stays available if the clock is set back afterwards."""
    hand = Hand(back_off=BackOff(growth=Growth.CONSTANT, first_ms=500))
    hand.acquire("a", (0, 1))
    hand.say("a", 0, 1, RELEASE)
    hand.commit()
    assert hand.leases.next_available(0, 10, 500) is not None

    found = hand.leases.next_available(0, 1, 400)

    assert Interval(0, 1, 1) == found


def test_an_archived_offset_is_not_freed_by_an_earlier_decision() -> None:
    """
    An offset is released, and archived before the release commits.  When the release commits, the offset does not
    become available again; otherwise, two decisions about it could be in flight.
    """
    hand = Hand()
    hand.acquire("a", (0, 2))
    hand.propose(hand.leases.leave("a"))
    archived = hand.propose(hand.leases.archive(0, 1))
    assert [Interval(0, 1, RecordStatus(RecordState.ARCHIVED, 1))] == archived

    hand.commit_one()
    assert [Acquired(1, 2, 2)] == hand.acquire("b", (0, 2))

    hand.commit()
    assert 1 == hand.share.start


def test_held_and_pending_records_are_not_archived() -> None:
    """Only available offsets are archived, including those whose redelivery is delayed."""
    hand = Hand(back_off=BackOff(growth=Growth.CONSTANT, first_ms=500))
    hand.acquire("a", (0, 4))
    hand.say("a", 1, 2, ACCEPT)
    hand.say("a", 2, 3, RELEASE)
    hand.commit()
    hand.say("a", 3, 4, ACCEPT)

    archived = hand.leases.archive(0, 6)

    assert [(2, 3), (4, 6)] == [run[:2] for run in archived]
    assert [] == hand.leases.archive(0, 6)


def test_small_batches_are_held_as_one_range() -> None:
    """
    Acquired records of adjacent batches form one range if their delivery counts are equal, so many small batches need
    no more memory than a large one.
    """
    hand = Hand()

    got = hand.acquire("a", *((offset, offset + 1) for offset in range(100)))

    assert [Acquired(0, 100, 1)] == got
    assert 1 == len(hand.leases._claims)


def test_the_limit_of_locks_divides_a_batch() -> None:
    """The limit applies to the total number of records locked by all consumers, and is never exceeded."""
    hand = Hand(locks_max=7)
    assert [Acquired(0, 5, 1)] == hand.acquire("a", (0, 5))
    assert [Acquired(5, 7, 1)] == hand.acquire("b", (5, 15))
    assert [] == hand.acquire("b", (7, 15))

    hand.say("a", 0, 1, ACCEPT)

    assert [Acquired(7, 8, 1)] == hand.acquire("b", (7, 15))


@pytest.mark.parametrize(("strict", "end"), [(True, 7), (False, 10)])
def test_the_limit_of_records_is_strict_on_request(strict: bool, end: int) -> None:
    """
    A strict limit on records divides a batch.  Otherwise, the batch in which the limit is reached is acquired
    completely, but no further batch is.
    """
    hand = Hand()

    got = hand.acquire("a", (0, 5), (5, 10), (10, 15), records_max=7, strict=strict)

    assert [Acquired(0, end, 1)] == got


def test_a_record_that_kills_its_consumers_ends_alone() -> None:
    """
    Records that fail together are delivered again in ever smaller numbers, until the faulty one is delivered alone and
    all others have been accepted.
    """
    hand = Hand(delivery_limit=5)
    sizes = []
    while (got := hand.acquire("a", (0, 64), records_max=64)) and len(sizes) < 300:
        sizes.append((got[0].delivery_count, got[0].end - got[0].first))
        if got[0].first <= 40 < got[0].end:
            hand.now += LOCK_MS
            hand.expire()
        else:
            hand.say("a", got[0].first, got[0].end, ACCEPT)
        hand.commit()

    assert {1: 64, 2: 64, 3: 64, 4: 32, 5: 1} == {
        count: max(s for c, s in sizes if c == count) for count in range(1, 6)
    }
    assert 64 == hand.share.start


def test_retention_frees_the_locks_of_removed_records() -> None:
    """When retention removes records, they are no longer locked, and acknowledging them succeeds."""
    hand = Hand(locks_max=4)
    hand.acquire("a", (0, 4))

    hand.share.log_starts_at(3)
    hand.leases.start_moved()

    assert 1 == hand.leases.held_count
    assert [] == hand.say("a", 0, 3, ACCEPT)
    hand.now = LOCK_MS
    assert [(3, 4)] == [run[:2] for run in hand.expire()]


@pytest.mark.parametrize("seed", range(60))
def test_every_record_is_finished_whatever_happens(seed: int) -> None:
    """
    Consumers acquire, acknowledge, renew, vanish and return at random, rows commit late, and leaders change.
    Nevertheless, no record is locked by two consumers, no limit is exceeded, delivery counts never decrease under the
    same leader, and in the end every record is finished.
    """
    chance = random.Random(seed)
    back_off = BackOff(growth=chance.choice(list(Growth)), first_ms=300, step_ms=200)
    hand = Hand(locks_max=chance.choice([5, 30]), delivery_limit=3, back_off=back_off)
    holders: dict[int, tuple[str, int]] = {}
    counts: dict[int, int] = {}
    accepted: set[int] = set()
    for step in range(3_000):
        hand.now += chance.randrange(120)
        is_healing = step > 1_000
        if is_healing and hand.share.start == 100:
            break
        for run in hand.expire():
            for offset in range(run.first, run.end):
                holders.pop(offset)
        member = chance.choice("abc")
        mine = sorted(offset for offset, (holder, _) in holders.items() if holder == member)
        match chance.randrange(10):
            case 0 | 1 | 2:
                records_max = chance.choice([1, 7, 50])
                for first, end, count in hand.acquire(member, (0, 40), (40, 100), records_max=records_max):
                    for offset in range(first, end):
                        assert offset not in holders and offset not in accepted
                        assert count > counts.get(offset, 0)
                        holders[offset], counts[offset] = (member, count), count
            case 3 | 4 | 5 if mine:
                offset = chance.choice(mine)
                kind = ACCEPT if is_healing else chance.choice([ACCEPT, ACCEPT, RELEASE, REJECT, Acknowledgement.RENEW])
                hand.say(member, offset, offset + 1, kind)
                if kind != Acknowledgement.RENEW:
                    del holders[offset]
                if kind == ACCEPT:
                    accepted.add(offset)
            case 6:
                hand.propose(hand.leases.leave(member))
                holders = {offset: held for offset, held in holders.items() if held[0] != member}
            case 7 | 8 if hand.proposed:
                hand.commit_one()
            case 9 if not is_healing and chance.random() < 0.1:
                hand.proposed.clear()
                hand.leases = Leases(hand.share, hand.leases.settings, lambda: 0.0)
                holders, counts, accepted = {}, {}, set()
        assert len(holders) == hand.leases.held_count <= hand.leases.settings.locks_max
        if is_healing:
            hand.commit()
    assert 100 == hand.share.start
