"""`tidemill bench` against a real broker."""

import json
import signal
import subprocess
import sys
from typing import Any

from tests.integration.cli.command import ENVIRONMENT, new_topic, tidemill


def bench(bootstrap: str, *arguments: str) -> dict[str, Any]:
    finished = tidemill("bench", *arguments, "--json", bootstrap=bootstrap)
    assert 0 == finished.exit_code, finished.err
    result: dict[str, Any] = json.loads(finished.out)
    return result


def bench_topics(bootstrap: str) -> list[str]:
    return [
        line for line in tidemill("topics", "list", bootstrap=bootstrap).out.splitlines() if "tidemill-bench-" in line
    ]


def test_a_benchmark_counts_its_records_and_deletes_its_topic(bootstrap: str) -> None:
    """
    The records of the measurement are counted, but not those of the warm-up, and the temporary topic is gone
    afterwards.
    """
    produced = bench(bootstrap, "produce", "--records", "2000", "--size", "50", "--compression", "lz4")
    consumed = bench(bootstrap, "consume", "--records", "2000", "--partitions", "2")
    delayed = bench(bootstrap, "latency", "--records", "200", "--rate", "1000")

    assert (2000, 200, 50, "lz4", 6) == tuple(
        produced[name] for name in ("records", "warm_up_records", "size", "compression", "partitions")
    )
    assert (2000, 100, 2) == tuple(consumed[name] for name in ("records", "size", "partitions"))
    assert (200, 20) == (delayed["records"], delayed["warm_up_records"])
    for percentiles in (produced["latency_ms"], delayed["latency_ms"], delayed["end_to_end_ms"]):
        assert 0 < percentiles["p50"] <= percentiles["p99"] <= percentiles["max"]
    assert all(it["is_temporary"] and it["failed"] == 0 and it["records_per_s"] > 0 for it in (produced, consumed))
    assert [] == bench_topics(bootstrap)


def test_a_named_topic_is_kept(bootstrap: str) -> None:
    """
    `--topic` uses an existing topic.  The records of the measurement and of the warm-up stay in it, and `consume` can
    read them.
    """
    name = new_topic(bootstrap, partitions=2)

    empty = tidemill("bench", "consume", "--topic", name, bootstrap=bootstrap)
    bench(bootstrap, "produce", "--topic", name, "--records", "100")
    bench(bootstrap, "latency", "--topic", name, "--records", "20")
    consumed = bench(bootstrap, "consume", "--topic", name)

    assert 1 == empty.exit_code and f"bench produce --topic {name}" in empty.err
    assert (110 + 22, False) == (consumed["records"], consumed["is_temporary"])


def test_records_that_fail_are_reported(bootstrap: str) -> None:
    """
    If the broker refuses records, the result says how many and why, and the exit code is 1.
    """
    name = new_topic(bootstrap)
    tidemill("topics", "alter", name, "--config", "max.message.bytes=1000", bootstrap=bootstrap)

    finished = tidemill(
        "bench", "produce", "--topic", name, "--size", "5000", "--records", "5", "--json", bootstrap=bootstrap
    )

    result = json.loads(finished.out)
    assert (1, 0, 5) == (finished.exit_code, result["records"], result["failed"])
    assert "MESSAGE_TOO_LARGE" in result["error"] and "5 of the records failed" in finished.err


def test_an_interrupted_benchmark_deletes_its_topic(bootstrap: str) -> None:
    """
    A benchmark that is interrupted leaves no topic behind.
    """
    command = [sys.executable, "-m", "tidemill", "bench", "latency", "--rate", "100", "--bootstrap", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as running:
        while not bench_topics(bootstrap):
            assert running.poll() is None

        running.send_signal(signal.SIGTERM)
        output = running.communicate(timeout=60)

    assert (130, (b"", b"")) == (running.returncode, output)
    assert [] == bench_topics(bootstrap)
