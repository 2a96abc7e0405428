"""A held port is nobody's but the listener's that was meant."""

import socket

import pytest

from tidemill.app.held_ports import HeldPorts
from tidemill.app.listeners import Address


def test_a_held_port_can_be_listened_on_again_and_again() -> None:
    """
    As a broker does it that is killed and started again.
    """
    ports = HeldPorts()
    address = ports.take(Address("127.0.0.1", 0))
    for _ in range(2):
        with socket.create_server((address.host, address.port)) as listener:
            socket.create_connection((address.host, address.port)).close()
            listener.accept()[0].close()
    ports.close()


def test_a_held_port_is_not_given_away() -> None:
    """
    Who connects without naming a port of his own never gets it: he could be connected to himself.
    """
    ports = HeldPorts()
    address = ports.take(Address("127.0.0.1", 0))
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((address.host, address.port))  # without SO_REUSEADDR: as the system itself would choose
    ports.close()


def test_a_port_that_somebody_listens_on_is_refused_or_replaced() -> None:
    """
    Refused when it was asked for, replaced when it was only remembered.
    """
    ports = HeldPorts()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            ports.take(Address("127.0.0.1", taken))
        other = ports.take_again(Address("127.0.0.1", 0), taken)
    ports.close()
    again = ports.take_again(Address("127.0.0.1", 0), taken)
    ports.close()

    assert (True, taken) == (other.port != taken, again.port)
