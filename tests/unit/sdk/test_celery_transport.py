"""Celery's transport: the address of a broker in its URL, and what it cannot do."""

from urllib.parse import urlsplit

import pytest

from tidemill.sdk.celery_transport import Channel, http_address


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://mill-1", "http://mill-1:9080"),
        ("http://:secret@mill-1:80/", "http://mill-1:80"),
        ("https://[::1]:443", "https://[::1]:443"),
        ("http://[::1]", "http://[::1]:9080"),
    ],
)
def test_the_address_has_a_port_and_no_password(url: str, expected: str) -> None:
    assert expected == http_address(urlsplit(url))


def test_a_queue_of_the_rpc_backend_is_refused() -> None:
    """A client would wait for its result for ever."""
    channel = object.__new__(Channel)
    channel._positions = {"replies": {}}

    with pytest.raises(NotImplementedError, match="choose another result backend"):
        channel._begin("replies")
