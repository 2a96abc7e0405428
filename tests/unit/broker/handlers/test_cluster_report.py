"""ClusterReport: what the controller knows, and nothing before it knows something."""

from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.broker.load.load_reporter import LoadReporter
from tidemill.model import errors
from tidemill.model.shard import METADATA_SHARD
from tidemill.peer import cluster_operation
from tidemill.peer.cluster_operation import Operation
from tidemill.peer.cluster_report import Request


def asked(node: Node, request: Any = None) -> Any:
    sent = node.client.send(request or Request(), 0)
    node.cluster.until(lambda: bool(node.client.writer.sent), "it is answered")
    return node.client.answer(*sent)


def test_a_new_controller_does_not_report_that_there_are_no_brokers() -> None:
    """
    A report without brokers would say that nothing is left: `cluster drain --wait` would end before its time, and
    `cluster restart --plan` would print no step.
    """
    world = ClusterWorld()
    world.pass_time(3_000)
    first = world.controller
    to = next(node for node in world.nodes if node is not first)
    assert [] == first.broker.leadership_transfers.here([(METADATA_SHARD, to.broker.broker_id)])
    world.until(lambda: to.broker.controller.leads, "there is another controller")

    at_once = asked(to)
    world.pass_time(1_500)
    later = asked(to)

    assert (errors.NOT_CONTROLLER, True) == (at_once.error_code, "try again" in at_once.error_message)
    assert (errors.NONE, [1, 2, 3]) == (later.error_code, [it.broker_id for it in later.brokers])


def test_a_new_controller_reports_how_many_replicas_it_knows_nothing_of() -> None:
    """Otherwise they look as if they were out of sync, and empty."""
    world = ClusterWorld()
    world.create("flights", partitions=3)
    world.pass_time(15_000)
    told = [it.untold for it in asked(world.controller).brokers]
    with patch.object(LoadReporter, "_send"):
        first = world.controller
        to = next(node for node in world.nodes if node is not first)
        assert [] == first.broker.leadership_transfers.here([(METADATA_SHARD, to.broker.broker_id)])
        world.until(lambda: to.broker.controller.leads, "there is another controller")
        world.pass_time(1_500)
        brokers = asked(to).brokers

    assert [0, 0, 0] == told
    assert all(it.untold == it.replicas == it.not_in_sync > 0 for it in brokers)


def test_a_move_is_reported_as_soon_as_it_is_planned() -> None:
    """
    The planner looks once a second.  A report of what it saw then would lack the move, and `cluster move --wait` would
    end at once.
    """
    world = ClusterWorld(brokers=4)
    world.create("flights")
    world.pass_time(15_000)
    host, node = world.controller.broker.rebalance, world.controller
    seen_ms = host.report().planned_at_ms
    world.until(lambda: host.report().planned_at_ms != seen_ms, "a pass has just ended")
    passed_ms = host.report().planned_at_ms
    world.hold(to=(4,))

    move = cluster_operation.Request(operation=Operation.MOVE, shard_id=1, brokers=[1, 2, 4])
    moved, report = asked(node, move), asked(node)

    assert errors.NONE == moved.error_code
    assert [(1, [1, 2, 4])] == [(it.shard_id, [*it.replicas]) for it in report.moves]
    assert passed_ms == report.planned_at_ms


def test_a_broker_is_not_empty_before_its_replicas_are_copied() -> None:
    """
    Nothing is planned on it any more, but it still votes, and may have the only copy.  A new controller, which no
    leader has told the voters, must not say anything else.
    """
    world = ClusterWorld(brokers=4)
    world.create("flights", brokers=(3,))
    world.pass_time(15_000)
    world.hold(to=(4,))

    asked(world.controller, cluster_operation.Request(operation=Operation.MOVE, shard_id=1, brokers=[4]))
    told = asked(world.controller).brokers[2]
    with patch.object(LoadReporter, "_send"):
        first = world.controller
        to = next(node for node in world.nodes[:2] if node is not first)
        assert [] == first.broker.leadership_transfers.here([(METADATA_SHARD, to.broker.broker_id)])
        world.until(lambda: to.broker.controller.leads, "there is another controller")
        world.pass_time(1_500)
        report = asked(to)
        untold = report.brokers[2]
    world.hold()
    world.until(lambda: not asked(to).brokers[2].leaving, "it is copied")

    planned_on_all = 1  # the metadata shard has three voters: 1, 2 and 3
    assert [(planned_on_all, 1)] * 2 == [(it.replicas, it.leaving) for it in (told, untold)]
    assert report.untold_count == len(report.untold)
    assert 1 in report.untold


@pytest.mark.parametrize("request_", [Request(), cluster_operation.Request(operation=Operation.MAY_STOP, broker_id=1)])
def test_an_older_controller_is_named_and_not_asked(request_: Any) -> None:
    """To try again does not help, and an operator who upgrades brokers one by one looks at them meanwhile."""
    world = ClusterWorld(newest_level=1)
    old = world.controller
    for number in {1, 2, 3} - {old.number}:
        world.restart(number, newest_level=2)
    node = next(node for node in world.nodes if node is not old)

    answer = asked(node, request_)

    assert errors.UNSUPPORTED_VERSION == answer.error_code
    assert "upgrade all brokers first" in answer.error_message
