"""
Produce without a client library: pre-encoded Produce v9 frames, pipelined over plain sockets, and a bare socket server
that answers immediately.

The bare server is the yardstick where Kafka is not available: no broker can be faster than a server that does no work.
Against a real broker the same load shows the broker's rate when the client uses almost no CPU.

    python -m benchmarks.raw_load [--bootstrap HOST:PORT] [--seconds S]
"""

import argparse
import json
import multiprocessing
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from crc32c import crc32c

from benchmarks import workloads

PRODUCE, PRODUCE_VERSION = 0, 9
ACKS_ALL, TIMEOUT_MS = -1, 30_000
RECEIVE_BYTES = 1 << 18
SIZE = struct.Struct(">i")
REQUEST_START = struct.Struct(">ihhi")  # size, API key, API version, correlation id
BATCH_START = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC-32C of the rest
BATCH_REST = struct.Struct(">hiqqqhii")  # attributes … record count
NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE = -1, -1, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCase:
    name: str
    record_bytes: int
    records_per_batch: int
    partitions: int
    in_flight: int


# The batch sizes are those of librdkafka's defaults in the cases of the same name.
RAW_CASES = (
    RawCase(name="produce-100b", record_bytes=100, records_per_batch=5_000, partitions=2, in_flight=8),
    RawCase(name="produce-100b-64", record_bytes=100, records_per_batch=150, partitions=64, in_flight=64),
    RawCase(name="produce-1kb", record_bytes=1_000, records_per_batch=900, partitions=2, in_flight=8),
    RawCase(name="produce-single", record_bytes=100, records_per_batch=1, partitions=2, in_flight=64),
)


def varint(value: int) -> bytes:
    """Encode an unsigned varint: seven bits per byte, least significant first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


def record_batch(values: Sequence[bytes], *, timestamp: int) -> bytes:
    """Return an uncompressed v2 batch without keys and headers, with offsets from 0, as a producer sends it."""
    records = bytearray()
    for index, value in enumerate(values):
        body = b"\0" + zigzag(0) + zigzag(index) + zigzag(-1) + zigzag(len(value)) + value + zigzag(0)
        records += zigzag(len(body)) + body
    count = len(values)
    producer = (NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE)
    covered = BATCH_REST.pack(0, count - 1, timestamp, timestamp, *producer, count) + records
    length = len(covered) + 9  # epoch, magic and CRC lie between the length and the bytes that the CRC covers
    return BATCH_START.pack(0, length, -1, 2, crc32c(covered)) + covered


def produce_frame(topic: str, partition: int, batch: bytes, *, correlation_id: int) -> bytes:
    name = topic.encode()
    client_id = b"raw"
    partitions = varint(2) + SIZE.pack(partition) + varint(len(batch) + 1) + batch + b"\0"
    topics = varint(2) + varint(len(name) + 1) + name + partitions + b"\0"
    rest = struct.pack(">h", len(client_id)) + client_id + b"\0"
    rest += b"\0" + struct.pack(">hi", ACKS_ALL, TIMEOUT_MS) + topics + b"\0"
    return REQUEST_START.pack(REQUEST_START.size - 4 + len(rest), PRODUCE, PRODUCE_VERSION, correlation_id) + rest


def produce_error(response: bytes, topic: str) -> int:
    """Return the error code of a Produce v9 response (without its size) for one partition of one topic."""
    # The error code follows: correlation id, header tags, topic count, name, partition count, index.
    position = 4 + 1 + 1 + 1 + len(topic.encode()) + 1 + 4
    code: int = struct.unpack_from(">h", response, position)[0]
    return code


def bare_answer(request: memoryview) -> bytes:
    """Return the bare server's response: no error for partition 0 of a topic whose name has one letter."""
    body = b"\0" + varint(2) + varint(2) + b"t" + varint(2) + struct.pack(">ihqqq", 0, 0, 0, -1, 0) + b"\1\0\0" + b"\0"
    body += SIZE.pack(0) + b"\0"
    correlation_id = bytes(request[4:8])
    return SIZE.pack(len(correlation_id) + len(body)) + correlation_id + body


class BareConnection:
    """A connection of the bare server, which parses only the start of each frame and skips the rest without a copy."""

    def __init__(self) -> None:
        self._start = bytearray()
        self._to_skip = 0

    def receive(self, data: memoryview) -> bytes:
        answers = []
        while len(data) or (len(self._start) == REQUEST_START.size and not self._to_skip):
            if self._to_skip:
                step = min(self._to_skip, len(data))
                data, self._to_skip = data[step:], self._to_skip - step
                if self._to_skip:
                    break
            if len(self._start) == REQUEST_START.size:
                answers.append(bare_answer(memoryview(self._start)[4:]))
                self._start = bytearray()
            step = min(REQUEST_START.size - len(self._start), len(data))
            self._start += data[:step]
            data = data[step:]
            if len(self._start) < REQUEST_START.size:
                break
            self._to_skip = REQUEST_START.unpack(self._start)[0] - (REQUEST_START.size - 4)
        return b"".join(answers)


def serve_bare(ready: Connection) -> None:
    """Answer every frame of every connection immediately, until the process ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    ready.send(listener.getsockname()[1])
    connections: dict[socket.socket, BareConnection] = {}
    room = memoryview(bytearray(RECEIVE_BYTES))
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connections[connection] = BareConnection()
                    selector.register(connection, selectors.EVENT_READ)
                    continue
                assert isinstance(key.fileobj, socket.socket)
                count = key.fileobj.recv_into(room)
                if not count:
                    selector.unregister(key.fileobj)
                    del connections[key.fileobj]
                    key.fileobj.close()
                elif answers := connections[key.fileobj].receive(room[:count]):
                    key.fileobj.sendall(answers)


def take_frames(buffer: bytearray) -> list[memoryview]:
    """Remove the complete frames from the front of the buffer, and return them without their sizes."""
    frames, position = [], 0  # only the first bytes of each frame are kept: they hold the error code
    while len(buffer) - position >= 4:
        size = SIZE.unpack_from(buffer, position)[0]
        if len(buffer) - position - 4 < size:
            break
        frames.append(memoryview(bytes(buffer[position + 4 : position + 4 + min(size, 64)])))
        position += 4 + size
    del buffer[:position]
    return frames


def run(case: RawCase, host: str, port: int, topic: str, *, seconds: float) -> dict[str, float]:
    """
    Keep `in_flight` frames in flight for `seconds`; return the records per second that were answered without error.
    """
    now = int(time.time() * 1_000)
    batch = record_batch(
        [workloads.payload(index, case.record_bytes) for index in range(case.records_per_batch)], timestamp=now
    )
    frames = [produce_frame(topic, partition, batch, correlation_id=partition) for partition in range(case.partitions)]
    answered = sent = 0
    buffer = bytearray()
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        deadline = started + seconds
        while (going_on := time.perf_counter() < deadline) or answered < sent:
            if going_on and (room := case.in_flight - (sent - answered)):
                lot = b"".join(frames[(sent + index) % case.partitions] for index in range(room))
                connection.sendall(lot)
                sent += room
            data = connection.recv(RECEIVE_BYTES)
            if not data:
                raise RuntimeError("the broker closed the connection")
            buffer += data
            for response in take_frames(buffer):
                code = produce_error(bytes(response), topic)
                if code:
                    raise RuntimeError(f"the broker answered with error {code}")
                answered += 1
        took = time.perf_counter() - started
    return {"records/s": answered * case.records_per_batch / took, "requests/s": answered / took}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raw_load")
    parser.add_argument("--bootstrap", help="also load this broker; topics are created and deleted on it")
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.Process(target=serve_bare, args=(sender,), daemon=True)
    server.start()
    try:
        bare_port = receiver.recv()
        for case in RAW_CASES:
            figures = {"bare": run(case, "127.0.0.1", bare_port, "t", seconds=options.seconds)}
            if options.bootstrap:
                figures["broker"] = against_broker(case, options.bootstrap, seconds=options.seconds)
            print(json.dumps({"case": case.name, **figures}), flush=True)
    finally:
        server.terminate()
        server.join()


def against_broker(case: RawCase, bootstrap: str, *, seconds: float) -> dict[str, float]:
    host, _, port = bootstrap.rpartition(":")
    topic = f"raw-{case.name}-{time.time_ns()}"
    workloads.create_topic(bootstrap=bootstrap, topic=topic, partitions=case.partitions)
    # A real client sends one record to each partition first: it waits and retries until every partition has a leader.
    touch = {"records": case.partitions, "record_bytes": 100, "one_record_per_request": False, "by_lot": False}
    workloads.produce(bootstrap=bootstrap, topic=topic, partitions=case.partitions, **touch)  # type: ignore[arg-type]
    try:
        return run(case, host, int(port), topic, seconds=seconds)
    finally:
        workloads.delete_topic(bootstrap=bootstrap, topic=topic)


if __name__ == "__main__":
    main()
