"""`ControllerClient`, the one way to reach the controller, local or remote."""

from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.broker.peers.unanswered import NO_CONTROLLER, error_code_of
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.peer import allocate_producer_ids
from tidemill.shard.pending import OUTCOME_UNKNOWN

ASKED = allocate_producer_ids.Request(broker_id=3)


def ask(world: ClusterWorld, number: int, *, wait_ms: int = 0) -> list[Any]:
    outcomes: list[Any] = []
    client = world[number].broker.controller_client
    client.ask(allocate_producer_ids.API, ASKED, wait_ms=wait_ms).then(outcomes.append)
    return outcomes


@pytest.mark.parametrize("number", [1, 3], ids=["here", "elsewhere"])
def test_the_same_handler_answers_here_and_elsewhere(number: int) -> None:
    """
    A request gets the same response whether this broker or another one is the controller, so the caller does not need
    to know which one is.
    """
    world = ClusterWorld()

    outcomes = ask(world, number)
    world.stabilize()

    (response,) = outcomes
    assert (errors.NONE, True) == (response.error_code, response.count > 0)


def test_a_request_without_a_controller_had_no_effect() -> None:
    """
    If no controller is known, a request fails immediately and has no effect, unless the caller allows it to wait for an
    election.
    """
    world = ClusterWorld()
    world.hold(to=[2])
    world.begin_to_lead(METADATA_TOPIC, by=2)

    here, elsewhere = ask(world, 1), ask(world, 3)
    world.stabilize()

    assert [NO_CONTROLLER] * 2 == here + elsewhere


def test_a_request_is_tried_again_until_its_deadline() -> None:
    """
    A request that finds no controller is tried again until the next controller answers it.  If there is no controller
    before its deadline, the request fails and has had no effect.
    """
    world = ClusterWorld()
    world.hold(to=[2])
    world.begin_to_lead(METADATA_TOPIC, by=2)
    short, long = ask(world, 3, wait_ms=100), ask(world, 3, wait_ms=20_000)
    world.pass_time(500)
    early = [*short, *long]

    world.hold()
    world.until(lambda: bool(long), "the next controller answers")

    assert [NO_CONTROLLER] == early
    assert errors.NONE == long[0].error_code


def test_a_lost_link_leaves_the_outcome_unknown() -> None:
    """
    If the link is lost while a request is in flight, the controller may have executed the request, so it must not be
    retried.
    """
    world = ClusterWorld()
    world.hold(sender=[1])
    outcomes = ask(world, 3, wait_ms=20_000)
    world.stabilize()

    world.cut_off(1)
    world.stabilize()

    assert [OUTCOME_UNKNOWN] == outcomes


def test_each_reason_has_its_error_code() -> None:
    """
    A failed request gets NOT_CONTROLLER if it had no effect, and REQUEST_TIMED_OUT if it may have had one.
    """
    assert [errors.NOT_CONTROLLER, errors.REQUEST_TIMED_OUT] == [
        error_code_of(NO_CONTROLLER),
        error_code_of(OUTCOME_UNKNOWN),
    ]
