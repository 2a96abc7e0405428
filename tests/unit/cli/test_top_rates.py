"""The rates that are computed from two samples of a cluster."""

from dataclasses import replace

from tidemill.cli.top_groups import GroupSample
from tidemill.cli.top_rates import view_of
from tidemill.cli.top_sample import BrokerSample, Sample

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def broker(at: float, **counters: float) -> BrokerSample:
    named = {(name, ""): value for name, value in counters.items() if not name.startswith("a_")}
    named |= {(f"tidemill_topic_{name[2:]}_total", "a"): value for name, value in counters.items() if name[:2] == "a_"}
    return BrokerSample(broker_id=1, address="127.0.0.1:9080", status="up", at=at, counters=named)


def sample(at: float, ends: dict[tuple[str, int], int], committed: dict[tuple[str, int], int]) -> Sample:
    return Sample(
        cluster_id="c",
        at=at,
        brokers=[],
        topics={"a": [True, True], "b": [False]},
        ends=ends,
        groups={"g": GroupSample(state="Stable", committed=committed)},
        answered_by=1,
        notes=[],
    )


BEFORE = sample(10.0, {A0: 100, A1: 50}, {A0: 90, A1: 50})
NOW = sample(12.0, {A0: 300, A1: 50}, {A0: 150, A1: 40})


def test_topics_and_groups_have_the_rates_of_their_offsets() -> None:
    """
    A topic's rate of records is the growth of its end offsets per second, a group's lag is the number of records that
    it has not committed, and a backward reset of a committed offset does not count as negative progress.
    """
    view = view_of(BEFORE, NOW)

    a, b = view["topics"]
    assert ("a", 2, 0, 100.0, 30.0) == tuple(
        a[name] for name in ("topic", "partitions", "leaderless", "records_in_per_s", "committed_per_s")
    )
    assert ("b", 1, 1, None, None) == tuple(
        b[name] for name in ("topic", "partitions", "leaderless", "records_in_per_s", "committed_per_s")
    )
    assert [{"group": "g", "state": "Stable", "topics": 1, "lag": 160, "committed_per_s": 30.0}] == view["groups"]
    assert 2.0 == view["interval_s"]


def test_brokers_have_the_rates_of_their_counters() -> None:
    """
    Counters become rates, including those of topics, and the mean sync time covers only the syncs within the interval.
    """
    old = broker(
        10.0, tidemill_produce_records_total=10, tidemill_journal_sync_seconds_sum=1.0,
        tidemill_journal_sync_seconds_count=100, a_bytes_in=1_000, a_bytes_out=0,
    )  # fmt: skip
    new = broker(
        14.0, tidemill_produce_records_total=30, tidemill_journal_sync_seconds_sum=1.5,
        tidemill_journal_sync_seconds_count=200, a_bytes_in=5_000, a_bytes_out=400,
    )  # fmt: skip

    view = view_of(replace(BEFORE, brokers=[old]), replace(NOW, brokers=[new]))

    (row,) = view["brokers"]
    assert (5.0, 5.0, None) == (row["records_in_per_s"], row["sync_ms"], row["requests_per_s"])
    assert (1_000.0, 100.0) == (view["topics"][0]["bytes_in_per_s"], view["topics"][0]["bytes_out_per_s"])


def test_a_restarted_or_silent_broker_has_no_rates() -> None:
    """
    There is no rate, rather than a wrong one, for a counter that is missing or that has fallen because the broker was
    restarted.
    """
    old = broker(10.0, tidemill_produce_records_total=10)
    restarted = broker(12.0, tidemill_produce_records_total=3)
    silent = replace(restarted, counters=None, status="down")

    for now in (restarted, silent):
        (row,) = view_of(replace(BEFORE, brokers=[old]), replace(NOW, brokers=[now]))["brokers"]
        assert (now.status, None) == (row["status"], row["records_in_per_s"])


def test_a_sample_compared_with_itself_has_no_rates() -> None:
    """
    The live view compares its first sample with itself until there is a second one.
    """
    view = view_of(NOW, NOW)

    assert [None, None] == [row["records_in_per_s"] for row in view["topics"]]
    assert (160, None) == (view["groups"][0]["lag"], view["groups"][0]["committed_per_s"])
