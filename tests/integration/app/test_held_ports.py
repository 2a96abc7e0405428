"""A reserved port is available only to the listener for which it is reserved."""

import socket

import pytest

from tidemill.app.held_ports import HeldPorts
from tidemill.app.listeners import Address


def test_a_reserved_port_can_be_listened_on_repeatedly() -> None:
    """A killed broker can listen on its port again after its restart."""
    ports = HeldPorts()
    address = ports.take(Address("127.0.0.1", 0))
    for _ in range(2):
        with socket.create_server((address.host, address.port)) as listener:
            socket.create_connection((address.host, address.port)).close()
            listener.accept()[0].close()
    ports.close()


def test_a_reserved_port_is_not_assigned_to_others() -> None:
    """
    The system never assigns a reserved port to an outgoing connection: such a connection could reach itself.
    """
    ports = HeldPorts()
    address = ports.take(Address("127.0.0.1", 0))
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        # Without SO_REUSEADDR, under the same rules as a port that the system chooses.
        other.bind((address.host, address.port))
    ports.close()


def test_a_port_in_use_is_refused_or_replaced() -> None:
    """
    A port in use is an error if the settings name it.  If it was only stored by an earlier run, another port replaces
    it.
    """
    ports = HeldPorts()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            ports.take(Address("127.0.0.1", taken))
        other = ports.take_stored(Address("127.0.0.1", 0), taken)
    ports.close()
    again = ports.take_stored(Address("127.0.0.1", 0), taken)
    ports.close()

    assert (True, taken) == (other.port != taken, again.port)
