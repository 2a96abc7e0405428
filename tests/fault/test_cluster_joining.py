"""
A broker that dies at any step of joining a cluster can join after a restart, and the other brokers are not disturbed.
"""

import shutil
from pathlib import Path

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.cluster_scene import ClusterScene
from tests.fault.extent import IS_WHOLE
from tests.fault.judgement import show_kept

JOINER = 3
TOPIC = "joined"
CALLS = "fsync,fdatasync,pwritev2,rename"
STEPS_MAX = 60  # joining takes fewer of the calls in `CALLS`; later ones write the replicas that the broker is assigned
STEPS = (5,)  # the steps at which the regular test suite kills the broker


def killed_before(step: int) -> list[str]:
    """Return the strace command that kills the process at the start of its system call number `step`, counting only
    those in `CALLS`.
    """
    inject = ["-e", f"trace={CALLS}", "-e", f"inject={CALLS}:signal=KILL:when={step}"]
    return ["strace", "-f", "-qq", "-o", "/dev/null", *inject]


@pytest.mark.timeout(1_800)
def test_a_broker_that_dies_while_joining_can_join_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that dies at any step of joining can join at its next start, no matter what is on its disk or what the
    other brokers already know.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (Debian package strace)")
    steps = range(1, STEPS_MAX) if IS_WHOLE else STEPS
    died_at = []
    with ClusterProcesses(tmp_path) as cluster:
        cluster.start_all()
        with ClusterScene(cluster, TOPIC) as scene:
            for step in steps:
                cluster.kill(JOINER)
                cluster.wipe(JOINER)
                is_dead = dies_while_it_joins(cluster, step)
                cluster.start(JOINER)
                if not is_dead:
                    break
                died_at.append(step)
            scene.calm()
            verdict = scene.finish()

    show_kept(verdict, capsys, f"\njoined again after a death before sync, write or rename {died_at}")
    assert died_at


def dies_while_it_joins(cluster: ClusterProcesses, step: int) -> bool:
    """Start the joining broker, and return whether strace killed it.  If it has joined, kill it, because strace could
    otherwise kill it later.
    """
    cluster.wrappers[JOINER] = killed_before(step)
    try:
        broker = cluster.begin(JOINER)
    finally:
        del cluster.wrappers[JOINER]
    wait_until(lambda: broker.has_ended() or broker.is_ready(), "death or readiness of the joining broker")
    wait_until(lambda: broker.has_ended() or cluster.is_in_sync(TOPIC), "death or arrival of the joining broker")
    if broker.has_ended():
        cluster.brokers.pop(JOINER).discard()
        return True
    cluster.kill(JOINER)
    return False
