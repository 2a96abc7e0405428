"""Runs the brokers of one cluster as processes on the loopback interface, and starts, stops, kills and pauses them by
process id.

Broker 1 bootstraps the cluster, and the others join it.  A broker keeps its ports and directory when it restarts, so
that clients need not be restarted.  If the cluster has proxies, brokers reach each other only through them.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.broker import BrokerProcess, free_port
from benchmarks.tidemill_broker import REPOSITORY, ready_line
from tests.fault.peer_proxies import PeerProxies
from tests.fault.replica_files import differences
from tests.integration.clients.client_port import MOVED
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.connection_settings import ConnectionSettings, Endpoint
from tidemill.client.failures import BrokerUnreachable
from tidemill.model import errors
from tidemill.wire.messages import describe_quorum, incremental_alter_configs, metadata
from tidemill.wire.schema import Api, Message

WAIT_SECONDS_MAX = 60.0
CHECK_SECONDS = 0.02
BROKER_RESOURCE, SET = 4, 0  # of a request that alters configurations
OURS = (sys.executable, "-m", "tidemill")


class ClusterBroker(BrokerProcess):
    """
    One run of a broker as a process.  If the broker runs under a wrapper such as strace, `pid` is the process id of the
    wrapper; `broker_pid`, which is known once the broker is ready, is the process id of the broker itself.
    """

    def __init__(self, number: int, command: Sequence[str], *, log: Path) -> None:
        source = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": source, "PYTHONFAULTHANDLER": "1"}
        super().__init__(f"broker {number}", command, log=log, environment=environment)
        self.broker_pid = self.pid

    def wait_until_ready(self) -> None:
        try:
            self.broker_pid = int(ready_line(self)["pid"])
        except RuntimeError as problem:
            raise AssertionError(f"{problem}{self._stacks()}") from None

    def is_ready(self) -> bool:
        """Return, without waiting, whether the broker has reported that it is ready."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            if not selector.select(0):
                return False
        line = self.output.readline()
        return line.startswith(b"{") and json.loads(line)["event"] == "ready"  # empty: the broker has exited

    def wait_for_end(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        try:
            return self._process.wait(WAIT_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended{self._stacks()}") from None

    def _stacks(self) -> str:
        """Abort a process that is stuck, and return the stacks of its threads."""
        if self.has_ended():
            return ""
        before = self.log.stat().st_size
        self._process.send_signal(signal.SIGABRT)  # makes faulthandler print the stacks
        self._process.wait(WAIT_SECONDS_MAX)
        return "; its stacks:\n" + self.log.read_bytes()[before:].decode(errors="replace")

    def discard(self) -> None:
        """Kill the process if it is still running, and close its pipes."""
        if not self.has_ended():
            self._process.kill()
            self._process.wait()
        self._close()


class ClusterProcesses:
    def __init__(
        self,
        directory: Path,
        *,
        numbers: Sequence[int] = (1, 2, 3),
        settings: Mapping[str, str | int] | None = None,
        data: Mapping[int, Path] | None = None,
        program: Sequence[str] = OURS,
        is_proxied: bool = False,
    ) -> None:
        """`data` maps broker ids to data directories.  Any other broker gets a data directory below `directory`."""
        self.numbers = tuple(numbers)
        self.directory = directory
        self.kafka_ports = {number: free_port() for number in numbers}
        self.peer_ports = {number: free_port() for number in numbers}
        self.http_ports = {number: free_port() for number in numbers}
        self.brokers: dict[int, ClusterBroker] = {}  # brokers that the test has started and that have not ended
        self.wrappers: dict[int, Sequence[str]] = {}  # by broker: the prefix of its command line at the next start
        self.programs: dict[int, Sequence[str]] = {}  # by broker: what it runs from the next start on, if not `program`
        self._program = program
        self._settings = dict(settings or {})
        self._data = dict(data or {})
        self.proxies: PeerProxies | None = None
        if is_proxied:
            self.proxies = PeerProxies(self.peer_ports, self._processes)

    def __enter__(self) -> "ClusterProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            if not broker.has_ended():
                os.kill(broker.broker_pid, signal.SIGKILL)
            broker.discard()
        self.brokers.clear()
        if self.proxies is not None:
            self.proxies.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.kafka_ports.values())

    def data_directory(self, number: int) -> Path:
        return self._data.get(number, self.directory / f"broker-{number}")

    def _processes(self) -> dict[int, int]:
        return {broker.pid: number for number, broker in self.brokers.copy().items()}

    # Methods that start and stop brokers.

    def start_all(self) -> None:
        """
        Start all brokers at the same time, and wait until each of them is a voter of the metadata shard.  Joining
        brokers retry until the first broker is ready.
        """
        self.start(*self.numbers)
        wait_until(lambda: self.voters() == set(self.numbers), "metadata with all brokers as voters")

    def start(self, *numbers: int, joins: Sequence[int] | None = None) -> None:
        """Start brokers and wait until all of them are ready."""
        for number in numbers:
            self.begin(number, joins=joins)
        for number in numbers:
            self.brokers[number].wait_until_ready()

    def begin(self, number: int, *, joins: Sequence[int] | None = None) -> ClusterBroker:
        """Start a broker without waiting for it to be ready."""
        if joins is None:
            joins = [] if number == self.numbers[0] else [self.numbers[0]]
        peer = f"127.0.0.1:{self.peer_ports[number]}"
        keys: dict[str, str | int] = {
            "broker.id": number,
            "log.dirs": str(self.data_directory(number)),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.kafka_ports[number]}",
            "tidemill.http.listener": f"127.0.0.1:{self.http_ports[number]}",
            "tidemill.peer.listener": peer,
            "tidemill.peer.advertised": self._peer_address(number),
        }
        if joins:
            keys["tidemill.join"] = ",".join(map(self._peer_address, joins))
        sets = [word for key, value in {**keys, **self._settings}.items() for word in ("--set", f"{key}={value}")]
        program = self.programs.get(number, self._program)
        command = [*self.wrappers.get(number, ()), *program, "broker", "--json", *sets]
        broker = ClusterBroker(number, command, log=self.directory / f"broker-{number}.log")
        self.brokers[number] = broker
        return broker

    def _peer_address(self, number: int) -> str:
        port = self.peer_ports[number] if self.proxies is None else self.proxies.ports[number]
        return f"127.0.0.1:{port}"

    def kill(self, *numbers: int) -> None:
        """Kill brokers simultaneously, as a power loss does: all of them are signalled before any is waited for."""
        for number in numbers:
            self._signal(number, signal.SIGKILL)
        for number in numbers:
            self.brokers.pop(number).discard()

    def stop(self, number: int) -> None:
        """Stop a broker cleanly.  Its exit code must be 0."""
        self._signal(number, signal.SIGTERM)
        broker = self.brokers.pop(number)
        try:
            code = broker.wait_for_end()
        finally:
            broker.discard()
        assert code == 0, f"broker {number} ended with exit code {code}: {self.log_of(number)[-500:]}"

    def pause(self, number: int) -> None:
        self._signal(number, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)

    def wipe(self, number: int) -> None:
        """Delete the data directory of a broker, as if its disk had been replaced."""
        assert number not in self.brokers, f"broker {number} still has its directory open"
        shutil.rmtree(self.data_directory(number))

    def _signal(self, number: int, what: signal.Signals) -> None:
        os.kill(self.brokers[number].broker_pid, what)

    def recover(self) -> None:
        """Restore the cluster, so that every broker runs and no connection is held back."""
        if self.proxies is not None:
            self.proxies.heal()
        for number in self.running():
            self.resume(number)
        for number in self.numbers:
            if number not in self.running():
                self.brokers.pop(number, None)
                self.start(number)

    def running(self) -> list[int]:
        # Threads of tests ask, too, while the test starts and kills brokers.
        return [number for number, broker in self.brokers.copy().items() if not broker.has_ended()]

    def log_of(self, number: int) -> str:
        return (self.directory / f"broker-{number}.log").read_text(errors="replace")

    # Methods that send requests to brokers.

    def create_topic(
        self, topic: str, partitions: int, *, assignment: Sequence[Sequence[int]] | None = None, **configs: str
    ) -> None:
        """
        Create a topic with three replicas, or with the partitions and replicas of `assignment`.  Retry while the
        controller moves, because librdkafka does not retry.
        """
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        if assignment is None:
            wanted = NewTopic(topic, partitions, 3, config=configs)
        else:
            wanted = NewTopic(topic, len(assignment), replica_assignment=[[*it] for it in assignment], config=configs)

        def is_created() -> bool:
            try:
                client.create_topics([wanted], request_timeout=WAIT_SECONDS_MAX)[topic].result(WAIT_SECONDS_MAX)
            except KafkaException as failure:
                if failure.args[0].code() not in MOVED:
                    raise
                return False
            return True

        wait_until(is_created, f"topic {topic}")

    def configure(self, values: Mapping[str, int]) -> None:
        """Set configurations of the whole cluster while it runs."""
        change = incremental_alter_configs.Request.Resource.Config
        configs = [change(name=key, config_operation=SET, value=str(value)) for key, value in values.items()]
        resource = incremental_alter_configs.Request.Resource(
            resource_type=BROKER_RESOURCE, resource_name="", configs=configs
        )
        request = incremental_alter_configs.Request(resources=[resource], validate_only=False)
        results: list[incremental_alter_configs.Response.Resource] = []

        def is_set() -> bool:
            results[:] = self._request(self.running()[0], incremental_alter_configs.API, request).responses
            return all(it.error_code == errors.NONE for it in results)

        try:
            wait_until(is_set, f"configurations {dict(values)}")
        except AssertionError:
            raise AssertionError(results) from None

    def ask(self, number: int, topics: Collection[str] | None) -> metadata.Response:
        """Return the Metadata response of one broker.  Raise `BrokerUnreachable` if it does not answer."""
        wanted = None if topics is None else [metadata.Request.Topic(name=name) for name in topics]
        request = metadata.Request(topics=wanted, allow_auto_topic_creation=False)
        response: metadata.Response = self._request(number, metadata.API, request)
        return response

    def _request(self, number: int, api: Api, request: Message) -> Any:
        settings = ConnectionSettings(bootstrap=(), connect_timeout_ms=2_000, request_timeout_ms=5_000)
        connection = BrokerConnection(Endpoint("127.0.0.1", self.kafka_ports[number]), settings)
        try:
            return connection.request(api, request)
        finally:
            connection.close()

    def voters(self) -> set[int]:
        """Return the broker ids of the voters of the metadata shard."""
        return {voter.replica_id for it in self._quorum(self.running()[0]) for voter in it.current_voters}

    def _quorum(self, number: int) -> Sequence[describe_quorum.Response.Topic.Partition]:
        """
        Return the metadata quorum as reported by broker `number`, which asks the controller, or an empty sequence if
        the controller does not answer.

        Raise `BrokerUnreachable` if the broker does not answer.
        """
        place = describe_quorum.Request.Topic.Partition(partition_index=0)
        topic = describe_quorum.Request.Topic(topic_name="__cluster_metadata", partitions=[place])
        answer = self._request(number, describe_quorum.API, describe_quorum.Request(topics=[topic]))
        return [it for described in answer.topics for it in described.partitions]

    def ask_any(self, topics: Collection[str] | None, *, but: Collection[int] = ()) -> metadata.Response:
        """Return the Metadata response of the first running broker that answers.  Brokers in `but` are not asked."""
        answers: list[metadata.Response] = []

        def is_answered() -> bool:
            for number in self.running():
                if number not in but:
                    try:
                        answers.append(self.ask(number, topics))
                        return True
                    except BrokerUnreachable:
                        continue
            return False

        wait_until(is_answered, "a broker that answers")
        return answers[0]

    def leaders(self, topic: str, *, but: Collection[int] = ()) -> dict[int, int]:
        """
        Wait until each partition has a leader, and return the leaders by partition.  Brokers in `but` are not asked and
        do not count as leaders.
        """
        return {partition: leader for partition, (leader, _) in self.leaders_and_epochs(topic, but=but).items()}

    def leaders_and_epochs(self, topic: str, *, but: Collection[int] = ()) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}

        def are_known() -> bool:
            found.clear()
            for known in self.ask_any([topic], but=but).topics:
                found.update({it.partition_index: (it.leader_id, it.leader_epoch) for it in known.partitions})
            return bool(found) and all(leader >= 0 and leader not in but for leader, _ in found.values())

        wait_until(are_known, f"leaders of {topic}")
        return found

    def elect_preferred(self, topic: str, partition: int) -> None:
        """Elect the preferred leader of the partition.  Retry, because the other brokers learn only from a heartbeat
        that the preferred leader is ready.
        """
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        place = TopicPartition(topic, partition)

        def is_elected() -> bool:
            try:
                problem = client.elect_leaders(ElectionType.PREFERRED, [place]).result(WAIT_SECONDS_MAX)[place]
            except KafkaException as failure:
                problem = failure.args[0]
            assert problem is None or problem.code() in {*MOVED, KafkaError.PREFERRED_LEADER_NOT_AVAILABLE}, problem
            return problem is None

        wait_until(is_elected, f"the preferred leader of {topic}-{partition}")

    def controller(self) -> int:
        found: list[int] = []

        def is_known() -> bool:
            for number in self.running():
                try:
                    found.extend(it.leader_id for it in self._quorum(number) if it.leader_id >= 0)
                except BrokerUnreachable:
                    continue
            return bool(found)

        wait_until(is_known, "a controller")
        return found[-1]

    def is_in_sync(self, topic: str) -> bool:
        """Return whether every replica of every partition is in sync according to its leader."""
        replicas = [it for known in self.ask_any([topic]).topics for it in known.partitions]
        return bool(replicas) and all(len(it.isr_nodes) == len(it.replica_nodes) for it in replicas)

    def wait_until_in_sync(self, topic: str) -> None:
        wait_until(lambda: self.is_in_sync(topic), f"replicas of {topic} in sync")

    def wait_until_equal(self, topic: str, *, seconds_max: float = 30.0) -> None:
        """Wait until the committed bytes on the disks of all brokers are the same."""
        topic_id = self.ask_any([topic]).topics[0].topic_id
        ends = self.end_offsets(topic)
        directories = {number: self.data_directory(number) for number in self.numbers}
        problems: list[str] = []

        def are_equal() -> bool:
            problems[:] = differences(directories, topic_id, ends)
            return not problems

        try:
            wait_until(are_equal, "equal replicas", seconds_max=seconds_max)
        except AssertionError:
            raise AssertionError(problems) from None

    def end_offsets(self, topic: str) -> dict[int, int]:
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "end offsets", "log_level": 0})
        try:
            return {number: _end_offset(reader, TopicPartition(topic, number)) for number in self.leaders(topic)}
        finally:
            reader.close()


def _end_offset(reader: Consumer, place: TopicPartition) -> int:
    """
    Return the end offset of the partition.  Retry while the leader moves, for example after a restart, because
    librdkafka does not retry.
    """
    ends: list[int] = []

    def is_answered() -> bool:
        try:
            ends.append(reader.get_watermark_offsets(place, timeout=WAIT_SECONDS_MAX)[1])
        except KafkaException as failure:
            if failure.args[0].code() not in MOVED:
                raise
        return bool(ends)

    wait_until(is_answered, f"the end of {place.topic}-{place.partition}")
    return ends[-1]


def wait_until(
    is_so: Callable[[], Any],
    what: str,
    *,
    seconds_max: float = WAIT_SECONDS_MAX,
    check_seconds: float = CHECK_SECONDS,
) -> None:
    """Poll until a condition holds.  Brokers send no notification for which a test could wait."""
    deadline = time.monotonic() + seconds_max
    while not is_so():
        assert time.monotonic() < deadline, f"waited {seconds_max:.0f} s in vain for {what}"
        time.sleep(check_seconds)
