"""The address of a broker in the URL of Celery's transport."""

from urllib.parse import urlsplit

import pytest

from tidemill.sdk.celery_transport import http_address


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
