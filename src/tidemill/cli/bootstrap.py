"""The --bootstrap option: finds the addresses of brokers and checks that one of them is a Kafka port."""

import os
from typing import Annotated, Final

import typer

from tidemill.cli.address_list import parse_addresses
from tidemill.cli.deadline import Deadline
from tidemill.cli.failure import ExitCode, Failed

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"
CONNECT_TIMEOUT_S: Final = 5.0  # longer than any TCP handshake takes, but short enough for a user to wait

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        help="The broker to connect to.  Default: TIDEMILL_BOOTSTRAP, or else 127.0.0.1:9092.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON, one object per line; errors on stderr likewise.")]


def resolve(option: str | None) -> str:
    """
    Return the addresses as `host:port,host:port`, from the option, else the environment, else the default.

    Raise a usage error for an address that is not HOST:PORT.
    """
    given, source = option, "--bootstrap"
    if given is None:
        given, source = os.environ.get("TIDEMILL_BOOTSTRAP") or BOOTSTRAP_DEFAULT, "TIDEMILL_BOOTSTRAP"
    return ",".join(parse_addresses(given, source=source, example=BOOTSTRAP_DEFAULT))


def check_reachable(bootstrap: str, deadline: Deadline | None = None) -> None:
    """
    Raise `Failed` with exit code NO_BROKER unless one of the addresses accepts a connection and may be a Kafka port.

    The check does not wait beyond the deadline.  Without the check, librdkafka would retry for minutes.  A port that
    accepts the connection but does not respond is left to librdkafka: the broker may be slow.
    """
    from tidemill.client.port_probe import PortProtocol, probe  # imported here because the import is slow (decision 12)

    deadline = deadline or Deadline()
    reasons, wrong = [], None
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            protocol = probe(host.strip("[]"), int(port), deadline.bounded(CONNECT_TIMEOUT_S))
        except OSError as error:
            reasons.append(f"{address} ({error.strerror or error})")
            continue
        if protocol is PortProtocol.HTTP:
            wrong = wrong or _http_port(address)
        elif protocol is PortProtocol.TLS:
            wrong = wrong or _no_kafka(f"{address} speaks TLS, which commands do not", "a PLAINTEXT listener")
        else:
            return
    raise wrong or _no_broker(", ".join(reasons))


def _http_port(address: str) -> Failed:
    """Return the error for an HTTP port, with the address of the Kafka port if a Tidemill broker reports it."""
    from tidemill.client.broker_http import NoResponse, Refused, kafka_address

    try:
        kafka = kafka_address(address)
    except (NoResponse, Refused):
        kafka = None
    return _no_kafka(f"{address} is an HTTP port, not a Kafka port", kafka or "the broker's Kafka port")


def _no_kafka(problem: str, fix: str) -> Failed:
    return Failed(f"{problem}; set --bootstrap or TIDEMILL_BOOTSTRAP to {fix}", exit_code=ExitCode.NO_BROKER)


def _no_broker(tried: str) -> Failed:
    """
    Return the error for the case that no address accepts a connection.

    Other brokers of the cluster, whose addresses this command does not know, may be running, so starting a new cluster
    is suggested last.
    """
    fix = (
        "set --bootstrap or TIDEMILL_BOOTSTRAP to another broker of the cluster, or to several as HOST:PORT,HOST:PORT; "
        "`tidemill dev` starts a cluster if there is none"
    )
    return Failed(f"no broker at {tried}; {fix}", exit_code=ExitCode.NO_BROKER)


def no_response(bootstrap: str, reason: str) -> Failed:
    """Return the error for brokers that accept connections, but do not complete a request."""
    fix = "`tidemill cluster status` shows which brokers are up; a majority of them must be"
    return Failed(f"no response from {bootstrap} ({reason}); {fix}", exit_code=ExitCode.NO_BROKER)
