"""
The simulated links keep the contract of `peer/link.py`: two brokers share one link, which both ends see.
"""

import asyncio
from random import Random

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.peer.hello import Hello
from tidemill.peer.link import Link
from tidemill.simulation.machine.event_loop import US, Timeline, begin_loop
from tidemill.simulation.machine.links import SimulatedLinks
from tidemill.simulation.machine.network import Network


class Owner:
    def __init__(self, world: "World", number: int, incarnation: int) -> None:
        self.world = world
        self.number = number
        self.links: dict[int, Link] = {}
        self.frames: list[bytes] = []
        self.lost_links: list[str] = []
        self._hello = Hello(
            cluster_id="c",
            voter=ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)),
            incarnation=incarnation,
            address=f"broker-{number}:9070",
        )
        self.loop = begin_loop(world.timeline)
        self.all = SimulatedLinks(world.network, self.loop, f"broker-{number}", self, Random(incarnation))

    def hello(self) -> Hello:
        return self._hello

    def linked(self, link: Link) -> str | None:
        assert link.hello.voter is not None
        number = link.hello.voter.broker_id
        assert number not in self.links, "the owner has never two links to one voter"
        self.links[number] = link
        return None

    def received(self, link: Link, frame: memoryview) -> None:
        assert link.hello.voter is not None
        assert self.links[link.hello.voter.broker_id] is link
        frame[:1] = frame[:1]  # a received frame must be writable
        self.frames.append(bytes(frame))

    def lost(self, link: Link, why: str) -> None:
        assert link.hello.voter is not None
        assert self.links.pop(link.hello.voter.broker_id) is link
        self.lost_links.append(why)


class World:
    def __init__(self, seed: int, brokers: int = 3) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(seed))
        self.brokers = brokers
        self.lives = 0
        self.owners: dict[int, Owner] = {}
        for number in range(1, brokers + 1):
            self.start(number)

    def start(self, number: int) -> Owner:
        self.lives += 1
        owner = self.owners[number] = Owner(self, number, self.lives)
        self.network.power_back(f"broker-{number}")
        owner.loop.call_soon(lambda: owner.loop.create_task(self._up(owner)))
        return owner

    async def _up(self, owner: Owner) -> None:
        await asyncio.sleep(0)
        await owner.all.listen("")
        owner.all.reach([f"broker-{n}:9070" for n in range(1, self.brokers + 1) if n != owner.number])

    def pass_time(self, seconds: float) -> None:
        self.timeline.run_until(self.timeline.now_us + int(seconds * US))

    def check_linked(self) -> None:
        """Check that each broker is linked to every other broker, and that frames arrive on the same link."""
        for owner in self.owners.values():
            others = set(self.owners) - {owner.number}
            assert set(owner.links) == others
            owner.frames.clear()
        for owner in self.owners.values():
            for link in owner.links.values():
                assert link.send([b"from ", b"%d" % owner.number])
        self.pass_time(2)
        for owner in self.owners.values():
            assert sorted(owner.frames) == sorted(b"from %d" % n for n in self.owners if n != owner.number)


@pytest.mark.parametrize("seed", range(20))
def test_brokers_that_dial_each_other_at_the_same_time_get_one_link(seed: int) -> None:
    world = World(seed, brokers=5)
    world.network.delay_mean_us = 20_000

    world.pass_time(10)

    world.check_linked()


@pytest.mark.parametrize("seed", range(20))
def test_a_restarted_broker_replaces_its_old_link(seed: int) -> None:
    """
    A restarted broker replaces its old link, whether its peers were notified that the link ended (a kill) or not (a
    power loss).
    """
    world = World(seed)
    world.pass_time(5)
    old = world.owners[2]
    old.loop.kill()
    if seed % 2:
        world.network.process_died(old.loop)
        world.pass_time(0.1)
        assert 2 not in world.owners[1].links
    else:
        world.network.power_lost("broker-2", old.loop)
        world.pass_time(0.1)
        assert 2 in world.owners[1].links

    world.start(2)
    world.pass_time(10)

    world.check_linked()


@pytest.mark.parametrize("seed", range(10))
def test_links_are_dialled_again_after_a_partition(seed: int) -> None:
    world = World(seed)
    world.pass_time(5)
    world.network.blocked |= {("broker-1", "broker-2"), ("broker-2", "broker-1")}
    for owner in world.owners.values():
        for link in [*owner.links.values()]:
            link.send([b"into the dark"])
    world.pass_time(40)
    assert 2 not in world.owners[1].links and 1 not in world.owners[2].links

    world.network.blocked.clear()
    world.pass_time(10)

    world.check_linked()


def test_a_closed_link_ends_at_once_here_and_soon_at_the_peer() -> None:
    world = World(1, brokers=2)
    world.pass_time(5)
    one, two = world.owners[1], world.owners[2]

    one.links[2].close("no more")
    assert one.lost_links[-1] == "no more"
    world.pass_time(5)

    assert two.lost_links[-1] == "closed by the other end"
    world.check_linked()
