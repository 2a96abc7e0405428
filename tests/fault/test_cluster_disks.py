"""
When the disk of one broker fails, fills up, is wiped or is damaged, the other brokers continue, no acknowledged record
is lost, and the broker recovers.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.cluster_scene import PARTITIONS, SHARDS, ClusterScene, Verdict
from tests.fault.extent import SLACK, soak_only
from tests.fault.judgement import show_kept
from tests.fault.small_disk import free_bytes, full_disk, small_disk
from tests.fault.steady_load import read_all
from tidemill.storage import paths

SMALL_BROKER = 3
LEFT_BYTES = 8 << 20
ENTRIES_OF_A_LONG_ABSENCE = 300  # more entries than replicas keep in memory per shard
REPAIRED_SECONDS_MAX = 5.0


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Run a cluster in which one broker has a small disk, if the test is allowed to mount one."""
    directory = tmp_path_factory.mktemp("disks")
    with small_disk(directory / f"broker-{SMALL_BROKER}"), ClusterProcesses(directory) as cluster:
        cluster.start_all()
        yield cluster


@pytest.mark.timeout(180)
def test_a_broker_ends_after_a_failed_sync_and_recovers(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a failed sync, the broker exits immediately and sends no response, because the data that the page cache
    still shows may be lost.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (Debian package strace)")
    with ClusterScene(cluster, "failed-sync") as scene:
        victim = scene.leader(0)
        scene.strike("EIO on a sync", victim, lambda: fail_a_sync(cluster, victim))
        cluster.brokers.pop(victim).discard()
        cluster.start(victim)
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_equal()


def fail_a_sync(cluster: ClusterProcesses, victim: int) -> None:
    """Make one durable write of the journal fail.  The broker must exit with an error."""
    broker = cluster.brokers[victim]
    files = sorted((cluster.data_directory(victim) / "journal").iterdir())
    paths = [word for file in files for word in ("-P", str(file))]
    calls = "pwritev2,fdatasync"
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO:when=1"]
    strace = subprocess.Popen(
        ["strace", "-f", "-qq", "-p", str(broker.broker_pid), *paths, *inject],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert broker.wait_for_end() == 1
    finally:
        strace.terminate()
        strace.wait()
    assert "SyncFailed" in cluster.log_of(victim)


@pytest.mark.timeout(180)
def test_writes_continue_when_the_disk_of_a_leader_is_full(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A leader with a full disk refuses writes before they enter the log, and other brokers become leaders.  Once there is
    space again, the broker recovers by itself.
    """
    with ClusterScene(cluster, "full") as scene:
        shard = next(it for it in SHARDS if preferred_leader(cluster, "full", it.start) == SMALL_BROKER)
        if cluster.leaders("full")[shard.start] != SMALL_BROKER:
            cluster.elect_preferred("full", shard.start)
        wait_until(lambda: cluster.leaders("full")[shard.start] == SMALL_BROKER, "a leader with a small disk")
        with full_disk(cluster, SMALL_BROKER, LEFT_BYTES):
            scene.load.wait_for_progress()
            assert SMALL_BROKER not in cluster.leaders("full").values()
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_equal()


@soak_only
@pytest.mark.timeout(180)
def test_writes_continue_when_the_disk_of_a_follower_is_full(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A follower does not check its free space, so the test fills its disk to the last byte.  Entries that the follower
    has accepted wait in its journal.
    """
    with ClusterScene(cluster, "full-follower") as scene:
        cluster.stop(SMALL_BROKER)  # so that it no longer leads any partition
        cluster.start(SMALL_BROKER)
        scene.calm()
        leaders = cluster.leaders("full-follower")
        assert SMALL_BROKER not in leaders.values()
        with full_disk(cluster, SMALL_BROKER, 0):
            scene.load.wait_for_progress()
            scene.load.run_for(2.0)  # long enough to write several pages per segment
            assert free_bytes(cluster.data_directory(SMALL_BROKER)) == 0
        assert leaders == cluster.leaders("full-follower")
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_equal()


def preferred_leader(cluster: ClusterProcesses, topic: str, partition: int) -> int:
    (described,) = cluster.ask_any([topic]).topics
    return next(it.replica_nodes[0] for it in described.partitions if it.partition_index == partition)


def write_much(cluster: ClusterProcesses, topic: str) -> None:
    """Write more entries than the other brokers keep in memory for a replica that is down."""
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "batch.num.messages": 1,
    })  # fmt: skip
    for number in range(ENTRIES_OF_A_LONG_ABSENCE):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[ClusterProcesses]:
    """Run a separate cluster, for a test that might leave a broker unable to recover."""
    with ClusterProcesses(tmp_path) as cluster:
        cluster.start_all()
        yield cluster


def broker_with_fewest_leaders(cluster: ClusterProcesses, topic: str) -> int:
    """Return the broker that leads the fewest partitions, leaving out the controller."""
    leaders = list(cluster.leaders(topic).values())
    return min((it for it in cluster.numbers if it != cluster.controller()), key=leaders.count)


@pytest.mark.timeout(180)
def test_a_broker_that_was_away_for_long_catches_up(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker that was down for a long time catches up, even with entries that the others no longer have in memory."""
    cluster.create_topic("absence", PARTITIONS)
    with ClusterScene(cluster, "absence-load") as scene:
        victim = broker_with_fewest_leaders(cluster, "absence")
        cluster.kill(victim)
        write_much(cluster, "absence")
        cluster.start(victim)
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_equal()
    cluster.wait_until_equal("absence")


@pytest.mark.timeout(180)
def test_a_wiped_broker_gets_everything_again(cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A wiped broker joins with a new directory as a new replica, at first as a learner, and receives all data again.
    """
    cluster.create_topic("wiped", PARTITIONS)
    with ClusterScene(cluster, "wiped-load") as scene:
        write_much(cluster, "wiped")
        victim = 2  # this broker's directory is not a mount point
        cluster.kill(victim)
        cluster.wipe(victim)
        cluster.start(victim, joins=[it for it in cluster.numbers if it != victim])
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_equal()
    cluster.wait_until_equal("wiped")


@pytest.mark.timeout(180)
def test_a_flipped_byte_of_a_segment_is_found_and_repaired(
    broken: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """When a segment has a flipped byte, a read detects it by the CRC.  The byte is never served, and the replica is
    repaired.
    """
    broken.create_topic("flipped", PARTITIONS)
    write_much(broken, "flipped")
    with ClusterScene(broken, "flipped-load") as scene:
        victim = broken.leaders("flipped")[0]
        broken.stop(victim)  # after a clean stop, recovery does not restore the segments from the journal
        topic_id = broken.ask_any(["flipped"]).topics[0].topic_id
        flip_a_byte(broken.data_directory(victim) / paths.partition_directory(topic_id, 0))
        broken.start(victim)
        broken.elect_preferred("flipped", 0)
        wait_until(lambda: broken.leaders("flipped")[0] == victim, "damaged leader")

        found = read_all(broken.bootstrap, "flipped", range(PARTITIONS), seconds_max=REPAIRED_SECONDS_MAX * SLACK)
        assert len(found) == PARTITIONS * ENTRIES_OF_A_LONG_ABSENCE
        wait_until(lambda: '"shard repaired"' in broken.log_of(victim), "repair")
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_equal()
    broken.wait_until_equal("flipped")


@pytest.mark.timeout(180)
def test_a_flipped_byte_of_a_journal_is_found_and_repaired(
    broken: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flipped byte in the journal could have been part of a vote, so the broker restarts as a new replica."""
    broken.create_topic("flipped", PARTITIONS)
    write_much(broken, "flipped")
    with ClusterScene(broken, "flipped-load") as scene:
        victim = broker_with_fewest_leaders(broken, "flipped")
        broken.kill(victim)
        flip_a_byte(broken.data_directory(victim) / "journal")
        broken.start(victim, joins=[it for it in broken.numbers if it != victim])

        broken.wait_until_equal("flipped", seconds_max=REPAIRED_SECONDS_MAX * SLACK)
        assert '"journal set aside"' in broken.log_of(victim)
        assert [it.name for it in broken.data_directory(victim).glob("damaged-*/*")]
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_equal()


def finished(scene: ClusterScene) -> Verdict:
    """Wait until every broker is in sync, then finish the scene and return its verdict."""
    scene.calm()
    return scene.finish()


def flip_a_byte(directory: Path) -> None:
    """Flip one bit of a byte in the middle of the largest file, but not in the padding between blocks."""
    contents = {file: file.read_bytes().rstrip(b"\0") for file in directory.iterdir()}
    file = max(contents, key=lambda it: len(contents[it]))
    content = contents[file]
    place = next(at for at in range(len(content) // 2, len(content)) if content[at])
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(bytes([content[place] ^ 0x10]))
