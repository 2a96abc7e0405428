"""The settings of a topic fit its kind, and the kind never changes."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster
from tidemill.metadata.configs import AlterConfigs, Change, Operation
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.model import errors
from tidemill.model.topic_kind import TopicKind

SET, DELETE, APPEND, _ = Operation
TIMER, LOG = ("tidemill.kind", "timer"), ("tidemill.kind", "log")
TOPIC = ConfigResource(2, "t")
ONLY_TIMERS = "only timer topics have it; leave it out, or create a topic with tidemill.kind=timer"
NO_CHANGE = "a topic's kind cannot change; leave it out, or create another topic"


def outcome(answer: Any) -> tuple[int, str]:
    return (0, "") if answer.problem is None else (answer.problem.error_code, answer.problem.message)


@pytest.mark.parametrize("kind", ["log", "timer"])
def test_the_kind_is_that_of_the_setting(kind: str) -> None:
    """The image has the kind that the request names, as the topic's kind and among its settings."""
    cluster = Cluster()

    answer = cluster.create("t", settings=(("tidemill.kind", f" {kind} "),))

    assert (0, "") == outcome(answer)
    assert (TopicKind(kind), {"tidemill.kind": kind}) == (
        cluster.image.topics["t"].kind,
        cluster.image.topic_overrides("t"),
    )


REFUSED = [
    (LOG, ("tidemill.max.delay.ms", "1000"), f"tidemill.max.delay.ms=1000 is refused: {ONLY_TIMERS}"),
    (LOG, ("tidemill.timer.linger.ms", "6"), f"tidemill.timer.linger.ms=6 is refused: {ONLY_TIMERS}"),
    (LOG, ("tidemill.timer.waiting.bytes.max", "0"), f"tidemill.timer.waiting.bytes.max=0 is refused: {ONLY_TIMERS}"),
    (TIMER, ("tidemill.max.delay.ms", "-2"), "must be at least -1"),
    (TIMER, ("tidemill.timer.linger.ms", "1001"), "must be at most 1000"),
    (TIMER, ("tidemill.timer.linger.ms", "-1"), "must be at least 0"),
    (TIMER, ("tidemill.timer.waiting.bytes.max", "-2"), "must be at least -1"),
    (
        TIMER,
        ("message.timestamp.type", "CreateTime"),
        "message.timestamp.type=CreateTime is refused: a timer topic stamps records when they are delivered, with the "
        "broker's clock; leave it out, or use LogAppendTime",
    ),
    (
        TIMER,
        ("compression.type", "zstd"),
        "compression.type=zstd is refused: a timer topic stores records uncompressed, to read each alone when it is "
        "due; leave it out, or use producer or uncompressed",
    ),
    (TIMER, ("cleanup.policy", "compact"), "only keyed topics are compacted"),
]
ACCEPTED = [
    (LOG, ("tidemill.max.delay.ms", "-1")),  # the default
    (LOG, ("tidemill.timer.linger.ms", "+5")),  # the default, written in another way
    (LOG, ("message.timestamp.type", "CreateTime")),
    (LOG, ("compression.type", "zstd")),
    (TIMER, ("tidemill.max.delay.ms", "0")),
    (TIMER, ("tidemill.timer.linger.ms", "1000")),
    (TIMER, ("tidemill.timer.waiting.bytes.max", "0")),
    (TIMER, ("message.timestamp.type", "LogAppendTime")),
    (TIMER, ("compression.type", "producer")),
    (TIMER, ("compression.type", "uncompressed")),
]


@pytest.mark.parametrize(("kind", "setting", "says"), REFUSED)
def test_a_new_topic_refuses_what_does_not_fit_its_kind(
    kind: tuple[str, str], setting: tuple[str, str], says: str
) -> None:
    """A setting that does not fit the kind of a new topic is refused by name, and no topic is created."""
    cluster = Cluster()

    error_code, message = outcome(cluster.create("t", settings=(setting, kind)))

    assert error_code == errors.INVALID_CONFIG
    assert says in message
    assert "t" not in cluster.image.topics


@pytest.mark.parametrize(("kind", "setting"), ACCEPTED)
def test_a_new_topic_takes_what_fits_its_kind(kind: tuple[str, str], setting: tuple[str, str]) -> None:
    """A default is accepted for every kind, because it changes nothing."""
    cluster = Cluster()

    answer = cluster.create("t", settings=(setting, kind))

    assert (0, "") == outcome(answer)
    assert cluster.image.topic_overrides("t") == dict((setting, kind))


@pytest.mark.parametrize(("kind", "setting", "says"), REFUSED)
def test_a_change_that_does_not_fit_the_kind_is_refused(
    kind: tuple[str, str], setting: tuple[str, str], says: str
) -> None:
    """Both requests that change a topic refuse what its creation refuses, and change nothing."""
    cluster = Cluster()
    cluster.create("t", settings=(kind,))
    before = cluster.image

    answers = [
        cluster.set(TOPIC, Change("retention.ms", SET, "1"), Change(setting[0], SET, setting[1])),
        *cluster.do(AlterConfigs(resources=((TOPIC, (("retention.ms", "1"), setting)),))),
    ]

    for error_code, message in map(outcome, answers):
        assert error_code == errors.INVALID_CONFIG
        assert says in message
    assert before == cluster.image


@pytest.mark.parametrize(("kind", "setting"), ACCEPTED)
def test_a_change_that_fits_the_kind_is_made(kind: tuple[str, str], setting: tuple[str, str]) -> None:
    """What a new topic accepts can also be set, and removed again."""
    cluster = Cluster()
    cluster.create("t", settings=(kind,))

    made = [
        cluster.set(TOPIC, Change(setting[0], SET, setting[1])),
        *cluster.do(AlterConfigs(resources=((TOPIC, (setting,)),))),
        cluster.set(TOPIC, Change(setting[0], DELETE, None)),
    ]

    assert [(0, "")] * 3 == [*map(outcome, made)]
    assert cluster.image.topic_overrides("t") == dict((kind,))


@pytest.mark.parametrize(
    ("created", "change", "shown"),
    [
        ((TIMER,), Change("tidemill.kind", SET, "log"), "tidemill.kind=log is refused: 't' is a timer topic"),
        ((TIMER,), Change("tidemill.kind", DELETE, None), "tidemill.kind=(default) is refused: 't' is a timer topic"),
        ((LOG,), Change("tidemill.kind", SET, "timer"), "tidemill.kind=timer is refused: 't' is a log topic"),
        ((), Change("tidemill.kind", SET, "timer"), "tidemill.kind=timer is refused: 't' is a log topic"),
    ],
)
def test_the_kind_cannot_change(created: tuple[tuple[str, str], ...], change: Change, shown: str) -> None:
    """A change that would give a topic another kind is refused with the key, the value and what to do."""
    cluster = Cluster()
    cluster.create("t", settings=created)
    before = cluster.image

    refused = cluster.set(TOPIC, change)

    assert (errors.INVALID_CONFIG, f"{shown}, and {NO_CHANGE}") == outcome(refused)
    assert before == cluster.image


@pytest.mark.parametrize(("kind", "other"), [(TIMER, LOG), (LOG, TIMER)])
def test_the_kind_cannot_be_replaced(kind: tuple[str, str], other: tuple[str, str]) -> None:
    """AlterConfigs, too, refuses another kind, and keeps the kind that it does not name."""
    cluster = Cluster()
    cluster.create("t", settings=(kind, ("retention.ms", "1")))

    (refused,) = cluster.do(AlterConfigs(resources=((TOPIC, (other,)),)))
    (emptied,) = cluster.do(AlterConfigs(resources=((TOPIC, ()),)))

    assert [errors.INVALID_CONFIG, errors.NONE] == [outcome(answer)[0] for answer in (refused, emptied)]
    assert cluster.image.topic_overrides("t") == dict((kind,))


@pytest.mark.parametrize(
    ("created", "change"),
    [
        ((TIMER,), Change("tidemill.kind", SET, "timer")),
        ((LOG,), Change("tidemill.kind", DELETE, None)),
        ((), Change("tidemill.kind", SET, "log")),
        ((), Change("tidemill.kind", DELETE, None)),
    ],
)
def test_the_present_kind_may_be_set_again(created: tuple[tuple[str, str], ...], change: Change) -> None:
    """A change that leaves the kind as it is succeeds, so that a whole configuration can be sent back."""
    cluster = Cluster()
    cluster.create("t", settings=created)
    kind = cluster.image.topics["t"].kind

    answer = cluster.set(TOPIC, change)

    assert (0, "") == outcome(answer)
    assert kind == cluster.image.topics["t"].kind


def test_brokers_have_no_kind() -> None:
    """No broker key, and no default of the cluster, changes the kind of topics."""
    cluster = Cluster()

    answers = [cluster.set(ConfigResource(4, name), Change("tidemill.kind", SET, "timer")) for name in ("", "1")]

    assert [errors.INVALID_CONFIG] * 2 == [outcome(answer)[0] for answer in answers]


def test_a_kind_is_not_a_list() -> None:
    """APPEND, which is for lists, cannot change the kind either."""
    cluster = Cluster()
    cluster.create("t")

    answer = cluster.set(TOPIC, Change("tidemill.kind", APPEND, "timer"))

    assert outcome(answer)[0] == errors.INVALID_CONFIG
    assert cluster.image.topics["t"].kind is TopicKind.LOG
