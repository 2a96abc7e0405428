"""Metrics in Prometheus's text format."""

from tidemill.rebalance.plan import Status
from tidemill.telemetry.metrics import Metrics, RebalanceGauges
from tidemill.telemetry.prometheus import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    REBALANCE_STATUSES,
    PrometheusText,
    counters_of,
)


def test_every_metric_is_rendered() -> None:
    """
    The text contains every metric that is counted.
    """
    fields = set(Metrics.__slots__)

    assert (
        fields
        == {"apis", "by_queue", "by_timer_topic", "by_topic", "group_lags", "peer_clock_offsets", "queues"}
        | {"rebalance", "timers"}
        | COUNTERS.keys()
        | GAUGES.keys()
        | HISTOGRAMS.keys()
    )


def test_metrics_of_two_brokers_in_one_process_are_separate() -> None:
    """
    Two brokers in one process have separate counters and registries.
    """
    one, other = Metrics(), Metrics()
    one.produce_records = 5
    one.api(0).requests = 2

    texts = [PrometheusText(metrics, {0: "Produce"}, str).render() for metrics in (one, other)]

    assert ["tidemill_produce_records_total 5.0" in text for text in texts] == [True, False]
    assert ['tidemill_requests_total{api="Produce"} 2.0' in text for text in texts] == [True, False]


def test_a_scrape_shows_the_current_values() -> None:
    """
    Each scrape shows the values at that time: the text of an earlier scrape is not reused.
    """
    metrics = Metrics()
    rendered = PrometheusText(metrics, {}, str)
    rendered.render()
    metrics.journal_bytes = 4096

    text = rendered.render()

    assert "tidemill_journal_bytes_total 4096.0" in text


def test_latencies_are_a_histogram() -> None:
    """
    Latencies are a histogram with cumulative buckets, each of which includes its upper bound.
    """
    metrics = Metrics()
    for latency_ms in (0, 1, 2, 3, 40_000):
        metrics.api(0).latencies.observe(latency_ms)

    text = PrometheusText(metrics, {0: "produce"}, str).render()

    sample = 'tidemill_request_seconds_bucket{api="produce",le="%s"} %s'
    counts = {"0.001": 2.0, "0.002": 3.0, "0.005": 4.0, "30.0": 4.0, "+Inf": 5.0}
    assert [] == [bound for bound, count in counts.items() if sample % (bound, count) not in text]
    assert 'tidemill_request_seconds_count{api="produce"} 5.0' in text
    assert 'tidemill_request_seconds_sum{api="produce"} 40.006' in text


def test_the_build_and_the_process_are_shown() -> None:
    """
    The build metric has the labels that the caller passes; the metrics of the process come from the library
    prometheus_client.
    """
    text = PrometheusText(Metrics(), {}, str, {"version": "1.2", "python": "3.11.9"}).render()

    assert 'tidemill_build_info{python="3.11.9",version="1.2"} 1.0' in text
    assert [] == [name for name in ("cpu_seconds_total", "open_fds") if f"\nprocess_{name} " not in text]


def test_counters_are_read_and_added_up_over_their_labels() -> None:
    """
    `counters_of` reads counters back from a scrape as the broker counted them, summed over the labels: here, over all
    APIs.
    """
    metrics = Metrics()
    metrics.produce_records = 7
    metrics.api(0).requests = 3
    metrics.api(1).requests = 4

    counters = counters_of(PrometheusText(metrics, {0: "produce", 1: "fetch"}, str).render())

    assert (7.0, 7.0) == (counters["tidemill_produce_records_total", ""], counters["tidemill_requests_total", ""])


def test_values_of_topics_are_kept_apart() -> None:
    """
    `counters_of` returns one value for each topic, summed over all labels other than `topic`.
    """
    text = 'bytes_total{topic="a",api="x"} 1\nbytes_total{topic="a",api="y"} 2\nbytes_total{topic="b"} 4\n'

    assert {("bytes_total", "a"): 3.0, ("bytes_total", "b"): 4.0} == counters_of(text)


def test_re_placement_has_its_status_on_the_controller_only() -> None:
    """
    On the controller, each status has a sample, so that an alert can count how long one lasts.  Other brokers have
    neither a status nor states of brokers, and their numbers of moves are 0, so that sums are those of the cluster.
    """
    controller, other = Metrics(), Metrics()
    controller.rebalance = RebalanceGauges("stalled", 3, 4096, 2, [("active", 4), ("silent", 2)])

    text, elsewhere = (PrometheusText(metrics, {}, str).render() for metrics in (controller, other))

    for line in (
        'tidemill_rebalance_status{status="idle"} 0.0',
        'tidemill_rebalance_status{status="stalled"} 1.0',
        "tidemill_rebalance_moves 3.0",
        "tidemill_rebalance_missing_bytes 4096.0",
        "tidemill_rebalance_refusals 2.0",
        'tidemill_brokers{state="silent"} 2.0',
    ):
        assert line in text
    assert "tidemill_rebalance_moves 0.0" in elsewhere
    assert "tidemill_rebalance_status{" not in elsewhere and "tidemill_brokers{" not in elsewhere


def test_the_statuses_of_re_placement_are_those_of_the_planner() -> None:
    assert tuple(Status) == REBALANCE_STATUSES
