"""A broker is silent when no live broker hears it, and not when one broker has a bad network."""

from dataclasses import replace

import pytest

from tests.unit.broker.broker_world import HandClock
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.broker.peers.peers import SILENT_MS
from tidemill.broker.peers.silent_brokers import SilentBrokers
from tidemill.metadata.image import EMPTY, Broker, ClusterImage
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.peer.link import LinkOwner

A, B, C, D = map(BrokerId, (1, 2, 3, 4))
PEER = (Endpoint("PEER", "h", 1, "PLAINTEXT"),)


class Cluster:
    """What broker 1 hears of the registered brokers 1 to 4, and what its peers say."""

    def __init__(self) -> None:
        self.brokers = {it: self.broker(it) for it in (A, B, C, D)}
        self.heard = {A, B, C}
        self.peers: dict[BrokerId, frozenset[BrokerId]] = {B: frozenset((D,)), C: frozenset((D,))}
        self.me = ReplicaKey(A, DirectoryId(bytes(16)))

    @staticmethod
    def broker(broker_id: BrokerId) -> Broker:
        return Broker(broker_id=broker_id, directory_id=DirectoryId(bytes(16)), endpoints=PEER, rack=None, level=2)

    @property
    def image(self) -> ClusterImage:
        return replace(EMPTY, brokers=self.brokers)

    def live(self) -> frozenset[BrokerId]:
        return frozenset(self.heard)

    def unheard_by_peers(self) -> dict[BrokerId, frozenset[BrokerId]]:
        return self.peers


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def silent(cluster: Cluster, clock: HandClock) -> SilentBrokers:
    return SilentBrokers(cluster, clock)


def test_a_broker_is_silent_while_no_live_broker_hears_it(
    cluster: Cluster, clock: HandClock, silent: SilentBrokers
) -> None:
    """The time counts from the first tick at which all agree, and begins anew after the broker was heard."""
    times = []
    for opinion in ((D,), (D,), (), (D,), (D,)):
        cluster.peers[C] = frozenset(opinion)
        silent.tick()
        clock.now_ms += 250
        times.append((silent.is_silent(D), silent.silent_ms(D)))

    assert [(True, 250), (True, 500), (False, None), (True, 250), (True, 500)] == times
    assert [False] * 3 == [silent.is_silent(it) for it in (A, B, C)]


def test_one_broker_that_hears_it_is_enough(cluster: Cluster, silent: SilentBrokers) -> None:
    """
    A broker that this one or any live peer hears is not silent.  Peers that are not live have no opinion, and a peer of
    an older version, which lists no broker, hears all.
    """
    cluster.peers[C] = frozenset()
    silent.tick()
    by_peer = silent.is_silent(D), silent.heard_by(D)
    del cluster.peers[C]
    cluster.heard.discard(C)
    silent.tick()
    by_none = silent.is_silent(D), silent.heard_by(D)
    cluster.heard.add(D)
    silent.tick()

    assert ((False, 1), (True, 0), (False, 1)) == (by_peer, by_none, (silent.is_silent(D), silent.heard_by(D)))


def test_this_broker_lists_the_registered_brokers_that_it_does_not_hear(
    cluster: Cluster, silent: SilentBrokers
) -> None:
    """A broker that was admitted and has not registered yet carries nothing, so it is not listed and not silent."""
    cluster.heard = {A}
    cluster.peers = {}
    cluster.brokers[C] = replace(cluster.brokers[C], endpoints=())

    silent.tick()

    assert (B, D) == silent.unheard
    assert [False, True, False, True] == [silent.is_silent(it) for it in (A, B, C, D)]


def test_no_broker_counts_as_hearing_itself(cluster: Cluster, silent: SilentBrokers) -> None:
    """Each of three live brokers is heard by the two others."""
    silent.tick()

    assert [2, 2, 2, 0] == [silent.heard_by(it) for it in (A, B, C, D)]


def test_a_controller_without_a_link_to_a_broker_that_others_hear_does_not_count_it_as_silent() -> None:
    """
    Otherwise a controller whose own network is bad would have the replicas of healthy brokers replaced.  The broker
    becomes silent when the last one does not hear it any more, for every broker, and is not when one hears it again.
    """
    world = ClusterWorld()
    controller = world[1].broker
    assert controller.controller.leads
    cut = {frozenset((1, 3))}

    def held(source: LinkOwner, destination: LinkOwner) -> bool:
        ends = frozenset(int(it.hello().address[-1]) for it in (source, destination))
        return ends in cut

    world.network.held = held
    world.until(lambda: controller.cluster.unheard == (3,), "the controller does not hear broker 3")
    world.pass_time(10 * SILENT_MS)
    assert controller.controller.leads
    seen = [(controller.cluster.is_silent(C), controller.cluster.heard_by(C))]

    cut.add(frozenset((2, 3)))
    world.until(lambda: all(world[it].broker.cluster.is_silent(C) for it in (1, 2)), "broker 3 is silent")
    world.pass_time(5_000)
    seen.append((controller.cluster.is_silent(C), controller.cluster.heard_by(C)))
    silent_ms = controller.cluster.silent_ms(C)
    cut.clear()
    world.until(lambda: not any(world[it].broker.cluster.is_silent(C) for it in (1, 2)), "broker 3 is heard")

    assert [(False, 1), (True, 0)] == seen
    assert silent_ms is not None and 5_000 <= silent_ms < 6_000
    world.until(lambda: all(node.broker.cluster.unheard == () for node in world.nodes), "all hear each other")
    assert [2, 2, 2] == [controller.cluster.heard_by(it) for it in (A, B, C)]
