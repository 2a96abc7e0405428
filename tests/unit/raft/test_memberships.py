"""Memberships follow the entries of the log: appended, truncated, committed, installed."""

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.memberships import Memberships
from tidemill.raft.voters import Membership

ONE, TWO, THREE = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3))
PAIR, TRIO, LAST = Membership((ONE, TWO)), Membership((ONE, TWO, THREE)), Membership((TWO, THREE))


def test_a_change_is_in_force_from_its_entry_on() -> None:
    """A change is in force as soon as its entry is appended, committed or not."""
    memberships = Memberships([(0, PAIR)])

    memberships.append(5, TRIO)

    assert (TRIO, 5) == (memberships.current, memberships.changed_at)


def test_a_truncated_change_puts_the_one_before_it_back_in_force() -> None:
    """Truncating one or more changes puts the membership before them back in force."""
    memberships = Memberships([(0, PAIR), (5, TRIO), (8, LAST)])

    memberships.truncate(5)

    assert (PAIR, 0) == (memberships.current, memberships.changed_at)


def test_a_voter_whose_removal_is_not_committed_may_vote_again() -> None:
    """A removed voter may vote until its removal is committed, because a truncation could undo the removal."""
    memberships = Memberships([(0, TRIO), (5, LAST)])

    before = memberships.has_voter(ONE)
    memberships.commit(5)

    assert (True, False) == (before, memberships.has_voter(ONE))


def test_an_install_replaces_all_memberships() -> None:
    """An install replaces all memberships with the snapshot's membership, which is committed."""
    memberships = Memberships([(0, PAIR), (5, TRIO)])

    memberships.installed(9, LAST)

    assert (LAST, 9, False) == (memberships.current, memberships.changed_at, memberships.has_voter(ONE))
