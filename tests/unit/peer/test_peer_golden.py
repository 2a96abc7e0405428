"""In version 2 of the peer protocol, the bytes between two brokers are those of `docs/formats/peer.md`."""

import hashlib
import hmac
from pathlib import Path

from blake3 import blake3

from tests.unit.peer.loads import ONE, REPORT, TWO
from tests.unit.peer.session_pair import KEY, acceptor, dialler, handshake, hello, joined, linked
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.peer.frame import (
    DRAINING,
    Heartbeat,
    Leaders,
    encode_heartbeat,
    encode_leaders,
    encode_load_section,
    encode_message,
    encode_request,
    encode_response,
)
from tidemill.peer.hello import encode_hello
from tidemill.peer.load import Load, ShardLoad

GOLDEN = Path(__file__).with_name("peer.golden")
NEW_LEADER = ShardLoad(
    shard_id=ShardId(5), term=3, size=9, is_measured=False, voters=(ONE, TWO), in_sync=frozenset((ONE.broker_id,))
)


def test_the_encoding_matches_the_golden_file() -> None:
    """
    The golden file contains Hellos, a handshake with fixed nonces, each kind of section, sealed frames and a farewell.
    """
    one, other = linked()
    written = {
        "hello": encode_hello(hello(1)),
        "hello joining": encode_hello(hello(1, cluster_id="", voter=None)),
        **{f"handshake {step}": said for step, said in enumerate(handshake(dialler(), acceptor()), 1)},
        "heartbeat": joined(
            encode_heartbeat(Heartbeat(3, DRAINING, ((ShardId(4), BrokerId(2)), (ShardId(500), BrokerId(3)))))
        ),
        "heartbeat with a clock": joined(encode_heartbeat(Heartbeat(3, 0, (), 1_800_000_000_000))),
        "heartbeat with silent brokers": joined(
            encode_heartbeat(Heartbeat(3, 0, (), unheard=(BrokerId(2), BrokerId(300))))
        ),
        "heartbeat with a level": joined(encode_heartbeat(Heartbeat(3, 0, (), level=2))),
        "leaders": joined(encode_leaders(Leaders(3, 5, ((ShardId(4), 17), (ShardId(6), 0))))),
        "load": joined(encode_load_section(REPORT)),
        "load of a shard": joined(encode_load_section(Load(broker=None, shards=(NEW_LEADER,)))),
        "message": joined(encode_message(ShardId(4), [b"raft", b"batch"])),
        "request": joined(encode_request(9, [b"header", b"body"])),
        "response": joined(encode_response(9, [b"body"])),
        "sealed frame": joined(one.seal([b"first"])),
        "next sealed frame": joined(one.seal([b"first"])),
        "sealed by the acceptor": joined(other.seal([b"first"])),
        "farewell": joined(other.farewell("the broker stops")),
    }

    golden = dict(line.split(": ") for line in GOLDEN.read_text().splitlines())

    assert golden == {name: data.hex() for name, data in written.items()}


def test_proof_and_seals_follow_the_specification() -> None:
    """
    The proof and the seals equal those that the test computes from the cluster key and both Openings, without using the
    code under test.
    """
    golden = dict(line.split(": ") for line in GOLDEN.read_text().splitlines())
    first, second, hello_sealed = (bytes.fromhex(golden[f"handshake {step}"]) for step in (1, 2, 3))
    openings = first[4:] + second[4:60]
    key = hashlib.sha256(b"tidemill cluster key\0" + KEY).digest()

    proof = hmac.digest(key, b"tidemill peer acceptor's proof\0" + openings, "sha256")
    session = hmac.digest(key, b"tidemill peer session\0" + openings, "sha256")
    mac = blake3(bytes([1, 1]) + bytes(8) + hello_sealed[21:], key=session).digest(length=16)
    acceptors = bytes.fromhex(golden["sealed by the acceptor"])
    second_of_acceptor = blake3(bytes([2, 2]) + (1).to_bytes(8, "big") + b"first", key=session).digest(length=16)

    assert (second[60:], hello_sealed[5:21]) == (proof, mac)
    assert acceptors[5:21] == second_of_acceptor
