"""The encoding of a broker's identity."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.broker_id import ReplicaKey
from tidemill.peer.hello import Hello, MalformedHello, decode_hello, encode_hello

TEXTS = st.text(max_size=250)
HELLOS = st.builds(
    Hello,
    cluster_id=TEXTS,
    voter=st.none() | st.builds(ReplicaKey, st.integers(0, (1 << 31) - 1), st.binary(min_size=16, max_size=16)),
    incarnation=st.integers(0, (1 << 63) - 1),
    address=TEXTS,
)
JOINING = Hello(cluster_id="", voter=None, incarnation=1, address="broker:9094")


@settings(deadline=None)
@given(hello=HELLOS)
def test_a_hello_survives_a_round_trip(hello: Hello) -> None:
    """Every Hello, even that of a broker that asks to join, survives a round trip and fits into a handshake frame."""
    encoded = encode_hello(hello)

    assert hello == decode_hello(memoryview(encoded))
    assert len(encoded) < 4096 - 17


def test_malformed_hellos_are_refused() -> None:
    """A Hello is refused if it is truncated, one byte too long, not UTF-8, or has an unknown flag set."""
    whole = encode_hello(JOINING)

    for wrong in [
        *(whole[:length] for length in range(len(whole))),
        whole + b"\0",
        whole[:-1] + b"\xff",
        b"\2" + whole[1:],
    ]:
        with pytest.raises(MalformedHello):
            decode_hello(wrong)


def test_a_string_that_is_too_long_is_refused() -> None:
    """A string that is too long is refused both by the sender, whose error names the field, and by the receiver."""
    with pytest.raises(ValueError, match="the address has 1025 bytes of UTF-8; choose one of at most 1024"):
        encode_hello(Hello(cluster_id="", voter=None, incarnation=1, address="b" * 1025))
    longest = encode_hello(Hello(cluster_id="", voter=None, incarnation=1, address="b" * 1024))
    with pytest.raises(MalformedHello):
        decode_hello(longest[:34] + (1025).to_bytes(2, "big") + longest[36:] + b"b")
