"""Members of groups whose protocol is not implemented are refused and logged."""

from tests.unit.broker.broker_world import BrokerWorld, HandClock
from tidemill.broker.coordinators.unbuilt_protocols import CLIENT_IDS_MAX, UnbuiltProtocols
from tidemill.broker.rate_limited_events import INTERVAL_MS
from tidemill.model import errors
from tidemill.telemetry.event_log import EventLog
from tidemill.wire.messages import consumer_group_heartbeat

CONSUMER = consumer_group_heartbeat.Request(group_id="g", member_id="m", member_epoch=0)


def test_a_member_is_refused_and_logged() -> None:
    """
    A member of a group whose protocol is not implemented gets an error that clients do not retry.  The response and the
    logged event say what to set, and the event names the client.
    """
    world = BrokerWorld()

    answer = world.ask(CONSUMER)

    (line,) = [line for line in world.events if "group protocol is not implemented" in line]
    assert errors.UNSUPPORTED_VERSION == answer.error_code and errors.UNSUPPORTED_VERSION not in errors.RETRIABLE
    assert "group.protocol=classic" in answer.error_message
    assert "client_id=test" in line and "group=g " in line and "group.protocol=classic" in line


def test_a_client_id_is_logged_once() -> None:
    """
    Later refusals of the same client id are not logged, for other groups either, but other client ids are logged.
    """
    lines: list[str] = []
    clock = HandClock()
    protocols = UnbuiltProtocols(clock, EventLog(lines.append, clock.wall_ms, as_json=False))

    for group, client_id in (("g", "a"), ("g", "a"), ("h", "a"), ("g", "b")):
        protocols.refused("not implemented", group, client_id, "10.0.0.7")

    assert ["client_id=a", "client_id=b"] == [line.split()[7] for line in lines]


def test_memory_is_bounded() -> None:
    """
    Only the last CLIENT_IDS_MAX client ids are remembered.
    """
    lines: list[str] = []
    clock = HandClock()
    protocols = UnbuiltProtocols(clock, EventLog(lines.append, clock.wall_ms, as_json=False))
    for number in range(CLIENT_IDS_MAX + 1):
        protocols.refused("not implemented", "g", f"app-{number}", "10.0.0.7")
        clock.now_ms += INTERVAL_MS
    before = len(lines)

    protocols.refused("not implemented", "g", "app-0", "10.0.0.7")
    protocols.refused("not implemented", "g", f"app-{CLIENT_IDS_MAX}", "10.0.0.7")

    assert (CLIENT_IDS_MAX + 1, before + 1) == (before, len(lines))
