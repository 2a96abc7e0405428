"""An answer of the HTTP door: status, content type and text; errors as RFC 9457 has them."""

import json
from http import HTTPStatus
from typing import Final, NamedTuple

JSON_TYPE: Final = "application/json"
PROBLEM_TYPE: Final = "application/problem+json"


class Answer(NamedTuple):
    status: int
    content_type: str
    text: str


def json_answer(fields: object, status: int = 200) -> Answer:
    return Answer(status, JSON_TYPE, json.dumps(fields) + "\n")


def problem(status: int, detail: str, **more: object) -> Answer:
    """`detail` names what was asked, what is wrong with it and the fix; `more` is for programs."""
    fields = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return Answer(status, PROBLEM_TYPE, json.dumps(fields) + "\n")
