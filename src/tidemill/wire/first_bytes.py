"""Recognizes a client's protocol by the first bytes that it sends, to find clients that use the wrong port."""

from enum import StrEnum
from struct import Struct
from typing import Final

FRAME_BYTES_MAX: Final = 100 << 20  # the largest request that is recognized: the default of socket.request.max.bytes
API_KEY_MAX: Final = 127  # Kafka's keys are below 100
VERSION_MAX: Final = 31

_TLS_HANDSHAKE: Final = b"\x16\x03"  # the record type, and the major version that SSL 3 and all TLS versions share
_HTTP_METHODS: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PRI ")
_HEADER: Final = Struct(">ihh")  # size, API key and version of a request


class ClientProtocol(StrEnum):
    """The protocol of a client.  The value describes what the client sent."""

    TLS = "a TLS handshake"
    HTTP = "an HTTP request"
    KAFKA = "a Kafka request"


def protocol_of(first: bytes | memoryview) -> ClientProtocol | None:
    """
    Return the protocol of a client that sends `first`, or None if it is not a known protocol.  The first
    eight bytes suffice.
    """
    start = bytes(first[: _HEADER.size])
    if start[:2] == _TLS_HANDSHAKE:
        return ClientProtocol.TLS
    if start[:4] in _HTTP_METHODS:
        return ClientProtocol.HTTP
    if len(start) == _HEADER.size:
        size, key, version = _HEADER.unpack(start)
        if 0 < size <= FRAME_BYTES_MAX and 0 <= key <= API_KEY_MAX and 0 <= version <= VERSION_MAX:
            return ClientProtocol.KAFKA
    return None
