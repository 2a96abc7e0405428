"""The rules for clients of the HTTP API."""

from typing import Any

import pytest

from tidemill.http.access import LINES_TYPE, WRITTEN_TYPES, Access, refusal_of_type
from tidemill.http.answer import JSON_TYPE

TOKEN = b"a token of a cluster"
ELSEWHERE = Access(token=TOKEN, hosts=frozenset({"mill.example", "10.0.0.1"}))
BEARER = f"Bearer {TOKEN.decode()}"


def scope(client: str = "127.0.0.1", method: str = "GET", **headers: str) -> dict[str, Any]:
    listed = [(name.replace("_", "-").encode(), text.encode("latin-1")) for name, text in headers.items()]
    return {"method": method, "path": "/v1/topics", "headers": listed, "client": (client, 50_000)}


def status(access: Access, client: str, **headers: str) -> int:
    refused = access.refusal_of_api(scope(client, **headers))
    return 200 if refused is None else refused.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:9080", 200),
        ("LOCALHOST", 200),
        ("[::1]:9080", 200),
        ("mill.example:9080", 401),
        ("10.0.0.1", 401),
        ("rebound.example:9080", 403),
        ("", 403),
        ("[::1", 200),
        ("[::1]rebound.example", 403),
        ("[::1]rebound.example:9080", 403),
    ],
)
def test_a_request_names_this_broker(host: str, expected: int) -> None:
    """Under another name, it comes from a page that has rebound its name to this address."""
    assert expected == status(ELSEWHERE, "127.0.0.1", host=host)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:9080", 200),
        ("https://127.0.0.1:9080", 200),
        ("http://127.0.0.1:9081", 403),
        ("http://localhost:9080", 403),
        ("http://evil.example", 403),
        ("http://[::1", 403),
        ("null", 403),
        ("", 403),
        ("127.0.0.1:9080", 403),
    ],
)
def test_a_page_of_another_site_is_refused(origin: str, expected: int) -> None:
    """Also for reading, and also a page of another server on this machine."""
    assert expected == status(Access(), "127.0.0.1", host="127.0.0.1:9080", origin=origin)


@pytest.mark.parametrize("origin", ["null", "http://evil.example"])
def test_a_page_is_refused_if_the_request_names_no_host(origin: str) -> None:
    """HTTP/1.0 has requests without the header Host; a page without a site, such as a file, has the origin "null"."""
    assert (403, 200) == (status(Access(), "127.0.0.1", origin=origin), status(Access(), "127.0.0.1"))


@pytest.mark.parametrize(
    ("site", "expected"),
    [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)],
)
def test_what_a_page_of_another_site_loads_is_refused(site: str, expected: int) -> None:
    """An image, a frame or a link has no Origin header; the page at /docs, which has no effect, may be linked to."""
    headers = {"host": "127.0.0.1:9080", "sec_fetch_site": site}
    page = scope(**headers) | {"path": "/docs"}

    assert expected == status(Access(), "127.0.0.1", **headers)
    assert Access().refusal_of_api(page) is None


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (BEARER, 200),
        (BEARER.replace("Bearer", "bearer"), 200),
        (BEARER + "x", 401),
        (BEARER[:-1], 401),
        (TOKEN.decode(), 401),
        ("Bearer ", 401),
        ("Basic " + TOKEN.decode(), 401),
        ("Bearer é", 401),
    ],
)
def test_a_client_elsewhere_needs_the_token(authorization: str, expected: int) -> None:
    assert expected == status(ELSEWHERE, "10.0.0.7", host="10.0.0.1:9080", authorization=authorization)


def test_without_a_token_only_this_machine_is_served() -> None:
    """An empty token would be one that everybody knows."""
    access = Access(hosts=frozenset({"10.0.0.1"}))
    assert 403 == status(access, "10.0.0.7", host="10.0.0.1:9080", authorization="Bearer ")


def test_a_client_that_lacks_the_token_is_told_how_to_send_it() -> None:
    refused = ELSEWHERE.refusal_of_api(scope("10.0.0.7", host="10.0.0.1"))
    assert refused is not None
    assert ((b"www-authenticate", b"Bearer"),) == refused.headers
    assert "tidemill.http.token.file" in refused.text


def test_the_console_takes_no_token() -> None:
    refused = ELSEWHERE.refusal_of_console(scope("10.0.0.7", host="10.0.0.1", authorization=BEARER))
    assert refused is not None and 403 == refused.status
    assert ELSEWHERE.refusal_of_console(scope(host="localhost:9080")) is None


def test_the_token_is_not_shown() -> None:
    assert TOKEN.decode() not in repr(ELSEWHERE)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_write_needs_a_type_that_a_form_cannot_have(method: str) -> None:
    """A browser asks the broker before it sends such a request for a page of another site."""
    for given in (*WRITTEN_TYPES, "Application/JSON; charset=utf-8"):
        assert refusal_of_type(scope(method=method, content_type=given)) is None
    for given in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        refused = refusal_of_type(scope(method=method, content_type=given))
        assert refused is not None and 415 == refused.status
    assert refusal_of_type(scope(method=method)) is not None


def test_a_path_may_take_fewer_types() -> None:
    refused = refusal_of_type(scope(method="POST", content_type=LINES_TYPE), [JSON_TYPE])

    assert refused is not None and "send application/json" in refused.text
    assert refusal_of_type(scope(method="POST", content_type=JSON_TYPE), [JSON_TYPE]) is None


def test_other_requests_need_no_type() -> None:
    assert refusal_of_type(scope(method="DELETE")) is None
    assert refusal_of_type(scope(method="GET", content_type="text/plain")) is None


@pytest.mark.parametrize(("encoding", "expected"), [("gzip", 415), ("br, gzip", 415), ("identity", 200), ("", 200)])
def test_a_compressed_body_is_refused(encoding: str, expected: int) -> None:
    """It could become a thousand times larger than what the bound on bodies permits."""
    refused = refusal_of_type(scope(method="POST", content_type="application/json", content_encoding=encoding))

    assert expected == (200 if refused is None else refused.status)
