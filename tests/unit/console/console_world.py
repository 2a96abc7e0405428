"""A console without a broker: the test sets the values of the view, and requests do not use a network."""

import asyncio
import socket
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote

from tidemill.client.connection_settings import Endpoint
from tidemill.console.application import Console
from tidemill.console.cluster_view import (
    LEADERLESS,
    OK,
    UNDER_REPLICATED,
    BrokerProblem,
    BrokerRow,
    LocalReplica,
    Overview,
    PartitionRow,
    Setting,
    ShardRow,
    TopicRow,
)

COLUMNS = (
    "time_s",
    "produce_bytes",
    "fetch_bytes",
    "produce_records",
    "journal_bytes",
    "latency_ms_p50",
    "latency_ms_p99",
)
UNUSED_PORT = 1  # nothing listens there, so pages show what they show when no broker answers
HOSTILE = "<img src=x onerror=alert('x')>\"&"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def closed_port() -> int:
    """Return a port of this machine on which no program listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def broker(broker_id: int, **changes: Any) -> BrokerRow:
    row = BrokerRow(
        broker_id=broker_id,
        is_up=True,
        is_controller=broker_id == 1,
        is_self=broker_id == 1,
        presence="active",
        drain="none",
        silent_ms=None,
        kafka=Endpoint("127.0.0.1", UNUSED_PORT),
        http=Endpoint("127.0.0.1", 9080),
        rack=None,
        heartbeat_age_ms=12,
        led=1,
        carried=1,
    )
    return replace(row, **changes)


def shard(shard_id: int, topic: str = "orders", **changes: Any) -> ShardRow:
    row = ShardRow(
        shard_id=shard_id,
        topic=topic,
        first_partition=0,
        partition_count=1,
        state=OK,
        leader=1,
        term=3,
        replicas=(1, 2),
        in_sync=(1, 2),
        damage=None,
    )
    return replace(row, **changes)


class View:
    """An implementation of `ClusterView` in which each topic has one shard with one partition."""

    def __init__(self, *shards: ShardRow, brokers: Sequence[BrokerRow] = ()) -> None:
        self.rows = list(shards)
        self.broker_rows = list(brokers) or [broker(1)]
        self.has_quorum_contact = True
        self.problems: list[BrokerProblem] = []
        self.local: LocalReplica | None = LocalReplica(is_leader=True, start_offset=10, end_offset=1_210, size_bytes=5)
        self.setting_rows: list[Setting] = []
        self.columns: dict[str, list[float]] = {name: [] for name in COLUMNS}

    def overview(self) -> Overview:
        return Overview(
            cluster_id="the-cluster",
            seen_by=1,
            controller=1,
            brokers=len(self.broker_rows),
            brokers_down=[row.broker_id for row in self.broker_rows if not row.is_up],
            topics=len(self.rows),
            internal_topics=0,
            partitions=len(self.rows),
            shards=len(self.rows),
            has_quorum_contact=self.has_quorum_contact,
            leaderless=[row for row in self.rows if row.state == LEADERLESS],
            under_replicated=[row for row in self.rows if row.state == UNDER_REPLICATED],
            problems=self.problems,
        )

    def brokers(self) -> Sequence[BrokerRow]:
        return self.broker_rows

    def topics(self) -> Sequence[TopicRow]:
        return [
            TopicRow(
                name=row.topic,
                is_internal=row.topic.startswith("__"),
                partition_count=row.partition_count,
                replication_factor=len(row.replicas),
                state=row.state,
            )
            for row in self.rows
        ]

    def partitions(self, topic: str) -> Sequence[PartitionRow] | None:
        rows = [
            PartitionRow(
                number=row.first_partition,
                shard_id=row.shard_id,
                state=row.state,
                leader=row.leader,
                leader_epoch=row.term,
                replicas=row.replicas,
                in_sync=row.in_sync,
                local=self.local,
            )
            for row in self.rows
            if row.topic == topic
        ]
        return rows or None

    def settings(self, topic: str) -> Sequence[Setting]:
        return self.setting_rows

    def shards(self) -> Sequence[ShardRow]:
        return self.rows

    def history(self) -> dict[str, list[float]]:
        return self.columns


def get(view: View | None, target: str, *, method: str = "GET") -> Answer:
    return get_all(view, target, method=method)[0]


def get_all(view: View | None, *targets: str, method: str = "GET", clock: Clock | None = None) -> list[Answer]:
    """Request pages from the same console one after another, moving the clock on by 10 s before each page but the
    first.
    """
    clock = clock or Clock()
    console = Console(lambda: view, clock)

    async def run() -> list[Answer]:
        answers = []
        for target in targets:
            answers.append(await _get(console, target, method))
            clock.now_ms += 10_000
        return answers

    return asyncio.run(run())


async def _get(console: Console, target: str, method: str) -> Answer:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()  # the client stays connected but sends nothing more
        raise AssertionError("not reached")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1:9080")],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 9080),
    }
    await console(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], headers, body.decode())
