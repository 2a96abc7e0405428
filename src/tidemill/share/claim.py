"""What the leader knows about a record beyond its durable status: the consumer that holds it, or a pending decision."""

from typing import NamedTuple

from tidemill.share.record_status import RecordStatus


class Held(NamedTuple):
    """The record is acquired by a consumer, and locked until the deadline."""

    member: str
    deadline: int
    delivery_count: int  # including this delivery


class Decided(NamedTuple):
    """
    A row with the record's new status has been proposed, but is not committed yet.

    Until it commits, nothing else can happen to the record, unless `is_available`: a record whose lock has expired, or
    whose consumer's session has ended, can be acquired again immediately.
    """

    status: RecordStatus
    is_available: bool


Claim = Held | Decided


class Acquired(NamedTuple):
    """Records that a consumer has acquired, all with the same delivery count."""

    first: int
    end: int
    delivery_count: int


def is_replaced_by(claim: Claim | None, status: RecordStatus) -> bool:
    """
    Return whether `claim` was waiting for the commit of `status`.

    Two decisions about a record that can both be uncommitted differ in the state or in the delivery count, so these two
    identify the decision.
    """
    return isinstance(claim, Decided) and claim.status[:2] == status[:2]
