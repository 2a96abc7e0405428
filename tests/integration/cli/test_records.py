"""`tidemill produce` and `tidemill consume` against a real broker."""

import json
import os
import signal
import subprocess
import sys
import uuid
from typing import Any

import pytest

from tests.integration.cli.command import ENVIRONMENT, new_topic, tidemill
from tidemill.cli.line_producer import LineProducer


def test_records_survive_a_round_trip(bootstrap: str) -> None:
    """
    Consumed records equal the produced ones, including bytes that are not text, null values and repeated headers.
    """
    name = new_topic(bootstrap)
    record = {
        "key": {"base64": "/w=="},
        "value": None,
        "headers": [["h", "1"], ["h", "é"]],
        "timestamp": 1_600_000_000_000,
    }
    produced = tidemill(
        "produce", name, "--format", "json", stdin=json.dumps(record).encode() + b"\n", bootstrap=bootstrap
    )

    consumed = tidemill("consume", name, "--format", "json", bootstrap=bootstrap)

    place = {"topic": name, "partition": 0, "offset": 0, "timestamp_type": "CreateTime"}
    assert (0, record | place) == (produced.exit_code, json.loads(consumed.out))


def test_a_refused_line_is_counted_and_reported(bootstrap: str) -> None:
    """
    If the broker refuses a line, the other lines are still produced, and the exit code is 1.
    """
    name = new_topic(bootstrap)

    produced = tidemill("produce", name, "--key-separator", ":", "--json", stdin=b"a:1\nb\nc:3", bootstrap=bootstrap)

    told, counts = map(json.loads, produced.err.splitlines())
    assert 1 == produced.exit_code
    assert "refused" == told["event"] and "line 2" in told["message"]
    assert {"event": "produced", "topic": name, "produced": 2, "refused": 1, "timed_out": 0} == counts


MURMUR2 = {  # the values of Kafka's own test, UtilsTest.testMurmur2
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


def test_a_key_goes_to_the_partition_that_java_s_producer_chooses(bootstrap: str) -> None:
    """
    Java's producer takes the key's murmur2 hash without its sign bit, modulo the number of partitions.
    """
    name = new_topic(bootstrap, partitions=7)
    lines = "".join(f"{key}:x\n" for key in MURMUR2)

    tidemill("produce", name, "--key-separator", ":", stdin=lines.encode(), bootstrap=bootstrap)

    consumed = tidemill("consume", name, "--format", "json", bootstrap=bootstrap)
    assert {key: (value & 0x7FFFFFFF) % 7 for key, value in MURMUR2.items()} == {
        record["key"]: record["partition"] for record in map(json.loads, consumed.out.splitlines())
    }


def test_a_missing_topic_is_refused_or_created(bootstrap: str) -> None:
    """
    A misspelt topic is not created by accident: producing to a missing topic requires `--create`.
    """
    name = f"new-{uuid.uuid4().hex[:12]}"

    refused = tidemill("produce", name, stdin=b"1\n", bootstrap=bootstrap)
    described = tidemill("topics", "describe", name, bootstrap=bootstrap)
    created = [tidemill("produce", name, "--create", stdin=line, bootstrap=bootstrap) for line in (b"2\n", b"3\n")]

    assert (1, 1) == (refused.exit_code, described.exit_code)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refused.err and "--create" in refused.err
    assert [(0, f"produced 1 record to {name}\n")] * 2 == [(it.exit_code, it.err) for it in created]
    assert ["2", "3"] == sorted(tidemill("consume", name, bootstrap=bootstrap).out.split())


def test_key_headers_and_partition_are_those_of_the_options(bootstrap: str) -> None:
    """
    Every line is sent with `--key` and `--header` to the partition in `--partition`, and `consume --partition` prints
    only that partition.  A partition that does not exist is refused.
    """
    name = new_topic(bootstrap, partitions=3)
    options = ("--key", "k", "--header", "a=1", "--header", "a=x=y", "--partition", "2")

    sent = tidemill("produce", name, *options, stdin=b"1\n2\n", bootstrap=bootstrap)
    refused = [
        tidemill(command, name, "--partition", "3", stdin=b"1\n", bootstrap=bootstrap)
        for command in ("produce", "consume")
    ]
    read = {
        chosen: tidemill("consume", name, *chosen, "--json", bootstrap=bootstrap).out.splitlines()
        for chosen in [(), ("--partition", "2"), ("--partition", "0"), ("--partition", "0", "--partition", "2")]
    }

    assert 0 == sent.exit_code, sent.err
    assert [1, 1] == [it.exit_code for it in refused]
    assert all("UNKNOWN_PARTITION" in it.err and "3 partitions" in it.err for it in refused)
    assert [2, 2, 0, 2] == [len(lines) for lines in read.values()]
    assert [(2, "k", [["a", "1"], ["a", "x=y"]])] * 2 == [
        (row["partition"], row["key"], row["headers"]) for row in map(json.loads, read[()])
    ]


def test_lines_that_time_out_are_summed_up(dev_broker: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """
    If a broker stalls, a single message names each partition with its leader and its number of records, instead of one
    message per line.
    """
    name = new_topic(dev_broker["kafka"], partitions=2)
    producer = LineProducer(dev_broker["kafka"], name, partition=1, timeout_s=1.0)

    os.kill(dev_broker["pid"], signal.SIGSTOP)
    try:
        for number in range(20):
            producer.send({"value": b"v"}, number)
        producer.flush()
        producer.report()
    finally:
        os.kill(dev_broker["pid"], signal.SIGCONT)

    summary, counts = capsys.readouterr().err.splitlines()
    leader = f"{name}-1 (20 records, leader is broker 1 at {dev_broker['kafka']})"
    assert f"tidemill: 20 records not acknowledged within 1 s: {leader}" in summary
    assert "`tidemill cluster status` and each broker's /health/ready list what is degraded" in summary
    assert (f"produced 0 records to {name}, 20 timed out", 20) == (counts, producer.timed_out.total())


def test_base64_lines_are_bytes(bootstrap: str) -> None:
    """
    Values in base64 can contain newlines.
    """
    name = new_topic(bootstrap)
    tidemill("produce", name, "--format", "base64", stdin=b"YQpi\n", bootstrap=bootstrap)

    consumed = tidemill("consume", name, bootstrap=bootstrap)

    assert "a\nb\n" == consumed.out


def test_reading_starts_at_the_given_position(bootstrap: str) -> None:
    """
    Reading starts at the beginning, the end, an offset or a timestamp, and stops after `--max` records.
    """
    name = new_topic(bootstrap)
    lines = [json.dumps({"value": str(n), "timestamp": 1_600_000_000_000 + 1000 * n}) for n in range(5)]
    tidemill("produce", name, "--format", "json", stdin="\n".join(lines).encode(), bootstrap=bootstrap)

    outs = [
        tidemill("consume", name, *options, bootstrap=bootstrap).out.split()
        for options in (
            ("--from", "earliest"),
            ("--from", "latest"),
            ("--from", "offset:3"),
            ("--from", "time:2020-09-13T12:26:42Z"),
            ("--from", "offset:1", "--max", "2"),
        )
    ]

    assert [["0", "1", "2", "3", "4"], [], ["3", "4"], ["2", "3", "4"], ["1", "2"]] == outs


def test_a_group_resumes_where_it_stopped(bootstrap: str) -> None:
    """
    Only the offsets of printed records are committed, so the group resumes after the last printed record.
    """
    name = new_topic(bootstrap)
    tidemill("produce", name, stdin=b"1\n2\n3\n", bootstrap=bootstrap)

    outs = [
        tidemill("consume", name, "--group", f"{name}-g", *options, bootstrap=bootstrap).out.split()
        for options in (("--max", "2"), (), ())
    ]

    assert [["1", "2"], ["3"], []] == outs


def test_ctrl_c_ends_following_with_success(bootstrap: str) -> None:
    """
    Ctrl-C is the normal way to end `--follow`.
    """
    name = new_topic(bootstrap)
    tidemill("produce", name, stdin=b"1\n", bootstrap=bootstrap)
    command = [sys.executable, "-m", "tidemill", "consume", name, "--follow", "--bootstrap", bootstrap]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, preexec_fn=_as_at_a_terminal
    ) as following:
        assert following.stdout is not None
        line = following.stdout.readline()

        following.send_signal(signal.SIGINT)
        rest, errors = following.communicate(timeout=30)

    assert (b"1\n", b"", b"", 0) == (line, rest, errors, following.returncode)


def _as_at_a_terminal() -> None:
    """Restore SIGINT's default handler: a suite in the background ignores SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_closing_the_pipe_ends_following_without_error(bootstrap: str) -> None:
    """
    A closed pipe, as in `tidemill consume … --follow | head -1`, ends the command without an error.
    """
    name = new_topic(bootstrap)
    tidemill("produce", name, stdin=b"1\n", bootstrap=bootstrap)
    command = [sys.executable, "-m", "tidemill", "consume", name, "--follow", "--bootstrap", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as following:
        assert following.stdout is not None and following.stderr is not None
        following.stdout.readline()

        following.stdout.close()
        exit_code = following.wait(timeout=30)
        errors = following.stderr.read()

    assert (0, b"") == (exit_code, errors)


def test_an_adjusted_start_offset_is_reported(bootstrap: str) -> None:
    """
    If the requested offset does not exist, a message names the offset used instead; with --json it is an object.
    """
    name = new_topic(bootstrap)

    consumed = tidemill("consume", name, "--from", "offset:9", "--json", bootstrap=bootstrap)

    assert (0, "") == (consumed.exit_code, consumed.out)
    assert "has no offset 9; starting at 0" in json.loads(consumed.err)["message"]
