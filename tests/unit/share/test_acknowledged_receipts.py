"""Receipts of records: each row of the table in `acknowledged_receipts`, and random requests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.share.test_leases import LOCK_MS, Hand
from tidemill.model import errors
from tidemill.share.acknowledged_receipts import UNDO, AcknowledgedReceipts, Delivery, Outcome, acknowledge_receipts
from tidemill.share.acknowledgement import Acknowledgement, AcknowledgementRefused
from tidemill.share.leases import Leases
from tidemill.share.lone_member import member_without_session
from tidemill.share.record_status import Reason, RecordState, RecordStatus

ACCEPT, RELEASE, REJECT, RENEW = (
    Acknowledgement.ACCEPT,
    Acknowledgement.RELEASE,
    Acknowledgement.REJECT,
    Acknowledgement.RENEW,
)
KINDS = (ACCEPT, RELEASE, REJECT, RENEW)
OK, EXPIRED, UNKNOWN = Outcome
END = 10


class Leader(Hand):
    """The leader of a share, whose consumers have receipts."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.term = 1
        self._lease = 0

    def receive(self, end: int = END, records_max: int = 500) -> list[Delivery]:
        self._lease += 1
        acquired = self.acquire(member_without_session("c", self._lease), (0, end), records_max=records_max)
        return [
            Delivery(offset, self.term, it.delivery_count, self._lease)
            for it in acquired
            for offset in range(it.first, it.end)
        ]

    def acknowledge(
        self, kind: int, *deliveries: Delivery, delay_ms: int | None = None, lock_ms: int | None = None
    ) -> list[Outcome]:
        found = self.answer(kind, *deliveries, delay_ms=delay_ms, lock_ms=lock_ms)
        self.propose(found.runs)
        return found.outcomes

    def answer(
        self, kind: int, *deliveries: Delivery, delay_ms: int | None = None, lock_ms: int | None = None
    ) -> AcknowledgedReceipts:
        return acknowledge_receipts(
            self.leases,
            kind,
            deliveries,
            delay_ms=delay_ms,
            lock_ms=lock_ms,
            term=self.term,
            end=END,
            now=self.now,
            wall=self.now,
        )

    def fail_over(self) -> None:
        """Let another broker lead: it knows only what has committed."""
        self.proposed.clear()
        self.leases = Leases(self.share, self.leases.settings, lambda: 0.0)
        self.term += 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_receipt_acknowledges_its_delivery(kind: int) -> None:
    """The other records of the request stay held."""
    leader = Leader()
    deliveries = leader.receive()

    assert [OK] == leader.acknowledge(kind, deliveries[3])

    leader.commit()
    assert END - (kind != RENEW) == leader.leases.held_count
    status = {
        ACCEPT: RecordStatus(RecordState.ACKNOWLEDGED, 1),
        RELEASE: RecordStatus(RecordState.AVAILABLE, 1),
        REJECT: RecordStatus(RecordState.ARCHIVED, 1, reason=Reason.REJECTED),
        RENEW: RecordStatus(),
    }
    assert status[Acknowledgement(kind)] == leader.share.runs.get(3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_request_has_the_same_outcome(kind: int) -> None:
    """It waits while the first one is not committed."""
    leader = Leader()
    deliveries = leader.receive()[4:6]
    leader.acknowledge(kind, *deliveries)

    again = leader.answer(kind, *deliveries)
    assert ([OK, OK] if kind == RENEW else [UNKNOWN, UNKNOWN]) == again.outcomes
    assert ([] if kind == RENEW else [0, 1]) == again.undecided
    leader.commit()

    assert [OK, OK] == leader.acknowledge(kind, *deliveries)
    assert not leader.proposed


@pytest.mark.parametrize("kind", KINDS)
def test_the_receipt_of_an_earlier_delivery_acknowledges_nothing(kind: int) -> None:
    """The lock has expired, and the record was delivered again, to the same consumer."""
    leader = Leader()
    (earlier,) = leader.receive(1)
    leader.now = LOCK_MS
    leader.expire()
    (later,) = leader.receive(1)

    assert [EXPIRED] == leader.acknowledge(kind, earlier)
    assert [OK] == leader.acknowledge(ACCEPT, later)
    leader.commit()
    expected = OK if kind in (ACCEPT, REJECT) else EXPIRED  # it is below the share's start: it is finished
    assert [expected] == leader.acknowledge(kind, earlier)


@pytest.mark.parametrize("kind", KINDS)
def test_a_delivery_that_was_undone_has_no_valid_receipt(kind: int) -> None:
    """The response was not sent, and the next delivery has the same count."""
    leader = Leader()
    (undone,) = leader.receive(1)
    leader.leases.undo(leader.leases.held_by(member_without_session("c", undone.lease)))
    (later,) = leader.receive(1)
    assert undone[:3] == later[:3]

    assert [EXPIRED] == leader.acknowledge(kind, undone)
    assert [OK] == leader.acknowledge(kind, later)


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_lock_cannot_be_acknowledged(kind: int) -> None:
    """But a release is what the expiry was."""
    leader = Leader()
    (one,) = leader.receive(1)
    leader.now = LOCK_MS
    leader.expire()
    leader.commit()

    assert [OK if kind == RELEASE else EXPIRED] == leader.acknowledge(kind, one)


@pytest.mark.parametrize("kind", KINDS)
def test_a_receipt_survives_a_change_of_leaders(kind: int) -> None:
    """Until the record is delivered again: then only the new receipt is valid."""
    leader = Leader()
    first, second, third = leader.receive(3)
    leader.fail_over()

    assert [OK, OK] == leader.acknowledge(kind, second, third)
    leader.commit()
    assert [OK] == leader.acknowledge(kind, third)
    assert (2 if kind == RENEW else 0) == leader.leases.held_count
    assert {ACCEPT: 1, REJECT: 1, RELEASE: 1, RENEW: 0}[Acknowledgement(kind)] == leader.share.runs.get(2)[1]
    (again, *_) = leader.receive(1)
    assert 0 == again.offset
    assert [EXPIRED] == leader.acknowledge(kind, first)


def test_a_delivery_is_undone() -> None:
    """The consumer has not got the record: it is available at once, and the next delivery has the same count."""
    leader = Leader()
    first, second, third = leader.receive(3)
    assert [OK, OK, EXPIRED] == leader.acknowledge(UNDO, first, third, Delivery(2, 1, 9, third.lease))

    assert [(0, 1), (2, 1)] == [(it.offset, it.delivery_count) for it in leader.receive(3)]
    assert [EXPIRED] == leader.acknowledge(ACCEPT, first)
    assert [OK] == leader.acknowledge(ACCEPT, second)


def test_a_renewed_lock_after_a_change_of_leaders_belongs_to_its_receipt() -> None:
    leader = Leader()
    (one,) = leader.receive(1)
    leader.fail_over()

    assert [OK] == leader.acknowledge(RENEW, one)
    assert [] == leader.receive(1)
    assert [OK] == leader.acknowledge(ACCEPT, one)


def test_a_decision_that_was_lost_with_its_leader_is_made_again() -> None:
    leader = Leader()
    (one,) = leader.receive(1)
    leader.acknowledge(ACCEPT, one)
    leader.fail_over()

    assert [OK] == leader.acknowledge(ACCEPT, one)
    leader.commit()
    assert 1 == leader.share.start


def test_delays_and_locks_are_those_of_the_request() -> None:
    leader = Leader()
    first, second = leader.receive(2)
    assert [OK] == leader.acknowledge(RELEASE, first, delay_ms=700)
    assert [OK] == leader.acknowledge(RENEW, second, lock_ms=LOCK_MS * 3)
    leader.commit()

    assert 700 == leader.share.runs.get(0).release_at
    leader.now = 2 * LOCK_MS
    assert [] == leader.expire()
    assert [OK] == leader.acknowledge(ACCEPT, second)


def test_a_record_is_acknowledged_once_although_its_receipt_is_repeated() -> None:
    leader = Leader()
    (one,) = leader.receive(1)
    assert [OK, OK] == leader.acknowledge(ACCEPT, one, one)
    leader.commit()
    assert 1 == leader.share.start


def test_an_offset_behind_the_high_watermark_is_expired() -> None:
    leader = Leader()
    leader.receive(1)
    assert [EXPIRED] == leader.acknowledge(ACCEPT, Delivery(END, 1, 1, 1))


def test_other_types_and_locks_that_cannot_be_renewed_are_refused() -> None:
    leader = Leader(is_renewable=False)
    (one,) = leader.receive(1)
    for kind, code in ((0, errors.INVALID_REQUEST), (6, errors.INVALID_REQUEST), (RENEW, errors.INVALID_RECORD_STATE)):
        with pytest.raises(AcknowledgementRefused) as refused:
            leader.acknowledge(kind, one)
        assert code == refused.value.code


EVENTS = st.one_of(
    st.tuples(st.just("receive"), st.integers(1, END), st.integers(1, 4)),
    st.tuples(st.just("acknowledge"), st.sampled_from(KINDS), st.lists(st.integers(0, 30), max_size=4)),
    st.tuples(st.sampled_from(("commit", "expire", "fail over"))),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=40))
def test_no_receipt_acknowledges_another_delivery(events: list[tuple[object, ...]]) -> None:
    """
    A record that was accepted with the outcome OK, and whose decision has committed, is never delivered again.  Only
    the receipt of a record's last delivery changes anything, as far as the leader knows it: what did not commit before
    a change of leaders has not happened.
    """
    leader = Leader(delivery_limit=100)
    receipts: list[Delivery] = []
    newest: dict[int, Delivery] = {}
    accepted: dict[int, Delivery] = {}
    for name, *arguments in events:
        match name, arguments:
            case "receive", [int(end), int(records_max)]:
                for one in leader.receive(end, records_max):
                    assert one.offset not in accepted, "an accepted record is delivered again"
                    newest[one.offset] = one
                    receipts.append(one)
            case "acknowledge", [int(kind), list(places)] if receipts:
                chosen = [receipts[place % len(receipts)] for place in places]
                found = leader.answer(kind, *chosen)
                leader.propose(found.runs)
                changed = {offset for run in found.runs for offset in range(run.first, run.end)}
                for one, outcome in zip(chosen, found.outcomes, strict=True):
                    if one.offset in changed and outcome is OK and one.term == leader.term:
                        assert newest[one.offset] == one, "an earlier receipt has acknowledged a delivery"
                if kind == ACCEPT:
                    leader.commit()
                    accepted |= {
                        one.offset: one for one, outcome in zip(chosen, found.outcomes, strict=True) if outcome is OK
                    }
            case "commit", _:
                leader.commit()
            case "expire", _:
                leader.now += LOCK_MS
                leader.expire()
            case "fail over", _:
                leader.fail_over()
    for offset, one in accepted.items():
        status = leader.share.runs.get(offset)
        assert offset < leader.share.start or status.is_finished, one
