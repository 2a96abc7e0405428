"""What an operator asks of a running cluster and sees of it, and what the brokers' disks show, under a steady load.

Operator ── HTTP ──▶ any broker ──▶ the controller: brokers, moves; drain, move, remove
ElasticScene: a `ClusterScene` whose shards are placed as the test wants, and that ends when all is where it belongs
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer

from tests.fault.cluster_processes import WAIT_SECONDS_MAX, ClusterProcesses, wait_until
from tests.fault.cluster_scene import PARTITIONS, SHARDS, ClusterScene
from tests.fault.replica_files import differences
from tidemill.client.broker_http import NoResponse, Refused, ask, delete, send
from tidemill.model.topic import TopicId
from tidemill.storage import paths

CHECK_SECONDS = 0.1  # between two looks at the cluster: each one is a request that the controller answers
ANSWER_SECONDS_MAX = 15.0  # brokers wait for a controller for up to 5 s
REPLICAS = 3
HEAVY_PARTITION = PARTITIONS  # the last partition of the last shard: it has much data, and no load
HEAVY_SHARD = len(SHARDS) - 1
HEAVY_RECORD_BYTES = 100_000

Row = dict[str, Any]


class Operator:
    """Sends requests to any running broker.  A request that reads is repeated until a broker answers it."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self._cluster = cluster

    def report(self, *, at: int | None = None) -> Row:
        """Return the states of brokers, recent steps and notes, as the controller knows them; ask broker `at`."""
        return self._get("/v1/rebalance", at=at)

    def controller(self, *, at: int) -> int | None:
        """Return the controller that broker `at` knows."""
        controller: int | None = self._get("/v1/cluster", at=at)["controller"]
        return controller

    def broker(self, number: int) -> Row:
        """Return the state of one broker; wait until the controller knows it."""
        found: list[Row] = []

        def is_known() -> bool:
            found.extend(it for it in self.report()["brokers"] if it["broker_id"] == number)
            return bool(found)

        wait_until(is_known, f"the state of broker {number}", check_seconds=CHECK_SECONDS)
        return found[-1]

    def presence(self, number: int) -> str:
        presence: str = self.broker(number)["presence"]
        return presence

    def moves(self) -> list[Row]:
        """Return the shards whose voters are not the planned replicas."""
        moves: list[Row] = self._get("/v1/moves")["moves"]
        return moves

    def planned(self, topic: str) -> dict[int, list[int]]:
        """Return the planned replicas of each shard of a topic."""
        return {it["shard_id"]: it["replicas"] for it in self.shards(topic)}

    def shards(self, topic: str, *, at: int | None = None) -> list[Row]:
        shards: list[Row] = self._get("/v1/shards", at=at, topic=topic)["shards"]
        return shards

    def wait_until_presence(self, number: int, presence: str) -> None:
        wait_until(
            lambda: self.presence(number) == presence, f"broker {number} {presence}", check_seconds=CHECK_SECONDS
        )

    def can_take_replicas(self, number: int) -> bool:
        """Return whether the controller knows that a broker is well, and that its disk has room."""
        broker = self.broker(number)
        used, total = broker["disk_used"], broker["disk_total"]
        has_room = used is not None and total is not None and used < 0.9 * total
        return has_room and broker["presence"] == "active"

    def drain(self, number: int) -> None:
        self._send(f"/v1/brokers/{number}/drain", {"of": "all"})

    def move(self, shard_id: int, brokers: Sequence[int]) -> None:
        self._send(f"/v1/shards/{shard_id}/move", {"brokers": [*brokers]})

    def remove(self, number: int) -> None:
        """Remove a broker that carries nothing.  Repeat while it is refused: the broker may still count as live."""
        refusals: list[str] = []

        def is_removed() -> bool:
            try:
                delete(self._address(self._cluster.running()[0]), f"/v1/brokers/{number}", timeout_s=ANSWER_SECONDS_MAX)
            except Refused as refused:
                refusals.append(str(refused))
                return False
            return True

        try:
            wait_until(is_removed, f"the removal of broker {number}", check_seconds=CHECK_SECONDS)
        except AssertionError as late:
            raise AssertionError(f"{late}: {refusals[-1]}") from None

    def _send(self, path: str, body: Mapping[str, Any]) -> None:
        """Send a command.  Repeat it while there is no controller."""
        refusals: list[str] = []

        def is_done() -> bool:
            try:
                send(self._address(self._cluster.running()[0]), path, body, timeout_s=ANSWER_SECONDS_MAX)
            except Refused as refused:
                refusals.append(str(refused))
                return False
            return True

        try:
            wait_until(is_done, path, check_seconds=CHECK_SECONDS)
        except AssertionError as late:
            raise AssertionError(f"{late}: {refusals[-1]}") from None

    def _get(self, path: str, *, at: int | None = None, **query: str) -> Row:
        answers: list[Row] = []

        def is_answered() -> bool:
            for number in self._cluster.running() if at is None else [at]:
                try:
                    answers.append(ask(self._address(number), path, timeout_s=ANSWER_SECONDS_MAX, **query))
                    return True
                except (NoResponse, Refused):
                    continue
            return False

        wait_until(is_answered, path, check_seconds=CHECK_SECONDS)
        return answers[0]

    def _address(self, number: int) -> str:
        return f"127.0.0.1:{self._cluster.http_ports[number]}"


class ElasticScene(ClusterScene):
    """A scene in which an operator changes the cluster."""

    def __init__(self, cluster: ClusterProcesses, topic: str, *, shards: Sequence[Sequence[int]] | None = None) -> None:
        """
        `shards` has the replicas of each of `SHARDS`; the last shard then has one more partition, `HEAVY_PARTITION`.
        """
        assignment = None
        if shards is not None:
            assignment = [replicas for partitions, replicas in zip(SHARDS, shards, strict=True) for _ in partitions]
            assignment.append(shards[-1])
        super().__init__(cluster, topic, assignment=assignment)
        self.operator = Operator(cluster)

    def planned(self) -> dict[int, list[int]]:
        """Return the planned replicas of each shard of the topic."""
        return self.operator.planned(self.topic)

    @property
    def heavy_shard(self) -> int:
        """The id of the last shard of the topic."""
        return max(self.planned())

    def write_heavy(self, size_bytes: int) -> None:
        """Write records to the partition that gets no load, so that copying its shard takes long."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "log_level": 0})
        for _ in range(size_bytes // HEAVY_RECORD_BYTES):
            producer.produce(self.topic, os.urandom(HEAVY_RECORD_BYTES), partition=HEAVY_PARTITION)
            producer.poll(0)
        assert producer.flush(WAIT_SECONDS_MAX) == 0

    def has_heavy_files(self, number: int) -> bool:
        """Return whether a broker has files of the heavy partition."""
        topic_id: TopicId = self.cluster.ask_any([self.topic]).topics[0].topic_id
        return (self.cluster.data_directory(number) / paths.partition_directory(topic_id, HEAVY_PARTITION)).exists()

    def is_copying(self, target: int) -> bool:
        """Return whether the heavy shard's leader sends its data to a new broker that does not have all of it yet."""
        for number in self.cluster.running():
            for shard in self.operator.shards(self.topic, at=number):
                led = shard["led_here"]
                if shard["shard_id"] == self.heavy_shard and led is not None:
                    return target in led["learners"]
        return False

    def during(self, what: str, change: Callable[[], object]) -> None:
        """Make a change that may interrupt writes, and wait until all of it is carried out."""
        self.strike_all(what, lambda: (change(), self.wait_until_still()))

    def wait_until_still(self) -> None:
        """Wait until the members of every shard are the planned ones, and the planner has nothing left to do."""
        wait_until(self._is_still, "the end of all moves", check_seconds=CHECK_SECONDS)

    def _is_still(self) -> bool:
        report = self.operator.report()
        return (
            report["status"] == "idle" and bool(report["brokers"]) and not report["steps"] and not self.operator.moves()
        )

    def wait_until_whole(self, brokers: Collection[int]) -> None:
        """
        Wait until each shard has its three replicas on `brokers`, all in sync and with equal files, and no other broker
        has files of the topic.
        """
        self.wait_until_still()
        planned = self.planned()
        homeless = {
            shard: replicas
            for shard, replicas in planned.items()
            if len(set(replicas)) != REPLICAS or not set(replicas) <= {*brokers}
        }
        assert not homeless, f"brokers {sorted(brokers)} are left, and shards are planned on {homeless}"
        self.cluster.wait_until_in_sync(self.topic)
        ends = self.cluster.end_offsets(self.topic)
        problems: list[str] = []

        def is_whole() -> bool:
            problems[:] = self.problems_on_disk(ends)
            return not problems

        try:
            wait_until(is_whole, "files where they belong", check_seconds=CHECK_SECONDS)
        except AssertionError:
            raise AssertionError(problems) from None

    def problems_on_disk(self, ends: Mapping[int, int]) -> list[str]:
        """
        Return a message for each partition with replicas that are unequal below its offset in `ends`, and for each
        directory that should be gone.
        """
        (described,) = self.cluster.ask_any([self.topic]).topics
        topic_id: TopicId = described.topic_id
        directories = {number: self.cluster.data_directory(number) for number in self.cluster.numbers}
        problems = []
        for partition in described.partitions:
            number = partition.partition_index
            carrying = {it: directories[it] for it in partition.replica_nodes}
            problems += differences(carrying, topic_id, {number: ends[number]})
            name = paths.partition_directory(topic_id, number)
            holding = {it for it, directory in directories.items() if (directory / name).exists()}
            for broker in sorted(holding - carrying.keys()):
                problems.append(f"partition {number}: broker {broker} still has files")
        return problems
