"""What Celery asks of a cluster: when a task may run, and how long a worker has it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.celery_link import CeleryLink, eta_of


@pytest.mark.parametrize(
    ("eta", "expected"),
    [
        ("2027-03-01T10:00:00.000001+00:00", datetime(2027, 3, 1, 10, 0, 0, 1, UTC)),
        ("2027-03-01T10:00:00+02:00", datetime(2027, 3, 1, 10, tzinfo=timezone(timedelta(hours=2)))),
        ("2027-03-01T10:00:00Z", datetime(2027, 3, 1, 10, tzinfo=UTC)),
        ("2027-03-01T10:00:00", datetime(2027, 3, 1, 10, tzinfo=UTC)),
    ],
)
def test_an_eta_is_read_as_workers_read_it(eta: str, expected: datetime) -> None:
    """
    Without a time zone, it is in UTC: delivered by another one, a task would be hours late.
    """
    found = eta_of({"headers": {"eta": eta}})

    assert expected == found
    assert found is not None and expected.utcoffset() == found.utcoffset()


@pytest.mark.parametrize(
    "message", [{}, {"headers": None}, {"headers": {}}, {"headers": {"eta": None}}, {"headers": {"eta": "tomorrow"}}]
)
def test_a_task_without_a_time_is_delivered_at_once(message: Mapping[str, Any]) -> None:
    """
    A worker refuses one whose ETA is no time.
    """
    assert eta_of(message) is None


@pytest.mark.parametrize(("visibility_timeout", "lease_ms"), [(None, None), (2, 2_000), (3_600, 30_000)])
def test_a_lease_is_one_that_every_broker_permits(
    monkeypatch: pytest.MonkeyPatch, visibility_timeout: float | None, lease_ms: int | None
) -> None:
    """An application that comes from another broker has often set an hour or more."""

    async def call(self: ApiClient, method: str, path: str, *_: Any, **__: Any) -> dict[str, Any]:
        return {"brokers": [], "configs": {"share.auto.offset.reset": "earliest"}}

    monkeypatch.setattr(ApiClient, "call", call)
    link = CeleryLink("http://127.0.0.1:1", None, "g", visibility_timeout, None, timeout_s=1)
    try:
        fields = link._queue("q")._fields
    finally:
        link.close()

    assert lease_ms == fields.get("lease_ms")
