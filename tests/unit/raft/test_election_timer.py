"""The election timer measures pauses between ticks: a pause that begins between two ticks counts from the later one."""

from tidemill.raft.election_timer import ELECTION_MS, FIRST_ELECTION_MS, ElectionTimer

JITTER_MS = 40
HOUR_MS = 3_600_000


def is_due(timer: ElectionTimer, now_ms: int, *, is_only_voter: bool = False, is_leader_leaving: bool = False) -> bool:
    return timer.is_due(now_ms, is_only_voter=is_only_voter, is_leader_leaving=is_leader_leaving)


def test_a_campaign_is_due_one_jitter_after_the_first_tick_without_a_leader() -> None:
    """A campaign is due one random delay (jitter) after the first tick without a leader, so that replicas do not
    campaign simultaneously.
    """
    timer = ElectionTimer(lambda: JITTER_MS)

    due = [is_due(timer, now_ms) for now_ms in (1_000, 1_000 + JITTER_MS - 1, 1_000 + JITTER_MS)]

    assert [False, False, True] == due


def test_the_only_voter_does_not_wait() -> None:
    """The only voter campaigns immediately, because it has no rival."""
    timer = ElectionTimer(lambda: JITTER_MS)

    assert is_due(timer, 1_000, is_only_voter=True)


def test_a_leader_that_is_leaving_gets_time_to_commit_its_removal() -> None:
    """A leader that is alive but no longer a voter is given one election timeout to commit its own removal."""
    timer = ElectionTimer(lambda: JITTER_MS)
    is_due(timer, 0, is_leader_leaving=True)

    assert [False, True] == [is_due(timer, now_ms) for now_ms in (ELECTION_MS, ELECTION_MS + JITTER_MS)]


def test_the_pause_between_attempts_doubles_up_to_the_election_timeout() -> None:
    """The pause between attempts doubles up to the election timeout, and a live leader resets it."""
    timer = ElectionTimer(lambda: 0)

    def pause_ms() -> int:
        timer.attempted()
        is_due(timer, 0)
        return next(ms for ms in range(0, 2 * ELECTION_MS, 25) if is_due(timer, ms))

    pauses = [pause_ms() for _ in range(6)]
    timer.leader_is_alive()

    assert [125, 250, 500, 1_000, 1_000, 1_000] == pauses
    assert FIRST_ELECTION_MS == pause_ms()


def test_a_pause_begins_at_the_tick_after_it() -> None:
    """The pause after a vote begins at the next tick, even if the replica was asleep for an hour before."""
    timer = ElectionTimer(lambda: JITTER_MS)
    timer.leader_is_alive()
    timer.voted()

    assert not is_due(timer, HOUR_MS)
    assert is_due(timer, HOUR_MS + ELECTION_MS + JITTER_MS)
