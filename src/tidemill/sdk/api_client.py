"""Requests to the HTTP API of any broker of a cluster: those that cannot be answered are sent to the next broker."""

import asyncio
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import httpx
import msgspec

from tidemill.model import errors
from tidemill.sdk.problems import BrokersUnavailable, OutcomeUnknown, RequestRefused

CONNECT_S_MAX: Final = 5.0
RESPONSE_S_MAX: Final = 20.0  # beyond the time for which a request waits: longer than a broker asks other brokers
PAUSE_S: Final = 0.05  # before a request is sent again; doubled each time
PAUSE_S_MAX: Final = 2.0
CONNECTIONS_MAX: Final = 1_000  # each request that waits for messages takes one, and must not hold up renewals
IDLE_S_MAX: Final = 3.0  # of a connection: brokers close theirs after 5 s, perhaps just when a request is sent
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
MAY_BE_WRITTEN: Final = frozenset(map(errors.name, errors.MAY_BE_WRITTEN))  # in the field `error` of a refusal
log = logging.getLogger("httpx")
if log.level == logging.NOTSET:
    log.setLevel(logging.WARNING)  # it would log each request as information
JSON_TYPE: Final = {"content-type": "application/json"}


class ApiClient:
    def __init__(
        self,
        addresses: Sequence[str],
        token: str | None,
        timeout_s: float,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """
        Send requests to `addresses`, such as `http://127.0.0.1:9080`, with a bearer token if there is one.  A request
        is sent again for `timeout_s` before it fails.  `transport` replaces the network.  Raise ValueError for a token
        or an address that no request can have.
        """
        for address in addresses:
            _check_address(address)
        self._addresses = [it.rstrip("/") for it in addresses]
        self._at = random.randrange(len(self._addresses))
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            headers=JSON_TYPE if token is None else {**JSON_TYPE, "authorization": f"Bearer {_checked_token(token)}"},
            limits=httpx.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX, keepalive_expiry=IDLE_S_MAX
            ),
            transport=transport,
            trust_env=False,  # Kafka clients do not use the environment's proxies, either
        )

    def add_addresses(self, addresses: Iterable[str]) -> None:
        """Send requests to further brokers, if those that are known do not answer."""
        self._addresses += [it for it in addresses if it not in self._addresses]

    async def close(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        wait_s: float = 0.0,
        response_s: float = RESPONSE_S_MAX,
        is_repeatable: bool = True,
        timeout_s: float | None = None,
    ) -> Any:
        """
        Return the decoded response, or None if it has no body.  Raise RequestRefused or BrokersUnavailable,
        and ValueError if the client is closed.

        The broker may wait for `wait_s` before it answers; `response_s` later, the next broker is asked, because it may
        be frozen.  A request that is not repeatable is sent again only if it cannot have had its effect; OutcomeUnknown
        is raised when its response is lost, and RequestRefused for an error in `MAY_BE_WRITTEN`, or when some of its
        records are written.  `timeout_s` replaces that of the client.
        """
        content = None if body is None else msgspec.json.encode(body)
        timeout = httpx.Timeout(CONNECT_S_MAX, read=wait_s + response_s)
        loop = asyncio.get_running_loop()
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        ends_at = loop.time() + wait_s + timeout_s
        pause_s = PAUSE_S
        while True:
            if self._http.is_closed:
                raise ValueError("the client is closed")
            address = self._addresses[self._at]
            try:
                response = await self._http.request(method, address + path, content=content, timeout=timeout)
            except httpx.TransportError as error:
                problem = f"{address}: {str(error) or type(error).__name__}"
                if not is_repeatable and not isinstance(error, NOT_SENT):
                    raise OutcomeUnknown(f"{problem}; it is not known whether the request had its effect") from error
            else:
                if response.status_code != 503:
                    return _content(response)
                refused = _refusal(response)
                problem = f"{address}: {refused}"
                if not is_repeatable and _may_have_had_effect(refused):
                    raise refused
            if address == self._addresses[self._at]:  # else another request has already turned to the next broker
                self._at = (self._at + 1) % len(self._addresses)
            if loop.time() + pause_s > ends_at:
                raise BrokersUnavailable(
                    f"{method} {path}: no broker answered for {round(timeout_s, 1):g} s; {problem}"
                )
            await asyncio.sleep(pause_s * (0.5 + random.random() / 2))
            pause_s = min(pause_s * 2, PAUSE_S_MAX)


def _check_address(address: str) -> None:
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL as error:
        raise ValueError(f"http={address!r}: {error}; use for example 'http://127.0.0.1:9080'") from error
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ValueError(f"http={address!r}: use a URL with a host and a port, such as 'http://127.0.0.1:9080'")


def _checked_token(token: str) -> str:
    """Return a token without the end of the line in its file.  No error shows it: errors are logged."""
    found = token.strip()
    if not found or not all("!" <= character <= "~" for character in found):
        raise ValueError("token: it is empty, or has other characters than printable ASCII; use the text of the file")
    return found


def _content(response: httpx.Response) -> Any:
    if response.status_code >= 400:
        raise _refusal(response)
    return msgspec.json.decode(response.content) if response.content else None


def _refusal(response: httpx.Response) -> RequestRefused:
    try:
        fields = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.DecodeError:
        fields = {}  # a proxy between the client and the broker has answered
    detail = fields.get("detail") or f"status {response.status_code}: {response.text[:200]}"
    return RequestRefused(response.status_code, str(detail), fields)


def _may_have_had_effect(refused: RequestRefused) -> bool:
    written = refused.fields.get("written")  # the places of records, or null
    return refused.fields.get("error") in MAY_BE_WRITTEN or (isinstance(written, list) and any(written))
