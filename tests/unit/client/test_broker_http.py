"""Requests to the HTTP listeners of brokers."""

import pytest

from tidemill.client.broker_http import NoResponse, NotReady, Refused, from_first

ANSWERS = {
    "gone:1": NoResponse("gone:1: refused"),
    "lost:1": NoResponse("lost:1: timed out"),
    "starting:1": NotReady("starting:1: starting"),
    "strict:1": Refused("strict:1: forbidden"),
    "well:1": "well",
    "other:1": "other",
}


def read(address: str) -> str:
    found = ANSWERS[address]
    if isinstance(found, Exception):
        raise found
    return found


def test_the_first_address_that_responds_is_asked() -> None:
    """Neither a broker that does not respond nor one that is starting ends the search, and both are named."""
    addresses = ["gone:1", "starting:1", "well:1", "other:1"]

    assert ("well:1", "well", ["gone:1: refused", "starting:1: starting"]) == from_first(addresses, read)


@pytest.mark.parametrize(
    ("addresses", "kind", "text"),
    [
        (["gone:1", "lost:1"], NoResponse, "gone:1: refused; lost:1: timed out"),
        (["gone:1", "starting:1", "lost:1"], NotReady, "starting:1: starting"),
        (["gone:1", "strict:1", "well:1"], Refused, "strict:1: forbidden"),
    ],
)
def test_without_an_answer_the_failures_say_what_to_do(addresses: list[str], kind: type[Exception], text: str) -> None:
    """A broker that is starting is worth another try.  If one refuses, so would all others."""
    with pytest.raises(kind) as raised:
        from_first(addresses, read)

    assert (kind, text) == (type(raised.value), str(raised.value))
