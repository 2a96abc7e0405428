"""Clients whose group protocol is not implemented are recognized by the way they look up the coordinator."""

from dataclasses import dataclass, field

import pytest

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.coordinators.group_lookups import (
    CLIENT_IDS_MAX,
    LOOKUPS_ELSEWHERE_MIN,
    LOOKUPS_MIN,
    SILENT_S,
    WAIT_MS,
    WATCHED_MAX,
    GroupLookups,
)
from tidemill.broker.rate_limited_events import INTERVAL_MS
from tidemill.telemetry.event_log import EventLog


@dataclass
class Connection:
    peer: tuple[str, int] = ("10.0.0.7", 50_000)
    is_open: bool = True
    active_at: float = 0.0


@dataclass
class Lookups:
    """The `GroupLookups` under test, with its clock, its log, and the leader of every group."""

    clock: HandClock = field(default_factory=HandClock)
    lines: list[str] = field(default_factory=list)
    leader: tuple[int, int] = (1, 5)

    def __post_init__(self) -> None:
        self.rule = GroupLookups(self.clock, EventLog(self.lines.append, self.clock.wall_ms, as_json=False))

    def look_up(
        self,
        count: int,
        group_id: str = "g",
        client_id: str = "app",
        *,
        to: Connection | None = None,
        here: bool = True,
    ) -> None:
        connection = to or Connection()
        for _ in range(count):
            self.rule.looked_up(group_id, client_id, connection, is_here=here, leader=lambda: self.leader)

    def wait(self, duration_ms: int = WAIT_MS) -> int:
        """Let time pass, and return how many events have been logged so far."""
        self.clock.now_ms += duration_ms
        self.rule.tick()
        return len(self.lines)


def test_a_client_that_only_looks_up_the_coordinator_is_logged() -> None:
    """
    The event names the client and the group, and says what is not implemented and what to set.
    """
    lookups = Lookups()
    lookups.look_up(LOOKUPS_MIN)

    assert 0 == lookups.wait(WAIT_MS - 1)
    assert 1 == lookups.wait(1)
    for part in ("client_id=app", "10.0.0.7", "group=g", "lookups=3", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"):
        assert part in lookups.lines[0]
    assert "group.protocol=classic" in lookups.lines[0]


def test_a_client_id_is_logged_once() -> None:
    """
    The client id is not logged again for other groups, but other client ids are logged.
    """
    lookups = Lookups()
    lookups.look_up(LOOKUPS_MIN)
    lookups.look_up(LOOKUPS_MIN, "h")
    first = lookups.wait()
    lookups.look_up(LOOKUPS_MIN, "h")
    second = lookups.wait()
    lookups.look_up(LOOKUPS_MIN, "i", "other")

    assert (1, 1, 2) == (first, second, lookups.wait())


def test_a_group_request_refutes_the_lookups() -> None:
    """
    A member of a classic group follows its lookups with group requests.
    """
    lookups = Lookups()
    lookups.look_up(LOOKUPS_MIN)
    lookups.look_up(LOOKUPS_MIN, "h")
    lookups.rule.used("g")
    lookups.rule.used("unknown")

    assert 1 == lookups.wait()
    assert "group=h" in lookups.lines[0]


@pytest.mark.parametrize(
    ("count", "here", "logged"),
    [(LOOKUPS_MIN - 1, True, 0), (LOOKUPS_ELSEWHERE_MIN - 1, False, 0), (LOOKUPS_ELSEWHERE_MIN, False, 1)],
)
def test_a_classic_consumer_without_group_requests_is_not_logged(count: int, here: bool, logged: int) -> None:
    """
    A consumer that assigns its own partitions looks up the coordinator, too, but less often.
    """
    lookups = Lookups()
    lookups.look_up(count, here=here)

    assert logged == lookups.wait()


def test_lookups_of_long_ago_do_not_count() -> None:
    """
    The lookups must lie within WAIT_MS, because clients also look up the coordinator periodically.
    """
    lookups = Lookups()
    for _ in range(LOOKUPS_MIN):
        lookups.look_up(LOOKUPS_MIN - 1)
        lookups.wait()

    assert [] == lookups.lines


def test_a_client_that_has_gone_is_not_logged() -> None:
    """
    Short-lived consumers, such as `tidemill consume` without a group, look up the coordinator and disconnect.
    """
    lookups = Lookups()
    lookups.look_up(LOOKUPS_MIN, to=Connection(is_open=False))

    assert 0 == lookups.wait()


@pytest.mark.parametrize(("silent_since_s", "logged"), [(SILENT_S, 1), (SILENT_S + 0.1, 0)])
def test_a_connection_that_is_used_is_not_logged(silent_since_s: float, logged: int) -> None:
    """
    A consumer that assigns its own partitions fetches on the connection on which it looks up the coordinator.
    """
    lookups, connection = Lookups(), Connection(active_at=100.0)
    lookups.look_up(LOOKUPS_MIN, to=connection)
    connection.active_at += silent_since_s

    assert logged == lookups.wait()


def test_connections_are_counted_separately_if_another_broker_coordinates() -> None:
    """
    When the group requests go to another broker, lookups by several members of a group must not be added up.
    """
    lookups = Lookups()
    for number in range(10):
        lookups.look_up(2, to=Connection(("10.0.0.7", number)), here=False)

    assert 0 == lookups.wait()


def test_lookups_while_the_coordinator_moves_are_not_logged() -> None:
    """
    A classic client looks up the coordinator again and again until the new leader is known.
    """
    lookups = Lookups()
    lookups.look_up(10, here=False)
    lookups.leader = (2, 6)

    assert 0 == lookups.wait()


def test_memory_is_bounded() -> None:
    """
    Only the latest WATCHED_MAX groups are watched, and only CLIENT_IDS_MAX client ids are remembered.
    """
    lookups = Lookups()
    lookups.look_up(LOOKUPS_MIN, "first")
    for number in range(WATCHED_MAX):
        lookups.look_up(1, f"g-{number}")
    forgotten = lookups.wait()
    for number in range(CLIENT_IDS_MAX + 1):
        lookups.look_up(LOOKUPS_MIN, client_id=f"app-{number}")
        lookups.wait(WAIT_MS + INTERVAL_MS)
    before = len(lookups.lines)
    lookups.look_up(LOOKUPS_MIN, client_id="app-0")

    assert (0, CLIENT_IDS_MAX + 1, before + 1) == (forgotten, before, lookups.wait())
