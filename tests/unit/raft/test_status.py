"""The status of a replica has its own state and, while it leads, the progress of the other members."""

from tests.unit.raft.transcript import Transcript, voter
from tidemill.raft.role import Role


def started() -> Transcript:
    """Return three replicas: replica 1 leads, and has committed one entry after its no-op."""
    transcript = Transcript()
    transcript.do_voters("1", "2", "3")
    transcript.do_elect("1")
    transcript.do_propose("1", "a")
    transcript.do_stabilize()
    return transcript


def test_a_leader_reports_the_progress_of_the_other_members() -> None:
    """A leader reports the progress of the other members; a follower has none to report."""
    transcript = started()

    leader, follower = (transcript.replicas[number].status() for number in (1, 2))

    assert (Role.LEADER, Role.FOLLOWER, voter(1)) == (leader.role, follower.role, follower.leader)
    assert {voter(2): 2, voter(3): 2} == transcript.replicas[1].matches
    assert {} == follower.members
    assert (2, 2, 2) == (leader.last_index, leader.durable_index, leader.commit_index)


def test_a_damaged_member_has_no_match_index() -> None:
    """
    A damaged member has no match index; the status has the term and index that a snapshot must reach to repair it.
    """
    transcript = started()
    transcript.do_damage("3", "1")
    transcript.do_send("3>1", "*")

    status = transcript.replicas[1].status()
    member = status.members[voter(3)]

    assert {voter(2): 2} == transcript.replicas[1].matches
    assert (True, True, (1, 2)) == (member.is_damaged, member.is_installing, member.repair_floor)
