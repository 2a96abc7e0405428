"""min.insync.replicas never exceeds the replication factor: requests that would break this are refused."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster, CountingEntropy
from tidemill.metadata.configs import AlterConfigs, Change, IncrementalAlterConfigs, Operation
from tidemill.metadata.controller import Controller
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
    """The check applies whether the user or the controller chose the brokers."""
    cluster = Cluster(brokers=2)

    answer = cluster.create("t", assignments=((0, (BrokerId(1),)),), settings=((KEY, "2"),))

    assert outcome(answer)[0] == errors.INVALID_CONFIG


def test_a_new_topic_is_checked_against_the_clusters_default() -> None:
    """
    A topic that could accept no acks=all write is refused with a message that names the fix.  A topic may override the
    default.
    """
    cluster = Cluster(brokers=3, static={KEY: "2"})

    refused, small, wide = (
        cluster.create("t", replication_factor=1),
        cluster.create("small", replication_factor=1, settings=((KEY, "1"),)),
        cluster.create("wide", replication_factor=2),
    )

    assert (errors.INVALID_REPLICATION_FACTOR, 0, 0) == (outcome(refused)[0], outcome(small)[0], outcome(wide)[0])
    assert "default is min.insync.replicas=2" in outcome(refused)[1]
    assert "create it with replication factor 2" in outcome(refused)[1]


def test_internal_topics_are_not_checked() -> None:
    """The first broker may be started with the min.insync.replicas that the later, larger cluster will use."""
    cluster = Cluster(static={KEY: "2"})

    answer = cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))

    assert outcome(answer) == (0, "")


def test_a_topics_setting_cannot_exceed_its_replication_factor() -> None:
    """Neither a single change, a full replacement, nor falling back to the cluster's default may exceed it."""
    cluster = Cluster(brokers=2, static={KEY: "2"})
    cluster.create("t", replication_factor=1, settings=((KEY, "1"), ("retention.ms", "5")))
    before = cluster.image

    answers = [
        cluster.set(TOPIC, Change(KEY, Operation.SET, "2")),
        cluster.set(TOPIC, Change(KEY, Operation.DELETE, None)),
        *cluster.do(AlterConfigs(resources=((TOPIC, ((KEY, "3"),)),))),
        *cluster.do(AlterConfigs(resources=((TOPIC, (("retention.ms", "6"),)),))),
    ]

    assert [errors.INVALID_CONFIG] * 4 == [outcome(answer)[0] for answer in answers]
    assert "topic 't' has 1 replica; set 1 or less" in outcome(answers[0])[1]
    assert "(default) is refused: the cluster's default is 2" in outcome(answers[1])[1]
    assert before == cluster.image


@pytest.mark.parametrize("name", ["", "1"], ids=["of the cluster", "of a broker"])
def test_a_default_cannot_exceed_the_replicas_of_topics_that_inherit_it(name: str) -> None:
    """A higher default would stop writes to topics without their own setting; topics with one are not affected."""
    cluster = Cluster(brokers=3)
    cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))
    cluster.create("own", replication_factor=1, settings=((KEY, "1"),))
    cluster.create("wide", replication_factor=3)
    cluster.create("t", replication_factor=2)
    resource = ConfigResource(4, name)

    answers = [cluster.set(resource, Change(KEY, Operation.SET, value)) for value in ("3", "2")]

    assert [errors.INVALID_CONFIG, 0] == [outcome(answer)[0] for answer in answers]
    assert "1 topic(s) without a setting of their own have fewer replicas" in outcome(answers[0])[1]
    assert "(the first is 't', with 2); set min.insync.replicas on those topics first" in outcome(answers[0])[1]
    assert {KEY: "2"} == cluster.image.configs[resource]


def test_a_default_cannot_be_deleted_when_the_static_value_is_too_high() -> None:
    """Without a dynamic default, the brokers' setting at start-up applies."""
    cluster = Cluster(brokers=3, static={KEY: "3"})
    default = ConfigResource(4, "")
    cluster.set(default, Change(KEY, Operation.SET, "1"))
    cluster.create("t", replication_factor=2)

    answers = [
        cluster.set(default, Change(KEY, Operation.DELETE, None)),
        *cluster.do(AlterConfigs(resources=((default, ()),))),
    ]

    assert [errors.INVALID_CONFIG] * 2 == [outcome(answer)[0] for answer in answers]
    assert (0, "") == outcome(cluster.set(TOPIC, Change(KEY, Operation.SET, "2")))
    assert (0, "") == outcome(cluster.set(default, Change(KEY, Operation.DELETE, None)))


@pytest.mark.parametrize("is_default_first", [False, True])
def test_two_changes_of_one_request_are_checked_together(is_default_first: bool) -> None:
    """
    One request deletes the topic's own setting and raises the default: each change would be legal without the other.
    """
    cluster = Cluster(brokers=3)
    cluster.create("t", replication_factor=1, settings=((KEY, "1"),))
    steps = (
        (TOPIC, (Change(KEY, Operation.DELETE, None),)),
        (ConfigResource(4, ""), (Change(KEY, Operation.SET, "3"),)),
    )

    answers = cluster.do(IncrementalAlterConfigs(resources=steps[::-1] if is_default_first else steps))

    assert [0, errors.INVALID_CONFIG] == [outcome(answer)[0] for answer in answers]


def test_a_new_topic_is_checked_against_the_defaults_of_all_brokers() -> None:
    """Any broker may become the topic's leader, and its default would then apply."""
    cluster = Cluster(brokers=3)
    cluster.set(ConfigResource(4, "2"), Change(KEY, Operation.SET, "3"))

    answers = [cluster.create("t", replication_factor=2), cluster.create("wide", replication_factor=3)]

    assert [errors.INVALID_REPLICATION_FACTOR, 0] == [outcome(answer)[0] for answer in answers]


def test_changing_other_settings_does_not_check_min_insync() -> None:
    """A broker may later start with a higher default, which must not block unrelated changes."""
    cluster = Cluster(brokers=2)
    cluster.create("t", replication_factor=1)
    cluster.controller = Controller(cluster.image, broker_id=BrokerId(1), static={KEY: "2"}, entropy=CountingEntropy())

    answer = cluster.set(TOPIC, Change("retention.ms", Operation.SET, "5"))

    assert outcome(answer) == (0, "")


def test_a_topic_with_two_replicas_is_created_with_a_warning() -> None:
    """The warning goes to the log and not to the client; a request that is only validated logs nothing."""
    cluster = Cluster(brokers=3)
    topics = tuple(NewTopic(name=f"t{factor}", replication_factor=factor) for factor in (1, 2, 3))

    answers = cluster.do(CreateTopics(topics=topics))

    (warning,) = cluster.warnings
    assert [(0, "")] * 3 == [outcome(answer) for answer in answers]
    assert "'t2' has 2 replicas" in warning
    cluster.do(CreateTopics(topics=(NewTopic(name="v", replication_factor=2),), validate_only=True))
    assert cluster.warnings == ()
