"""A topic's own min.insync.replicas never exceeds its replication factor; a default may."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster
from tidemill.metadata.configs import AlterConfigs, Change, Operation
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.metadata.topics import CreateInternalTopic, CreateTopics, NewTopic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.topic import OFFSETS_TOPIC

KEY = "min.insync.replicas"
TOPIC = ConfigResource(2, "t")


def outcome(answer: Any) -> tuple[int, str]:
    return (0, "") if answer.problem is None else (answer.problem.error_code, answer.problem.message)


@pytest.mark.parametrize(("wanted", "error_code"), [("2", 0), ("3", 0), ("4", errors.INVALID_CONFIG)])
def test_a_new_topic_can_require_at_most_all_its_replicas(wanted: str, error_code: int) -> None:
    """min.insync.replicas may equal the replication factor.  A larger value is refused, and no record is written."""
    cluster = Cluster(brokers=4)

    answer = cluster.create("t", replication_factor=3, settings=((KEY, wanted),))

    assert (error_code, error_code == 0) == (outcome(answer)[0], "t" in cluster.image.topics)
    assert not error_code or outcome(answer)[1] == (
        "min.insync.replicas=4 is refused: topic 't' has 3 replicas; set 3 or less, "
        "or create it with replication factor 4"
    )


def test_the_check_counts_explicitly_assigned_replicas() -> None:
    """The check of min.insync.replicas applies whether the user or the controller has chosen the brokers."""
    cluster = Cluster(brokers=2)

    answer = cluster.create("t", assignments=((0, (BrokerId(1),)),), settings=((KEY, "2"),))

    assert outcome(answer)[0] == errors.INVALID_CONFIG


def test_a_default_limits_no_topic() -> None:
    """
    A topic may have fewer replicas than the default of min.insync.replicas demands, whether the topic or the default
    existed first; its acks=all writes then wait for all its replicas.
    """
    cluster = Cluster(brokers=3, static={KEY: "2"})

    answers = [
        cluster.create("t", replication_factor=1),
        cluster.set(ConfigResource(4, ""), Change(KEY, Operation.SET, "3")),
        cluster.set(TOPIC, Change("retention.ms", Operation.SET, "5")),
        cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC)),
    ]

    assert [(0, "")] * 4 == [outcome(answer) for answer in answers]


def test_a_topics_setting_cannot_exceed_its_replication_factor() -> None:
    """
    Neither a single change nor a full replacement may raise min.insync.replicas above the replication factor; the
    setting can be removed.
    """
    cluster = Cluster(brokers=2, static={KEY: "2"})
    cluster.create("t", replication_factor=1, settings=((KEY, "1"), ("retention.ms", "5")))
    before = cluster.image

    answers = [
        cluster.set(TOPIC, Change(KEY, Operation.SET, "2")),
        *cluster.do(AlterConfigs(resources=((TOPIC, ((KEY, "3"),)),))),
    ]

    assert [errors.INVALID_CONFIG] * 2 == [outcome(answer)[0] for answer in answers]
    assert "topic 't' has 1 replica; set 1 or less" in outcome(answers[0])[1]
    assert before == cluster.image
    assert (0, "") == outcome(cluster.set(TOPIC, Change(KEY, Operation.DELETE, None)))


def test_a_topic_with_two_replicas_is_created_with_a_warning() -> None:
    """
    The warning about two replicas goes to the log and not to the client; a request that is only validated logs nothing.
    """
    cluster = Cluster(brokers=3)
    topics = tuple(NewTopic(name=f"t{factor}", replication_factor=factor) for factor in (1, 2, 3))

    answers = cluster.do(CreateTopics(topics=topics))

    (warning,) = cluster.warnings
    assert [(0, "")] * 3 == [outcome(answer) for answer in answers]
    assert "'t2' has 2 replicas" in warning
    cluster.do(CreateTopics(topics=(NewTopic(name="v", replication_factor=2),), validate_only=True))
    assert cluster.warnings == ()
