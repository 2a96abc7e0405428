"""`tidemill produce` and `tidemill consume` against a real broker."""

import json
import signal
import subprocess
import sys
import uuid

from tests.integration.cli.command import ENVIRONMENT, new_topic, tidemill


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
    assert {"event": "produced", "topic": name, "produced": 2, "refused": 1} == counts


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
    Java's producer takes murmur2 of the key without its sign, modulo the number of partitions.
    """
    name = new_topic(bootstrap, partitions=7)
    lines = "".join(f"{key}:x\n" for key in MURMUR2)

    tidemill("produce", name, "--key-separator", ":", stdin=lines.encode(), bootstrap=bootstrap)

    consumed = tidemill("consume", name, "--format", "json", bootstrap=bootstrap)
    assert {key: (value & 0x7FFFFFFF) % 7 for key, value in MURMUR2.items()} == {
        record["key"]: record["partition"] for record in map(json.loads, consumed.out.splitlines())
    }


def test_producing_creates_a_missing_topic(bootstrap: str) -> None:
    """
    Producing to a missing topic creates it: both of the client's concurrent metadata responses contain the topic.
    """
    name = f"auto-{uuid.uuid4().hex[:12]}"

    produced = tidemill("produce", name, stdin=b"1\n", bootstrap=bootstrap)

    assert (0, "1\n") == (produced.exit_code, tidemill("consume", name, bootstrap=bootstrap).out), produced.err


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
    Only the offsets of printed records are committed, so that the group resumes after the last printed record.
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
    """Restore the default handler: a suite that runs in the background ignores SIGINT, and children inherit that."""
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
