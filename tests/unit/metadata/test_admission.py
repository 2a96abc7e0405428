"""Admission of brokers: which directories are admitted, and with which broker id."""

from dataclasses import replace

import pytest

from tests.unit.metadata.controller_world import NOW_MS, Cluster, CountingEntropy, admission, registration, voter
from tidemill.metadata.admission import BROKER_ID_MAX, NO_BROKER
from tidemill.metadata.brokers import BootstrapCluster
from tidemill.metadata.controller import Controller
from tidemill.metadata.growth import metadata_learners
from tidemill.metadata.producer_ids import AllocateProducerIds
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import METADATA_SHARD

A, B, C = (DirectoryId(letter * 16) for letter in (b"a", b"b", b"c"))


def test_a_broker_gets_the_requested_id_or_the_next_one() -> None:
    """If the broker requests no id, the controller assigns one above all existing ids."""
    cluster = Cluster()

    given = [cluster.do(admission(directory, wish)).broker_id for directory, wish in ((A, 7), (B, None), (C, 0))]

    assert given == [7, 8, 0]


def test_a_repeated_admission_gets_the_same_response() -> None:
    """A broker that crashed before it stored its id repeats the admission request, and gets the same response."""
    cluster = Cluster()
    first = cluster.do(admission(A, None))

    again = [cluster.controller.decide(admission(A, wish), NOW_MS) for wish in (None, 2)]

    assert [(result.records, result.response) for result in again] == [((), first)] * 2
    assert (first.cluster_id, first.broker_id, first.problem) == ("c", 2, None)


@pytest.mark.parametrize(
    ("directory", "wish", "error_code", "says"),
    [
        (C, 2, errors.DUPLICATE_BROKER_REGISTRATION, "it is in use by a live broker with data directory 6161"),
        (A, 3, errors.INVALID_REQUEST, "belongs to broker 2; set that"),
        (C, -1, errors.INVALID_REQUEST, "it must be from 0 to"),
        (C, BROKER_ID_MAX + 1, errors.INVALID_REQUEST, "it must be from 0 to"),
    ],
)
def test_an_unavailable_broker_id_is_refused(directory: DirectoryId, wish: int, error_code: int, says: str) -> None:
    """
    Two processes never share a broker id.  The error message names the id and the reason, and no record is written.
    """
    cluster = Cluster()
    cluster.do(admission(A, 2))
    before = cluster.image

    answer = cluster.do(admission(directory, wish, live=[1, 2]))

    assert answer.problem is not None
    assert (answer.broker_id, answer.problem.error_code) == (NO_BROKER, error_code)
    assert says in answer.problem.message
    assert before == cluster.image


@pytest.mark.parametrize(
    ("directory", "number", "error_code", "says"),
    [
        (
            voter(2).directory_id,
            2,
            errors.DUPLICATE_BROKER_REGISTRATION,
            "61616161 has replaced 0202",
        ),
        (B, 9, errors.BROKER_ID_NOT_REGISTERED, "broker 9 was never admitted to this cluster"),
        (A, 2, errors.NONE, ""),
    ],
)
def test_an_admitted_directory_learns_whether_it_still_has_its_id(
    directory: DirectoryId, number: int, error_code: int, says: str
) -> None:
    """A replaced directory does not get its id back, even when no live broker uses that id."""
    cluster = Cluster(brokers=2)
    cluster.do(admission(A, 2))

    result = cluster.controller.decide(admission(directory, number, was_admitted=True), NOW_MS)

    problem = result.response.problem
    assert ((), error_code) == (result.records, errors.NONE if problem is None else problem.error_code)
    assert problem is None or says in problem.message


def test_a_new_directory_replaces_the_old_one_in_every_shard() -> None:
    """A new directory takes over the old one's place among the replicas, but not its registered endpoints."""
    cluster = Cluster(brokers=3)
    cluster.create("all", partition_count=3, replication_factor=3)
    cluster.create("others", assignments=((0, (BrokerId(1), BrokerId(2))),))
    before = cluster.image

    cluster.do(admission(A, 3, live=[1, 2]))

    image = cluster.image
    new = ReplicaKey(BrokerId(3), A)
    assert (image.brokers[BrokerId(3)].voter, image.brokers[BrokerId(3)].is_registered) == (new, False)
    for shard_id, shard in image.shards.items():
        assert shard.initial_voters == before.shards[shard_id].initial_voters
        assert shard.replicas == tuple(new if v == voter(3) else v for v in before.shards[shard_id].replicas)
    assert new in image.shards[METADATA_SHARD].replicas
    assert cluster.warnings == ()


def test_a_replaced_directory_without_which_there_is_no_majority_is_reported() -> None:
    """
    If a new directory replaces one of at most two replicas of a shard, a warning names the topic.  The new directory
    does not become an initial voter of the shard, because an election still needs the vote of the shard's founder.
    """
    cluster = Cluster(brokers=3)
    cluster.create("alone", assignments=((0, (BrokerId(2),)),))
    cluster.create("pair", assignments=((0, (BrokerId(1), BrokerId(2))),))
    cluster.create("triple", assignments=((0, (BrokerId(1), BrokerId(2), BrokerId(3))),))

    cluster.do(admission(A, 2, live=[1]))

    (warning,) = cluster.warnings
    assert "had one of at most two replicas of alone (shard 1), pair (shard 2), of which" in warning
    assert cluster.image.shards[cluster.image.topics["alone"].shard_ids[0]].initial_voters == (voter(2),)


def test_an_admitted_broker_carries_no_replicas_before_it_registers() -> None:
    """Before its registration, a broker only follows the metadata shard."""
    cluster = Cluster()
    cluster.do(admission(voter(2).directory_id, 2))

    wide, assigned, ids = (
        cluster.create("wide", replication_factor=2),
        cluster.create("assigned", assignments=((0, (BrokerId(2),)),)),
        cluster.do(AllocateProducerIds(broker_id=BrokerId(2))),
    )

    assert [answer.problem.error_code for answer in (wide, assigned, ids)] == [
        errors.INVALID_REPLICATION_FACTOR,
        errors.INVALID_REPLICA_ASSIGNMENT,
        errors.BROKER_ID_NOT_REGISTERED,
    ]
    assert metadata_learners(cluster.image) == (voter(2),)
    cluster.do(registration(2))
    assert cluster.create("wide", replication_factor=2).problem is None


def test_only_an_admitted_directory_can_register() -> None:
    """An unknown broker and a replaced directory get different errors, and each message names the reason."""
    cluster = Cluster(brokers=2)
    cluster.do(admission(A, 2))

    stranger, replaced = cluster.do(registration(3)), cluster.do(registration(2))

    assert (errors.BROKER_ID_NOT_REGISTERED, errors.DUPLICATE_BROKER_REGISTRATION) == (
        stranger.problem.error_code,
        replaced.problem.error_code,
    )
    assert "never admitted to cluster c" in stranger.problem.message
    assert "it belongs to data directory 6161" in replaced.problem.message


def test_a_founder_that_an_earlier_build_did_not_admit_still_registers() -> None:
    """
    The log of an earlier build may end between bootstrap and registration; each start repeats the bootstrap, which
    repairs this.
    """
    cluster = Cluster(brokers=0)
    older = Cluster(brokers=0)
    image = replace(older.image, brokers={})
    older.controller = Controller(image, broker_id=BrokerId(1), static={}, entropy=CountingEntropy())

    older.do(BootstrapCluster(cluster_id="c", voter=voter(1)))

    assert older.image.brokers == cluster.image.brokers
    assert older.do(registration(1)).problem is None
