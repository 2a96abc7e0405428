"""The --bootstrap option: finds the addresses of brokers and checks that one of them is a Kafka port."""

import os
from typing import Annotated, Final

import typer

from tidemill.cli.failure import ExitCode, Failed, usage

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
    addresses = [part.strip() for part in given.split(",")]
    for address in addresses:
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            raise usage(f"{source} {given!r}: {address!r} is not HOST:PORT; write for example {BOOTSTRAP_DEFAULT}")
    return ",".join(addresses)


def check_reachable(bootstrap: str) -> None:
    """
    Raise `Failed` with exit code NO_BROKER unless one of the addresses accepts a connection and may be a Kafka port.

    Without this check, librdkafka would retry for minutes.  A port that does not respond is left to librdkafka: the
    broker may be slow.
    """
    from tidemill.client.port_probe import PortProtocol, probe  # imported late (decision 12)

    reasons, wrong = [], None
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            protocol = probe(host.strip("[]"), int(port), CONNECT_TIMEOUT_S)
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
            continue
        if protocol is PortProtocol.HTTP:
            wrong = wrong or _http_port(address)
        elif protocol is PortProtocol.TLS:
            wrong = wrong or _no_kafka(f"{address} speaks TLS, which commands do not", "a PLAINTEXT listener")
        else:
            return
    raise wrong or no_broker(bootstrap, "; ".join(reasons))


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


def no_broker(bootstrap: str, reason: str) -> Failed:
    """Return the error for a broker that cannot be reached."""
    fix = "start one with `tidemill dev`, or set --bootstrap HOST:PORT or TIDEMILL_BOOTSTRAP"
    return Failed(f"no broker at {bootstrap} ({reason}); {fix}", exit_code=ExitCode.NO_BROKER)


def no_response(bootstrap: str, reason: str) -> Failed:
    """Return the error for brokers that accept connections, but do not complete a request."""
    fix = "`tidemill cluster status` shows which brokers are up; a majority of them must be"
    return Failed(f"no response from {bootstrap} ({reason}); {fix}", exit_code=ExitCode.NO_BROKER)
