"""The --http option: the address of a broker's HTTP listener."""

import os
from typing import Annotated, Final

import typer

from tidemill.cli.failure import ExitCode, Failed, usage

HTTP_DEFAULT: Final = "127.0.0.1:9080"
PROBE_TIMEOUT_S: Final = 1.0

HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="The broker to ask first.  Default: TIDEMILL_HTTP, or else 127.0.0.1:9080.",
    ),
]


def resolve_http(option: str | None) -> str:
    """Return the address from the option, else the environment, else the default.  Raise a usage error."""
    given, source = option, "--http"
    if given is None:
        given, source = os.environ.get("TIDEMILL_HTTP") or HTTP_DEFAULT, "TIDEMILL_HTTP"
    host, colon, port = given.strip().rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise usage(f"{source} {given!r} is not HOST:PORT; write for example {HTTP_DEFAULT}")
    return given.strip()


def check_not_kafka(address: str) -> None:
    """Raise `Failed` if `address` is a Kafka port."""
    from tidemill.client.port_probe import PortProtocol, probe

    host, _, port = address.rpartition(":")
    try:
        protocol = probe(host.strip("[]"), int(port), PROBE_TIMEOUT_S)
    except OSError:
        return
    if protocol is PortProtocol.KAFKA:
        fix = f"set --http or TIDEMILL_HTTP to the broker's tidemill.http.listener, by default {HTTP_DEFAULT}"
        raise Failed(f"{address} is a Kafka port, not an HTTP port; {fix}", exit_code=ExitCode.NO_BROKER)
