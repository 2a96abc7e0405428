"""Every metric that `/metrics` shows is counted somewhere."""

import re
from inspect import isfunction
from pathlib import Path

from tidemill.telemetry.metrics import ApiCounters, Metrics, QueueGauges, TimerGauges
from tidemill.telemetry.prometheus import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    QUEUE_COUNTERS,
    QUEUE_GAUGES,
    TIMER_COUNTERS,
    TIMER_GAUGES,
    TOPIC_COUNTERS,
)
from tidemill.telemetry.queue_counters import QueueCounters
from tidemill.telemetry.timer_counters import TimerCounters
from tidemill.telemetry.topic_counters import TopicCounters

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tidemill"
TELEMETRY = SOURCE / "telemetry"
LABELLED = {"group_lags", "peer_clock_offsets", "queues", "rebalance", "timers"}  # gauges with rows


def code_outside_telemetry() -> str:
    return "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.parent != TELEMETRY)


def test_every_metric_is_counted_and_shown() -> None:
    """
    Every metric is counted and shown; a metric that is shown but never counted would claim that nothing happened.
    """
    code = code_outside_telemetry()
    counted = {*re.findall(r"metrics\.(\w+) (?:\+=|-=|=) ", code)}
    passed_on = {*re.findall(r"metrics\.(\w+)\n", code)}  # histograms are passed to a thread, which observes the values

    assert sorted([*COUNTERS, *GAUGES, *HISTOGRAMS]) == sorted(
        {*Metrics.__slots__}
        - {"apis", "by_queue", "by_timer_topic", "by_topic", "group_lags", "peer_clock_offsets", "queues"}
        - {"rebalance", "timers"}
    )
    assert counted >= LABELLED
    assert [] == sorted({*COUNTERS, *GAUGES} - counted)
    assert [] == sorted({*HISTOGRAMS} - passed_on)


def test_every_counter_of_an_api_is_counted_and_shown() -> None:
    """
    The broker increments each counter, directly or through a method of `ApiCounters`, or calls its `observe` with a
    duration.  `/metrics` shows every counter.
    """
    counters = vars(ApiCounters)
    methods = {name: value for name, value in counters.items() if isfunction(value) and not name.startswith("_")}
    code = code_outside_telemetry()
    called = {name for name in methods if f".{name}(" in code}
    raised = {*re.findall(r"counters\.(\w+) \+= ", code)} | {
        attribute for name in called for attribute in methods[name].__code__.co_names
    }
    raised |= {*re.findall(r"\b(\w+)\.observe\(", code)}
    shown = set(re.findall(r"\bapi\.(\w+)", (TELEMETRY / "prometheus.py").read_text()))

    assert [] == sorted(methods.keys() - called)
    assert [] == sorted({*ApiCounters.__slots__} - raised)
    assert [] == sorted({*ApiCounters.__slots__} - shown)


def test_every_counter_of_a_topic_is_counted_and_shown() -> None:
    """
    Code outside `telemetry` increments each counter that `/metrics` shows per topic.
    """
    raised = {*re.findall(r"counters\.(\w+) \+= ", code_outside_telemetry())}

    assert sorted(TOPIC_COUNTERS) == sorted(TopicCounters.__slots__)
    assert [] == sorted({*TOPIC_COUNTERS} - raised)


def test_every_number_of_a_queue_is_counted_and_shown() -> None:
    """
    Code outside `telemetry` increments each counter that `/metrics` shows per queue, and every gauge is shown.
    """
    raised = {*re.findall(r"counters\.(\w+) \+= ", code_outside_telemetry())}

    assert sorted(QUEUE_COUNTERS) == sorted(QueueCounters.__slots__)
    assert [] == sorted({*QUEUE_COUNTERS} - raised)
    assert sorted(QUEUE_GAUGES) == sorted({*QueueGauges._fields} - {"group", "topic"})


def test_every_number_of_a_timer_topic_is_counted_and_shown() -> None:
    """
    Likewise for timer topics, whose histogram of lateness has a name of its own.
    """
    code = code_outside_telemetry()
    raised = {*re.findall(r"counters\.(\w+) \+= ", code)}

    assert sorted([*TIMER_COUNTERS, "lateness_seconds"]) == sorted(TimerCounters.__slots__)
    assert [] == sorted({*TIMER_COUNTERS} - raised)
    assert "lateness_seconds.observe_all(" in code
    assert sorted(TIMER_GAUGES) == sorted({*TimerGauges._fields} - {"topic"})
