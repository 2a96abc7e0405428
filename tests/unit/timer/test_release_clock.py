"""The release clock: never ahead of the latest right clock while fewer than half of the clocks are wrong."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.timer.release_clock import AHEAD_MS_MAX, READING_MS_MAX, ReleaseClock, stamp

NOW = 1_800_000_000_000


def limit_of(others: dict[int, int], own: int | None, *, voters: int, passed: int = 0) -> int | None:
    """Return the limit at broker 0, which has heard the others' readings `passed` milliseconds ago."""
    clock = ReleaseClock[int]()
    for voter, wall_ms in others.items():
        clock.heard(voter, wall_ms, 50_000)
    numbers = range(voters) if own is not None else range(1, voters + 1)
    return clock.limit([*numbers], 0, own or NOW, 50_000 + passed)


def test_a_single_broker_follows_its_own_clock() -> None:
    assert limit_of({}, NOW, voters=1) == NOW


def test_the_limit_is_the_median_of_three() -> None:
    assert limit_of({1: NOW - 20, 2: NOW + 3_600_000}, NOW, voters=3) == NOW
    assert limit_of({1: NOW + 7, 2: NOW + 3_600_000}, NOW, voters=3) == NOW + 7


def test_an_even_number_has_the_lower_of_the_two() -> None:
    assert limit_of({1: NOW + 5}, NOW, voters=2) == NOW
    assert limit_of({1: NOW + 5, 2: NOW + 9, 3: NOW - 9}, NOW, voters=4) == NOW


def test_a_missing_reading_counts_as_the_earliest() -> None:
    assert limit_of({1: NOW + 5}, NOW, voters=3) == NOW
    assert limit_of({1: NOW - 5}, NOW, voters=3) == NOW - 5
    assert limit_of({}, NOW, voters=3) is None
    assert limit_of({1: NOW, 2: NOW}, NOW, voters=5) == NOW
    assert limit_of({1: NOW}, NOW, voters=5) is None


def test_time_that_passes_after_a_reading_counts_a_little_less() -> None:
    assert limit_of({1: NOW - 1_000}, NOW + 9_000, voters=2, passed=2_000) == NOW - 1_000 + 1_998


def test_a_clock_that_drifts_more_counts_less_of_the_time_that_passes() -> None:
    clock = ReleaseClock[int](0.1)
    clock.heard(1, NOW, 0)

    assert clock.limit([0, 1], 0, NOW + 9_000, 2_000) == NOW + 1_800


def test_an_old_reading_is_missing() -> None:
    assert limit_of({1: NOW}, NOW + READING_MS_MAX, voters=2, passed=READING_MS_MAX) is not None
    assert limit_of({1: NOW}, NOW + READING_MS_MAX, voters=2, passed=READING_MS_MAX + 1) is None


def test_a_leader_that_is_no_voter_counts_for_nothing() -> None:
    assert limit_of({1: NOW, 2: NOW + 1, 3: NOW + 2}, None, voters=3) == NOW + 1


def test_a_former_voter_is_forgotten() -> None:
    clock = ReleaseClock[int]()
    for voter in (1, 2):
        clock.heard(voter, NOW, 0)
    clock.keep_only([0, 1])

    assert clock.limit([0, 1, 2], 0, NOW + 9, 0) == NOW
    assert clock.limit([0, 2], 0, NOW + 9, 0) is None


@given(st.data())
def test_the_limit_is_never_ahead_of_the_latest_right_clock(data: st.DataObject) -> None:
    """
    Up to (n-1)//2 of n clocks are anywhere; the others are right within some milliseconds, or not heard.
    """
    voters = data.draw(st.integers(1, 7))
    wrong = data.draw(st.sets(st.integers(0, voters - 1), max_size=(voters - 1) // 2))
    clock, latest_right, own = ReleaseClock[int](), None, NOW
    for voter in range(voters):
        wall_ms = NOW + data.draw(st.integers(-(10**9), 10**9) if voter in wrong else st.integers(-100, 100))
        passed = data.draw(st.integers(0, READING_MS_MAX + 1_000))
        if voter == 0:
            own = wall_ms
        elif data.draw(st.booleans()):
            clock.heard(voter, wall_ms - passed, 100_000 - passed)
        if voter not in wrong:
            latest_right = max(wall_ms, latest_right or wall_ms)
    limit = clock.limit([*range(voters)], 0, own, 100_000)

    assert latest_right is not None
    assert limit is None or limit <= latest_right


def test_a_stamp_never_goes_back() -> None:
    assert stamp(NOW, NOW - 50, NOW + 7) == NOW + 7
    assert stamp(NOW, NOW - 50, 0) == NOW
    assert stamp(NOW, NOW + 50, 0) == NOW + 50
    assert stamp(NOW, NOW + 86_400_000, 0) == NOW + AHEAD_MS_MAX


def test_readings_leave_out_clocks_that_were_not_heard_lately() -> None:
    clock = ReleaseClock[int]()
    clock.heard(1, NOW, 0)
    clock.heard(2, NOW + 500, READING_MS_MAX)

    assert {1: NOW + 9_990, 2: NOW + 500} == clock.readings(READING_MS_MAX)
    assert {2: NOW + 501} == clock.readings(READING_MS_MAX + 2)
