"""Acknowledgements from consumers without a session, and from operators."""

import pytest

from tests.unit.share.runs import run
from tests.unit.share.test_leases import Hand
from tidemill.model import errors
from tidemill.model.back_off import DELAY_MS_MAX, BackOff, Growth
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement, AcknowledgementRefused
from tidemill.share.claim import Acquired
from tidemill.share.lone_member import member_without_session
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.resolution import (
    Resolution,
    check_delay,
    resolve_held,
    resolve_unheld,
)

ACCEPT, RELEASE, REJECT, RENEW = (
    Acknowledgement.ACCEPT,
    Acknowledgement.RELEASE,
    Acknowledgement.REJECT,
    Acknowledgement.RENEW,
)
END = 100


def of_member(
    hand: Hand, *ranges: tuple[int, int, int], held_as: int | None = None, delay_ms: int | None = None
) -> Resolution:
    """Resolve ranges (first, end, type) for the consumer `a`."""
    resolution = resolve_held(
        hand.leases,
        "a",
        [AcknowledgedRange(*one) for one in ranges],
        held_as=held_as,
        delay_ms=delay_ms,
        end=END,
        now=hand.now,
        wall=hand.now,
    )
    hand.propose(resolution.runs)
    return resolution


def of_operator(hand: Hand, *ranges: tuple[int, int, int], delay_ms: int | None = None, end: int = END) -> Resolution:
    listed = [AcknowledgedRange(*one) for one in ranges]
    resolution = resolve_unheld(hand.leases, listed, delay_ms=delay_ms, end=end, wall=hand.now)
    hand.propose(resolution.runs)
    return resolution


def test_a_repeated_request_counts_the_records_as_finished() -> None:
    """
    A request whose response was lost can be sent again: what it has finished is counted, and nothing is refused.
    """
    hand = Hand()
    hand.acquire("a", (0, 10))
    assert 10 == of_member(hand, (0, 10, ACCEPT)).resolved
    assert [(0, 10, ACCEPT)] == of_member(hand, (0, 10, ACCEPT)).undecided, "the first one is not committed"
    hand.commit()

    again = of_member(hand, (0, 10, ACCEPT))

    assert (0, 10, 0, []) == (again.resolved, again.finished, again.held, again.runs)


def test_records_of_others_are_left() -> None:
    """
    What another consumer holds is counted and not changed.  A record whose lock has expired is not counted at all.
    """
    hand = Hand()
    hand.acquire("a", (0, 4), records_max=4)
    hand.acquire("b", (4, 8), records_max=4)

    result = of_member(hand, (0, 12, ACCEPT))

    assert (4, 0, 4) == (result.resolved, result.finished, result.held)
    assert [Acquired(4, 8, 1)] == list(hand.leases.held_by("b"))


def test_a_consumer_resolves_what_it_holds_with_receipts() -> None:
    """
    By its name, for all its receive requests.  What it has not listed stays as it is.
    """
    hand = Hand(is_renewable=False)
    member = member_without_session("a")
    for at, lease in enumerate((7, 8, 7)):
        hand.acquire(member_without_session("a", lease), (at * 2, at * 2 + 2), records_max=2)
    hand.acquire(member_without_session("b", 9), (6, 8), records_max=2)

    def resolve(*ranges: AcknowledgedRange, held_as: int | None) -> Resolution:
        return resolve_held(
            hand.leases, member, ranges, held_as=held_as, delay_ms=None, end=END, now=hand.now, wall=hand.now
        )

    ranges = [AcknowledgedRange(0, 3, ACCEPT), AcknowledgedRange(4, 8, ACCEPT)]
    for refused, held_as in (([*ranges, AcknowledgedRange(8, 9, RENEW)], None), (ranges, RENEW)):
        with pytest.raises(AcknowledgementRefused):
            resolve(*refused, held_as=held_as)
    assert 8 == hand.leases.held_count

    result = resolve(*ranges, held_as=RELEASE)

    assert (5, 0, 2) == (result.resolved, result.finished, result.held)
    assert [(0, 2), (2, 3), (4, 6)] == [(it.first, it.end) for it in result.runs]
    assert [Acquired(3, 4, 1)] == list(hand.leases.held_by(member_without_session("a", 8)))


def test_the_records_that_are_not_listed_get_the_default_type() -> None:
    """
    `held_as` resolves everything else that the consumer holds; without it, only listed records change.
    """
    hand = Hand()
    hand.acquire("a", (0, 10))
    of_member(hand, (2, 4, ACCEPT))
    assert [Acquired(0, 2, 1), Acquired(4, 10, 1)] == list(hand.leases.held_by("a"))

    result = of_member(hand, (5, 6, REJECT), held_as=RELEASE)
    hand.commit()

    assert 8 == result.resolved
    assert [] == list(hand.leases.held_by("a"))
    expected = [
        run(0, 2, RecordState.AVAILABLE, delivery_count=1),
        run(2, 4, RecordState.ACKNOWLEDGED, delivery_count=1),
        run(4, 5, RecordState.AVAILABLE, delivery_count=1),
        run(5, 6, RecordState.ARCHIVED, Reason.REJECTED, 1),
        run(6, 10, RecordState.AVAILABLE, delivery_count=1),
    ]
    assert expected == list(hand.share.runs)


@pytest.mark.parametrize(("delay_ms", "release_at"), [(None, 700), (0, 0), (50, 50)])
def test_a_release_may_set_the_delay(delay_ms: int | None, release_at: int) -> None:
    """
    The delay of a release replaces the group's back-off; 0 makes the record available at once.
    """
    hand = Hand(back_off=BackOff(growth=Growth.CONSTANT, first_ms=700))
    hand.acquire("a", (0, 1))
    of_member(hand, (0, 1, RELEASE), delay_ms=delay_ms)
    hand.commit()
    assert [run(0, 1, RecordState.AVAILABLE, delivery_count=1, release_at=release_at)] == list(hand.share.runs)


def test_a_renewal_extends_the_lock() -> None:
    hand = Hand()
    hand.acquire("a", (0, 3))
    hand.now = 600
    result = of_member(hand, (1, 2, RENEW))
    hand.now = 1_000

    assert (1, []) == (result.resolved, result.runs)
    assert [(0, 1), (2, 3)] == [(one.first, one.end) for one in hand.expire()]


def test_an_operator_decides_about_records_that_are_not_held() -> None:
    """
    An operator's decision needs no delivery, keeps the delivery count, and leaves the records that a consumer holds.
    """
    hand = Hand(has_dead_letters=True)
    hand.acquire("a", (0, 4), records_max=4)
    of_member(hand, (0, 2, RELEASE))
    hand.commit()

    result = of_operator(hand, (0, 1, ACCEPT), (1, 6, REJECT))
    hand.commit()

    assert (4, 0, 2) == (result.resolved, result.finished, result.held)
    assert [Acquired(2, 4, 1)] == list(hand.leases.held_by("a"))
    assert 1 == hand.share.start
    expected = [
        run(1, 2, RecordState.ARCHIVING, Reason.REJECTED, 1),
        run(4, 6, RecordState.ARCHIVING, Reason.REJECTED, 0),
    ]
    assert expected == list(hand.share.runs)
    again = of_operator(hand, (0, 6, REJECT))
    assert (0, 4, 2) == (again.resolved, again.finished, again.held)


def test_an_operator_sets_the_release_time() -> None:
    """
    A release by an operator keeps the delivery count and sets or removes the delay.  Without a change, nothing is
    proposed.
    """
    hand = Hand()
    assert 3 == of_operator(hand, (0, 3, RELEASE), delay_ms=500).resolved
    hand.commit()
    assert [] == hand.acquire("a", (0, 3))

    assert 3 == of_operator(hand, (0, 3, RELEASE)).resolved
    assert [] == hand.acquire("a", (0, 3)), "a proposed decision is not visible yet"
    hand.commit()
    assert [] == of_operator(hand, (0, 3, RELEASE)).runs
    assert [Acquired(0, 3, 1)] == hand.acquire("a", (0, 3))


def test_an_operator_cannot_decide_about_records_that_do_not_exist() -> None:
    """
    Offsets at or above the high watermark are left out.
    """
    hand = Hand()
    assert 5 == of_operator(hand, (0, 50, ACCEPT), (60, 70, ACCEPT), end=5).resolved
    hand.commit()
    assert 5 == hand.share.start


def test_types_and_delays_are_checked() -> None:
    """
    An operator holds no lock to renew.  A delay has a limit.
    """
    hand = Hand()
    with pytest.raises(AcknowledgementRefused) as refused:
        of_operator(hand, (0, 1, RENEW))
    assert errors.INVALID_REQUEST == refused.value.code
    for delay in (-1, DELAY_MS_MAX + 1):
        with pytest.raises(AcknowledgementRefused):
            check_delay(delay)
    check_delay(DELAY_MS_MAX)


def test_names_with_and_without_a_session_differ() -> None:
    """
    The end of a member's session leaves what a consumer of the same name has received without a session.
    """
    hand = Hand()
    hand.acquire(member_without_session("m"), (0, 2))
    assert [] == hand.leases.leave("m")
    assert 2 == hand.leases.held_count


def scattered(first: int, count: int) -> list[tuple[int, int, int]]:
    return [(offset, offset + 1, ACCEPT) for offset in range(first, first + 2 * count, 2)]


def test_an_operator_cannot_let_a_share_track_too_many_runs() -> None:
    """
    Resolutions with gaps between them are refused at the limit, before anything changes, also while earlier ones are
    not committed.  A request that was answered before can be repeated, and a trial is never refused.
    """
    hand = Hand(tracked_max=4)
    assert 3 == of_operator(hand, *scattered(10, 3)).resolved

    for pending in (3, 0):
        with pytest.raises(AcknowledgementRefused, match=r"tidemill\.share\.max\.tracked.*from offset 0 on") as refused:
            of_operator(hand, *scattered(30, 2))
        assert errors.POLICY_VIOLATION == refused.value.code
        assert pending == len(list(hand.leases.claims()))
        listed = [AcknowledgedRange(*one) for one in scattered(30, 2)]
        trial = resolve_unheld(hand.leases, listed, delay_ms=None, end=END, wall=hand.now, is_trial=True)
        assert (2, []) == (trial.resolved, trial.runs)
        hand.commit()
        assert 3 == hand.share.tracked_count
        assert 3 == of_operator(hand, *scattered(10, 3)).finished


def test_an_operator_can_always_finish_records_from_the_start_on() -> None:
    """They let the share track fewer runs.  Releases with other delays let it track more, and are refused."""
    hand = Hand(tracked_max=4)
    for end in (40, 30, 20, 10):
        of_operator(hand, (0, end, RELEASE), delay_ms=end)
        hand.commit()
    assert 4 == hand.share.tracked_count
    with pytest.raises(AcknowledgementRefused):
        of_operator(hand, (0, 5, RELEASE), delay_ms=5)

    assert 15 == of_operator(hand, (0, 15, ACCEPT)).resolved
    hand.commit()
    assert (15, 3) == (hand.share.start, hand.share.tracked_count)
