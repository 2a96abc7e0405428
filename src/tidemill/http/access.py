"""The rules for clients of `/v1` and the console, as long as authentication is not implemented.

    the Host header names this machine's loopback, or this broker    otherwise 403: prevents DNS rebinding
    a browser sends requests from pages of this broker only          otherwise 403: the Origin header names another,
                                                                     or Sec-Fetch-Site says so, where there is no Origin
    a client of this machine that addresses it by loopback           is served
    any other client                                                 is served `/v1` if it has the token

A browser sends a request with one of `WRITTEN_TYPES` to another host only after it has asked that host (CORS), which
this broker refuses.  So a write without one of these types gets 415, also from a client that is no browser.
"""

import hmac
import ipaddress
from collections.abc import Collection, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tidemill.http.answer import JSON_TYPE, Answer, problem

LINES_TYPE: Final = "application/x-ndjson"
BYTES_TYPE: Final = "application/octet-stream"
WRITTEN_TYPES: Final = (JSON_TYPE, LINES_TYPE, BYTES_TYPE)
DOCS_PATH: Final = "/docs"  # other sites may link to it, because reading it has no effect
_OTHER_SITES: Final = ("cross-site", "same-site")  # the latter: another port of this machine
_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})
_BEARER: Final = "bearer "

Scope = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules for one HTTP listener."""

    token: bytes | None = field(default=None, repr=False)  # of clients elsewhere; None: these are not served
    hosts: frozenset[str] = frozenset()  # lower-case names and addresses of this broker, other than loopback

    def refusal_of_api(self, scope: Scope) -> Answer | None:
        """Return the response that refuses a request for `/v1`; None if the request may be handled."""
        refused = self._refusal_of_headers(scope) or _refusal_of_site(scope)
        return refused or (None if is_local(scope) else self._refusal_of_stranger(scope))

    def refusal_of_console(self, scope: Scope) -> Answer | None:
        """Likewise for a page of the console, which is for people on this machine."""
        return self._refusal_of_headers(scope) or (None if is_local(scope) else _loopback_only(scope))

    def _refusal_of_headers(self, scope: Scope) -> Answer | None:
        host = _header(scope, b"host")
        name = _name_of(host or "")
        if host is not None and not (_is_loopback_name(name) or name in self.hosts):
            return problem(
                403,
                f"Host: {host[:200]} is not this broker: address it by 127.0.0.1 or localhost, or by the host of "
                "tidemill.http.advertised or tidemill.http.listener",
            )
        origin = _header(scope, b"origin")
        if origin is not None and (host is None or _netloc(origin) != host.lower()):  # HTTP/1.0 may have no Host
            return problem(403, f"Origin: {origin[:200]} is another site: only pages of this broker may send requests")
        return None

    def _refusal_of_stranger(self, scope: Scope) -> Answer | None:
        if self.token is None:
            return _loopback_only(scope)
        given = _header(scope, b"authorization") or ""
        is_bearer = given[: len(_BEARER)].lower() == _BEARER
        if is_bearer and hmac.compare_digest(given[len(_BEARER) :].strip().encode("latin-1"), self.token):
            return None
        refused = problem(
            401,
            f"{scope['path'][:200]} needs the header Authorization: Bearer TOKEN, with the token in the broker's "
            "tidemill.http.token.file",
        )
        return refused._replace(headers=((b"www-authenticate", b"Bearer"),))


def _refusal_of_site(scope: Scope) -> Answer | None:
    """Return the response to what a page of another site lets the browser load, such as an image: it has no Origin."""
    site = _header(scope, b"sec-fetch-site")
    if site not in _OTHER_SITES or scope["path"] == DOCS_PATH:
        return None
    return problem(
        403,
        f"Sec-Fetch-Site: {site}: only pages of this broker may send requests; to see {scope['path'][:200]}, type its "
        "address into the browser",
    )


def is_local(scope: Scope) -> bool:
    """Return whether a request came from this machine, and was sent to a loopback name or address."""
    client = scope.get("client")
    host = _header(scope, b"host")
    is_sent_to_loopback = host is None or _is_loopback_name(_name_of(host))
    return client is not None and _is_loopback(str(client[0])) and is_sent_to_loopback


def _loopback_only(scope: Scope) -> Answer:
    return problem(
        403,
        f"{scope['path'][:200]} is available on loopback addresses only, because authentication is not implemented: "
        "send the request on the broker's machine, to 127.0.0.1 or localhost",
    )


def refusal_of_type(scope: Scope, types: Collection[str] = WRITTEN_TYPES) -> Answer | None:
    """
    Return the response to a write whose body has none of `types`, some of `WRITTEN_TYPES`, or is compressed; None for
    other requests.
    """
    if scope["method"] not in _WRITES:
        return None
    encoding = _header(scope, b"content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        return problem(415, f"Content-Encoding: {encoding[:200]} is not accepted; send the body as it is")
    if type_of_body(scope) in types:
        return None
    given = _header(scope, b"content-type") or ""
    return problem(415, f"Content-Type: {given[:200]} is not accepted; send {', '.join(types)}")


def type_of_body(scope: Scope) -> str:
    """Return the media type of a body, without parameters; nothing if the request does not name it."""
    return (_header(scope, b"content-type") or "").partition(";")[0].strip().lower()


def _header(scope: Scope, name: bytes) -> str | None:
    """Return the first header of a name."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def _name_of(host: str) -> str:
    """Return the name or address in a Host header, without the port."""
    if not host.startswith("["):
        return host.partition(":")[0].lower()
    address, _, port = host[1:].partition("]")
    return host if port and not port.startswith(":") else address.lower()  # a longer name is none of this broker's


def _netloc(url: str) -> str | None:
    """Return the host and port in a URL; None if it is illegal."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return None


def _is_loopback_name(name: str) -> bool:
    return name == "localhost" or _is_loopback(name)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
