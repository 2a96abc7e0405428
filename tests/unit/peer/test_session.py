"""Brokers prove to each other that they know the cluster key, and refuse any frame that is out of sequence."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.peer.session_pair import (
    DIALLERS_NONCE,
    acceptor,
    dialler,
    feed,
    handshake,
    hello,
    joined,
    linked,
)
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.peer.frame import FRAME_BYTES_MAX
from tidemill.peer.session import HANDSHAKE_BYTES_MAX, PeerLeft, PeerRefused

STEPS = 4  # messages of a handshake: an Opening of each end, then a Hello of each end


def test_both_ends_learn_the_others_identity() -> None:
    """Each end learns the other's identity and the number that the dialler assigned to this connection attempt."""
    one, other = dialler(), acceptor()

    said = handshake(one, other)

    assert (hello(2), hello(1), STEPS) == (one.theirs, other.theirs, len(said))
    assert (7, 7) == (one.dial, other.dial)


@settings(deadline=None, max_examples=60)
@given(
    frames=st.lists(st.lists(st.binary(max_size=300), max_size=4), max_size=6),
    pieces=st.lists(st.integers(1, 200), min_size=1, max_size=5),
)
def test_frames_arrive_unchanged(frames: list[list[bytes]], pieces: list[int]) -> None:
    """Frames arrive unchanged in both directions, however the network splits their bytes."""
    one, other = linked()

    there = feed(other, joined(joined(one.seal(parts)) for parts in frames), pieces)
    back = feed(one, joined(joined(other.seal(parts)) for parts in frames), pieces)

    assert (b"", [joined(parts) for parts in frames]) == there == back


def test_parts_of_a_frame_are_not_copied() -> None:
    """The parts of a frame are written after its header as the same objects, without a copy."""
    one, _ = linked()
    parts = [bytearray(b"batch"), memoryview(b"another")]

    head, *sealed = one.seal(parts)

    assert 4 + 1 + 16 == len(head)
    assert all(given is written for given, written in zip(parts, sealed, strict=True))


def test_an_incomplete_handshake_establishes_no_link() -> None:
    """After a handshake message truncated at any byte, the receiver waits, answers nothing, and accepts no identity."""
    whole = handshake(dialler(), acceptor())

    for step in range(STEPS):
        for length in range(len(whole[step])):
            pair = [dialler(), acceptor()]
            pair[0].opening()
            for earlier in range(step):
                feed(pair[1 - earlier % 2], whole[earlier])

            listener = pair[1 - step % 2]

            assert (b"", []) == feed(listener, whole[step][:length])
            assert listener.theirs is None


@pytest.mark.parametrize("step", range(STEPS))
def test_no_bit_of_the_handshake_can_be_changed(step: int) -> None:
    """For every flipped bit, at least one end refuses the other, or waits for bytes that never arrive."""
    whole = handshake(dialler(), acceptor())

    for bit in range(8 * len(whole[step])):
        flipped = bytearray(whole[step])
        flipped[bit // 8] ^= 1 << bit % 8
        pair = [dialler(), acceptor()]
        said = joined(pair[0].opening())
        outcome = "waits"
        try:
            for turn in range(STEPS):
                said, _ = feed(pair[1 - turn % 2], bytes(flipped) if turn == step else said)
        except PeerRefused:
            outcome = "refused"

        assert pair[0].theirs is None or pair[1].theirs is None, f"{outcome} with bit {bit} of step {step} flipped"
        assert outcome == "refused" or bit < 32, "only a larger length may make an end wait"


def test_no_bit_of_a_frame_can_be_changed() -> None:
    """
    A frame with a flipped bit is refused.  If the flip increases the length field to another legal length, the
    receiver first waits for that many bytes.
    """
    one, other = linked()
    whole, filler = joined(one.seal([b"a frame"])), bytes(1 << 17)

    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        length = int.from_bytes(flipped[:4], "big")
        _, listener = linked()

        if 4 + length <= len(flipped) + len(filler) or length > FRAME_BYTES_MAX + 17:
            with pytest.raises(PeerRefused) as refused:
                feed(listener, bytes(flipped) + filler)
            assert not isinstance(refused.value, PeerLeft), "a frame was taken for a farewell"
        else:
            assert (b"", []) == feed(listener, bytes(flipped) + filler)

    assert (b"", [b"a frame"]) == feed(other, whole)


def test_a_truncated_frame_is_not_delivered() -> None:
    """A frame is delivered only after its last byte."""
    one, _ = linked()
    whole = joined(one.seal([b"a frame"]))

    for length in range(len(whole)):
        assert (b"", []) == feed(linked()[1], whole[:length])


def test_frames_out_of_sequence_are_refused() -> None:
    """A frame is refused if it is replayed, reordered or reflected to its sender, follows a dropped frame, or comes
    from another connection.
    """
    one, other = linked()
    first, second = joined(one.seal([b"first"])), joined(one.seal([b"second"]))
    feed(other, first)

    with pytest.raises(PeerRefused, match="out of sequence"):
        feed(other, first)
    with pytest.raises(PeerRefused, match="out of sequence"):
        feed(linked()[1], second)
    with pytest.raises(PeerRefused, match="out of sequence"):
        feed(one, first)
    stranger = acceptor(nonce=bytes(32))
    handshake(dialler(), stranger)
    with pytest.raises(PeerRefused, match="out of sequence"):
        feed(stranger, first)


def test_a_replayed_handshake_is_refused() -> None:
    """The receiver uses a new nonce, so it refuses recorded messages of a dialler or an acceptor."""
    whole = handshake(dialler(), acceptor())
    fresh_acceptor, fresh_dialler = acceptor(nonce=bytes(32)), dialler(nonce=bytes(32))
    fresh_dialler.opening()

    feed(fresh_acceptor, whole[0])
    with pytest.raises(PeerRefused, match=r"tidemill\.cluster\.key"):
        feed(fresh_acceptor, whole[2])
    with pytest.raises(PeerRefused, match=r"tidemill\.cluster\.key"):
        feed(fresh_dialler, whole[1])

    assert fresh_acceptor.theirs is None and fresh_dialler.theirs is None


def test_a_reflected_challenge_is_refused() -> None:
    """
    A challenge that comes back to its sender is refused, by the same connection or by an acceptor with the same nonce.
    """
    one = dialler()
    opening = joined(one.opening())
    with pytest.raises(PeerRefused, match="own challenge"):
        feed(one, (len(opening) - 4 + 32).to_bytes(4, "big") + opening[4:] + bytes(32))

    mirror = acceptor(nonce=DIALLERS_NONCE)
    with pytest.raises(PeerRefused, match="own challenge"):
        feed(mirror, opening)
    opening = joined(dialler(nonce=bytes(32)).opening())
    with pytest.raises(PeerRefused, match="own challenge or role"):
        feed(one, (len(opening) - 4 + 32).to_bytes(4, "big") + opening[4:] + bytes(32))
    theirs = feed(acceptor(), joined(dialler().opening()))[0]
    with pytest.raises(PeerRefused, match="an Opening of 88 bytes does not match"):
        feed(acceptor(nonce=bytes(32)), theirs)


def test_without_the_key_neither_end_reveals_its_identity() -> None:
    """A dialler without the key learns a nonce and a proof; an acceptor without it learns only a nonce.  Both errors
    name the fix.
    """
    one, other = dialler(b"another key"), acceptor()
    answer, _ = feed(other, joined(one.opening()))
    with pytest.raises(PeerRefused, match=r"give tidemill\.cluster\.key the same value") as refused:
        feed(one, answer)
    assert [] == one.farewell(str(refused.value))
    assert b"broker-" not in answer and b"estuary" not in answer

    impostor = dialler(b"another key")
    forged = impostor.opening() and feed(acceptor(b"another key"), joined(impostor.opening()))[0]
    said, _ = feed(impostor, forged)
    with pytest.raises(PeerRefused, match=r"give tidemill\.cluster\.key the same value") as refused:
        feed(other, said)
    assert [] == other.farewell(str(refused.value))


def test_a_broker_of_another_cluster_is_refused_at_both_ends() -> None:
    """The acceptor detects a broker of another cluster, and sends the reason to the dialler."""
    one, other = dialler(cluster_id="delta"), acceptor()
    answer, _ = feed(one, feed(other, joined(one.opening()))[0])

    with pytest.raises(PeerRefused, match=r"cluster 'delta'.*'estuary'.*set addresses of one cluster") as refused:
        feed(other, answer)
    with pytest.raises(PeerLeft, match="cluster 'delta'"):
        feed(one, joined(other.farewell(str(refused.value))))


@pytest.mark.parametrize("joining", [{"cluster_id": "", "voter": None}, {"cluster_id": ""}])
def test_a_broker_that_asks_to_join_is_accepted(joining: dict[str, str | None]) -> None:
    """A broker that asks to join, and has no cluster id yet, is accepted."""
    one, other = dialler(**joining), acceptor()

    handshake(one, other)

    assert (hello(1, **joining), hello(2)) == (other.theirs, one.theirs)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"expected": ReplicaKey(BrokerId(2), DirectoryId(bytes(16)))}, "was expected there: correct the address"),
        (
            {"expected": ReplicaKey(BrokerId(3), DirectoryId(bytes([2]) * 16))},
            "was expected there: correct the address",
        ),
        ({"voter": ReplicaKey(BrokerId(2), DirectoryId(bytes(16)))}, "both have the same id; give each broker its own"),
        ({"incarnation": (1 << 62) + 2}, "this broker itself: set the addresses of other brokers"),
    ],
)
def test_a_broker_with_an_unexpected_identity_is_refused(changed: dict[str, object], sentence: str) -> None:
    """A broker with an unexpected identity is refused, and receives a message that says what to do."""
    one, other = dialler(**changed), acceptor()

    with pytest.raises(PeerRefused, match=sentence):
        handshake(one, other)


@pytest.mark.parametrize("versions", [(3, 4), (1, 1)])
def test_another_version_is_refused_at_both_ends(versions: tuple[int, int]) -> None:
    """Both ends refuse another version, even if its Opening has another length.  The acceptor sends its versions to the
    dialler, because the dialler may be newer.
    """
    magic, both = b"TIDEPEER", b"".join(number.to_bytes(2, "big") for number in versions)
    foreign = magic + both + bytes(100)
    listener, one = acceptor(), dialler()
    with pytest.raises(
        PeerRefused, match=f"versions {versions[0]} to {versions[1]} .*upgrade the broker with the older"
    ):
        feed(listener, len(foreign).to_bytes(4, "big") + foreign)
    with pytest.raises(
        PeerRefused, match=f"versions {versions[0]} to {versions[1]} .*upgrade the broker with the older"
    ):
        feed(one, len(foreign).to_bytes(4, "big") + foreign)

    answer = joined(listener.farewell(""))

    assert magic + bytes([0, 2, 0, 2]) == answer[4:16]
    assert [] == one.farewell("")


def test_a_newer_version_that_supports_ours_is_accepted() -> None:
    """A newer version that supports ours is accepted, since brokers are upgraded one by one.  The session key depends
    on the offered versions, so that they cannot be tampered with.
    """
    one = dialler()
    opening = bytearray(joined(one.opening()))
    opening[14:16] = (9).to_bytes(2, "big")

    answer, _ = feed(acceptor(), bytes(opening))

    with pytest.raises(PeerRefused, match=r"tidemill\.cluster\.key"):
        feed(one, answer)


def test_other_protocols_are_recognized_and_refused() -> None:
    """A Kafka client or a browser that connects by mistake is recognized and refused."""
    with pytest.raises(PeerRefused, match=r"only brokers may connect to tidemill\.peer\.listener"):
        feed(acceptor(), b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(PeerRefused, match=r"only brokers may connect to tidemill\.peer\.listener"):
        feed(acceptor(), (30).to_bytes(4, "big") + bytes(30))


def test_a_length_is_checked_before_memory_is_allocated() -> None:
    """A length is limited to 4 KiB during the handshake and 64 MiB afterwards, and memory is allocated only as bytes
    arrive.
    """
    _, proven = linked()
    tracemalloc.start()
    try:
        with pytest.raises(PeerRefused, match=r"4097 bytes.*allows 1 to 4096"):
            feed(acceptor(), (HANDSHAKE_BYTES_MAX + 1).to_bytes(4, "big"))
        with pytest.raises(PeerRefused, match=f"allows 1 to {FRAME_BYTES_MAX + 17}"):
            feed(proven, (FRAME_BYTES_MAX + 18).to_bytes(4, "big"))
        with pytest.raises(PeerRefused, match="0 bytes"):
            feed(linked()[1], bytes(4))
        with pytest.raises(PeerRefused, match="too few"):
            feed(linked()[1], (16).to_bytes(4, "big") + bytes(16))
        feed(linked()[1], (FRAME_BYTES_MAX).to_bytes(4, "big") + bytes(1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_a_farewell_carries_the_reason() -> None:
    """A farewell carries the reason for the close, truncated if it is long."""
    one, other = linked()

    with pytest.raises(PeerLeft, match="the other end closed it: the broker stops"):
        feed(other, joined(one.farewell("the broker stops")))
    with pytest.raises(PeerLeft, match="é"):
        feed(one, joined(other.farewell("é" * 100_000)))


@pytest.mark.parametrize("kind", [1, 9])
def test_only_frames_are_accepted_after_the_hello(kind: int) -> None:
    """After the Hello, only frames are accepted; other kinds are refused even with a valid seal."""
    one, other = linked()

    with pytest.raises(PeerRefused, match=f"expected a frame, but received kind {kind}"):
        feed(other, joined(one._seal(kind, [b""])))


def test_a_frame_before_the_hello_is_refused() -> None:
    """A frame before the Hello is refused: a broker that knows the key must still identify itself."""
    one, other = dialler(), acceptor()
    feed(one, feed(other, joined(one.opening()))[0])
    one._sealed_count = 0

    with pytest.raises(PeerRefused, match="expected a Hello"):
        feed(other, joined(one._seal(2, [b""])))


def test_a_large_frame_has_its_own_memory() -> None:
    """A large frame has its own memory, so that keeping its batches keeps little other memory alive."""
    one, other = linked()
    data = joined(one.seal([b"small"])) + joined(one.seal([bytes(300_000)])) + joined(one.seal([b"small"]))
    position, frames = 0, []
    while position < len(data):
        room = other.get_buffer()
        piece = data[position : position + len(room)]
        room[: len(piece)] = piece
        assert [] == other.received(len(piece))
        frames += other.frames()
        position += len(piece)

    kept = [len(frame.obj) for frame in frames]

    assert [5, 300_000, 5] == list(map(len, frames))
    assert 300_000 + 21 == kept[1] and not frames[1].readonly
