"""`/v1/cluster`, `/v1/brokers`, `/v1/shards`: what one broker knows of its cluster, as JSON.

Each answer is one broker's view, and says whose (`answered_by`).  Nobody is asked who he is yet, so only this machine
is answered: a client on a loopback address, who also calls us by one; a page in a browser whose name somebody else
resolves to 127.0.0.1 does not.
"""

import ipaddress
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from tidemill.http.answer import Answer, json_answer, problem

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000  # shards in one answer: 0.5 MB, and 10 ms of the loop
QUERY_BYTES_MAX: Final = 2_000
NUMBER_MAX: Final = (1 << 63) - 1


class Reported(Protocol):
    """What these paths ask of a broker; the fields are told in `docs/http.md`."""

    def cluster(self) -> Mapping[str, object]: ...

    def brokers(self) -> Mapping[str, object]: ...

    def shards(self, *, topic: str | None, leader: int | None, after: int, limit: int) -> Mapping[str, object] | None:
        """By shard id, those above `after`, at most `limit`; None: no such topic is known."""
        ...


class _Refused(Exception):
    """A request that makes no sense; the sentence names what was asked and the fix."""


class ClusterApi:
    def __init__(self, reported: Callable[[], Reported | None]) -> None:
        self._reported = reported
        self.routes: dict[str, Callable[[Reported, Mapping[str, str]], Answer]] = {
            "/v1/cluster": self._cluster,
            "/v1/brokers": self._brokers,
            "/v1/shards": self._shards,
        }

    def answer(self, scope: MutableMapping[str, Any]) -> Answer:
        """To a GET of one of `routes`."""
        if not (_is_loopback(_client_host(scope)) and _is_called_by_loopback(scope)):
            return problem(
                403,
                f"{scope['path']} is answered on loopback addresses only, because nobody is asked who he is yet: "
                "ask on the broker's machine, at 127.0.0.1 or localhost",
            )
        reported = self._reported()
        if reported is None:
            return problem(
                503,
                f"{scope['path']} has nothing to tell before this broker has heard of its cluster: "
                "ask again, or another broker",
            )
        try:
            return self.routes[scope["path"]](reported, _query(scope["query_string"]))
        except _Refused as refused:
            return problem(400, str(refused))

    def _cluster(self, reported: Reported, query: Mapping[str, str]) -> Answer:
        _check_names(query)
        return json_answer(reported.cluster())

    def _brokers(self, reported: Reported, query: Mapping[str, str]) -> Answer:
        _check_names(query)
        return json_answer(reported.brokers())

    def _shards(self, reported: Reported, query: Mapping[str, str]) -> Answer:
        _check_names(query, "topic", "leader", "after", "limit")
        topic = query.get("topic")
        page = reported.shards(
            topic=topic,
            leader=_number(query, "leader", 0, NUMBER_MAX) if "leader" in query else None,
            after=_number(query, "after", -1, NUMBER_MAX) if "after" in query else -1,
            limit=_number(query, "limit", 1, LIMIT_MAX) if "limit" in query else LIMIT_DEFAULT,
        )
        if page is None:
            return problem(404, f"topic={(topic or '')[:300]} is not known here; leave it out to see all shards")
        return json_answer(page)


def _client_host(scope: MutableMapping[str, Any]) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _is_called_by_loopback(scope: MutableMapping[str, Any]) -> bool:
    """The Host header, where there is one."""
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.decode("latin-1")
            host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
            return host.lower() == "localhost" or _is_loopback(host)
    return True


def _query(text: bytes) -> dict[str, str]:
    if len(text) > QUERY_BYTES_MAX:
        raise _Refused(f"the query has {len(text)} bytes; at most {QUERY_BYTES_MAX} are taken")
    found: dict[str, str] = {}
    for name, value in parse_qsl(text.decode("latin-1"), keep_blank_values=True):
        if name in found:
            raise _Refused(f"{name[:100]}={value[:100]} stands in the query twice; leave one out")
        found[name] = value
    return found


def _check_names(query: Mapping[str, str], *known: str) -> None:
    for name in query:
        if name not in known:
            fix = f"there are {', '.join(known)}" if known else "this path takes none"
            raise _Refused(f"{name[:100]}={query[name][:100]} is not known here; {fix}")


def _number(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = query[name]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and least <= int(text) <= most):
        raise _Refused(f"{name}={text[:100]} is no whole number from {least} to {most}")
    return int(text)
