"""The HTTP address of a broker, from its configuration."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.sdk.discovery import address_of


def configs(**values: str | None) -> dict[str, Any]:
    return {f"tidemill.http.{name}": SimpleNamespace(value=value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (configs(advertised="mill-1:80", listener="0.0.0.0:9080"), "mill-1:80"),
        (configs(advertised=None, listener="127.0.0.1:9080"), "127.0.0.1:9080"),
        (configs(advertised="", listener="0.0.0.0:9080"), "kafka-host:9080"),
        (configs(listener="[::]:9080"), "kafka-host:9080"),
        (configs(listener="[::1]:9080"), "[::1]:9080"),
        (configs(listener="127.0.0.1:0"), None),
        ({}, None),
    ],
)
def test_the_advertised_address_comes_first_and_a_wildcard_stands_for_the_host(
    given: dict[str, Any], expected: str | None
) -> None:
    assert expected == address_of(given, "kafka-host")


def test_a_host_that_is_an_address_of_ipv6_gets_brackets() -> None:
    assert "[::1]:9080" == address_of(configs(listener="[::]:9080"), "::1")
