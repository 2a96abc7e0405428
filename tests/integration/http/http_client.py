"""A small HTTP client for tests."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

TIMEOUT_S = 60
PAUSE_S = 0.05


class Answered(NamedTuple):
    status: int
    body: Any  # decoded JSON
    headers: dict[str, str]


class HttpClient:
    """Sends requests to one broker, each on a connection of its own."""

    def __init__(self, address: str) -> None:
        self.address = address

    def send(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        status, text, found = self.raw(method, path, body, **headers)
        return Answered(status, json.loads(text) if text else None, found)

    def raw(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        """Return the status, body and headers of a response.  The request's body is bytes, parts, or becomes JSON."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        data = body if body is None or isinstance(body, bytes | Iterator) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"Content-Type": "application/json", **named} if data is not None else named
        try:
            connection.request(method, path, data, given)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return response.status, text, {name.lower(): value for name, value in response.getheaders()}

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """Return the body of a response, whose status must be 200."""
        answered = self.send(method, path, body)
        assert 200 == answered.status, answered
        return answered.body

    def open(self, method: str, path: str, body: object) -> socket.socket:
        """Send a request, and return the connection without reading the response."""
        host, _, port = self.address.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        data = json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.address}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        connection.sendall(head.encode() + data)
        return connection


def wait_for(is_reached: Callable[[], object], what: str) -> None:
    """Wait until `is_reached` returns something true."""
    until = time.monotonic() + TIMEOUT_S
    while not is_reached():
        assert time.monotonic() < until, what
        time.sleep(PAUSE_S)


def wait_until_known(brokers: Iterable[HttpClient], topic: str) -> None:
    """Wait until every broker has heard of a topic, and of a leader of each of its partitions."""

    def is_known(client: HttpClient) -> bool:
        answered = client.send("GET", f"/v1/topics/{topic}")
        return answered.status == 200 and all(it["leader"] is not None for it in answered.body["partitions"])

    for client in brokers:
        wait_for(lambda client=client: is_known(client), f"{client.address} does not know {topic}")
