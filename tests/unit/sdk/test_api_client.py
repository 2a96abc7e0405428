"""Requests that are sent again, to other brokers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import msgspec
import pytest

from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.problems import BrokersUnavailable, RequestRefused

BROKERS = ("http://one:1", "http://two:2")


def answer(status: int, body: object = None, **headers: str) -> httpx.Response:
    return httpx.Response(status, content=b"" if body is None else msgspec.json.encode(body), headers=headers)


class Transport(httpx.AsyncBaseTransport):
    """Answers each request with the next outcome, and the last one for ever."""

    def __init__(self, outcomes: Sequence[httpx.Response | Exception]) -> None:
        self.outcomes = [*outcomes]
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def called(transport: Transport, **options: Any) -> Any:
    async def run() -> Any:
        api = ApiClient(BROKERS, "secret", timeout_s=0.5, transport=transport)
        try:
            return await api.call("POST", "/v1/x", {"a": 1}, **options)
        finally:
            await api.close()

    return asyncio.run(run())


def test_a_response_is_decoded_and_the_token_is_sent() -> None:
    transport = Transport([answer(200, {"b": 2})])

    assert {"b": 2} == called(transport)
    assert "Bearer secret" == transport.requests[0].headers["authorization"]
    assert "application/json" == transport.requests[0].headers["content-type"]


def test_a_response_without_a_body_is_none() -> None:
    assert called(Transport([answer(204)])) is None


@pytest.mark.parametrize(
    "lost", [httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.ReadTimeout("late"), answer(503, {})]
)
def test_a_request_goes_to_the_next_broker(lost: httpx.Response | Exception) -> None:
    transport = Transport([lost, answer(200, {})])

    assert {} == called(transport)
    assert {"one", "two"} == {it.url.host for it in transport.requests}


@pytest.mark.parametrize(
    ("outcome", "attempts"),
    [
        (httpx.ConnectError("refused"), 2),
        (httpx.ConnectTimeout("refused"), 2),
        (httpx.PoolTimeout("100 others"), 2),
        (httpx.ReadError("reset"), 1),
        (httpx.RemoteProtocolError("closed"), 1),
        (answer(503, {"error": "NOT_LEADER_OR_FOLLOWER"}), 2),
        (answer(503, {"error": "REQUEST_TIMED_OUT", "detail": "unknown"}), 1),
        (answer(503, {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "detail": "on one replica"}), 1),
        (answer(503, {"error": "LEADER_NOT_AVAILABLE", "written": [None, [0, 7]]}), 1),
        (answer(503, {"error": "LEADER_NOT_AVAILABLE", "written": [None, None]}), 2),
    ],
)
def test_a_request_that_may_have_had_its_effect_is_not_repeated(
    outcome: httpx.Response | Exception, attempts: int
) -> None:
    transport = Transport([outcome, answer(200, {})])

    if attempts == 1:
        with pytest.raises((BrokersUnavailable, RequestRefused)):
            called(transport, is_repeatable=False)
    else:
        called(transport, is_repeatable=False)

    assert attempts == len(transport.requests)


def test_a_problem_without_a_text_shows_its_kind() -> None:
    """A time-out of the transport has no text."""
    with pytest.raises(BrokersUnavailable, match=r"http://\w+:\d: ReadTimeout; it is not known"):
        called(Transport([httpx.ReadTimeout("")]), is_repeatable=False)


def test_a_refusal_has_the_fields_of_the_problem() -> None:
    with pytest.raises(RequestRefused, match="no such topic") as refused:
        called(Transport([answer(404, {"detail": "no such topic", "topic": "t"})]))

    assert (404, "t") == (refused.value.status, refused.value.fields["topic"])


def test_a_refusal_of_a_proxy_shows_its_text() -> None:
    with pytest.raises(RequestRefused, match="status 502: <html>"):
        called(Transport([httpx.Response(502, text="<html>")]))


def test_a_request_fails_when_no_broker_answers_in_time() -> None:
    problem: Callable[[], Any] = lambda: called(Transport([httpx.ConnectError("refused")]))  # noqa: E731

    with pytest.raises(BrokersUnavailable, match=r"POST /v1/x: no broker answered for 0.5 s; http://.*refused"):
        problem()


def test_requests_that_fail_together_go_to_the_next_broker_together() -> None:
    """If each of four turned to the next of two brokers, all would come back to the one that is down."""
    requests: list[str] = []

    class OneIsDown(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            requests.append(request.url.host)
            await asyncio.sleep(0)
            if request.url.host == requests[0]:
                raise httpx.ConnectError("refused")
            return answer(200, {})

    async def run() -> None:
        api = ApiClient(BROKERS, None, timeout_s=5, transport=OneIsDown())
        await asyncio.gather(*(api.call("GET", "/v1/x") for _ in range(4)))
        await api.close()

    asyncio.run(run())

    assert (4, 4) == (requests.count(requests[0]), len(requests) - 4)


def test_a_response_has_its_time_beside_the_wait() -> None:
    transport = Transport([answer(200, {})])
    called(transport, wait_s=7, response_s=2)

    assert 9 == transport.requests[0].extensions["timeout"]["read"]


def test_a_closed_client_says_so() -> None:
    async def run() -> None:
        api = ApiClient(BROKERS, None, timeout_s=5, transport=Transport([answer(200, {})]))
        await api.close()
        await api.call("GET", "/v1/x")

    with pytest.raises(ValueError, match="the client is closed"):
        asyncio.run(run())


def test_a_token_is_sent_without_the_end_of_the_line_in_its_file() -> None:
    async def sent(token: str) -> str:
        transport = Transport([answer(200, {})])
        api = ApiClient(BROKERS, token, timeout_s=0.5, transport=transport)
        await api.call("GET", "/v1/x")
        await api.close()
        return str(transport.requests[0].headers["authorization"])

    assert "Bearer secret" == asyncio.run(sent("secret\n"))


@pytest.mark.parametrize("token", ["", "\n", "sec ret", "sec\nret", "secr\u00e9t"])
def test_a_token_that_no_header_can_have_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="token: ") as refused:
        ApiClient(BROKERS, token, timeout_s=0.5)

    assert "sec" not in str(refused.value)


@pytest.mark.parametrize("address", ["ftp://one:1", "http://::1", "http://one:port", "http://", "http://one:1?a=b"])
def test_an_address_that_no_broker_can_have_is_refused(address: str) -> None:
    """Requests to it could not be sent, however often."""
    with pytest.raises(ValueError, match="http="):
        ApiClient([*BROKERS, address], None, timeout_s=0.5)
