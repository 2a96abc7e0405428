"""
Measure what heartbeats cost: one broker and scripted peers, each with a real link and four heartbeats a second.

    python -m benchmarks.heartbeats [--peers N]… [--seconds N]

The peers answer nothing and are not registered, so the broker does nothing else.  CPU and memory are what the broker
uses above its use without peers, in percent of a core and in MB.  A client asks the broker for its API versions 100
times a second; its longest waits show for how long heartbeats hold the event loop.
"""

import argparse
import asyncio
import json
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

import uvloop
from rich.console import Console

from benchmarks.tidemill_broker import TidemillBroker
from tidemill.app.settings import LOOPBACK_KEY
from tidemill.metadata.feature_levels import NEWEST
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.peer.frame import HEARS_RECEIVER, Heartbeat, encode_heartbeat
from tidemill.peer.hello import Hello
from tidemill.peer.link import Link
from tidemill.runtime.os_entropy import OsEntropy
from tidemill.runtime.peer_transport import PeerTransport
from tidemill.telemetry.event_log import EventLog

PEERS = (99, 299)
FIRST_PEER = 1_000  # the broker id of the first scripted peer
PERIOD_SECONDS = 0.25
DIALLED_AT_ONCE = 32  # a broker closes the oldest of more than 64 connections that have not proven the key
SECONDS_MAX = 60.0
DESIGNED_CPU_PERCENT = {99: 0.7, 299: 1.8, 999: 6.9}  # what was measured when heartbeats were designed
ASKED_SECONDS = 0.01
API_VERSIONS, CORRELATION = 18, 7
ASK = struct.Struct(">ihhih").pack(10, API_VERSIONS, 0, CORRELATION, -1)  # a version 0 request without a client id
SIZE = struct.Struct(">i")


class ScriptedPeer:
    """A peer of the broker that only sends heartbeats; implements `peer.link.LinkOwner`."""

    def __init__(self, number: int, cluster_id: str) -> None:
        self.link: Link | None = None
        self._number = number
        self._cluster_id = cluster_id

    def hello(self) -> Hello:
        voter = ReplicaKey(BrokerId(self._number), DirectoryId(self._number.to_bytes(16)))
        return Hello(cluster_id=self._cluster_id, voter=voter, incarnation=self._number, address="127.0.0.1:1")

    def linked(self, link: Link) -> str | None:
        self.link = link
        return None

    def received(self, link: Link, frame: memoryview) -> None:
        """Drop the frame."""

    def lost(self, link: Link, why: str) -> None:
        self.link = None

    async def beat(self) -> None:
        await asyncio.sleep(random.random() * PERIOD_SECONDS)  # brokers do not tick at the same time
        while True:
            heartbeat = Heartbeat(0, HEARS_RECEIVER, (), time.time_ns() // 1_000_000, level=NEWEST)
            if self.link is not None:
                self.link.send(encode_heartbeat(heartbeat))
            await asyncio.sleep(PERIOD_SECONDS)


async def ask(address: str, waits: list[float]) -> None:
    """Add the milliseconds of each answer of the broker to `waits`."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        while True:
            asked = time.monotonic()
            writer.write(ASK)
            await reader.readexactly(SIZE.unpack(await reader.readexactly(SIZE.size))[0])
            waits.append(1_000 * (time.monotonic() - asked))
            await asyncio.sleep(ASKED_SECONDS)
    finally:
        writer.close()


async def measure(broker: TidemillBroker, count: int, seconds: float) -> dict[str, float]:
    """Return what the broker uses with so many peers."""
    loop = asyncio.get_running_loop()
    cluster_id = reported(broker, "/v1/cluster")["cluster_id"]
    (row,) = reported(broker, "/v1/brokers")["brokers"]
    (address,) = [f"{it['host']}:{it['port']}" for it in row["endpoints"] if it["name"] == "PEER"]
    events = EventLog(sys.stderr.write, lambda: time.time_ns() // 1_000_000, as_json=False)
    peers = [ScriptedPeer(FIRST_PEER + number, cluster_id) for number in range(count)]
    transports = [PeerTransport(loop, peer, LOOPBACK_KEY, OsEntropy(), events) for peer in peers]
    beats = [loop.create_task(peer.beat()) for peer in peers]
    try:
        async with asyncio.timeout(SECONDS_MAX):
            for first in range(0, count, DIALLED_AT_ONCE):
                for transport in transports[first : first + DIALLED_AT_ONCE]:
                    transport.reach([address])
                while any(peer.link is None for peer in peers[first : first + DIALLED_AT_ONCE]):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        waits: list[float] = []
        beats.append(loop.create_task(ask(broker.bootstrap, waits)))
        await asyncio.sleep(2)
        waits.clear()
        used, began = broker.cpu_seconds(), time.monotonic()
        await asyncio.sleep(seconds)  # the time that is measured
        cpu = (broker.cpu_seconds() - used) / (time.monotonic() - began)
        if lost := sum(peer.link is None for peer in peers):
            raise RuntimeError(f"{lost} of {count} links were lost")
        waits.sort()
        return {
            "peers": count,
            "cpu_percent": 100 * cpu,
            "memory_mb": broker.resident_bytes() / 1e6,
            "answer_ms_p99": waits[int(len(waits) * 0.99)],
            "answer_ms_max": waits[-1],
        }
    finally:
        for beat in beats:
            beat.cancel()
        for transport in transports:
            transport.close()
        await asyncio.sleep(0.5)  # the links are closed in the next iterations of the loop


def reported(broker: TidemillBroker, path: str) -> dict:  # type: ignore[type-arg]
    with urlopen(f"http://{broker.http}{path}", timeout=SECONDS_MAX) as answer:
        return dict(json.load(answer))


def figures(counts: Sequence[int], seconds: float) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        broker = TidemillBroker(Path(directory), settings={"broker.id": 1})
        try:
            broker.wait_until_ready()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return [runner.run(measure(broker, count, seconds)) for count in (0, *counts)]
        finally:
            broker.stop()


def each_us(cpu_percent: float, count: int) -> float:
    """Return the microseconds of CPU for each heartbeat that is sent and received."""
    return 1e4 * cpu_percent * PERIOD_SECONDS / count


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.heartbeats", description="Measure what the heartbeats of many peers cost."
    )
    parser.add_argument("--peers", type=int, action="append", metavar="N", help="default: 99 and 299")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    console = Console(soft_wrap=True)
    load_before = os.getloadavg()[0]
    alone, *found = figures(options.peers or PEERS, options.seconds)
    told = {"load_before": load_before, "load_after": os.getloadavg()[0], "counts": [alone, *found]}
    console.print_json(json.dumps(told))
    for row in found:
        count, cpu = int(row["peers"]), row["cpu_percent"] - alone["cpu_percent"]
        designed = DESIGNED_CPU_PERCENT.get(count)
        line = (
            f"{count} peers: {cpu:.2f} % of a core, {each_us(cpu, count):.0f} µs for a heartbeat sent and received; "
            f"{row['memory_mb'] - alone['memory_mb']:.1f} MB; an answer takes {row['answer_ms_p99']:.1f} ms at the "
            f"99th percentile and {row['answer_ms_max']:.1f} ms at most, {alone['answer_ms_p99']:.1f} and "
            f"{alone['answer_ms_max']:.1f} ms without peers"
        )
        beside = "" if designed is None else f"; designed for {designed:g} %, {each_us(designed, count):.0f} µs"
        console.print(line + beside, markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
