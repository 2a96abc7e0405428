"""Metrics in Prometheus's text format."""

from tidemill.telemetry.metrics import Metrics
from tidemill.telemetry.prometheus import COUNTERS, GAUGES, PrometheusText


def test_every_metric_is_rendered() -> None:
    """
    A metric that is counted but not rendered would be useless.
    """
    fields = set(Metrics.__slots__)

    assert fields == {"apis"} | COUNTERS.keys() | GAUGES.keys()


def test_metrics_of_two_brokers_in_one_process_are_separate() -> None:
    """
    Each broker has its own counters and registry.
    """
    one, other = Metrics(), Metrics()
    one.produce_records = 5
    one.api(0).requests = 2

    texts = [PrometheusText(metrics, {0: "Produce"}).render() for metrics in (one, other)]

    assert ["tidemill_produce_records_total 5.0" in text for text in texts] == [True, False]
    assert ['tidemill_requests_total{api="Produce"} 2.0' in text for text in texts] == [True, False]


def test_a_scrape_shows_the_current_values() -> None:
    """
    Only the counters are kept between scrapes.
    """
    metrics = Metrics()
    rendered = PrometheusText(metrics, {})
    rendered.render()
    metrics.journal_bytes = 4096

    text = rendered.render()

    assert "tidemill_journal_bytes_total 4096.0" in text
