"""The rule that replaces authentication, which is not implemented: only clients on this machine are served.

The client's address and the Host header must both be loopback.  The check of the header prevents DNS rebinding, in
which a browser reaches 127.0.0.1 under the host name of a hostile page.
"""

import ipaddress
from collections.abc import MutableMapping
from typing import Any

from tidemill.http.answer import Answer, problem


def is_from_loopback(scope: MutableMapping[str, Any]) -> bool:
    """Return whether a request came from this machine, and was sent to a name or address of this machine."""
    client = scope.get("client")
    return client is not None and _is_loopback(str(client[0])) and _is_sent_to_loopback(scope)


def loopback_only(path: str) -> Answer:
    """Return the response to a request that `is_from_loopback` rejects."""
    return problem(
        403,
        f"{path[:200]} is available on loopback addresses only, because authentication is not implemented: "
        "send the request on the broker's machine, to 127.0.0.1 or localhost",
    )


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _is_sent_to_loopback(scope: MutableMapping[str, Any]) -> bool:
    """Return whether the Host header, if there is one, is `localhost` or a loopback address."""
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.decode("latin-1")
            host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
            return host.lower() == "localhost" or _is_loopback(host)
    return True
