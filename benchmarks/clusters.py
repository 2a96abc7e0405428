"""Brokers of one kind as a cluster, with their addresses and the sum of the resources that they have used."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from benchmarks.apache_kafka import ApacheKafka, new_cluster_id
from benchmarks.broker import BrokerProcess, free_port
from benchmarks.tidemill_broker import REPOSITORY, TidemillBroker

BROKERS = 3


class Cluster:
    """A running cluster.  Its figures are sums over all brokers."""

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self.brokers = brokers
        self.name = brokers[0].name
        self.pid = brokers[0].pid

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def cpu_seconds(self) -> float:
        return sum(broker.cpu_seconds() for broker in self.brokers)

    def resident_bytes(self) -> int:
        return sum(broker.resident_bytes() for broker in self.brokers)

    def checkpoints(self) -> list[int]:
        """Return the number of completed checkpoints of each Tidemill broker; Kafka brokers are left out."""
        return [broker.checkpoints() for broker in self.brokers if isinstance(broker, TidemillBroker)]

    def stop(self) -> None:
        for broker in self.brokers:
            broker.stop()


StartCluster = Callable[[Path], Cluster]


def three_tidemills(
    directory: Path,
    *,
    more: Mapping[str, str | int] = MappingProxyType({}),
    peers: Sequence[int] = (),
    source: Path = REPOSITORY / "src",
) -> Cluster:
    """Start three brokers.  The arguments are those of `tidemills`; without `peers`, free ports are chosen."""
    return tidemills(directory, peers=peers or [free_port() for _ in range(BROKERS)], more=more, source=source)


def tidemills(
    directory: Path,
    *,
    peers: Sequence[int],
    more: Mapping[str, str | int] = MappingProxyType({}),
    source: Path = REPOSITORY / "src",
) -> Cluster:
    """
    Start a broker for each of `peers`, which are their peer ports: the first bootstraps the cluster, and the others
    join it.

    `more` are additional settings of all brokers, and `source` is the `src` folder whose program runs.
    """
    brokers: list[BrokerProcess] = []
    for number, peer in enumerate(peers, 1):
        settings: dict[str, str | int] = {"broker.id": number, "tidemill.peer.listener": f"127.0.0.1:{peer}"}
        settings.update(more)
        if number > 1:
            settings["tidemill.join"] = f"127.0.0.1:{peers[0]}"
        broker = TidemillBroker(directory / str(number), settings=settings, source=source)
        brokers.append(broker)
        broker.wait_until_ready()
    return Cluster(brokers)


def three_kafkas(directory: Path) -> Cluster:
    """Start three KRaft brokers, each of them also a controller, as on three small machines."""
    controllers = [free_port() for _ in range(BROKERS)]
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
    cluster_id = new_cluster_id()
    brokers: list[BrokerProcess] = []
    for number, controller in enumerate(controllers, 1):
        port = free_port()
        settings = {
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "offsets.topic.replication.factor": str(BROKERS),
        }
        brokers.append(ApacheKafka(directory / str(number), port=port, settings=settings, cluster_id=cluster_id))
    for broker in brokers:
        broker.wait_until_ready()
    return Cluster(brokers)
