"""HTTP responses: status, content type, text and further headers.  Errors are problem details (RFC 9457)."""

import json
from http import HTTPStatus
from typing import Final, NamedTuple

JSON_TYPE: Final = "application/json"
PROBLEM_TYPE: Final = "application/problem+json"


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
