"""Opens a TCP connection within a time limit that includes name resolution and all addresses of the host."""

import queue
import socket
import threading
import time
from ipaddress import ip_address

from tidemill.client.connection_settings import Endpoint

_Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]


def dial(endpoint: Endpoint, seconds: float) -> socket.socket:
    """
    Connect to the first address of the host that accepts the connection.

    The remaining time is divided equally among the remaining addresses, so that one unresponsive address cannot use it
    up.  Raise OSError if all fail.
    """
    ends_at = time.monotonic() + seconds
    addresses = _addresses(endpoint, seconds)
    failure = OSError(f"the name {endpoint.host} has no address")
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        left = ends_at - time.monotonic()
        if left <= 0:
            break
        candidate = socket.socket(family, kind, protocol)
        try:
            candidate.settimeout(left / (len(addresses) - index))
            candidate.connect(address)
            return candidate
        except OSError as error:
            candidate.close()
            failure = error
    raise failure


def _addresses(endpoint: Endpoint, seconds: float) -> list[_Address]:
    """Resolve the host.  A resolver's own limit is often 30 s and cannot be set, so names are resolved in a thread."""
    try:
        ip_address(endpoint.host)
    except ValueError:
        pass
    else:
        return _resolved(endpoint)
    outcomes: queue.SimpleQueue[list[_Address] | OSError] = queue.SimpleQueue()

    def resolve() -> None:
        try:
            outcomes.put(_resolved(endpoint))
        except OSError as error:
            outcomes.put(error)
        except UnicodeError:  # a label of the name is empty or too long
            outcomes.put(OSError("it is not a host name"))

    threading.Thread(target=resolve, name="tidemill-resolver", daemon=True).start()
    try:
        outcome = outcomes.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"the name {endpoint.host} was not resolved within {seconds:.1f} s") from None
    if isinstance(outcome, OSError):
        raise outcome
    return outcome


def _resolved(endpoint: Endpoint) -> list[_Address]:
    return list(socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM))
