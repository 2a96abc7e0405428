"""A command that is given a wrong port says what kind of port it is; if the command cannot tell, it continues."""

import pytest

from tidemill.cli.bootstrap import check_reachable
from tidemill.cli.failure import ExitCode, Failed
from tidemill.client import broker_http, port_probe
from tidemill.client.broker_http import NoResponse
from tidemill.client.port_probe import PortProtocol


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> dict[int, PortProtocol | OSError]:
    """Replace the network: each port has a protocol, or an error that a connection to it raises."""
    ports: dict[int, PortProtocol | OSError] = {}

    def probe(host: str, port: int, timeout_s: float) -> PortProtocol:
        found = ports[port]
        if isinstance(found, OSError):
            raise found
        return found

    def no_tidemill(address: str) -> str:
        raise NoResponse(f"{address} has no JSON")

    monkeypatch.setattr(port_probe, "probe", probe)
    monkeypatch.setattr(broker_http, "kafka_address", no_tidemill)
    return ports


@pytest.mark.parametrize("protocol", [PortProtocol.KAFKA, PortProtocol.UNKNOWN])
def test_a_kafka_port_and_a_silent_port_are_accepted(
    ports: dict[int, PortProtocol | OSError], protocol: PortProtocol
) -> None:
    """
    A port that does not respond in time is accepted, because the broker may merely be slow.
    """
    ports[1] = protocol

    check_reachable("h:1")


def test_one_kafka_port_is_enough(ports: dict[int, PortProtocol | OSError]) -> None:
    """
    It is enough that one address is a Kafka port; the other addresses may be down or wrong.
    """
    ports.update({1: PortProtocol.HTTP, 2: ConnectionRefusedError(111, "Connection refused"), 3: PortProtocol.KAFKA})

    check_reachable("h:1,h:2,[::1]:3")


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        (PortProtocol.HTTP, "h:1 is an HTTP port"),
        (PortProtocol.TLS, "h:1 speaks TLS"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_a_wrong_port_exits_with_no_broker(
    ports: dict[int, PortProtocol | OSError], protocol: PortProtocol | OSError, problem: str
) -> None:
    """
    The error names the address and what to set, even if the HTTP port does not belong to a Tidemill broker.
    """
    ports[1] = protocol

    with pytest.raises(Failed) as raised:
        check_reachable("h:1")

    assert ExitCode.NO_BROKER is raised.value.exit_code
    assert problem in raised.value.message and "--bootstrap" in raised.value.message


def test_a_dead_broker_does_not_hide_the_rest_of_the_cluster(ports: dict[int, PortProtocol | OSError]) -> None:
    """
    The cluster may run without the brokers that were tried.  The error lists these, and asks for another broker before
    it mentions a new cluster.
    """
    ports.update({1: ConnectionRefusedError(111, "Connection refused"), 2: TimeoutError("timed out")})

    with pytest.raises(Failed) as raised:
        check_reachable("h:1,h:2")

    told = raised.value.message
    assert told.startswith("no broker at h:1 (Connection refused), h:2 (timed out); set --bootstrap")
    assert told.index("another broker of the cluster") < told.index("tidemill dev")
