"""Bounds on connections from single addresses, as they are written down."""

import pytest

from tidemill.app.connection_limits import connections_max_by_host
from tidemill.app.listeners import SettingRefused
from tidemill.app.settings import settings_of


def test_addresses_have_bounds_of_their_own() -> None:
    """
    IPv4 and IPv6, in whatever form; blanks do not matter.
    """
    found = connections_max_by_host("127.0.0.1:5, [::1]:0 ,0:0::2:7,")

    assert {"127.0.0.1": 5, "::1": 0, "::2": 7} == found


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:many", "tide.example:5", ":5", "127.0.0.1:-1"])
def test_what_is_no_address_with_a_count_is_refused_at_the_start(text: str) -> None:
    """
    With a sentence that names the key and what was given.
    """
    with pytest.raises(SettingRefused, match=r"max\.connections\.per\.ip\.overrides=.* is refused"):
        settings_of({"max.connections.per.ip.overrides": text})
