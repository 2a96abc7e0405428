"""A broker that runs although the cluster has removed it notices that."""

from unittest.mock import patch

from tests.unit.broker.controller.healing_world import FIGURES_MS, HealingWorld
from tidemill.broker.maintenance.removal_watch import ASK_MS
from tidemill.metadata.admission import AdmitBroker
from tidemill.metadata.feature_levels import NEWEST
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.peer import join
from tidemill.peer.cluster_operation import Operation


def made() -> HealingWorld:
    """Return a cluster of four brokers; broker 4 carries nothing and has just been cut off."""
    world = HealingWorld(4)
    world.create("flights", brokers=(1, 2, 3))
    world.pass_time(FIGURES_MS)
    world.cut_off(4)
    world.pass_time(3_000)
    return world


def problems(world: HealingWorld) -> list[str | None]:
    return [node.broker.removal_watch.problem for node in world.nodes]


def test_a_removed_broker_notices_it_when_it_reaches_the_cluster() -> None:
    """
    It is no member of the metadata any more, so it does not read that it was removed.  The event names the broker and
    what to do.
    """
    world = made()
    assert errors.NONE == world.command(Operation.REMOVE, 4).error_code
    before = problems(world)

    world.heal()
    world.until(lambda: world[4].broker.removal_watch.problem is not None, "it is told")
    world.pass_time(2 * ASK_MS)

    first, second, third, told = problems(world)
    assert [None] * 4 == before
    assert (None, None, None) == (first, second, third)
    assert told is not None and "removed this broker while it ran: broker 4 was never admitted" in told
    assert "start it on an empty directory" in told
    (line,) = world.lines("removed from the cluster")
    assert "the broker stops" in line


def test_a_broker_whose_id_another_directory_has_got_notices_it() -> None:
    """The new directory takes the place of a broker that is not heard.  The old one must not go on beside it."""
    world = made()
    new = DirectoryId(b"n" * 16)
    admission = AdmitBroker(directory_id=new, broker_id=BrokerId(4), live=frozenset(), level=NEWEST)
    world.controller.broker.controller.submit(admission)
    world.pass_time(1_000)

    world.heal()
    world.until(lambda: world[4].broker.removal_watch.problem is not None, "it is told")

    assert f"data directory {new.hex()} has replaced" in (world[4].broker.removal_watch.problem or "")


def test_a_peer_that_lags_behind_removes_nothing() -> None:
    """A peer may not have the metadata of a new broker yet.  The controller decides, and is not asked all the time."""
    world = made()
    world.heal()
    world.pass_time(1_000)
    asked: list[object] = []
    ask = world[4].broker.cluster.peers.ask

    def counted(*given: object) -> bool:
        asked.append(given[1])
        return ask(*given)  # type: ignore[arg-type]

    with (
        patch.object(world[4].broker.cluster.peers, "ask", counted),
        patch.object(world[2].broker.cluster, "is_stranger", lambda _: True),
    ):
        world.pass_time(4 * ASK_MS)

    assert ([None] * 4, 4) == (problems(world), asked.count(join.API))
