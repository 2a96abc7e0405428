"""Requests to a broker's HTTP listener from another process: one connection per request, without a proxy."""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

TIMEOUT_S: Final = 2.0  # a broker responds from memory, so a slower broker is stalled or unreachable
BODY_BYTES_MAX: Final = 16 << 20
NOT_KAFKA: Final = frozenset({"PEER", "HTTP"})  # the endpoints of a broker that are not listeners for Kafka clients

T = TypeVar("T")


class NoResponse(Exception):
    """Nothing responds at the address, or what responds is not a Tidemill broker."""


class Refused(Exception):
    """The broker refused the request; the message is the broker's."""


class NotReady(Refused):
    """The broker is starting and does not know its cluster yet."""


def from_first(addresses: Sequence[str], read: Callable[[str], T]) -> tuple[str, T, list[str]]:
    """
    Return the first of `addresses` that responds, what `read` returns for it, and why the addresses before it failed.

    Raise NoResponse if none responds, NotReady if those that respond are starting, and Refused.
    """
    failures: list[NoResponse | NotReady] = []
    for address in addresses:
        try:
            return address, read(address), [*map(str, failures)]
        except (NoResponse, NotReady) as failure:
            failures.append(failure)
    for starting in failures:
        if isinstance(starting, NotReady):
            raise starting
    raise NoResponse("; ".join(map(str, failures)))


def ask(address: str, path: str, *, timeout_s: float = TIMEOUT_S, **query: str | int) -> dict[str, Any]:
    """
    Return the JSON object at `path` of the broker whose HTTP listener is `address` (HOST:PORT).

    Raise NoResponse, NotReady or Refused.
    """
    status, answered = _ask(address, f"{path}?{urlencode(query)}" if query else path, timeout_s)
    return _checked(address, status, answered)


def send(address: str, path: str, body: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
    """
    Send a JSON object with POST, and return the JSON object of the response.  `timeout_s` includes the work.

    Raise NoResponse, after which the outcome is unknown, NotReady or Refused.
    """
    status, answered = _ask(address, path, timeout_s, body)
    return _checked(address, status, answered)


def delete(address: str, path: str, *, timeout_s: float) -> None:
    """Send DELETE.  Raise NoResponse, after which the outcome is unknown, NotReady or Refused."""
    status, body = _request(address, path, timeout_s, method="DELETE")
    if status != HTTPStatus.NO_CONTENT:
        _checked(address, status, _object(address, path, status, body))


def _checked(address: str, status: int, answered: dict[str, Any]) -> dict[str, Any]:
    if status != HTTPStatus.OK:
        kind = NotReady if status == HTTPStatus.SERVICE_UNAVAILABLE else Refused
        raise kind(f"{address}: {answered.get('detail') or answered.get('status') or f'status {status}'}")
    return answered


def ask_readiness(address: str, *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """
    Return the object at `/health/ready` of the broker at `address`, even if that broker is not ready.

    Raise NoResponse.
    """
    _, answered = _ask(address, "/health/ready", timeout_s)
    return answered


def _ask(
    address: str, path: str, timeout_s: float, sent: Mapping[str, Any] | None = None
) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of a response.  Raise NoResponse."""
    status, body = _request(address, path, timeout_s, sent)
    return status, _object(address, path, status, body)


def _object(address: str, path: str, status: int, body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response.  Raise NoResponse if it is something else."""
    try:
        answered = json.loads(body)
    except ValueError as error:
        raise NoResponse(
            f"{address}{path} has status {status} and no JSON: this is not a broker's HTTP listener"
        ) from error
    if not isinstance(answered, dict):
        raise NoResponse(
            f"{address}{path} has status {status} and no JSON object: this is not a broker's HTTP listener"
        )
    return answered


def kafka_address(address: str) -> str | None:
    """
    Return the first Kafka listener (HOST:PORT) of the broker whose HTTP listener is `address`; None if there is none.

    Raise NoResponse, NotReady or Refused.
    """
    answered = ask(address, "/v1/brokers")
    for broker in answered.get("brokers", ()):
        if broker["broker_id"] == answered["answered_by"]:
            for endpoint in broker["endpoints"]:
                if endpoint["name"] not in NOT_KAFKA:
                    host, port = endpoint["host"], endpoint["port"]
                    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return None


def ask_text(address: str, path: str, *, timeout_s: float = TIMEOUT_S) -> str:
    """Return the text at `path` of the broker at `address`.  Raise NoResponse, NotReady or Refused."""
    status, body = _request(address, path, timeout_s)
    if status != HTTPStatus.OK:
        kind = NotReady if status == HTTPStatus.SERVICE_UNAVAILABLE else Refused
        raise kind(f"{address}{path}: status {status}")
    return body.decode(errors="replace")


def _request(
    address: str, target: str, timeout_s: float, sent: Mapping[str, Any] | None = None, *, method: str = "GET"
) -> tuple[int, bytes]:
    """
    Send a JSON object with POST, or `method` without one, and return the status and the body of the response.  Raise
    NoResponse.
    """
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    try:
        if sent is None:
            connection.request(method, target)
        else:
            connection.request("POST", target, json.dumps(sent), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(BODY_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise NoResponse(f"{address}: {getattr(error, 'strerror', None) or error or type(error).__name__}") from error
    finally:
        connection.close()
