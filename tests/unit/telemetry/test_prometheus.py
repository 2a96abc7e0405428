"""Counters as Prometheus text."""

from tidemill.telemetry.metrics import Metrics
from tidemill.telemetry.prometheus import COUNTERS, GAUGES, PrometheusText


def test_every_metric_is_rendered() -> None:
    """
    A counter that is counted and never shown costs time and helps nobody.
    """
    fields = set(Metrics.__slots__)

    assert fields == {"apis"} | COUNTERS.keys() | GAUGES.keys()


def test_two_brokers_in_one_process_do_not_meet() -> None:
    """
    Each has its own counters and its own registry.
    """
    one, other = Metrics(), Metrics()
    one.produce_records = 5
    one.api(0).requests = 2

    texts = [PrometheusText(metrics, {0: "Produce"}).render() for metrics in (one, other)]

    assert ["tidemill_produce_records_total 5.0" in text for text in texts] == [True, False]
    assert ['tidemill_requests_total{api="Produce"} 2.0' in text for text in texts] == [True, False]


def test_a_scrape_shows_what_happened_since_the_last() -> None:
    """
    Nothing is kept between scrapes but the counters.
    """
    metrics = Metrics()
    rendered = PrometheusText(metrics, {})
    rendered.render()
    metrics.journal_bytes = 4096

    text = rendered.render()

    assert "tidemill_journal_bytes_total 4096.0" in text
