"""The settings that limit how many connections a single address may have."""

import pytest

from tidemill.app.connection_limits import connections_max_by_host
from tidemill.app.listeners import SettingRefused
from tidemill.app.settings import settings_of


def test_addresses_can_have_their_own_limits() -> None:
    """An override names an IPv4 or IPv6 address in any notation, and blanks are ignored."""
    found = connections_max_by_host("127.0.0.1:5, [::1]:0 ,0:0::2:7,")

    assert {"127.0.0.1": 5, "::1": 0, "::2": 7} == found


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:many", "tide.example:5", ":5", "127.0.0.1:-1"])
def test_malformed_overrides_are_refused(text: str) -> None:
    """A malformed override is refused with a message that names the key and the value."""
    with pytest.raises(SettingRefused, match=r"max\.connections\.per\.ip\.overrides=.* is refused"):
        settings_of({"max.connections.per.ip.overrides": text})
