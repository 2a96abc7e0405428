"""Detects which protocol a port speaks, so that an error can say that the user has specified the wrong port."""

import socket
from enum import StrEnum
from struct import Struct
from typing import Final

CORRELATION_ID: Final = 0x7A0B
_API_VERSIONS_KEY: Final = 18
_NO_CLIENT_ID: Final = -1
_REQUEST: Final = Struct(">ihhih").pack(10, _API_VERSIONS_KEY, 0, CORRELATION_ID, _NO_CLIENT_ID)
"""ApiVersions v0, which every Kafka broker answers, even before a client has authenticated."""
_RESPONSE_START: Final = Struct(">ii")  # size, correlation id


class PortProtocol(StrEnum):
    """The protocol of a port."""

    KAFKA = "Kafka"
    HTTP = "HTTP"
    TLS = "TLS"
    UNKNOWN = "unknown"


def probe(host: str, port: int, timeout_s: float) -> PortProtocol:
    """
    Connect, send a Kafka request and return the protocol of the response.

    The protocol is UNKNOWN if the other end does not respond within `timeout_s` or closes the connection.  Raise
    OSError if the port does not accept a connection.
    """
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        start = b""
        try:
            connection.sendall(_REQUEST)
            while len(start) < _RESPONSE_START.size:
                part = connection.recv(_RESPONSE_START.size - len(start))
                if not part:
                    break
                start += part
        except OSError:
            pass  # The bytes received so far determine the protocol.
    return protocol_of_response(start)


def protocol_of_response(start: bytes) -> PortProtocol:
    """Return the protocol of a response to `_REQUEST` that begins with `start`."""
    if start.startswith(b"HTTP/"):
        return PortProtocol.HTTP
    if start[:2] in (b"\x15\x03", b"\x16\x03"):  # the start of a TLS alert or a TLS handshake
        return PortProtocol.TLS
    if len(start) == _RESPONSE_START.size and _RESPONSE_START.unpack(start)[1] == CORRELATION_ID:
        return PortProtocol.KAFKA
    return PortProtocol.UNKNOWN
