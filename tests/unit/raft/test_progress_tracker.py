"""The leader knows which entries members still need."""

from types import SimpleNamespace
from typing import Any

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.progress import Window
from tidemill.raft.progress_tracker import ProgressTracker
from tidemill.raft.voters import Membership

ME, PRESENT, ABSENT = (ReplicaKey(BrokerId(number), DirectoryId(bytes((number,)) * 16)) for number in (1, 2, 3))


def is_alive(member: ReplicaKey) -> bool:
    return member != ABSENT


def tracker() -> ProgressTracker:
    """Return a tracker of a log with 100 entries, of which the members have 95 and 90."""
    log: Any = SimpleNamespace(last_index=100)
    found = ProgressTracker(ME, log, Membership((ME, PRESENT, ABSENT)), Window())
    found.members[PRESENT].accepted(95)
    found.members[ABSENT].accepted(90)
    return found


def test_an_absent_member_needs_entries_for_a_while() -> None:
    """A broker that restarts needs no install then.  A new leader counts from its first tick."""
    members = tracker()
    needed = [members.needed_index(is_alive, 10_000)]
    for now_ms in (5_000, 14_999, 15_000):
        members.retry(now_ms, 0, is_alive)
        needed.append(members.needed_index(is_alive, 10_000))

    assert [91, 91, 91, 96] == needed


def test_the_absence_of_a_member_that_was_back_begins_anew() -> None:
    members = tracker()
    members.retry(5_000, 0, is_alive)
    members.retry(20_000, 0, lambda member: True)
    members.retry(21_000, 0, is_alive)

    assert 91 == members.needed_index(is_alive, 10_000)


def test_an_absent_member_needs_nothing_if_the_host_says_so() -> None:
    members = tracker()
    members.retry(5_000, 0, is_alive)

    assert 96 == members.needed_index(is_alive, 0)
