"""
Brokers of a cluster die, fall silent and return.  No acknowledged record is lost, duplicated or reordered, clients need
not be restarted, and writes continue.
"""

import random
import time

import pytest

from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.cluster_scene import SHARDS, ClusterScene
from tests.fault.extent import JUDGED_MIN, times
from tests.fault.judgement import KILLED_SECONDS_MAX, SILENT_SECONDS_MAX, judge, show_kept

SILENCE_SECONDS = times(0, 5)  # the shortest silence; it lasts longer if the election takes longer
# Without this setting, librdkafka forgets all brokers when its only connection ends, and asks again only after 1 s.
# The test would measure that wait instead of the cluster.
KNOWS_BROKERS = {"metadata.recovery.strategy": "none"}
STALLED_SECONDS = times(3, 6)  # longer than the 2 s after which a silent broker no longer counts as alive
LIFE_SECONDS = (0.1, 0.8)  # seconds from the restart of a broker to the next fault


@pytest.mark.timeout(times(240, 3_600))
def test_writes_resume_after_a_leader_is_killed(cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Writes resume soon after a leader is killed, because the other brokers notice immediately that its connections have
    ended.
    """
    with ClusterScene(cluster, "killed", keys=KNOWS_BROKERS) as scene:
        for number in range(times(8, JUDGED_MIN)):
            victim = scene.leader(number % len(SHARDS))
            scene.strike("kill -9 of a leader", victim, lambda victim=victim: cluster.kill(victim))
            cluster.start(victim)
            scene.load.run_for(random.uniform(*LIFE_SECONDS))
        scene.calm()
        verdict = scene.finish()

    judge(verdict, "kill -9 of a leader", KILLED_SECONDS_MAX, capsys)
    scene.wait_until_equal()


@pytest.mark.timeout(times(120, 3_600))
def test_writes_resume_after_a_leader_falls_silent(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A silent broker does not count as alive.  When it resumes, it does not acknowledge anything on the strength of its
    former leadership.
    """
    with ClusterScene(cluster, "silent") as scene:
        struck = 0
        for number in range(times(1, 2 * JUDGED_MIN)):
            if number >= times(1, 20) and struck >= JUDGED_MIN:
                break
            victim = scene.leader(number % len(SHARDS))
            since = time.monotonic()
            struck += scene.strike("SIGSTOP of a leader", victim, lambda victim=victim: cluster.pause(victim))
            scene.load.run_for(max(0.0, since + SILENCE_SECONDS - time.monotonic()))
            cluster.resume(victim)
            scene.calm()
        verdict = scene.finish()

    judge(verdict, "SIGSTOP of a leader", SILENT_SECONDS_MAX, capsys)
    scene.wait_until_equal()


@pytest.mark.timeout(times(120, 600))
def test_leaders_stay_when_all_brokers_are_paused_at_once(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Leaders stay when all brokers are paused at once, as on a machine without free CPU: a broker that was itself paused
    must not mistake the silence of the others for their failure.
    """
    with ClusterScene(cluster, "stalled") as scene:

        def stall() -> None:
            for number in cluster.numbers:
                cluster.pause(number)
            time.sleep(STALLED_SECONDS)
            for number in cluster.numbers:
                cluster.resume(number)

        for _ in range(times(1, 10)):
            before = cluster.leaders_and_epochs(scene.topic)
            scene.strike_all("SIGSTOP of all", stall)
            assert before == cluster.leaders_and_epochs(scene.topic)
            scene.calm()
        verdict = scene.finish()

    show_kept(verdict, capsys)
    scene.wait_until_equal()


@pytest.mark.timeout(times(120, 600))
def test_nothing_is_lost_when_all_are_killed_at_once(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Acknowledged records are on the disks of a majority, so they survive even if all brokers are killed simultaneously.
    """
    with ClusterScene(cluster, "all-killed") as scene:

        def kill_and_start() -> None:
            cluster.kill(*cluster.numbers)
            cluster.start_all()

        for _ in range(times(1, 5)):
            scene.strike_all("kill -9 of all, and start", kill_and_start)
            scene.calm()
        verdict = scene.finish()

    show_kept(verdict, capsys)
    scene.wait_until_equal()


@pytest.mark.timeout(times(120, 600))
def test_clients_hardly_notice_a_rolling_restart(cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A rolling restart hardly interrupts clients, because a broker that stops cleanly first transfers its leadership.
    """
    with ClusterScene(cluster, "rolling") as scene:
        for victim in cluster.numbers * times(1, 5):
            scene.strike("SIGTERM of a broker", victim, lambda victim=victim: cluster.stop(victim))
            cluster.start(victim)
            scene.calm()
        verdict = scene.finish()

    show_kept(verdict, capsys)
    scene.wait_until_equal()
