"""An HTTP connection may be slow, up to a bound."""

import pytest

from tidemill.app.connection_pace import CLOSE_S_MAX, HEAD_S_MAX, SEND_S_MAX, ConnectionPace


@pytest.mark.parametrize(("seconds", "is_answering", "is_slow"), [
    (HEAD_S_MAX, False, False),
    (HEAD_S_MAX + 1, False, True),
    (HEAD_S_MAX + 1, True, False),
])  # fmt: skip
def test_a_head_must_arrive_in_time(seconds: float, is_answering: bool, is_slow: bool) -> None:
    """
    A client has 10 s for the head of its first request; while a request is in progress, it need not send another.
    """
    pace = ConnectionPace(100)

    assert is_slow == pace.is_slow(100 + seconds, is_answering=is_answering)


def test_the_time_begins_anew_with_each_response() -> None:
    """
    The time for the head of the next request begins with the end of the response.
    """
    pace = ConnectionPace(0)
    pace.responded(50)

    assert not pace.is_slow(50 + HEAD_S_MAX, is_answering=False)
    assert pace.is_slow(51 + HEAD_S_MAX, is_answering=False)


@pytest.mark.parametrize(("is_closing", "seconds_max"), [(False, SEND_S_MAX), (True, CLOSE_S_MAX)])
def test_a_client_that_takes_nothing_is_stuck(is_closing: bool, seconds_max: float) -> None:
    """
    A client is stuck when nothing of the unsent bytes has been taken for a minute, or for 5 s at the end.
    """
    pace = ConnectionPace(0)

    found = [
        pace.is_stuck(now, unsent=unsent, is_closing=is_closing)
        for now, unsent in ((0, 900), (1, 800), (1 + seconds_max, 800), (2 + seconds_max, 800), (3 + seconds_max, 0))
    ]

    assert [False, False, False, True, False] == found
