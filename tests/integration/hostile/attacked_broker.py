"""A real broker under attack, and the attacker's tools: plain sockets, crafted frames, and the broker's memory usage.

After every attack `unhurt` checks that a normal client is served promptly, memory is bounded, and no unexpected error
was logged.
"""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from benchmarks.tidemill_broker import TidemillBroker
from tidemill.batches.builder import build_batch
from tidemill.wire.api import ALL
from tidemill.wire.messages import create_topics, fetch, list_offsets, metadata, produce
from tidemill.wire.schema import Api, Message

MIB = 1 << 20
EVENT_S_MAX = 60.0
ANSWER_S_MAX = 5.0  # timeout of the client's socket, in seconds


class Client:
    """One connection, over which requests are sent as messages or as raw bytes."""

    def __init__(self, address: tuple[str, int], *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(ANSWER_S_MAX)
        self.socket.connect(address)

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(frame_of(request, version))

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.answer(request, version)

    def answer(self, request: Message, version: int) -> Any:
        frame = memoryview(self.frame())
        api = api_of(request)
        return api.decode_response(version, frame, api.response_body_at(version, frame))

    def frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4)))

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(min(size - len(parts), MIB))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts += part
        return bytes(parts)

    def is_closed_by_broker(self) -> bool:
        """Wait for the broker to close the connection, and discard any bytes that still arrive."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def reset(self) -> None:
        """End the connection with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AttackedBroker:
    def __init__(self, directory: Path) -> None:
        self._log = directory / "broker.log"
        self._process = TidemillBroker(directory)
        self._process.wait_until_ready()
        host, _, port = self._process.bootstrap.rpartition(":")
        self.address = (host, int(port))
        self.bootstrap = self._process.bootstrap
        self.http = self._process.http
        self.pid = self._process.broker_pid
        self._names = 0
        self._told = 0
        self.baseline = self.resident_bytes()
        self.sockets_at_start = self.sockets()

    def stop(self) -> None:
        self._process.stop()

    def connect(self, *, receive_buffer: int | None = None) -> Client:
        return Client(self.address, receive_buffer=receive_buffer)

    @contextlib.contextmanager
    def crowd(self, count: int, *, receive_buffer: int | None = None) -> Iterator[list[Client]]:
        clients: list[Client] = []
        try:
            clients.extend(self.connect(receive_buffer=receive_buffer) for _ in range(count))
            yield clients
        finally:
            for client in clients:
                client.close()

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self._process.broker_pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise AssertionError("the broker has exited")

    def sockets(self) -> int:
        """Return how many sockets the broker has; its other files are segments of topics."""
        count = 0
        for file in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has been closed in this moment
                count += str(file.readlink()).startswith("socket:")
        return count

    def topic(self, partitions: int = 1, **settings: str) -> str:
        self._names += 1
        name = f"attacked-{self._names}"
        configs = [
            create_topics.Request.Topic.Config(name=key.replace("_", "."), value=value)
            for key, value in settings.items()
        ]
        topic = create_topics.Request.Topic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=configs
        )
        with self.connect() as client:
            answered = client.ask(create_topics.Request(topics=[topic], timeout_ms=5_000), 5)
        assert 0 == answered.topics[0].error_code
        return name

    def unhurt(self, *, grown_max: int) -> None:
        """
        Assert that a normal client is served, memory has grown by at most `grown_max` bytes, and no error was logged.
        """
        topic = self.topic()
        with self.connect() as client:
            answered = client.ask(produce_request(topic, b"still here"), 9)
            fetched = client.ask(fetch_request(topic), 11)
        assert 0 == answered.responses[0].partition_responses[0].error_code
        assert b"still here" in bytes(fetched.responses[0].partitions[0].records)
        grown = self.resident_bytes() - self.baseline
        assert grown <= grown_max, f"the broker has grown by {grown / MIB:.0f} MiB"
        self.no_mistake()

    def no_mistake(self) -> None:
        for line in self.new_lines():
            assert line.startswith("{"), f"not a line of the event log: {line}"
            event = json.loads(line)
            assert event["level"] != "error", line

    def awaited_events(self, names: Collection[str], count: int) -> list[dict[str, Any]]:
        """Wait until the broker has logged `count` new events with one of these names, and return them."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + EVENT_S_MAX
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} events {names}: {found}"
            found += [event for line in self.new_lines() if (event := json.loads(line))["event"] in names]
            time.sleep(0.05)
        return found

    def new_lines(self) -> list[str]:
        """Return the lines that the broker has logged since the last call."""
        lines = self._log.read_text().splitlines()
        new, self._told = lines[self._told :], len(lines)
        return new


def api_of(request: Message) -> Api:
    module = type(request).__module__.rpartition(".")[2]
    return next(api for api in ALL.values() if api.name == module)


def frame_of(request: Message, version: int) -> bytes:
    return b"".join(bytes(part) for part in api_of(request).encode_request(version, request, 7, "attacker"))


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, *, client_id: bytes = b"x") -> bytes:
    return struct.pack(">hhih", key, version, 7, len(client_id)) + client_id


def produce_request(topic: str, *values: bytes, partition: int = 0, acks: int = -1) -> produce.Request:
    now = int(time.time() * 1000)
    return raw_produce_request(topic, build_batch([(None, value, (), now) for value in values]), partition, acks)


def raw_produce_request(topic: str, batch: bytes | bytearray, partition: int = 0, acks: int = -1) -> produce.Request:
    data = produce.Request.Topic.Partition(index=partition, records=memoryview(bytes(batch)))
    return produce.Request(
        transactional_id=None,
        acks=acks,
        timeout_ms=5_000,
        topic_data=[produce.Request.Topic(name=topic, partition_data=[data])],
    )


def fetch_request(
    topic: str, *, wait_ms: int = 0, bytes_min: int = 1, bytes_max: int = 50 * MIB, offset: int = 0, partitions: int = 1
) -> fetch.Request:
    asked = [
        fetch.Request.Topic.Partition(partition=number, fetch_offset=offset, partition_max_bytes=bytes_max)
        for number in range(partitions)
    ]
    return fetch.Request(
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        session_epoch=-1,
        topics=[fetch.Request.Topic(topic=topic, partitions=asked)],
        forgotten_topics_data=(),
    )


def list_offsets_request(topic: str, *timestamps: int) -> list_offsets.Request:
    asked = [list_offsets.Request.Topic.Partition(partition_index=0, timestamp=it) for it in timestamps]
    return list_offsets.Request(replica_id=-1, topics=[list_offsets.Request.Topic(name=topic, partitions=asked)])


def metadata_request(*topics: str) -> metadata.Request:
    return metadata.Request(
        topics=[metadata.Request.Topic(name=name) for name in topics], allow_auto_topic_creation=False
    )
