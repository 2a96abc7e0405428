"""What the event log says of plans."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.controller.rebalance_history import RebalanceHistory
from tidemill.rebalance.plan import Refusal


def test_only_what_needs_an_operator_is_a_warning() -> None:
    """Balance waits for figures, pauses and limits all the time."""
    events: Any = Mock()
    history = RebalanceHistory(SimpleNamespace(clock=HandClock(), events=events))  # type: ignore[arg-type]

    history.refused([Refusal("shard 1", "it is stuck"), Refusal("broker 2", "it carries more", is_wish=True)])

    events.warning.assert_called_once_with("move refused", what="shard 1", why="it is stuck")
    events.event.assert_called_once_with("move refused", what="broker 2", why="it carries more")
