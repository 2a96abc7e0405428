"""`/v1/cluster/level`: the feature level of the cluster over HTTP."""

from tests.integration.http.http_client import HttpClient
from tidemill.metadata.feature_levels import NEWEST


def test_any_broker_raises_the_level(brokers: list[HttpClient]) -> None:
    """The level that the cluster has is accepted, and `/v1/brokers` shows that every broker supports it."""
    answers = [broker.send("POST", "/v1/cluster/level", {"level": NEWEST, "dry_run": False}) for broker in brokers]

    rows = brokers[0].send("GET", "/v1/brokers").body["brokers"]
    assert [(200, {"before": NEWEST, "level": NEWEST})] * 3 == [(it.status, it.body) for it in answers]
    assert [NEWEST] * 3 == [row["feature_level"] for row in rows]


def test_a_level_that_is_not_possible_is_refused(brokers: list[HttpClient]) -> None:
    """The status is 409, and the detail is the reason of the controller."""
    for level, says in ((NEWEST + 1, f"broker 2 supports up to {NEWEST}"), (NEWEST - 1, "which is never lowered")):
        refused = brokers[1].send("POST", "/v1/cluster/level", {"level": level})

        assert (409, "INVALID_UPDATE_VERSION") == (refused.status, refused.body["error"])
        assert says in refused.body["detail"]
    assert NEWEST == brokers[1].send("GET", "/v1/cluster").body["feature_level"]
