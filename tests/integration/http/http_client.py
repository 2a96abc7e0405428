"""A small HTTP client for tests."""

import http.client
import json
import socket
from typing import Any, NamedTuple

TIMEOUT_S = 60


class Answered(NamedTuple):
    status: int
    body: Any  # decoded JSON
    headers: dict[str, str]


class HttpClient:
    """Sends requests to one broker, each on a connection of its own."""

    def __init__(self, address: str) -> None:
        self.address = address

    def send(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"Content-Type": "application/json", **named} if data is not None else named
        try:
            connection.request(method, path, data, given)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answered(response.status, json.loads(text) if text else None, found)

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
