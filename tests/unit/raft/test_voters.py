"""`step_towards` leads from any membership to any plan, one legal step at a time."""

from collections.abc import Collection
from itertools import combinations

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.quorum import majority
from tidemill.raft.voters import Membership, check_change, step_towards


def voter(broker_id: int, directory: int = 0) -> ReplicaKey:
    return ReplicaKey(BrokerId(broker_id), DirectoryId(bytes([directory]) * 16))


ONE, TWO, THREE, FOUR, FIFTH = (voter(broker_id) for broker_id in range(1, 6))
NEW_ONE, NEW_THREE = voter(1, 9), voter(3, 9)
FIVE = (ONE, TWO, THREE, NEW_ONE, NEW_THREE)  # the voters 1, 2, 3, and new directories of the brokers 1 and 3


def subsets(voters: Collection[ReplicaKey], least: int = 0) -> list[tuple[ReplicaKey, ...]]:
    return [chosen for size in range(least, len(voters) + 1) for chosen in combinations(voters, size)]


MEMBERSHIPS = [
    Membership(voters, learners)
    for voters in subsets(FIVE, least=1)
    for learners in subsets([v for v in FIVE if v not in voters])
]
PLANS = [plan for plan in subsets(FIVE, least=1) if len({v.broker_id for v in plan}) == len(plan)]


def walk(
    start: Membership, planned: tuple[ReplicaKey, ...], caught_up: Collection[ReplicaKey] = FIVE
) -> list[Membership]:
    """Return every membership from `start` to the plan, including the first one."""
    way = [start]
    while (step := step_towards(way[-1], planned, caught_up)) is not None:
        check_change(way[-1], step)
        way.append(step)
        assert len(way) < 20, "the steps do not end"
    return way


def failures_survived(membership: Membership, up: Collection[ReplicaKey]) -> int:
    """
    Return how many live voters may fail before the majority is lost; the result is negative if it is already lost.
    """
    return sum(v in up for v in membership.voters) - majority(membership.voters)


@pytest.mark.parametrize(
    "planned", PLANS, ids=lambda plan: "+".join(f"{v.broker_id}{v.directory_id[:1].hex()}" for v in plan)
)
def test_any_membership_reaches_any_plan(planned: tuple[ReplicaKey, ...]) -> None:
    """From any membership, finitely many legal steps lead to any plan."""
    for start in MEMBERSHIPS:
        *_, last = walk(start, planned)

        assert (set(planned), ()) == (set(last.voters), last.learners)


def test_no_step_survives_fewer_failures_than_both_ends() -> None:
    """
    While all brokers are up, no intermediate membership survives fewer failures than the weaker of start and plan,
    unless the plan removes a replaced directory.
    """
    for planned in PLANS:
        for start in MEMBERSHIPS:
            if {v.broker_id for v in start.voters if v not in planned} & {v.broker_id for v in planned}:
                continue
            least = min(failures_survived(m, FIVE) for m in (start, Membership(planned)))

            assert all(failures_survived(m, FIVE) >= least for m in walk(start, planned))


def test_no_step_takes_the_majority_away_from_the_live_voters() -> None:
    """Whichever voters are down, a shard that has a live majority keeps one at every step."""
    for planned in PLANS:
        for start in MEMBERSHIPS:
            for up in subsets(FIVE, least=1):
                if failures_survived(start, up) >= 0:
                    assert all(failures_survived(m, up) >= 0 for m in walk(start, planned, up))


def test_there_are_never_many_more_voters_than_planned() -> None:
    """
    There are never many more voters than planned: replacing three voters by three others takes no more than four at a
    time.
    """
    others = tuple(voter(broker_id) for broker_id in (7, 8, 9))

    way = walk(Membership((ONE, TWO, THREE)), others, (ONE, TWO, THREE, *others))

    assert max(len(m.voters) for m in way) == 4


def test_a_slow_learner_does_not_delay_other_learners() -> None:
    """All learners are added together, and the first that catches up is promoted, so a slow learner delays no other."""
    way = walk(Membership((ONE,)), (ONE, TWO, THREE), caught_up=(ONE, THREE))

    assert way[1:] == [
        Membership((ONE,), (TWO,)),
        Membership((ONE,), (TWO, THREE)),
        Membership((ONE, THREE), (TWO,)),
    ]


def test_a_replaced_directory_is_removed_before_its_successor_votes() -> None:
    """A replaced directory, which never answers again, is removed before its successor votes.  If both were voters, one
    more failure would make the shard unavailable.
    """
    way = walk(Membership((ONE, TWO, THREE)), (ONE, TWO, NEW_THREE), caught_up=(ONE, TWO, NEW_THREE))

    assert way[1:] == [
        Membership((ONE, TWO)),
        Membership((ONE, TWO), (NEW_THREE,)),
        Membership((ONE, TWO, NEW_THREE)),
    ]


def test_a_voter_stays_until_its_successor_has_learned() -> None:
    """A voter stays until its successor has caught up, because two voters alone would survive no failure."""
    waiting = Membership((ONE, TWO, THREE), (FOUR,))

    before = step_towards(waiting, (ONE, TWO, FOUR), caught_up=(ONE, TWO, THREE))
    after = step_towards(waiting, (ONE, TWO, FOUR), caught_up=(ONE, TWO, THREE, FOUR))

    assert (before, after) == (None, Membership((ONE, TWO, THREE, FOUR)))


def test_a_lagging_voter_is_removed_first() -> None:
    """A lagging voter is removed first: four live voters survive more failures than three live ones and one that is
    down.
    """
    step = step_towards(Membership((ONE, TWO, THREE, FOUR, FIFTH)), (ONE,), caught_up=(ONE, TWO, THREE, FIFTH))

    assert step == Membership((ONE, TWO, THREE, FIFTH))


def test_a_shrinking_plan_waits_for_a_new_voter_to_catch_up() -> None:
    """If three voters become two, one of them new, all three stay until the new one has caught up, so that the shard
    still survives one failure.
    """
    way = walk(Membership((ONE, TWO, THREE)), (ONE, FOUR), caught_up=(ONE, TWO, THREE))

    assert way[1:] == [Membership((ONE, TWO, THREE), (FOUR,))]


def test_a_voter_that_the_majority_needs_is_not_removed() -> None:
    """If one of the two planned voters is down, the third voter is not removed, because the majority depends on it."""
    step = step_towards(Membership((ONE, TWO, THREE)), (ONE, THREE), caught_up=(ONE, TWO))

    assert step is None


def test_planned_learners_stay_learners() -> None:
    """Planned learners are added and kept as learners, and a voter that is a planned learner is demoted."""

    def next_of(membership: Membership) -> Membership | None:
        return step_towards(membership, (ONE,), (ONE, TWO, THREE), planned_learners=(TWO, THREE))

    came, demoted, stayed = (
        next_of(Membership((ONE,), (TWO,))),
        next_of(Membership((ONE, TWO), (THREE,))),
        next_of(Membership((ONE,), (THREE, TWO))),
    )

    assert came == Membership((ONE,), (TWO, THREE))
    assert demoted == Membership((ONE,), (THREE, TWO))
    assert stayed is None
