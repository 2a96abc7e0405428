"""Who a broker's process says it is, when a connection to another begins.  Byte table: `docs/formats/peer.md`."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey

DIRECTORY_ID_BYTES: Final = 16
TEXT_BYTES_MAX: Final = 1024
"""Of cluster id and address, each: a DNS name has 253, and the handshake's frames hold 4 KiB."""

_HEAD: Final = Struct(">B3xi16sQHH")  # has a voter, broker id, directory id, incarnation, length of two texts


class MalformedHello(ValueError):
    """These bytes are no Hello."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    cluster_id: str
    """"" of a broker that asks to join."""
    voter: ReplicaKey | None
    """None of a broker that asks to join, and has not been told its broker id."""
    incarnation: int
    """A random number of 63 bits: one life of one process."""
    address: str
    """host:port of its own peer listener, as others reach it."""


def encode_hello(hello: Hello) -> bytes:
    """ValueError when a text is too long."""
    texts = [hello.cluster_id.encode(), hello.address.encode()]
    for name, text in zip(("cluster id", "address"), texts, strict=True):
        if len(text) > TEXT_BYTES_MAX:
            raise ValueError(f"the {name} has {len(text)} bytes of UTF-8; choose one of at most {TEXT_BYTES_MAX}")
    broker_id, directory_id = hello.voter or (0, bytes(DIRECTORY_ID_BYTES))
    assert len(directory_id) == DIRECTORY_ID_BYTES, f"{directory_id!r} is no directory id"
    head = _HEAD.pack(hello.voter is not None, broker_id, directory_id, hello.incarnation, *map(len, texts))
    return b"".join([head, *texts])


def decode_hello(data: bytes | memoryview) -> Hello:
    """The Hello that fills `data`.  MalformedHello."""
    if len(data) < _HEAD.size:
        raise MalformedHello(f"{len(data)} bytes are no Hello")
    has_voter, broker_id, directory_id, incarnation, cluster_bytes, address_bytes = _HEAD.unpack_from(data)
    address_at = _HEAD.size + cluster_bytes
    if has_voter > 1 or len(data) != address_at + address_bytes or max(cluster_bytes, address_bytes) > TEXT_BYTES_MAX:
        raise MalformedHello(f"{len(data)} bytes do not add up to a Hello")
    try:
        cluster_id = bytes(data[_HEAD.size : address_at]).decode()
        address = bytes(data[address_at:]).decode()
    except UnicodeDecodeError as error:
        raise MalformedHello(f"a text of a Hello is not UTF-8: {error}") from error
    return Hello(
        cluster_id=cluster_id,
        voter=ReplicaKey(BrokerId(broker_id), DirectoryId(directory_id)) if has_voter else None,
        incarnation=incarnation,
        address=address,
    )
