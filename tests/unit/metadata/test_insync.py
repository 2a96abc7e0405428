"""min.insync.replicas and the replication factor fit, or are refused."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster, Counting
from tidemill.metadata.configs import AlterConfigs, Change, IncrementalAlterConfigs, Operation
from tidemill.metadata.controller import Controller
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.metadata.topics import CreateInternalTopic, CreateTopics, NewTopic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.topic import OFFSETS_TOPIC

KEY = "min.insync.replicas"
TOPIC = ConfigResource(2, "t")


def told(answer: Any) -> tuple[int, str]:
    return (0, "") if answer.problem is None else (answer.problem.error_code, answer.problem.message)


@pytest.mark.parametrize(("wanted", "error_code"), [("2", 0), ("3", 0), ("4", errors.INVALID_CONFIG)])
def test_a_new_topic_asks_for_what_it_has(wanted: str, error_code: int) -> None:
    """As many as there are is legal: all of them; more is not, and nothing is written."""
    cluster = Cluster(brokers=4)

    answer = cluster.create("t", replication_factor=3, settings=((KEY, wanted),))

    assert (error_code, error_code == 0) == (told(answer)[0], "t" in cluster.image.topics)
    assert not error_code or told(answer)[1] == (
        "min.insync.replicas=4 is refused: topic 't' has 3 replicas; set 3 or less, "
        "or create it with replication factor 4"
    )


def test_assigned_replicas_are_counted_too() -> None:
    """Whoever chose them."""
    cluster = Cluster(brokers=2)

    answer = cluster.create("t", assignments=((0, (BrokerId(1),)),), settings=((KEY, "2"),))

    assert told(answer)[0] == errors.INVALID_CONFIG


def test_the_clusters_default_counts() -> None:
    """A topic that nobody could write to is not created, and the fix is named; one that says otherwise is."""
    cluster = Cluster(brokers=3, static={KEY: "2"})

    refused, small, wide = (
        cluster.create("t", replication_factor=1),
        cluster.create("small", replication_factor=1, settings=((KEY, "1"),)),
        cluster.create("wide", replication_factor=2),
    )

    assert (errors.INVALID_REPLICATION_FACTOR, 0, 0) == (told(refused)[0], told(small)[0], told(wide)[0])
    assert "default is min.insync.replicas=2" in told(refused)[1]
    assert "create it with replication factor 2" in told(refused)[1]


def test_the_clusters_own_topics_do_not_ask() -> None:
    """A first broker is started with what the cluster shall have one day."""
    cluster = Cluster(static={KEY: "2"})

    answer = cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))

    assert told(answer) == (0, "")


def test_it_cannot_be_raised_above_what_is_there() -> None:
    """Neither step by step, nor in a full replacement, nor by falling back to the cluster's default."""
    cluster = Cluster(brokers=2, static={KEY: "2"})
    cluster.create("t", replication_factor=1, settings=((KEY, "1"), ("retention.ms", "5")))
    before = cluster.image

    answers = [
        cluster.set(TOPIC, Change(KEY, Operation.SET, "2")),
        cluster.set(TOPIC, Change(KEY, Operation.DELETE, None)),
        *cluster.do(AlterConfigs(resources=((TOPIC, ((KEY, "3"),)),))),
        *cluster.do(AlterConfigs(resources=((TOPIC, (("retention.ms", "6"),)),))),
    ]

    assert [errors.INVALID_CONFIG] * 4 == [told(answer)[0] for answer in answers]
    assert "topic 't' has 1 replica; set 1 or less" in told(answers[0])[1]
    assert "(default) is refused: the cluster's default is 2" in told(answers[1])[1]
    assert before == cluster.image


@pytest.mark.parametrize("name", ["", "1"], ids=["of the cluster", "of a broker"])
def test_a_default_cannot_be_raised_above_what_is_there(name: str) -> None:
    """It would end writing to each topic that has no setting of its own; those that have one do not count."""
    cluster = Cluster(brokers=3)
    cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))
    cluster.create("own", replication_factor=1, settings=((KEY, "1"),))
    cluster.create("wide", replication_factor=3)
    cluster.create("t", replication_factor=2)
    resource = ConfigResource(4, name)

    answers = [cluster.set(resource, Change(KEY, Operation.SET, value)) for value in ("3", "2")]

    assert [errors.INVALID_CONFIG, 0] == [told(answer)[0] for answer in answers]
    assert "1 topic(s) without a setting of their own have fewer replicas" in told(answers[0])[1]
    assert "(the first is 't', with 2); give those their own min.insync.replicas before" in told(answers[0])[1]
    assert {KEY: "2"} == cluster.image.configs[resource]


def test_a_default_cannot_be_taken_back_to_what_is_above() -> None:
    """What the brokers were started with counts then."""
    cluster = Cluster(brokers=3, static={KEY: "3"})
    default = ConfigResource(4, "")
    cluster.set(default, Change(KEY, Operation.SET, "1"))
    cluster.create("t", replication_factor=2)

    answers = [
        cluster.set(default, Change(KEY, Operation.DELETE, None)),
        *cluster.do(AlterConfigs(resources=((default, ()),))),
    ]

    assert [errors.INVALID_CONFIG] * 2 == [told(answer)[0] for answer in answers]
    assert (0, "") == told(cluster.set(TOPIC, Change(KEY, Operation.SET, "2")))
    assert (0, "") == told(cluster.set(default, Change(KEY, Operation.DELETE, None)))


@pytest.mark.parametrize("is_default_first", [False, True])
def test_one_request_cannot_do_it_in_two_steps(is_default_first: bool) -> None:
    """The topic's own setting is taken back, and the default raised: each alone may be."""
    cluster = Cluster(brokers=3)
    cluster.create("t", replication_factor=1, settings=((KEY, "1"),))
    steps = (
        (TOPIC, (Change(KEY, Operation.DELETE, None),)),
        (ConfigResource(4, ""), (Change(KEY, Operation.SET, "3"),)),
    )

    answers = cluster.do(IncrementalAlterConfigs(resources=steps[::-1] if is_default_first else steps))

    assert [0, errors.INVALID_CONFIG] == [told(answer)[0] for answer in answers]


def test_the_default_of_any_broker_counts() -> None:
    """That one may lead the topic one day."""
    cluster = Cluster(brokers=3)
    cluster.set(ConfigResource(4, "2"), Change(KEY, Operation.SET, "3"))

    answers = [cluster.create("t", replication_factor=2), cluster.create("wide", replication_factor=3)]

    assert [errors.INVALID_REPLICATION_FACTOR, 0] == [told(answer)[0] for answer in answers]


def test_other_settings_do_not_ask() -> None:
    """A broker was started with a higher default later: not held against who changes something else."""
    cluster = Cluster(brokers=2)
    cluster.create("t", replication_factor=1)
    cluster.controller = Controller(cluster.image, broker_id=BrokerId(1), static={KEY: "2"}, entropy=Counting())

    answer = cluster.set(TOPIC, Change("retention.ms", Operation.SET, "5"))

    assert told(answer) == (0, "")


def test_two_replicas_are_created_with_a_warning() -> None:
    """The operator is told, the client is not; what is only checked warns nobody."""
    cluster = Cluster(brokers=3)
    topics = tuple(NewTopic(name=f"t{factor}", replication_factor=factor) for factor in (1, 2, 3))

    answers = cluster.do(CreateTopics(topics=topics))

    (warning,) = cluster.warnings
    assert [(0, "")] * 3 == [told(answer) for answer in answers]
    assert "'t2' has 2 replicas" in warning
    cluster.do(CreateTopics(topics=(NewTopic(name="v", replication_factor=2),), validate_only=True))
    assert cluster.warnings == ()
