"""The steps of a rolling restart, and when there is none."""

from typing import Any

import pytest

from tidemill.cli.cluster_restart import refusal, steps_of


def row(broker_id: int, **changes: Any) -> dict[str, Any]:
    well = {"is_live": True, "is_ready": True, "drain": "none", "presence": "active", "not_in_sync": 0, "untold": 0}
    return {"broker_id": broker_id, "replicas": 4} | well | changes


def test_the_controller_restarts_last() -> None:
    assert [1, 3, 2] == [step["broker_id"] for step in steps_of([row(3), row(2), row(1)], controller=2, http=None)]


def test_a_broker_gives_up_its_leaders_is_checked_and_is_in_sync_before_the_next() -> None:
    (step,) = steps_of([row(7)], controller=7, http=None)

    assert [
        "tidemill cluster drain 7 --leaders --wait 10m",
        "tidemill cluster may-stop 7 --wait 10m",
        ": restart broker 7",
        "tidemill cluster undrain 7 --wait 10m",
    ] == step["commands"]


def test_the_commands_of_a_plan_reach_the_cluster_that_it_is_for() -> None:
    """Without the addresses that the operator has given, they would reach whatever answers at the default address."""
    steps = steps_of([row(7), row(8, drain="all")], controller=7, http="10.0.0.1:9080,10.0.0.2:9080")

    commands = [command for step in steps for command in step["commands"] if not command.startswith(":")]
    assert 4 == len(commands)
    assert all(command.endswith(" --http 10.0.0.1:9080,10.0.0.2:9080") for command in commands)


def test_a_broker_that_an_operator_drains_stays_drained() -> None:
    (step,) = steps_of([row(7, drain="all")], controller=7, http=None)

    assert not any("drain" in command for command in step["commands"])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"is_live": False}, "broker 2 is down"),
        ({"not_in_sync": 3}, "broker 2 is not in sync"),
        ({"is_ready": False}, "broker 2 is not in sync"),
        ({"not_in_sync": 3, "untold": 2}, "broker 2 is not in sync"),
        ({"not_in_sync": 3, "untold": 3}, "does not know yet whether broker 2 is in sync"),
    ],
)
def test_no_broker_restarts_while_another_is_missed(changes: dict[str, Any], why: str) -> None:
    assert refusal([row(1), row(2)], 1) is None
    assert why in (refusal([row(1), row(2, **changes)], 1) or "")


@pytest.mark.parametrize(
    ("changes", "first", "then"),
    [
        ({"replicas": 0}, "bring it back, or run `tidemill cluster remove 2`", ""),
        ({"presence": "gone"}, "bring it back, or when its replicas have moved (4 left", "remove 2`"),
        ({"presence": "silent"}, "if it is lost for good, run `tidemill cluster replace 2`", "remove 2`"),
        ({"presence": "active"}, "when it is silent, run `tidemill cluster replace 2`", "remove 2`"),
    ],
)
def test_a_lost_broker_is_removed_only_when_its_replicas_have_moved(
    changes: dict[str, Any], first: str, then: str
) -> None:
    """`remove` is refused before."""
    why = refusal([row(1), row(2, is_live=False, **changes)], 1) or ""

    assert first in why
    assert why.endswith(then)
    assert ("have moved" in why) is bool(then)


def test_a_drained_broker_need_not_lead() -> None:
    assert refusal([row(1), row(2, drain="leaders", is_ready=False)], 1) is None


def test_there_is_no_plan_without_a_controller() -> None:
    """The brokers would be in the order of their ids, and the next controller anywhere among them."""
    assert "knows no controller; try again" in (refusal([row(1), row(2)], None) or "")


@pytest.mark.parametrize("is_stalled", [False, True])
def test_nothing_is_waited_for_that_will_not_happen(is_stalled: bool) -> None:
    """While so many brokers are silent that an operator has to decide, none becomes gone by itself."""
    why = refusal([row(1), row(2, is_live=False, presence="silent", replicas=4)], 1, is_stalled=is_stalled) or ""

    assert ("or wait until the cluster does so" in why) is not is_stalled
