"""Requests to the coordinators of groups, for `tidemill groups`, with Tidemill's own client."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tidemill.cli.bootstrap import no_response
from tidemill.cli.failure import Failed
from tidemill.cli.refusal import refusal
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.failures import BrokerUnreachable, ClientError, ProtocolMismatch, RetriesExhausted
from tidemill.client.group_coordinator import Coordinator, GroupCoordinator
from tidemill.model import errors
from tidemill.wire.schema import Api, Message

REQUEST_TIMEOUT_MS: Final = 30_000


class CoordinatorRequests:
    """Sends requests to the coordinators of groups, wherever they move."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        timeouts = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), str(REQUEST_TIMEOUT_MS))
        self.cluster = ClusterMetadata(from_keys({"bootstrap.servers": bootstrap, **timeouts}))
        self._coordinators: dict[str, GroupCoordinator] = {}

    def close(self) -> None:
        self.cluster.close()

    def ask(
        self,
        group: str,
        api: Api,
        request: Message,
        problems: Callable[[Any], Iterable[int]],
        *,
        newest: int | None = None,
    ) -> Any:
        """
        Return the coordinator's response, in a version of at most `newest`.  `problems` returns the error codes of a
        response.

        Raise `Failed` if the coordinator does not respond, and ProtocolMismatch if it is too old for the request.
        """
        try:
            self.cluster.refresh(())
            return self._coordinator(group).ask(api, request, problems, failing="does not answer", newest=newest)
        except ProtocolMismatch:
            raise
        except ClientError as problem:
            raise self.failed(f"group {group!r}", problem) from problem

    def coordinator_of(self, group: str) -> Coordinator:
        return self._coordinator(group).find()

    def failed(self, about: str, problem: ClientError) -> Failed:
        """Return the error for a failed request, whose subject is `about`."""
        if isinstance(problem, BrokerUnreachable | RetriesExhausted):
            return no_response(self._bootstrap, f"{about}: {problem}")
        return Failed(f"{about}: {problem}")

    def _coordinator(self, group: str) -> GroupCoordinator:
        return self._coordinators.setdefault(group, GroupCoordinator(self.cluster, group))


def check(answer: Any, about: str) -> None:
    """Raise `Failed` if a part of a response has an error code."""
    if answer.error_code != errors.NONE:
        message = getattr(answer, "error_message", None)  # some responses have none
        raise refusal(errors.name(answer.error_code), about, message or "the broker refused the request")
