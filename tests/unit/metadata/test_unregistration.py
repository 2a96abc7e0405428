"""Brokers that leave the cluster for good."""

import pytest

from tests.unit.metadata.controller_world import Cluster, admission, registration, voter
from tidemill.metadata.broker_states import SetPresence
from tidemill.metadata.reassignments import Move, PlanMoves
from tidemill.metadata.unregistration import UnregisterBroker
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId

FOUR = BrokerId(4)


def cluster() -> Cluster:
    """Return a cluster with a shard on broker 1; broker 4 is down, carries nothing, and is no voter of shard 0."""
    made = Cluster(brokers=4)
    assert made.create("t", assignments=((0, (BrokerId(1),)),)).problem is None
    made.live = frozenset(map(BrokerId, (1, 2, 3)))
    return made


def unregister(made: Cluster, broker_id: int = FOUR, carrying: tuple[int, ...] = ()) -> tuple[int, str] | None:
    command = UnregisterBroker(broker_id=BrokerId(broker_id), carrying=tuple(map(ShardId, carrying)))
    problem: tuple[int, str] | None = made.do(command).problem
    return problem


def test_a_broker_that_is_down_and_carries_nothing_is_removed() -> None:
    """A shard that was deleted meanwhile does not keep it."""
    made = cluster()

    problem = unregister(made, carrying=(77,))

    assert problem is None
    assert [*made.image.brokers] == [1, 2, 3]
    assert made.restored() == made.image


def test_a_removed_broker_starts_again_on_an_empty_directory_only() -> None:
    """
    Its directory may lack what the cluster has committed since, and its replicas may have votes that were counted.  So
    it is neither registered nor confirmed, and the message says what to do.
    """
    made = cluster()
    unregister(made)

    registered = made.do(registration(4)).problem
    confirmed = made.do(admission(voter(4).directory_id, 4, was_admitted=True)).problem
    anew = made.do(admission(voter(5).directory_id, 4)).problem

    assert registered.error_code == errors.BROKER_ID_NOT_REGISTERED
    assert "or was removed; start it on an empty directory" in registered.message
    assert confirmed.error_code == errors.BROKER_ID_NOT_REGISTERED
    assert "or was removed; start it on an empty directory" in confirmed.message
    assert anew is None


def test_an_unknown_broker_is_refused() -> None:
    """Kafka's clients know this error code."""
    problem = unregister(cluster(), 9)

    assert problem is not None and problem[0] == errors.BROKER_ID_NOT_REGISTERED
    assert "broker 9 is not in this cluster; its brokers are 1,2,3,4" in problem[1]


@pytest.mark.parametrize(
    ("broker_id", "carrying", "says"),
    [
        (2, (), "it is live; drain it with `tidemill cluster drain`, and stop it"),
        (4, (1,), "it is still a member of shard 1 (t, partition 0); wait until their replicas have moved"),
        (4, (METADATA_SHARD,), "it is still a member of the metadata shard;"),
    ],
)
def test_a_broker_that_the_cluster_needs_is_refused(broker_id: int, carrying: tuple[int, ...], says: str) -> None:
    """A live broker would go on, and a shard would wait for ever for a member that can never come back."""
    made = cluster()

    problem = unregister(made, broker_id, carrying)

    assert problem is not None and problem[0] == errors.INVALID_REQUEST and says in problem[1]
    assert len(made.image.brokers) == 4


def test_a_broker_waits_for_shards_whose_members_are_not_known() -> None:
    """
    It may be a member of one.  A shard that has lost its majority keeps every broker in the cluster after a change of
    controller, so the message names the shard, and says how that ends.
    """
    made = cluster()

    problem = made.do(UnregisterBroker(broker_id=FOUR, carrying=(), untold=(ShardId(1), ShardId(77)))).problem

    assert problem is not None and problem.error_code == errors.INVALID_REQUEST
    assert problem.message.endswith(
        "it may be a member of shard 1 (t, partition 0), whose members no leader has told a new controller yet; try "
        "again in some seconds, and if a shard has lost its leader for good, delete its topic"
    )
    assert made.do(UnregisterBroker(broker_id=FOUR, carrying=(), untold=(ShardId(77),))).problem is None


def test_a_broker_with_planned_replicas_is_refused() -> None:
    """Replicas are planned on it even if no leader has made it a member yet."""
    made = cluster()
    made.do(PlanMoves(moves=(Move(shard_id=ShardId(1), brokers=(BrokerId(1), FOUR), reason=Reason.USER),)))

    problem = unregister(made)

    assert problem is not None and problem[0] == errors.INVALID_REQUEST
    says = "replicas of shard 1 (t, partition 0) are planned on it; drain it with `tidemill cluster drain`"
    assert says in problem[1]


def test_a_voter_of_the_metadata_is_refused() -> None:
    """A planned voter of the metadata shard is not removed, and the message does not call it by its number."""
    made = cluster()
    made.live = frozenset((BrokerId(1), BrokerId(3)))

    problem = unregister(made, 2)

    assert problem is not None and "replicas of the metadata shard are planned on it" in problem[1]


def test_a_refusal_names_some_shards() -> None:
    """A broker may carry thousands of shards."""
    made = cluster()
    made.create("many", assignments=tuple((partition, (FOUR, BrokerId(1 + partition % 2))) for partition in range(15)))

    problem = unregister(made)

    assert problem is not None and problem[1].count("shard ") == 10
    assert "shard 11 (many, partition 9) and 5 more are planned on it" in problem[1]


def test_a_refusal_names_the_partitions_of_a_shard() -> None:
    """Kafka's commands show partitions only, so the number of a shard alone would tell an operator nothing."""
    made = cluster()
    made.create("wide", assignments=tuple((partition, (FOUR, BrokerId(1))) for partition in range(3)))

    problem = unregister(made)

    assert problem is not None and "shard 2 (wide, partitions 0 to 2) are planned on it" in problem[1]


def test_unregistering_needs_feature_level_2() -> None:
    """Older brokers cannot read the record."""
    made = Cluster(brokers=4, level=1)
    made.live = frozenset()

    problem = unregister(made)

    assert problem is not None and problem[0] == errors.UNSUPPORTED_VERSION
    assert "unregistering brokers needs feature level 2" in problem[1]


def test_a_broker_that_is_gone_is_not_to_be_drained() -> None:
    """Its replicas are placed elsewhere without that, and the planner says of which that is impossible."""
    made = cluster()
    made.do(PlanMoves(moves=(Move(shard_id=ShardId(1), brokers=(FOUR,), reason=Reason.USER),)))
    for presence in (Presence.SILENT, Presence.GONE):
        made.do(SetPresence(broker_id=FOUR, presence=presence))

    problem = unregister(made)

    assert problem is not None
    assert problem[1].endswith(
        "are planned on it; wait until they are placed elsewhere; `tidemill cluster rebalance` names those that cannot "
        "be"
    )
