"""The tools of an attacker of the HTTP listener: requests as bytes, and plain sockets that send them."""

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from tests.integration.hostile.attacked_broker import AttackedBroker, fetch_request, produce_request

ANSWER_S_MAX = 10.0
ALONE_S_MAX = 60.0  # a thousand requests take seconds of a core, which others may be using
SERVED_S_MAX = 5.0  # for a request of a normal client during an attack
PAUSE_S = 0.05
HOST = b"Host: localhost\r\n"


class HttpAttacker:
    """Connects to the HTTP listener of an attacked broker."""

    def __init__(self, broker: AttackedBroker) -> None:
        host, _, port = broker.http.rpartition(":")
        self._address = (host, int(port))
        self._status = Path(f"/proc/{broker.pid}/status")
        self._broker = broker
        self._references = Path(f"/proc/{broker.pid}/clear_refs")

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        client = socket.socket()
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(ANSWER_S_MAX)
        client.connect(self._address)
        return client

    @contextlib.contextmanager
    def crowd(self, count: int, *, receive_buffer: int | None = None) -> Iterator[list[socket.socket]]:
        clients: list[socket.socket] = []
        try:
            clients.extend(self.connect(receive_buffer=receive_buffer) for _ in range(count))
            yield clients
        finally:
            for client in clients:
                client.close()

    def status(self, data: bytes) -> int:
        """Send some bytes, and return the status of the response."""
        with self.connect() as client:
            with contextlib.suppress(ConnectionError):  # the broker may close before it has read everything
                client.sendall(data)
            try:
                return status_of(client)
            except TimeoutError:
                raise AssertionError(f"no answer within {ANSWER_S_MAX} s to {data[:200]!r}, {len(data)} B") from None

    def first_bytes(self, data: bytes, size: int, *, tries: int | None = None) -> bytearray:
        """
        Send a request, and return the first `size` bytes of its response; all, if it has fewer.  Try again while the
        broker is still busy with the response of a client that has left, unless the number of `tries` is given.
        """
        until = time.monotonic() + ANSWER_S_MAX
        for number in count(1):
            received = bytearray()
            with self.connect() as client:
                client.sendall(data)
                while len(received) < size and (part := client.recv(size - len(received))):
                    received += part
            if not received.startswith(b"HTTP/1.1 503") or number == tries or time.monotonic() > until:
                break
            time.sleep(PAUSE_S)
        return received

    def json(self, path: str) -> tuple[int, Any]:
        """Return the status and the body of a response to a GET request of a well-behaved client."""
        with self.connect() as client:
            client.sendall(get(path, b"Connection: close\r\n"))
            response = b"".join(iter(lambda: client.recv(65_536), b""))
        head, _, body = response.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def wait_until_alone(self) -> None:
        """Wait until the broker has closed the connections of earlier attacks."""
        until = time.monotonic() + ALONE_S_MAX
        while self._broker.sockets() > self._broker.sockets_at_start:
            assert time.monotonic() < until, "the broker has not closed its connections"
            time.sleep(PAUSE_S)

    def restart_peak(self) -> int:
        """Measure the peak of the resident memory from now on, and return what is resident now."""
        self._references.write_text("5")
        return self.resident()

    def resident(self) -> int:
        return self._bytes("VmRSS")

    def peak(self) -> int:
        return self._bytes("VmHWM")

    def _bytes(self, name: str) -> int:
        return next(
            int(line.split()[1]) << 10 for line in self._status.read_text().splitlines() if line.startswith(name)
        )


def get(path: str, more: bytes = b"", method: bytes = b"GET") -> bytes:
    return b"%s %s HTTP/1.1\r\n%s%s\r\n" % (method, path.encode(), HOST, more)


def post(
    path: str,
    body: bytes,
    more: bytes = b"",
    *,
    size: int | None = None,
    kind: bytes = b"json",
    method: bytes = b"POST",
) -> bytes:
    """Return a request whose body, of the type application/`kind`, has `size` bytes, of which `body` are sent."""
    length = b"Content-Length: %d\r\n" % (len(body) if size is None else size)
    return get(path, b"Content-Type: application/%s\r\n" % kind + length + more, method) + body


def chunked(path: str, body: bytes) -> bytes:
    """Return a request with the bytes of a chunked body."""
    return get(path, b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", b"POST") + body


def status_of(client: socket.socket) -> int:
    """Return the status of the next response; 0 if the connection is closed without one."""
    received = b""
    while len(received) < 12:
        part = client.recv(12 - len(received))
        if not part:
            return 0
        received += part
    return int(received[9:12])


def statuses_of(clients: Sequence[socket.socket], seconds_max: float, *, but: int = 0) -> list[int | None]:
    """
    Return the status of each client's response; None for those that have had none in time, or for the last `but` ones.
    """
    found: dict[socket.socket, int] = {}
    until = time.monotonic() + seconds_max
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        while len(found) < len(clients) - but and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                client = key.fileobj
                assert isinstance(client, socket.socket)
                selector.unregister(client)
                try:
                    found[client] = status_of(client)
                except ConnectionError:
                    found[client] = 0
    return [found.get(client) for client in clients]


def assert_others_are_served(broker: AttackedBroker, attacker: HttpAttacker, topic: str) -> None:
    """Assert that a Kafka client and a health check get their responses in time."""
    began_at = time.monotonic()
    with broker.connect() as client:
        answered = client.ask(produce_request(topic, b"still here"), 9)
        fetched = client.ask(fetch_request(topic), 11)
    ready = attacker.json("/health/ready")

    assert 0 == answered.responses[0].partition_responses[0].error_code
    assert b"still here" in bytes(fetched.responses[0].partitions[0].records)
    assert 200 == ready[0]
    assert time.monotonic() - began_at < SERVED_S_MAX
