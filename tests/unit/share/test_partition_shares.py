"""Opening and closing shares.  A share is what one share group has done with the records of one partition."""

from tests.unit.share.runs import run
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.record_status import RecordState
from tidemill.share.share_row import CloseShare, OpenShare, SetRuns


def opened(group: str = "g", incarnation: int = 5, state_epoch: int = 0, start: int = 100) -> OpenShare:
    return OpenShare(0, group, incarnation, state_epoch, start)


def started(*sections: OpenShare) -> PartitionShares:
    shares = PartitionShares()
    for section in sections:
        shares.apply(section)
    return shares


def test_a_newer_incarnation_replaces_the_share() -> None:
    """A newer incarnation or state epoch replaces the share; a late command with an older or equal one is ignored."""
    shares = started(opened(start=1))
    for late in (opened(start=2), opened(incarnation=4, state_epoch=9, start=3)):
        shares.apply(late)
        assert [1] == [share.start for share in shares.by_number.values()]

    shares.apply(opened(state_epoch=1, start=4))
    shares.apply(opened(incarnation=6, start=5))

    share = shares.of_group("g")
    assert share is not None and (3, 5, [3]) == (share.number, share.start, list(shares.by_number))


def test_a_row_for_a_replaced_share_is_ignored() -> None:
    """
    A row with record states names the number of its share.  Numbers are never reused, so a row for a replaced share
    does not change the new one.
    """
    shares = started(opened(), opened(incarnation=6))

    shares.apply(SetRuns(0, 1, (run(100, 200, RecordState.ACKNOWLEDGED),)))

    share = shares.of_group("g")
    assert share is not None and 100 == share.start


def test_closing_removes_the_incarnation_it_names() -> None:
    """
    Closing a share names its incarnation, so it removes the share of a deleted group, but not the share of a group that
    has been created again since.
    """
    shares = started(opened(incarnation=5), opened("other", incarnation=6))

    shares.apply(CloseShare(0, 2, incarnation=5))
    shares.apply(CloseShare(0, 1, incarnation=5))
    shares.apply(CloseShare(0, 1, incarnation=5))

    assert shares.of_group("g") is None and shares.of_group("other") is not None
    shares.apply(opened())
    assert [2, 3] == sorted(shares.by_number)


def test_the_log_start_reaches_every_share() -> None:
    """
    When retention moves the log start, every share that starts below it is moved there, and the number of removed
    records is reported for each group that has lost any.
    """
    shares = started(opened("slow", start=10), opened("fast", start=50))

    assert {"slow": (30, 0)} == shares.log_starts_at(40)
    assert [40, 50] == [share.start for share in shares.by_number.values()]
