"""When a record that was delivered in vain is delivered again: back-off policies, clocks, changes of leaders."""

import pytest

from tests.unit.share.test_leases import ACCEPT, LOCK_MS, RELEASE, Hand
from tidemill.model.back_off import BackOff, Growth
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.claim import Acquired
from tidemill.share.leases import Leases
from tidemill.share.share_settings import ShareSettings

LINEAR = BackOff(growth=Growth.LINEAR, first_ms=100, step_ms=50)
CONSTANT = BackOff(growth=Growth.CONSTANT, first_ms=500)


def new_leader(hand: Hand) -> None:
    hand.proposed.clear()
    hand.leases = Leases(hand.share, hand.leases.settings, lambda: 0.0)


@pytest.mark.parametrize("event", ["release", "gap", "expiry", "session end"])
def test_the_policy_is_indexed_by_the_delivery(event: str) -> None:
    """
    The delay after delivery number n is number n of the policy, whatever ended the delivery: a release, a gap or an
    expired lock (NATS #2834, #4726).  The end of a session is followed by no delay.
    """
    hand = Hand(back_off=LINEAR)
    delays = []
    for _ in range(4):
        hand.acquire("a", (0, 1))
        match event:
            case "release":
                hand.say("a", 0, 1, RELEASE)
            case "gap":
                hand.say("a", 0, 1, Acknowledgement.GAP)
            case "expiry":
                hand.now += LOCK_MS
                hand.expire()
            case "session end":
                hand.propose(hand.leases.leave("a"))
        hand.commit()
        released_at = hand.now
        while hand.leases.next_available(0, 1, hand.now) is None:
            hand.now += 10
        delays.append(hand.now - released_at)

    assert ([0, 0, 0, 0] if event == "session end" else [100, 150, 200, 250]) == delays


def test_a_delayed_head_lets_the_others_be_finished() -> None:
    """
    Records behind a delayed one are delivered and finished before it, and it is delivered when its time comes
    (Pulsar #8703, #10497).
    """
    hand = Hand(back_off=CONSTANT)
    hand.acquire("a", (0, 1))
    hand.say("a", 0, 1, RELEASE)
    for first in range(1, 101):
        assert [Acquired(first, first + 1, 1)] == hand.acquire("b", (0, 101), records_max=1)
        hand.say("b", first, first + 1, ACCEPT)
        hand.commit()

    assert 0 == hand.share.start
    hand.now = 500
    assert [Acquired(0, 1, 2)] == hand.acquire("b", (0, 101))
    hand.say("b", 0, 1, ACCEPT)
    hand.commit()
    assert 101 == hand.share.start


def test_delayed_records_are_delivered_after_a_change_of_leaders_at_the_limit_of_locks() -> None:
    """
    Delayed records use up no locks, under the leader that delayed them and under the next one, even if there are more
    of them than locks; and the next leader delivers all of them when their time comes (NATS #6093, #6469, #6566).
    """
    hand = Hand(back_off=CONSTANT, locks_max=4)
    for first in range(0, 12, 4):
        assert [Acquired(first, first + 4, 1)] == hand.acquire("a", (0, 20))
        hand.say("a", first, first + 4, RELEASE)
        hand.commit()
    new_leader(hand)

    assert 4 == hand.leases.lock_room
    assert [Acquired(12, 16, 1)] == hand.acquire("b", (0, 20))
    hand.say("b", 12, 16, ACCEPT)
    assert [False, True, False] == [hand.leases.takes_due(wall) for wall in (499, 500, 500)]
    hand.now = 500
    again = []
    for _ in range(3):
        again += hand.acquire("b", (0, 16))
        hand.say("b", again[-1].first, again[-1].end, ACCEPT)

    assert [Acquired(first, first + 4, 2) for first in range(0, 12, 4)] == again


def test_a_changed_policy_keeps_the_delays_that_have_begun() -> None:
    """
    A changed configuration applies to the next decision.  A record that is delayed stays, with its time (NATS #5526).
    """
    hand = Hand(back_off=CONSTANT)
    hand.acquire("a", (0, 2))
    hand.say("a", 0, 1, RELEASE)
    hand.commit()

    hand.leases.configure(ShareSettings(lock_ms=LOCK_MS, back_off=BackOff(growth=Growth.CONSTANT, first_ms=900)))
    hand.say("a", 1, 2, RELEASE)
    hand.commit()

    assert [(0, 500), (1, 900)] == [(run.first, run.value.release_at) for run in hand.share.runs]
    hand.now = 499
    assert [] == hand.acquire("b", (0, 2))
    hand.now = 500
    assert [Acquired(0, 1, 2)] == hand.acquire("b", (0, 2))


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_step_of_the_clock_shortens_no_delay_and_no_lock(step_ms: int) -> None:
    """
    If the clock is set back, a record that is released afterwards is not delivered before its delay has passed on the
    clock as it was, and a step in either direction does not end a lock.
    """
    hand = Hand(back_off=CONSTANT)
    wall = 10_000_000
    leases = hand.leases
    leases.next_available(0, 2, wall)
    hand.acquire("a", (0, 2))

    hand.now = LOCK_MS - 1
    assert [] == leases.expire(now=hand.now, wall=wall + step_ms)
    hand.now = LOCK_MS
    (run,) = hand.propose(leases.expire(now=hand.now, wall=wall + step_ms))
    hand.commit()

    assert max(wall, wall + step_ms) + 500 == run.value.release_at
    assert leases.next_available(0, 2, run.value.release_at - 1) is None
    assert leases.next_available(0, 2, run.value.release_at) is not None
