"""The client's side of SCRAM: the exchange published in RFC 7677, and servers that violate the protocol."""

import pytest

from tidemill.client.scram import ITERATIONS_MAX, ScramClient, ScramError

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()


def test_the_exchange_of_rfc_7677():
    """
    User `user` with password `pencil` exchanges exactly the messages of RFC 7677, section 3.
    """
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)

    sent = [client.first(), client.final(SERVER_FIRST)]
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")

    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert [f"n,,n=user,r={NONCE}".encode(), f"c=biws,r={SERVER_NONCE},p={proof}".encode()] == sent


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        (b"r=other,s=W22Z,i=4096", "the server's nonce does not continue the client's"),
        (f"r={NONCE},s=W22Z,i=4096".encode(), "the server's nonce does not continue"),
        (f"r={NONCE}x,s=W22Z,i=4095".encode(), "the server asks for 4095 iterations"),
        (f"r={NONCE}x,s=W22Z,i={ITERATIONS_MAX + 1}".encode(), "iterations, not 4096 to 1000000"),
        (f"r={NONCE}x,s=W22Z,i=-1".encode(), "the server asks for -1 iterations"),
        (f"r={NONCE}x,s=,i=4096".encode(), "the server sends no salt"),
        (f"r={NONCE}x,s=!,i=4096".encode(), "malformed"),
        (f"m=x,r={NONCE}x,s=W22Z,i=4096".encode(), "an extension that this client does not know"),
        (b"\xff", "malformed"),
        (b"", "malformed"),
    ],
)
def test_a_wrong_first_message_of_the_server_is_refused(first, sentence):
    """
    A server that may be an impostor, or that would make the client compute for minutes, receives no proof.
    """
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)

    with pytest.raises(ScramError, match=sentence):
        client.final(first)


@pytest.mark.parametrize(
    ("final", "sentence"),
    [
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "may be an impostor"),
        (b"v=", "may be an impostor"),
        (b"x=1", "may be an impostor"),
        (b"e=invalid-proof", "the server reports invalid-proof"),
    ],
)
def test_a_server_that_proves_nothing_is_refused(final, sentence):
    """
    The client refuses a server whose final message lacks the signature that only the user's password yields.
    """
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)
    client.final(SERVER_FIRST)

    with pytest.raises(ScramError, match=sentence):
        client.check(final)
