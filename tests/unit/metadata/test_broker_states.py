"""The states of brokers: silent, gone, back, drained."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster, registration
from tidemill.metadata.broker_states import SetDrain, SetPresence
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence

TWO = BrokerId(2)


def state(cluster: Cluster) -> tuple[Presence, Drain]:
    return cluster.image.brokers[TWO].presence, cluster.image.brokers[TWO].drain


def test_presence_and_drain_are_set_apart() -> None:
    """Each command keeps the half that it does not set: a drained broker that falls silent is still drained."""
    cluster = Cluster(brokers=2)

    cluster.do(SetDrain(broker_id=TWO, drain=Drain.ALL))
    drained = state(cluster)
    cluster.do(SetPresence(broker_id=TWO, presence=Presence.SILENT))
    silent = state(cluster)
    cluster.do(SetDrain(broker_id=TWO, drain=Drain.NONE))

    assert [drained, silent, state(cluster)] == [
        (Presence.ACTIVE, Drain.ALL),
        (Presence.SILENT, Drain.ALL),
        (Presence.SILENT, Drain.NONE),
    ]


def test_a_repeated_command_writes_nothing() -> None:
    """The planner may send a change again before the first is in the image."""
    cluster = Cluster(brokers=2)
    cluster.do(SetPresence(broker_id=TWO, presence=Presence.GONE))
    offset = cluster.image.offset

    answer = cluster.do(SetPresence(broker_id=TWO, presence=Presence.GONE))

    assert (answer.problem, cluster.image.offset) == (None, offset)


def test_a_broker_that_registers_keeps_its_state() -> None:
    """Every start registers, and a flapping broker must not end its own silence."""
    cluster = Cluster(brokers=2)
    cluster.do(SetPresence(broker_id=TWO, presence=Presence.GONE))
    cluster.do(SetDrain(broker_id=TWO, drain=Drain.LEADERS))

    cluster.do(registration(2))
    cluster.join(2, rack="b")

    assert (cluster.image.brokers[TWO].rack, *state(cluster)) == ("b", Presence.GONE, Drain.LEADERS)


@pytest.mark.parametrize(
    "command", [SetPresence(broker_id=TWO, presence=Presence.GONE), SetDrain(broker_id=TWO, drain=Drain.ALL)]
)
@pytest.mark.parametrize(
    ("brokers", "level", "error_code", "says"),
    [
        (1, 2, errors.BROKER_ID_NOT_REGISTERED, "broker 2 is not in this cluster; its brokers are 1"),
        (2, 1, errors.UNSUPPORTED_VERSION, "the cluster is at level 1; when all brokers run"),
    ],
)
def test_a_state_is_refused(command: Any, brokers: int, level: int, error_code: int, says: str) -> None:
    """A broker must be known, and all brokers must be able to read the record."""
    cluster = Cluster(brokers=brokers, level=level)
    offset = cluster.image.offset

    problem = cluster.do(command).problem

    assert problem.error_code == error_code and says in problem.message
    assert cluster.image.offset == offset
