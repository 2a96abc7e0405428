"""A running broker enforces its connection limits, and advertises each listener's own address."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from benchmarks.broker import free_port
from benchmarks.tidemill_broker import TidemillBroker

SECONDS_MAX = 10.0


@contextmanager
def running(directory: Path, settings: Mapping[str, str | int], port: int = 0) -> Iterator[str]:
    broker = TidemillBroker(directory, settings=settings, port=port)
    try:
        broker.wait_until_ready()
        time.sleep(0.2)  # until the broker has noticed that the connection that probed its port is closed
        yield broker.bootstrap
    finally:
        broker.stop()


def connected(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS_MAX)


def is_closed(connection: socket.socket, within_s: float) -> bool:
    connection.settimeout(within_s)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    """The broker closes a connection that has been idle for connections.max.idle.ms."""
    with running(tmp_path, {"connections.max.idle.ms": 500}) as bootstrap, connected(bootstrap) as connection:
        assert is_closed(connection, SECONDS_MAX)


def test_a_connection_beyond_the_limit_per_address_is_closed(tmp_path: Path) -> None:
    """The limit is max.connections.per.ip or its override.  The other connections stay open, and closing one makes room
    for a new one.
    """
    settings = {"max.connections.per.ip": 9, "max.connections.per.ip.overrides": "127.0.0.1:2"}
    with running(tmp_path, settings) as bootstrap, connected(bootstrap) as first, connected(bootstrap) as second:
        with connected(bootstrap) as third:
            outcomes = [is_closed(third, SECONDS_MAX), is_closed(first, 0.1), is_closed(second, 0.1)]
        first.close()
        time.sleep(0.1)  # until the broker has noticed that the first connection is closed
        with connected(bootstrap) as fourth:
            outcomes.append(is_closed(fourth, 0.1))

    assert [True, False, False, False] == outcomes


def test_the_total_number_of_connections_is_limited(tmp_path: Path) -> None:
    """max.connections limits the total number of connections across all listeners."""
    other = free_port()
    port = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},OTHER://127.0.0.1:{other}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        "max.connections": 2,
    }
    with (
        running(tmp_path, settings, port) as bootstrap,
        connected(bootstrap) as first,
        connected(f"127.0.0.1:{other}") as second,
        connected(bootstrap) as third,
    ):
        outcomes = [is_closed(connection, 0.5) for connection in (first, second, third)]

    # The broker may accept the connections in any order, so the test cannot know which one it closes.
    assert 1 == outcomes.count(True)


def test_each_listener_returns_its_own_advertised_address(tmp_path: Path) -> None:
    """
    A Metadata response contains the advertised address of the listener, or the address to which the listener is bound
    if it advertises none.
    """
    port, other = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},OUTSIDE://127.0.0.1:{other}",
        "advertised.listeners": f"OUTSIDE://localhost:{other}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    with running(tmp_path, settings, port) as bootstrap:
        advertised = []
        for address in (bootstrap, f"127.0.0.1:{other}"):
            metadata = AdminClient({"bootstrap.servers": address}).list_topics(timeout=SECONDS_MAX)
            advertised += [f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()]

    assert json.dumps([bootstrap, f"localhost:{other}"]) == json.dumps(advertised)
