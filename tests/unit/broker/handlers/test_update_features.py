"""UpdateFeatures raises the cluster's feature level."""

from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.metadata.feature_levels import FEATURE_NAME
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.wire.messages.update_features import API, Request


def asking(*levels: tuple[str, int], validate_only: bool = False) -> Request:
    updates = [Request.Update(feature=feature, max_version_level=level) for feature, level in levels]
    return Request(feature_updates=updates, validate_only=validate_only)


def asked(node: Node, request: Request, version: int = API.versions[-1]) -> Any:
    sent = node.client.send(request, version)
    node.cluster.until(lambda: bool(node.client.writer.sent), "it is answered")
    return node.client.answer(*sent)


@pytest.fixture(scope="module")
def older() -> ClusterWorld:
    """
    Return a cluster at level 1, whose controller is broker 1.  Brokers 1 and 2 support level 2; broker 3 does not.  No
    test raises the level.
    """
    world = ClusterWorld(newest_level=1)
    world.restart(1, newest_level=2)
    world.restart(2, newest_level=2)
    world.until(lambda: any(node.broker.controller.leads for node in world.nodes), "there is a controller")
    world.pass_time(2_000)
    world.lead(METADATA_TOPIC, by=1)
    return world


@pytest.mark.parametrize("version", API.versions)
def test_any_broker_can_be_asked_for_an_upgrade(version: int) -> None:
    """
    The controller decides, and every broker has the new level.  Until version 1, the response has a result for each
    feature.
    """
    world = ClusterWorld(newest_level=1)
    for number in (1, 2, 3):
        world.restart(number, newest_level=2)
    follower = next(node for node in world.nodes if not node.broker.controller.leads)

    answer = asked(follower, asking((FEATURE_NAME, 2), ("share.version", 1)), version)

    world.until(lambda: {2} == {node.broker.image.feature_level for node in world.nodes}, "all brokers are told")
    assert (errors.NONE, None) == (answer.error_code, answer.error_message)
    names = [FEATURE_NAME, "share.version"] if version < 2 else []
    assert [(name, errors.NONE) for name in names] == [(it.feature, it.error_code) for it in answer.results]


@pytest.mark.parametrize(
    ("levels", "code", "says"),
    [
        (((FEATURE_NAME, 2),), errors.INVALID_UPDATE_VERSION, "broker 3 supports up to 1: upgrade Tidemill there"),
        (((FEATURE_NAME, 0),), errors.INVALID_UPDATE_VERSION, "which is never lowered"),
        ((("share.version", 0),), errors.INVALID_UPDATE_VERSION, "share.version is fixed at level 1; level 0"),
        (
            (("metadata.version", 27),),
            errors.INVALID_UPDATE_VERSION,
            "feature metadata.version is unknown; the features are tidemill.level, share.version",
        ),
        (((FEATURE_NAME, 1), (FEATURE_NAME, 1)), errors.INVALID_REQUEST, "tidemill.level is named more than once"),
    ],
)
def test_a_refusal_has_one_error_for_the_whole_request(
    older: ClusterWorld, levels: tuple[tuple[str, int], ...], code: int, says: str
) -> None:
    """All updates are carried out or none.  The clients of Kafka show the message of the whole request."""
    answer = asked(older[3], asking(*levels), 1)

    assert (code, []) == (answer.error_code, list(answer.results))
    assert says in answer.error_message
    assert {1} == {node.broker.image.feature_level for node in older.nodes}


def test_an_older_controller_is_not_asked() -> None:
    """
    A controller of the first version does not know the request, and would close the connection to the broker that
    forwards it.  The level of other brokers does not matter.
    """
    world = ClusterWorld(newest_level=1)
    old = world.controller
    for number in {1, 2, 3} - {old.number}:
        world.restart(number, newest_level=2)
    asked_brokers = [node for node in world.nodes if node is not old]
    links = [*world.network.links]

    answers = [asked(node, asking((FEATURE_NAME, 2))) for node in asked_brokers]

    assert [errors.UNSUPPORTED_VERSION] * 2 == [answer.error_code for answer in answers]
    assert all("upgrade all brokers first" in answer.error_message for answer in answers)
    assert all(link.is_open for link in links)


def test_one_refused_update_refuses_the_others(older: ClusterWorld) -> None:
    """An update of an unknown feature does not let the update of the level through."""
    answer = asked(older[1], asking((FEATURE_NAME, 1), ("nonsense", 1)))

    assert (errors.INVALID_UPDATE_VERSION, True) == (answer.error_code, "nonsense is unknown" in answer.error_message)


def test_a_dry_run_changes_nothing() -> None:
    """With `validate_only`, the response is that of the upgrade, and the level stays."""
    world = ClusterWorld(brokers=1, newest_level=1)
    world.restart(1, newest_level=2)

    answers = [asked(world[1], asking((FEATURE_NAME, level), validate_only=True)) for level in (2, 3)]

    assert [errors.NONE, errors.INVALID_UPDATE_VERSION] == [answer.error_code for answer in answers]
    assert 1 == world[1].broker.image.feature_level


@pytest.mark.parametrize(
    ("version", "update"),
    [
        (0, Request.Update(feature=FEATURE_NAME, max_version_level=2, allow_downgrade=True)),
        (1, Request.Update(feature=FEATURE_NAME, max_version_level=2, upgrade_type=2)),
        (2, Request.Update(feature=FEATURE_NAME, max_version_level=2, upgrade_type=3)),
    ],
)
def test_a_downgrade_never_raises_the_level(version: int, update: Request.Update) -> None:
    """
    `kafka-features downgrade` with too high a level must not do what can never be undone, even though every broker
    supports the level.
    """
    world = ClusterWorld(brokers=1, newest_level=1)
    world.restart(1, newest_level=2)

    answer = asked(world[1], Request(feature_updates=[update]), version)

    why = "a downgrade to feature level 2 is refused: the cluster is at level 1, which only an upgrade raises"
    assert (errors.INVALID_UPDATE_VERSION, why) == (answer.error_code, answer.error_message)
    assert 1 == world[1].broker.image.feature_level


def test_an_unknown_type_of_update_is_refused(older: ClusterWorld) -> None:
    """A later type may mean anything, so it is not taken for an upgrade."""
    update = Request.Update(feature=FEATURE_NAME, max_version_level=1, upgrade_type=4)

    answer = asked(older[1], Request(feature_updates=[update]))

    assert errors.INVALID_UPDATE_VERSION == answer.error_code
    assert "upgrade type 4 of feature tidemill.level is unknown" in answer.error_message
