"""ClusterHttp: the requests of `tidemill cluster` commands, to the first broker that responds."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.http_option import OTHER_BROKER, check_not_kafka
from tidemill.client.broker_http import NoResponse, NotReady, Refused, ask, delete, from_first, send

TIMEOUT_S: Final = 15.0  # the brokers wait for a controller for up to 5 s
BEGIN_S: Final = 3.0  # for which a read waits; a new controller looks at its brokers within a second
POLL_S: Final = 0.2
Row = dict[str, Any]


@contextmanager
def http_errors(addresses: Sequence[str]) -> Iterator[None]:
    """Convert the errors of requests to the brokers at `addresses`."""
    try:
        yield
    except NoResponse as problem:
        check_not_kafka(addresses)
        fix = f"{OTHER_BROKER}; `tidemill dev --brokers 3` starts a cluster if there is none"
        raise Failed(f"no broker's HTTP listener at {problem}; {fix}", exit_code=ExitCode.NO_BROKER) from problem
    except Refused as problem:
        raise Failed(str(problem)) from problem


class ClusterHttp:
    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    def get(self, path: str, **query: str | int) -> Row:
        """
        Return the answer of the first broker that responds.  Wait for a moment if none is ready, such as a new
        controller.  Raise NoResponse, NotReady or Refused.
        """
        until = time.monotonic() + BEGIN_S
        while True:
            try:
                return self._answered(path, **query)[1]
            except NotReady:
                if time.monotonic() >= until:
                    raise
            time.sleep(POLL_S)

    def post(self, path: str, body: Mapping[str, Any]) -> Row:
        """Change something through a broker that responds.  Raise Failed if the outcome is unknown."""
        with self._outcome() as address:
            return send(address, path, body, timeout_s=TIMEOUT_S)

    def delete(self, path: str) -> None:
        """Likewise, with DELETE."""
        with self._outcome() as address:
            delete(address, path, timeout_s=TIMEOUT_S)

    @contextmanager
    def _outcome(self) -> Iterator[str]:
        """Yield the address of a broker that responds, and convert the error if it does not answer the change."""
        address, _ = self._answered("/v1/cluster")
        try:
            yield address
        except NoResponse as problem:
            unknown = "whether that was done is not known; look at `tidemill cluster brokers` and `moves`"
            raise Failed(f"{problem}: {unknown}", exit_code=ExitCode.NO_BROKER) from problem

    def _answered(self, path: str, **query: str | int) -> tuple[str, Row]:
        address, row, _ = from_first(self._addresses, lambda it: ask(it, path, timeout_s=TIMEOUT_S, **query))
        return address, row
