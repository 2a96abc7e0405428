"""Requests to a leader or a coordinator that moves."""

import asyncio

import pytest

from tidemill.http.v1 import retries
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.retries import retried


def test_a_request_is_sent_again_until_there_is_a_response() -> None:
    answers = iter([None, None, "found", "too many"])

    async def attempt() -> str | None:
        return next(answers)

    assert "found" == asyncio.run(retried(attempt, lambda: Refused(503, "moving")))


def test_a_request_that_finds_no_leader_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    After a last attempt at the end of the time.
    """
    monkeypatch.setattr(retries, "RETRY_S_MAX", 0.05)
    monkeypatch.setattr(retries, "PAUSE_S", 0.02)
    asked = list[None]()

    async def attempt() -> str | None:
        asked.append(None)
        return None

    with pytest.raises(Refused) as refused:
        asyncio.run(retried(attempt, lambda: Refused(503, "moving")))

    assert 503 == refused.value.answer.status
    assert len(asked) > 2


def test_a_first_attempt_that_waits_for_long_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have waited for a leader that is frozen, while another one was elected."""
    monkeypatch.setattr(retries, "RETRY_S_MAX", 0.05)
    monkeypatch.setattr(retries, "PAUSE_S", 0.0)
    answers = iter([None, "found"])

    async def attempt() -> str | None:
        await asyncio.sleep(0.1)
        return next(answers)

    assert "found" == asyncio.run(retried(attempt, lambda: Refused(503, "moving")))
