"""
One broker's disk fails, is full, forgets or lies: the others go on, nothing acknowledged is lost, and the broker comes
back.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.cluster_scene import PARTITIONS, SHARDS, ClusterScene, Verdict
from tests.fault.extent import SLACK, soak_only
from tests.fault.judgement import show_kept
from tests.fault.steady_load import read_all
from tidemill.storage import paths

SMALL_BROKER = 3
SMALL_BYTES = 600 << 20  # a journal, and more than the room below which writes are refused
LEFT_BYTES = 8 << 20
FULL, ROOM = '"disk full"', '"disk has room again"'  # what such a broker says
ENTRIES_OF_A_LONG_ABSENCE = 300  # more than replicas keep of a shard's rows in memory
REPAIRED_SECONDS_MAX = 5.0


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """One of the brokers has a small disk, where we may mount one."""
    directory = tmp_path_factory.mktemp("disks")
    small = directory / f"broker-{SMALL_BROKER}"
    is_mounted = os.geteuid() == 0 and mount_small(small)
    try:
        with ClusterProcesses(directory) as cluster:
            cluster.start_all()
            yield cluster
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(small)], check=True)


def mount_small(directory: Path) -> bool:
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tidemill-test", str(directory)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.timeout(180)
def test_a_broker_whose_sync_failed_ends_and_comes_back(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    What it should have made durable may be gone although the cache shows it: it ends at once and answers nobody.
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
    scene.wait_until_alike()


def fail_a_sync(cluster: ClusterProcesses, victim: int) -> None:
    """One durable write of the journal fails; the broker's exit code says that it failed."""
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
def test_writes_go_on_when_the_disk_of_a_leader_is_full(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Refused before they enter the log, and led elsewhere; when there is room again, that broker goes on by itself.
    """
    with ClusterScene(cluster, "full") as scene:
        shard = next(it for it in SHARDS if preferred_leader(cluster, "full", it.start) == SMALL_BROKER)
        if cluster.leaders("full")[shard.start] != SMALL_BROKER:
            cluster.elect_preferred("full", shard.start)
        wait_until(lambda: cluster.leaders("full")[shard.start] == SMALL_BROKER, "a leader with a small disk")
        with full_disk(cluster, LEFT_BYTES):
            scene.load.wait_for_progress()
            assert SMALL_BROKER not in cluster.leaders("full").values()
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_alike()


@soak_only
@pytest.mark.timeout(180)
def test_writes_go_on_when_the_disk_of_a_follower_is_full(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    To the last byte: nobody asks whether a follower has room.  What it has taken waits in its journal.
    """
    with ClusterScene(cluster, "full-follower") as scene:
        cluster.stop(SMALL_BROKER)  # others lead then
        cluster.start(SMALL_BROKER)
        scene.calm()
        leaders = cluster.leaders("full-follower")
        assert SMALL_BROKER not in leaders.values()
        with full_disk(cluster, 0):
            scene.load.wait_for_progress()
            scene.load.run_for(2.0)  # several pages for each segment
            assert free_bytes(cluster.data_directory(SMALL_BROKER)) == 0
        assert leaders == cluster.leaders("full-follower")
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_alike()


@contextmanager
def full_disk(cluster: ClusterProcesses, left_bytes: int) -> Iterator[None]:
    """Until the broker has seen it, and then until it has seen that there is room."""
    directory = cluster.data_directory(SMALL_BROKER)
    if not os.path.ismount(directory):
        pytest.skip("only root may mount a tmpfs")
    ballast = directory / "ballast"
    full, room = (cluster.log_of(SMALL_BROKER).count(what) for what in (FULL, ROOM))
    try:
        fill(ballast, left_bytes)
        wait_until(lambda: cluster.log_of(SMALL_BROKER).count(FULL) > full, "complaint of a full disk")
        yield
    finally:
        ballast.unlink()
    wait_until(lambda: cluster.log_of(SMALL_BROKER).count(ROOM) > room, "room")


def fill(ballast: Path, left_bytes: int) -> None:
    """But for so much, and what the broker takes meanwhile."""
    with ballast.open("wb") as file:
        while (bytes_wanted := free_bytes(ballast.parent) - left_bytes) > 0:
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, bytes_wanted)
            except OSError as problem:
                if problem.errno != errno.ENOSPC:  # the broker was quicker
                    raise


def free_bytes(directory: Path) -> int:
    free = os.statvfs(directory)
    return free.f_bavail * free.f_frsize


def preferred_leader(cluster: ClusterProcesses, topic: str, partition: int) -> int:
    (told,) = cluster.ask_any([topic]).topics
    return next(it.replica_nodes[0] for it in told.partitions if it.partition_index == partition)


def write_much(cluster: ClusterProcesses, topic: str) -> None:
    """So many entries that a replica which lacks them all cannot be sent them one by one."""
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "batch.num.messages": 1,
    })  # fmt: skip
    for number in range(ENTRIES_OF_A_LONG_ABSENCE):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[ClusterProcesses]:
    """For one test: whether its broker can come back is the question."""
    with ClusterProcesses(tmp_path) as cluster:
        cluster.start_all()
        yield cluster


def follower_of_all(cluster: ClusterProcesses, topic: str) -> int:
    """A broker that leads the least."""
    leaders = list(cluster.leaders(topic).values())
    return min((it for it in cluster.numbers if it != cluster.controller()), key=leaders.count)


@pytest.mark.timeout(180)
def test_a_broker_that_was_away_for_long_is_caught_up(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Also with what the others have no rows of any more.
    """
    cluster.create_topic("absence", PARTITIONS)
    with ClusterScene(cluster, "absence-load") as scene:
        victim = follower_of_all(cluster, "absence")
        cluster.kill(victim)
        write_much(cluster, "absence")
        cluster.start(victim)
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_alike()
    cluster.wait_until_alike("absence")


@pytest.mark.timeout(180)
def test_a_wiped_broker_is_given_everything_again(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A new directory is a new voter: it learns before it votes.
    """
    cluster.create_topic("wiped", PARTITIONS)
    with ClusterScene(cluster, "wiped-load") as scene:
        write_much(cluster, "wiped")
        victim = 2  # no mount point
        cluster.kill(victim)
        cluster.wipe(victim)
        cluster.start(victim, joins=[it for it in cluster.numbers if it != victim])
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_alike()
    cluster.wait_until_alike("wiped")


@pytest.mark.timeout(180)
def test_a_flipped_byte_of_a_segment_is_found_and_repaired(
    broken: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    By its CRC, when somebody reads it; it is never served.
    """
    broken.create_topic("flipped", PARTITIONS)
    write_much(broken, "flipped")
    with ClusterScene(broken, "flipped-load") as scene:
        victim = broken.leaders("flipped")[0]
        broken.stop(victim)  # its journal does not hold these bytes any more
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
    scene.wait_until_alike()
    broken.wait_until_alike("flipped")


@pytest.mark.timeout(180)
def test_a_flipped_byte_of_a_journal_is_found_and_repaired(
    broken: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    It could have been a vote: the broker begins again, as another voter.
    """
    broken.create_topic("flipped", PARTITIONS)
    write_much(broken, "flipped")
    with ClusterScene(broken, "flipped-load") as scene:
        victim = follower_of_all(broken, "flipped")
        broken.kill(victim)
        flip_a_byte(broken.data_directory(victim) / "journal")
        broken.start(victim, joins=[it for it in broken.numbers if it != victim])

        broken.wait_until_alike("flipped", seconds_max=REPAIRED_SECONDS_MAX * SLACK)
        assert '"journal set aside"' in broken.log_of(victim)
        assert [it.name for it in broken.data_directory(victim).glob("damaged-*/*")]
        verdict = finished(scene)

    show_kept(verdict, capsys)
    scene.wait_until_alike()


def finished(scene: ClusterScene) -> Verdict:
    """Once every broker has everything again."""
    scene.calm()
    return scene.finish()


def flip_a_byte(directory: Path) -> None:
    """In the middle of what the largest of the files holds, and not in the padding between blocks."""
    contents = {file: file.read_bytes().rstrip(b"\0") for file in directory.iterdir()}
    file = max(contents, key=lambda it: len(contents[it]))
    content = contents[file]
    place = next(at for at in range(len(content) // 2, len(content)) if content[at])
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(bytes([content[place] ^ 0x10]))
