"""
Network partitions between running brokers: the majority continues, the minority acknowledges nothing, and late messages
have no effect.
"""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.cluster_scene import SHARDS, ClusterScene
from tests.fault.extent import JUDGED_MIN, soak_only, times
from tests.fault.history import History, Law, distinct_laws, violations
from tests.fault.judgement import SILENT_SECONDS_MAX, judge, show_kept
from tests.fault.peer_proxies import Pair, PeerProxies
from tests.fault.single_sends import send_acknowledged
from tests.fault.steady_load import QUICK, read_all

CUT_SECONDS = (3.0, 12.0)  # one is shorter and one longer than the 10 s after which a silent link is closed


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClusterProcesses, PeerProxies]]:
    with ClusterProcesses(tmp_path_factory.mktemp("proxied"), is_proxied=True) as cluster:
        assert cluster.proxies is not None
        cluster.start_all()
        yield cluster, cluster.proxies


def pairs_of(kind: str, victim: int, others: list[int]) -> list[Pair]:
    mute, deaf = [(victim, other) for other in others], [(other, victim) for other in others]
    return {"mute": mute, "deaf": deaf, "cut off": mute + deaf}[kind]


@pytest.mark.parametrize("kind", ["mute", pytest.param("deaf", marks=soak_only), "cut off"])
@pytest.mark.timeout(times(120, 3_600))
def test_writes_resume_when_a_leader_is(
    kind: str, proxied: tuple[ClusterProcesses, PeerProxies], capsys: pytest.CaptureFixture[str]
) -> None:
    """
    If a leader cannot send, cannot receive, or can do neither, other brokers become leaders, and clients find them,
    although they can still reach the old leader.
    """
    cluster, proxies = proxied
    cluster.recover()
    with ClusterScene(cluster, "leader-" + kind.replace(" ", "-")) as scene:
        struck = 0
        for number in range(times(1, 2 * JUDGED_MIN)):
            if number >= times(1, 20) and struck >= JUDGED_MIN:
                break
            victim = scene.leader(number % len(SHARDS))
            pairs = pairs_of(kind, victim, [other for other in cluster.numbers if other != victim])
            since = time.monotonic()
            struck += scene.strike(f"a leader is {kind}", victim, lambda pairs=pairs: proxies.hold(*pairs))
            cut_seconds = CUT_SECONDS[number % 4 == 3]
            scene.load.run_for(max(0.0, since + cut_seconds - time.monotonic()))
            proxies.heal()
            scene.calm()
        verdict = scene.finish()

    judge(verdict, f"a leader is {kind}", SILENT_SECONDS_MAX, capsys)
    scene.wait_until_equal()


@soak_only
@pytest.mark.timeout(times(120, 600))
def test_a_leader_that_loses_one_follower_keeps_leading(
    proxied: tuple[ClusterProcesses, PeerProxies], capsys: pytest.CaptureFixture[str]
) -> None:
    """A leader that loses one follower continues to lead, because the other follower still hears from it and therefore
    votes for no candidate.
    """
    cluster, proxies = proxied
    cluster.recover()
    with ClusterScene(cluster, "bridge") as scene:
        for number in range(times(1, 20)):
            one = scene.leader(number % len(SHARDS))
            other = next(it for it in cluster.numbers if it != one)
            proxies.hold((one, other), (other, one))
            scene.load.run_for(CUT_SECONDS[0])
            scene.load.wait_for_progress()
            proxies.heal()
            scene.calm()
        verdict = scene.finish()

    show_kept(verdict, capsys)
    scene.wait_until_equal()


@pytest.mark.timeout(120)
def test_a_record_acknowledged_by_one_disk_is_lost_with_its_leader(
    proxied: tuple[ClusterProcesses, PeerProxies],
) -> None:
    """A record acknowledged with acks=1 is lost with the disk of its leader, which shows that the checker detects
    losses.
    """
    cluster, proxies = proxied
    cluster.recover()
    topic = "one-disk"
    cluster.create_topic(topic, 1)
    history = History()
    leader = cluster.leaders(topic)[0]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1, "linger.ms": 1, **QUICK})
    send_acknowledged(producer, topic, history, 0)  # replicated to all three brokers

    proxies.isolate(leader)
    send_acknowledged(producer, topic, history, 1)
    cluster.kill(leader)
    cluster.leaders(topic, but=[leader])
    proxies.heal()
    cluster.start(leader)
    history.final += read_all(cluster.bootstrap, topic, range(1))

    assert Law.NOTHING_LOST in distinct_laws(violations(history))
