"""What a scrape shows about a broker, apart from its counters."""

import sys
from importlib.metadata import version

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.app.observed import ObservedBroker
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey


def samples(world: BrokerWorld) -> dict[str, str]:
    text = ObservedBroker(lambda: world.broker).metrics_text()
    assert text is not None
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_a_scrape_shows_the_state_of_the_broker() -> None:
    """
    The scrape of a single broker shows that it leads everything, including the metadata shard.
    """
    world = BrokerWorld()
    world.create("flights", partitions=3)
    world.broker.tick()
    before = float(samples(world)["tidemill_uptime_seconds"])
    world.clock.now_ms += 1_500

    shown = samples(world)

    assert ["4.0", "0.0", "1.0", "1.0", "0.0"] == [
        shown[f"tidemill_{name}"]
        for name in ("led_partitions", "leaderless_partitions", "is_controller", "has_quorum_contact", "is_draining")
    ]
    assert 1.5 == float(shown["tidemill_uptime_seconds"]) - before
    assert 256 << 20 <= float(shown["tidemill_disk_needed_bytes"])


def test_a_scrape_shows_what_runs() -> None:
    """
    A scrape contains the versions of the package and of Python.
    """
    shown = samples(BrokerWorld())

    python = ".".join(map(str, sys.version_info[:3]))
    assert "1.0" == shown[f'tidemill_build_info{{python="{python}",version="{version("tidemill")}"}}']


def test_a_scrape_shows_how_far_other_clocks_are_off() -> None:
    """
    The scrape has the clock of each other broker that was heard lately, in seconds, by broker id.
    """
    world = BrokerWorld()
    for number, ahead_ms in ((3, -1_500), (2, 2_000)):
        other = ReplicaKey(BrokerId(number), DirectoryId(bytes(16)))
        world.broker.cluster.clocks.heard(other, world.clock.now_ms + ahead_ms)

    shown = samples(world)

    family = "tidemill_peer_clock_offset_seconds"
    assert {f'{family}{{broker="2"}}': "2.0", f'{family}{{broker="3"}}': "-1.5"} == {
        name: value for name, value in shown.items() if name.startswith(family)
    }
