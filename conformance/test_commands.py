"""The commands of `tidemill` that work with any Kafka broker work with Apache Kafka."""

import json

import pytest

from benchmarks.apache_kafka import ApacheKafka
from tests.integration.cli.command import Finished, tidemill


@pytest.mark.timeout(600)
def test_the_commands_work_with_apache_kafka(apache_kafka: ApacheKafka) -> None:
    """Topics, records, groups, configurations and benchmarks; each command says what it did."""

    def run(*arguments: str, stdin: bytes = b"") -> Finished:
        finished = tidemill(*arguments, bootstrap=apache_kafka.bootstrap, stdin=stdin)
        assert 0 == finished.exit_code, (arguments, finished)
        return finished

    run("topics", "create", "orders", "--partitions", "3")
    run("topics", "alter", "orders", "--config", "retention.ms=86400000")
    produced = run("produce", "orders", "--key-separator", ":", stdin=b"ann:1 cup\nbob:2 pots\n")
    consumed = run("consume", "orders", "--format", "json")
    run("consume", "orders", "--group", "billing", "--max", "2")
    described = run("groups", "describe", "billing", "--json")
    run("configs", "describe", "--topic", "orders", "retention.ms")
    top = run("top", "--once")
    produce = json.loads(run("bench", "produce", "--records", "5000", "--json").out)
    consume = json.loads(run("bench", "consume", "--records", "5000", "--json").out)
    latency = json.loads(run("bench", "latency", "--records", "200", "--rate", "500", "--json").out)
    run("groups", "delete", "billing", "--yes")
    run("topics", "delete", "orders", "--yes")

    assert "produced 2 records" in produced.err + produced.out
    assert ["1 cup", "2 pots"] == sorted(json.loads(line)["value"] for line in consumed.out.splitlines())
    assert "billing" in described.out and "orders" in top.out
    assert (5000, 5000, 200) == (produce["records"], consume["records"], latency["records"])
