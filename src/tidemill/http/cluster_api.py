"""`/v1/cluster`, `/v1/brokers`, `/v1/shards`: the cluster as one broker sees it, in JSON.

Each response is the view of one broker, which `answered_by` names.
"""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from tidemill.http.answer import RETRY_AFTER, Answer, json_answer, problem

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000  # shards in one response: building it blocks the event loop (decision 15)
QUERY_BYTES_MAX: Final = 2_000
NUMBER_MAX: Final = (1 << 63) - 1


class ClusterState(Protocol):
    """The part of a broker that these endpoints use.  `docs/http.md` describes the fields."""

    def cluster(self) -> Mapping[str, object]: ...

    def brokers(self) -> Mapping[str, object]: ...

    def shards(self, *, topic: str | None, leader: int | None, after: int, limit: int) -> Mapping[str, object] | None:
        """Return at most `limit` shards with ids above `after`, ordered by id; None if the topic is unknown."""
        ...


class _Refused(Exception):
    """The query is invalid; the message names the parameter, its value and the fix."""


class ClusterApi:
    def __init__(self, state: Callable[[], ClusterState | None]) -> None:
        self._state = state
        self.routes: dict[str, Callable[[ClusterState, Mapping[str, str]], Answer]] = {
            "/v1/cluster": self._cluster,
            "/v1/brokers": self._brokers,
            "/v1/shards": self._shards,
        }

    def answer(self, scope: MutableMapping[str, Any]) -> Answer:
        """Return the response to a GET request for one of `routes`."""
        state = self._state()
        if state is None:
            waits = problem(
                503,
                f"{scope['path']} is not available until this broker knows its cluster: "
                "try again later, or ask another broker",
            )
            return waits._replace(headers=RETRY_AFTER)
        try:
            return self.routes[scope["path"]](state, _query(scope["query_string"]))
        except _Refused as refused:
            return problem(400, str(refused))

    def _cluster(self, state: ClusterState, query: Mapping[str, str]) -> Answer:
        _check_names(query)
        return json_answer(state.cluster())

    def _brokers(self, state: ClusterState, query: Mapping[str, str]) -> Answer:
        _check_names(query)
        return json_answer(state.brokers())

    def _shards(self, state: ClusterState, query: Mapping[str, str]) -> Answer:
        _check_names(query, "topic", "leader", "after", "limit")
        topic = query.get("topic")
        page = state.shards(
            topic=topic,
            leader=_number(query, "leader", 0, NUMBER_MAX) if "leader" in query else None,
            after=_number(query, "after", -1, NUMBER_MAX) if "after" in query else -1,
            limit=_number(query, "limit", 1, LIMIT_MAX) if "limit" in query else LIMIT_DEFAULT,
        )
        if page is None:
            return problem(404, f"topic={(topic or '')[:300]} does not exist; leave it out to see all shards")
        return json_answer(page)


def _query(text: bytes) -> dict[str, str]:
    if len(text) > QUERY_BYTES_MAX:
        raise _Refused(f"the query has {len(text)} bytes; at most {QUERY_BYTES_MAX} are allowed")
    found: dict[str, str] = {}
    for name, value in parse_qsl(text.decode("latin-1"), keep_blank_values=True):
        if name in found:
            raise _Refused(f"{name[:100]}={value[:100]} repeats a parameter; leave one out")
        found[name] = value
    return found


def _check_names(query: Mapping[str, str], *known: str) -> None:
    for name in query:
        if name not in known:
            fix = f"the parameters are {', '.join(known)}" if known else "this path has no parameters"
            raise _Refused(f"{name[:100]}={query[name][:100]} is not a known parameter; {fix}")


def _number(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = query[name]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and least <= int(text) <= most):
        raise _Refused(f"{name}={text[:100]} must be a whole number from {least} to {most}")
    return int(text)
