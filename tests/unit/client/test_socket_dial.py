"""Connections are opened within a time limit that name resolution and all addresses share."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from tidemill.client import socket_dial
from tidemill.client.connection_settings import Endpoint
from tidemill.client.socket_dial import dial


@contextmanager
def black_hole():
    """Yield an address that neither accepts nor refuses connections, because the queue of its listener is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        try:
            yield Endpoint(*address)
        finally:
            for one in waiting:
                one.close()


@contextmanager
def refusing(port=0):
    """
    Yield an address that refuses connections.  It stays bound, so that no other program gets the port in the meantime.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
        yield Endpoint(*held.getsockname())


def resolving_to(monkeypatch, *addresses):
    def resolved(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

    monkeypatch.setattr(socket_dial.socket, "getaddrinfo", resolved)


def test_later_addresses_get_their_share_of_the_time(monkeypatch):
    """
    An address that does not respond leaves time for the next one.
    """
    with black_hole() as silent, socket.create_server(("127.0.0.1", 0)) as listener:
        expected = listener.getsockname()
        resolving_to(monkeypatch, tuple(silent), *[expected] * 7)

        with dial(Endpoint("b.example", 1), 4) as connected:  # half a second for each
            reached = connected.getpeername()

    assert expected == reached


def test_silent_addresses_share_the_time(monkeypatch):
    """
    Several addresses that do not respond share the time limit, so they take no longer than a single one.
    """
    with black_hole() as silent:
        resolving_to(monkeypatch, *[tuple(silent)] * 20)
        began_at = time.monotonic()

        with pytest.raises(TimeoutError):
            dial(Endpoint("b.example", 1), 0.3)

    assert time.monotonic() - began_at < 3  # 20 addresses at 0.3 s each would take 6 s


def test_a_silent_resolver_is_given_up(monkeypatch):
    """
    If a name is not resolved in time, the error contains the name.
    """
    is_over = threading.Event()
    monkeypatch.setattr(socket_dial.socket, "getaddrinfo", lambda *_, **__: [is_over.wait(10)])

    with pytest.raises(TimeoutError, match=r"the name b.example was not resolved within 0.1 s"):
        dial(Endpoint("b.example", 1), 0.1)

    is_over.set()


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_what_is_no_host_name_is_an_os_error(host):
    """
    A host name that cannot be encoded for DNS raises an OSError, as if the connection had failed.
    """
    with pytest.raises(OSError, match=r"it is not a host name|not known"):
        dial(Endpoint(host, 1), 5)


def test_an_address_needs_no_resolver(monkeypatch):
    """
    An IP address is used without a resolver, and so without a thread.
    """
    monkeypatch.setattr(socket_dial.threading, "Thread", None)

    with socket.create_server(("127.0.0.1", 0)) as listener, dial(Endpoint(*listener.getsockname()), 5) as connected:
        assert listener.getsockname() == connected.getpeername()
