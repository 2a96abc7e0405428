"""HTTP responses: status, content type, text and further headers.  Errors are problem details (RFC 9457)."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
JSON_TYPE: Final = "application/json"
PROBLEM_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = ((b"retry-after", b"1"),)  # headers of a response with status 503


class Answer(NamedTuple):
    status: int
    content_type: str
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()  # further ones


def json_answer(fields: object, status: int = 200) -> Answer:
    return Answer(status, JSON_TYPE, json.dumps(fields) + "\n")


def problem(status: int, detail: str, **more: object) -> Answer:
    """
    Return an error as problem details.

    `detail` names the request, what is wrong with it and the fix; `more` adds fields for programs.
    """
    fields = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return Answer(status, PROBLEM_TYPE, json.dumps(fields) + "\n")


async def send_answer(answer: Answer, scope: Scope, send: Send) -> None:
    """Send a response; a HEAD request gets its headers only."""
    status, content_type, text, more = answer
    body = text.encode()
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
