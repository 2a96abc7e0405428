"""The --http option: the addresses of brokers' HTTP listeners."""

import os
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from tidemill.cli.address_list import parse_addresses
from tidemill.cli.failure import ExitCode, Failed

HTTP_DEFAULT: Final = "127.0.0.1:9080"
PROBE_TIMEOUT_S: Final = 1.0

HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT[,…]",
        help="HTTP listeners of brokers; the first that responds is asked.  Default: TIDEMILL_HTTP, or else "
        "127.0.0.1:9080.",
    ),
]
OTHER_BROKER: Final = (
    "set --http or TIDEMILL_HTTP to another broker of the cluster, or to several as HOST:PORT,HOST:PORT"
)
"""The fix that the error suggests if no address responds."""


def resolve_http(option: str | None) -> list[str]:
    """Return the addresses from the option, else the environment, else the default.  Raise a usage error."""
    given, source = option, "--http"
    if given is None:
        given, source = os.environ.get("TIDEMILL_HTTP") or HTTP_DEFAULT, "TIDEMILL_HTTP"
    return parse_addresses(given, source=source, example=HTTP_DEFAULT)


def check_not_kafka(addresses: Sequence[str]) -> None:
    """Raise `Failed` if one of the addresses is a Kafka port."""
    from tidemill.client.port_probe import PortProtocol, probe

    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            protocol = probe(host.strip("[]"), int(port), PROBE_TIMEOUT_S)
        except OSError:
            continue
        if protocol is PortProtocol.KAFKA:
            fix = f"set --http or TIDEMILL_HTTP to the broker's tidemill.http.listener, by default {HTTP_DEFAULT}"
            raise Failed(f"{address} is a Kafka port, not an HTTP port; {fix}", exit_code=ExitCode.NO_BROKER)
