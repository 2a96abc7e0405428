"""Ask a broker's HTTP door, from another process: one request, one connection, no proxy."""

import http.client
import json
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

TIMEOUT_S: Final = 2.0  # a broker answers from memory; one that does not is stopped, or gone
BODY_BYTES_MAX: Final = 16 << 20


class NoAnswer(Exception):
    """Nobody answers there, or not as a broker of Tidemill does."""


class Refused(Exception):
    """The broker's own sentence."""


class NotYet(Refused):
    """It is starting, and has not heard of its cluster."""


def ask(address: str, path: str, *, timeout_s: float = TIMEOUT_S, **query: str | int) -> dict[str, Any]:
    """The object at `path` of the broker whose HTTP listener is `address` (host:port); NoAnswer, NotYet or Refused."""
    host, _, port = address.rpartition(":")
    target = f"{path}?{urlencode(query)}" if query else path
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        body = response.read(BODY_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"{address}: {getattr(error, 'strerror', None) or error or type(error).__name__}") from error
    finally:
        connection.close()
    try:
        answered = json.loads(body)
    except ValueError as error:
        raise NoAnswer(f"{address}{path} answers {response.status} and no JSON: it is no broker's HTTP") from error
    if not isinstance(answered, dict):
        raise NoAnswer(f"{address}{path} answers {response.status} and no object: it is no broker's HTTP")
    if response.status != 200:
        kind = NotYet if response.status == HTTPStatus.SERVICE_UNAVAILABLE else Refused
        raise kind(f"{address}: {answered.get('detail') or answered.get('status') or f'status {response.status}'}")
    return answered
