"""
All brokers lose power at the same time, on disks that forget unsynced data, and no acknowledged record is lost.  The
same check detects a broker that acknowledges before its sync.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.cluster_scene import ClusterScene
from tests.fault.early_answer import LATE_SECONDS
from tests.fault.extent import times
from tests.fault.history import History, Law, distinct_laws, violations
from tests.fault.judgement import show_kept
from tests.fault.power_switch import PowerSwitch, mounted, skip_without_fuse
from tests.fault.single_sends import send_acknowledged
from tests.fault.steady_load import QUICK, read_all

EARLY = (sys.executable, "-m", "tests.fault.early_answer")


@pytest.fixture
def power(tmp_path: Path) -> Iterator[PowerSwitch]:
    skip_without_fuse()
    with mounted(tmp_path / "disk") as switch:
        yield switch


def data_on(power: PowerSwitch) -> dict[int, Path]:
    return {number: power.root / f"broker-{number}" for number in (1, 2, 3)}


def lose(cluster: ClusterProcesses, power: PowerSwitch, seed: int | None) -> None:
    """
    Cut the power of all brokers.  With a seed, each unsynced page is kept, lost or torn; without a seed, all unsynced
    pages are lost.
    """
    cluster.kill(*cluster.numbers)
    if seed is None:
        power.lose_all()
    else:
        power.lose(seed)
    cluster.start_all()


@pytest.mark.timeout(times(120, 600))
def test_nothing_is_lost_when_all_lose_power(
    tmp_path: Path, power: PowerSwitch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    No acknowledged record is lost when all brokers lose power, no matter whether unsynced data is lost, kept or torn.
    """
    seed = int(os.environ.get("TIDEMILL_POWER_SEED", random.randrange(1 << 32)))
    with ClusterProcesses(tmp_path, data=data_on(power)) as cluster:
        cluster.start_all()
        with ClusterScene(cluster, "power") as scene:
            for number in range(times(1, 5)):
                scene.load.run_for(0.5)  # twice as long as the 250 ms between two write-backs to segments
                scene.strike_all("power loss of all, and start", lambda it=seed + number: lose(cluster, power, it))
                scene.calm()
            verdict = scene.finish()

    show_kept(verdict, capsys, f"\nTIDEMILL_POWER_SEED={seed}")


@pytest.mark.timeout(180)
def test_an_acknowledgement_before_its_sync_is_caught(tmp_path: Path, power: PowerSwitch) -> None:
    """
    The checker detects the loss of records that were acknowledged before their sync, which shows that the forgetful
    disk and the checker work.
    """
    history = History()
    with ClusterProcesses(tmp_path, data=data_on(power), program=EARLY) as cluster:
        cluster.start_all()
        cluster.create_topic("early", 1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, **QUICK})
        began = time.monotonic()
        while time.monotonic() < began + 2 * LATE_SECONDS or len(history.sends) < 2:
            send_acknowledged(producer, "early", history, len(history.sends))
        lose(cluster, power, None)
        cluster.leaders("early")
        history.final += read_all(cluster.bootstrap, "early", range(1))

    assert Law.NOTHING_LOST in distinct_laws(violations(history))
