"""Queries and bodies that are not as a path needs them."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta
from starlette.requests import Request

from tidemill.http.v1.calls import Refused, _decoded, _query


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(le=10)] = 1
    after: str = ""


def request_of(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "headers": []})


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("limit=11", "<= 10 - at `$.limit` is '11'"),
        ("limit=many", "`$.limit` is 'many'"),
        ("limt=3", "unknown field `limt`; the names are limit, after"),
        ("limit=1&limit=2", "limit=2 repeats"),
    ],
)
def test_a_query_is_refused_with_the_name_and_the_value(query: str, shown: str) -> None:
    with pytest.raises(Refused) as refused:
        _query(Fields, request_of(query))

    assert (400, True) == (refused.value.answer.status, shown in str(refused.value))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"nam": 1}', "unknown field `nam`; the names are limit, after"),
        (b'{"limit": 11}', "$.limit"),
        (b"{", "not JSON"),
    ],
)
def test_a_body_is_refused_with_the_name(body: Any, shown: str) -> None:
    with pytest.raises(Refused) as refused:
        _decoded(Fields, body)

    assert (400, True) == (refused.value.answer.status, shown in str(refused.value))
