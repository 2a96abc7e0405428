"""The identity of a broker process, which both ends of a new connection between brokers exchange.

Format: `docs/formats/peer.md`.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey

DIRECTORY_ID_BYTES: Final = 16
TEXT_BYTES_MAX: Final = 1024
"""The limit on the cluster id, and on the address.  A DNS name has at most 253 bytes, a handshake frame 4 KiB."""

_HEAD: Final = Struct(">B3xi16sQHH")  # whether there is a replica key, its two ids, incarnation, lengths of two strings


class MalformedHello(ValueError):
    """Received bytes that are not a valid Hello."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    cluster_id: str
    """Empty when the broker asks to join a cluster."""
    voter: ReplicaKey | None
    """None when the broker asks to join and has no broker id yet."""
    incarnation: int
    """A random 63-bit number that identifies this run of the process."""
    address: str
    """The advertised host:port of the sender's peer listener."""


def encode_hello(hello: Hello) -> bytes:
    """Encode a Hello.  Raises ValueError if a string is too long."""
    texts = [hello.cluster_id.encode(), hello.address.encode()]
    for name, text in zip(("cluster id", "address"), texts, strict=True):
        if len(text) > TEXT_BYTES_MAX:
            raise ValueError(f"the {name} has {len(text)} bytes of UTF-8; choose one of at most {TEXT_BYTES_MAX}")
    broker_id, directory_id = hello.voter or (0, bytes(DIRECTORY_ID_BYTES))
    assert len(directory_id) == DIRECTORY_ID_BYTES, f"invalid directory id {directory_id!r}"
    head = _HEAD.pack(hello.voter is not None, broker_id, directory_id, hello.incarnation, *map(len, texts))
    return b"".join([head, *texts])


def decode_hello(data: bytes | memoryview) -> Hello:
    """Decode `data`, which must contain exactly one Hello; raises MalformedHello."""
    if len(data) < _HEAD.size:
        raise MalformedHello(f"{len(data)} bytes are too few for a Hello")
    has_voter, broker_id, directory_id, incarnation, cluster_bytes, address_bytes = _HEAD.unpack_from(data)
    address_at = _HEAD.size + cluster_bytes
    if has_voter > 1 or len(data) != address_at + address_bytes or max(cluster_bytes, address_bytes) > TEXT_BYTES_MAX:
        raise MalformedHello(f"{len(data)} bytes do not match the lengths within the Hello")
    try:
        cluster_id = bytes(data[_HEAD.size : address_at]).decode()
        address = bytes(data[address_at:]).decode()
    except UnicodeDecodeError as error:
        raise MalformedHello(f"a string in a Hello is not UTF-8: {error}") from error
    return Hello(
        cluster_id=cluster_id,
        voter=ReplicaKey(BrokerId(broker_id), DirectoryId(directory_id)) if has_voter else None,
        incarnation=incarnation,
        address=address,
    )
