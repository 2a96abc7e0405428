"""Every metric that the dashboard or an alert in `monitoring` names is in a scrape of a running broker."""

import json
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

import tidemill
from tests.integration.clients.conftest import RunningBroker

MONITORING = Path(__file__).resolve().parents[3] / "monitoring"
A_METRIC = re.compile(r"\b(?:tidemill|process)_\w+")
WAIT_S = 30


def scrape(broker: RunningBroker) -> str:
    if broker.http is None:
        pytest.skip("the broker at TIDEMILL_TEST_BOOTSTRAP is not scraped")
    with urlopen(f"http://{broker.http}/metrics", timeout=WAIT_S) as answer:
        text: str = answer.read().decode()
    return text


def scrape_of_queue(broker: RunningBroker, topic: str, group: str) -> str:
    """Return the metrics of a broker as soon as a member of a share group has opened its share of `topic`."""
    member = ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        member.subscribe([topic])
        ends_at = time.monotonic() + WAIT_S
        while f'tidemill_queue_available_records{{group="{group}",topic="{topic}"}}' not in (text := scrape(broker)):
            assert time.monotonic() < ends_at, f"{group} reads {topic}, but the metrics do not show it"
            member.poll(0.2)
    finally:
        member.close()
    return text


def deliver_later(broker: RunningBroker, topic: str) -> None:
    """Create a timer topic, and wait until a record of it is delivered while another one waits."""
    with tidemill.connect(broker.bootstrap) as mill:
        mill.send(topic, "now", delay=0)
        mill.send(topic, "later", delay="1h")
    ends_at = time.monotonic() + WAIT_S
    while f'tidemill_timer_records_released_total{{topic="{topic}"}} 1.0' not in scrape(broker):
        assert time.monotonic() < ends_at, f"the record of {topic} is not delivered"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def scraped(broker: RunningBroker) -> str:
    """
    Return the metrics of a broker that has a topic with traffic, a timer topic, a consumer group, a share group and a
    refused request, because a metric with labels does not exist until its labels have values.
    """
    topic, group = f"watched-{uuid.uuid4().hex[:12]}", f"watchers-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(WAIT_S)
    with pytest.raises(KafkaException):
        admin.delete_topics([f"no-{topic}"])[f"no-{topic}"].result(WAIT_S)
    timers = NewTopic(f"{topic}-later", num_partitions=1, config={"tidemill.kind": "timer"})
    admin.create_topics([timers])[timers.topic].result(WAIT_S)
    deliver_later(broker, timers.topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(3):
        producer.produce(topic, b"value")
    assert 0 == producer.flush(WAIT_S)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None and message.error() is None
        consumer.commit(message, asynchronous=False)
        text = scrape_of_queue(broker, topic, f"sharers-{uuid.uuid4().hex[:12]}")
    finally:
        consumer.close()
    assert f'tidemill_group_lag_records{{group="{group}",topic="{topic}"}} 2.0' in text
    assert f'tidemill_topic_records_in_total{{topic="{topic}"}} 3.0' in text
    return text


def expressions(value: Any) -> Iterator[str]:
    """Yield the PromQL expressions in a tree of dicts and lists: the strings under `expr` and `definition`."""
    if isinstance(value, dict):
        yield from (it for key, it in value.items() if key in ("expr", "definition") and isinstance(it, str))
        for it in value.values():
            yield from expressions(it)
    elif isinstance(value, list):
        for it in value:
            yield from expressions(it)


@pytest.mark.parametrize("name", ["grafana/tidemill.json", "prometheus/alerts.yaml"])
def test_every_metric_that_is_named_is_scraped(scraped: str, name: str) -> None:
    """
    A scrape of a running broker contains each metric that the dashboard or an alert names; a renamed metric would leave
    a graph empty and an alert silent.
    """
    text = (MONITORING / name).read_text()
    named = {it for expr in expressions(yaml.safe_load(text)) for it in A_METRIC.findall(expr)}
    shown = {re.split(r"[{ ]", line)[0] for line in scraped.splitlines() if not line.startswith("#")}
    # A broker without others has no values of these; their names are in the lines that declare them.
    shown |= {*re.findall(r"^# TYPE (tidemill_peer_\w+)", scraped, re.MULTILINE)}

    assert len(named) > 10
    assert [] == sorted(named - shown)


def test_promtool_accepts_the_metrics(scraped: str) -> None:
    """
    Names, units, types and help texts follow Prometheus's conventions.
    """
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing (Debian package prometheus)")

    done = subprocess.run([promtool, "check", "metrics"], input=scraped, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stdout + done.stderr)


def test_a_healthy_broker_is_ready_without_problems(broker: RunningBroker) -> None:
    """
    A healthy broker reports no problem, except that the disk of the machine may be slow or nearly full.
    """
    scrape(broker)

    with urlopen(f"http://{broker.http}/health/ready", timeout=WAIT_S) as answer:
        told = json.load(answer)

    assert "ready" == told["status"]
    assert [] == [it for it in told["problems"] if not it["problem"].startswith(("disk_", "journal_"))]
