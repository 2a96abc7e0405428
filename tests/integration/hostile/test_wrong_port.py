"""If a client or a command uses the wrong port, its user and the operator are told.

For a minute, repeated attempts of one client host are not logged again, so each test connects from its own loopback
address.
"""

import json
import socket
import ssl

import pytest

from tests.integration.cli.command import tidemill
from tests.integration.hostile.attacked_broker import AttackedBroker, frame_of
from tidemill.wire.messages import api_versions

NAMES = ("not a Kafka client", "not an HTTP client")
HTTP_REQUEST = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
KAFKA_REQUEST = frame_of(api_versions.Request(client_software_name="x", client_software_version="1"), 3)
ATTEMPTS = 3


def response_to(first: bytes, address: tuple[str, int], client_host: str) -> bytes:
    """Send the first bytes and return all that arrives until the broker closes the connection."""
    received = b""
    with socket.create_connection(address, timeout=10, source_address=(client_host, 0)) as client:
        client.sendall(first)
        try:
            while part := client.recv(4_096):
                received += part
        except ConnectionResetError:
            pass
    return received


def try_tls(address: tuple[str, int], client_host: str) -> None:
    context = ssl.create_default_context()
    with (
        socket.create_connection(address, timeout=10, source_address=(client_host, 0)) as client,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        context.wrap_socket(client, server_hostname="localhost")


def http_address(broker: AttackedBroker) -> tuple[str, int]:
    host, _, port = broker.http.rpartition(":")
    return host, int(port)


def test_another_protocol_on_the_kafka_port_is_one_event(broker: AttackedBroker) -> None:
    """
    TLS and HTTP on the Kafka port cause one event each per client host, and the connection of each attempt is closed.
    """
    broker.new_lines()
    for _ in range(ATTEMPTS):
        try_tls(broker.address, "127.0.0.21")
        assert b"" == response_to(HTTP_REQUEST, broker.address, "127.0.0.21")
    assert b"" == response_to(HTTP_REQUEST, broker.address, "127.0.0.22")

    tls, http, other = broker.awaited_events(NAMES, 3)

    assert ["not a Kafka client"] * 3 == [event["event"] for event in (tls, http, other)]
    assert ["127.0.0.21", "127.0.0.21", "127.0.0.22"] == [event["client"] for event in (tls, http, other)]
    assert ["a TLS handshake", "an HTTP request"] == [tls["arrived"], http["arrived"]]
    assert {broker.address[1]} == {tls["port"], http["port"]}
    assert "security.protocol=PLAINTEXT" in tls["fix"]
    assert f"port {http_address(broker)[1]}" in http["fix"]
    broker.unhurt(grown_max=48 << 20)


def test_another_protocol_on_the_http_port_is_one_event(broker: AttackedBroker) -> None:
    """
    A Kafka request and TLS on the HTTP port cause one event each.  The response is plain text with status 400, and HTTP
    clients are served as before.
    """
    broker.new_lines()
    address = http_address(broker)
    for _ in range(ATTEMPTS):
        refused = response_to(KAFKA_REQUEST, address, "127.0.0.23")
        try_tls(address, "127.0.0.23")
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(HTTP_REQUEST)
        served = client.recv(4_096)
    with socket.create_connection(address, timeout=10, source_address=("127.0.0.24", 0)) as client:
        client.sendall(KAFKA_REQUEST)
        client.recv(1)

    kafka, tls, other = broker.awaited_events((*NAMES, "http request refused"), 3)

    assert refused.startswith(b"HTTP/1.1 400 ") and b"not a Kafka request" in refused
    assert served.startswith(b"HTTP/1.1 200 ")
    assert ["not an HTTP client"] * 3 == [event["event"] for event in (kafka, tls, other)]
    assert ["127.0.0.23", "127.0.0.23", "127.0.0.24"] == [event["client"] for event in (kafka, tls, other)]
    assert ["a Kafka request", "a TLS handshake"] == [kafka["arrived"], tls["arrived"]]
    assert {address[1]} == {kafka["port"], tls["port"]}
    assert f"port {broker.address[1]}" in kafka["fix"] and "http://" in tls["fix"]
    broker.no_mistake()


@pytest.mark.parametrize("command", [("topics", "list"), ("produce", "t"), ("consume", "t")], ids=" ".join)
def test_a_command_given_the_http_port_names_the_kafka_port(broker: AttackedBroker, command: tuple[str, ...]) -> None:
    """
    A command exits with 3 before it tries to use Kafka, and its error names the address to set.
    """
    finished = tidemill(*command, "--json", bootstrap=broker.http)

    told = json.loads(finished.err)
    assert (3, 3, "") == (finished.exit_code, told["exit_code"], finished.out)
    assert f"{broker.http} is an HTTP port" in told["message"]
    assert broker.bootstrap in told["message"] and "--bootstrap" in told["message"]


def test_a_command_uses_the_kafka_port_of_several_addresses(broker: AttackedBroker) -> None:
    """
    One wrong address does not matter if another one is correct, as with other Kafka clients.
    """
    finished = tidemill("topics", "list", bootstrap=f"{broker.http},{broker.bootstrap}")

    assert (0, "") == (finished.exit_code, finished.err)


def test_cluster_status_given_the_kafka_port_says_so(broker: AttackedBroker) -> None:
    """
    The command exits with 3, and its error says which setting contains the HTTP port.
    """
    finished = tidemill("cluster", "status", "--http", broker.bootstrap, "--json")

    told = json.loads(finished.err)
    assert (3, 3, "") == (finished.exit_code, told["exit_code"], finished.out)
    assert "is a Kafka port" in told["message"] and "tidemill.http.listener" in told["message"]
