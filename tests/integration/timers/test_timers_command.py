"""`tidemill timers` against a cluster of three brokers."""

import json
from typing import Any

import pytest

from tests.integration.cli.command import Finished, tidemill
from tests.integration.cli.dev_cluster import Cluster
from tests.integration.cli.terminal import on_terminal
from tests.integration.http.http_client import wait_for
from tests.integration.timers.conftest import HOUR_MS, TimerTopic
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX

COUNT = 7


class Timers:
    """Runs `tidemill timers COMMAND TOPIC …`, and has a topic in which `t0` to `t6` wait, for 1 to 7 hours."""

    def __init__(self, bootstrap: str, topic: TimerTopic) -> None:
        self.topic = topic
        self.bootstrap = bootstrap
        topic.wait_for_hours(COUNT)

    def run(self, command: str, *arguments: str) -> Finished:
        return tidemill("timers", command, self.topic.name, *arguments, bootstrap=self.bootstrap)

    def rows(self, command: str, *arguments: str) -> list[dict[str, Any]]:
        finished = self.run(command, "--json", *arguments)
        assert 0 == finished.exit_code, finished.err
        return [json.loads(line) for line in finished.out.splitlines()]

    def outcome(self, command: str, *arguments: str) -> list[int]:
        (row,) = self.rows(command, *arguments)
        return [row["cancelled" if command == "cancel" else "rescheduled"], row["already_released"], row["unknown"]]


@pytest.fixture
def timers(cluster: Cluster, topic: TimerTopic) -> Timers:
    return Timers(cluster.bootstrap, topic)


def test_records_are_listed_in_the_order_in_which_they_are_due(timers: Timers) -> None:
    rows = timers.rows("list", "--values")

    assert [(f"t{it}", f"v{it}", f"k{it}") for it in range(COUNT)] == [
        (row["timer_id"], row["value"], row["key"]) for row in rows
    ]
    assert [timers.topic.base_ms + (it + 1) * HOUR_MS for it in range(COUNT)] == [row["due_ms"] for row in rows]
    table = [line.split("\t") for line in timers.run("list").out.splitlines()]
    assert ["due", "in", "partition", "arrival", "id", "key"] == table[0]
    assert ["1h", "0", "0", "t1", "k1"] == [table[2][1], *(table[1][3], table[2][3]), *table[2][4:]]


def test_options_choose_records_and_how_many_are_shown(timers: Timers) -> None:
    for options, expected in (
        (("--key", "k3"), [3]),
        (("--id", "t4"), [4]),
        (("--key-prefix", "k", "--partition", "1"), [1, 4]),
        (("--due-from", "150m", "--due-before", "270m"), [2, 3]),
    ):
        assert [f"t{it}" for it in expected] == [row["timer_id"] for row in timers.rows("list", *options)], options
    finished = timers.run("list", "--max", "2")
    assert 3 == len(finished.out.splitlines())
    assert "there are more; the first 2 are shown (--max)" in finished.err
    assert "" == timers.run("list", "--max", f"{COUNT}").err


def test_records_that_recur_are_listed_with_their_schedules(timers: Timers) -> None:
    """
    Other records are not among them.
    """
    headers = [["tidemill-schedule", "cron 30 8 * * *"], ["tidemill-timezone", "Europe/Berlin"]]
    timers.topic.produce({"value": "daily", "timer_id": "daily", "headers": headers, "partition": 0})

    (row,) = timers.rows("schedules")
    header, cells = (line.split("\t") for line in timers.run("schedules").out.splitlines())

    assert ("daily", None) == (row["timer_id"], row.get("value"))
    assert ["id", "schedule", "time zone", "missed", "next due", "in", "partition"] == header
    assert ["daily", "cron 30 8 * * *", "Europe/Berlin", "one"] == cells[:4]
    assert "daily" in {it["timer_id"] for it in timers.topic.listed(query="recurring=true")}


def test_a_timer_is_shown_by_its_id(timers: Timers) -> None:
    (row,) = timers.rows("show", "t2")
    assert ("v2", "k2", 2) == (row["value"], row["key"], row["partition"])
    shown = timers.run("show", "t2").out
    assert "value      v2" in shown and "(in 2h)" in shown

    missing = timers.run("show", "none")
    assert (1, "") == (missing.exit_code, missing.out)
    assert "'none' waits nowhere in topic" in missing.err and "`tidemill timers list" in missing.err


def test_keys_and_ids_may_be_any_bytes(timers: Timers) -> None:
    """
    Arguments that are not UTF-8 arrive as surrogates.
    """
    name, bootstrap = timers.topic.name, timers.bootstrap
    headers = ("--header", "tidemill-timer-id=i\udcff", "--header", "tidemill-delay=1h")
    produced = tidemill("produce", name, "--key", "k\udcff", *headers, bootstrap=bootstrap, stdin=b"v\n")
    assert 0 == produced.exit_code, produced.err

    for command in (("list", "--key", "k\udcff"), ("list", "--id", "i\udcff"), ("show", "i\udcff")):
        (row,) = timers.rows(*command)
        assert [{"base64": "a/8="}, {"base64": "af8="}] == [row["key"], row["timer_id"]]
    assert [1, 0, 0] == timers.outcome("cancel", "--key-prefix", "k\udcff", "--dry-run")
    assert [1, 0, 0] == timers.outcome("cancel", "i\udcff")
    missing = timers.run("show", "i\udcff")
    assert (1, "") == (missing.exit_code, missing.out)


def test_what_waits_is_counted(timers: Timers) -> None:
    rows = timers.rows("stats")
    assert [3, 2, 2] == [row["waiting"] for row in rows]
    assert timers.topic.base_ms + HOUR_MS == rows[0]["next_due_ms"]
    assert [2] == [row["waiting"] for row in timers.rows("stats", "--partition", "1")]
    missing = timers.run("stats", "--partition", "9")
    assert 1 == missing.exit_code and "partition 9 does not exist" in missing.err


def test_a_histogram_has_bars_on_a_terminal(timers: Timers) -> None:
    rows = timers.rows("histogram", "--buckets", "30m,150m,1d")
    assert [0, 2, COUNT - 2, 0] == [row["waiting"] for row in rows]
    assert (None, rows[1]["from_ms"]) == (rows[0]["from_ms"], rows[0]["before_ms"])
    assert ["due\trecords", "within 30m\t0", "30m to 150m\t2"] == timers.run(
        "histogram", "--buckets", "30m,150m,1d"
    ).out.splitlines()[:3]

    shown = on_terminal("timers", "histogram", timers.topic.name, bootstrap=timers.bootstrap)
    assert "█" in shown.out and f"{COUNT} records waiting" in shown.out


def test_timers_are_cancelled(timers: Timers) -> None:
    """
    The command fails if one that is named does not wait; the others are cancelled nevertheless.
    """
    (named,) = [row for row in timers.rows("list") if row["timer_id"] == "t3"]

    assert [1, 0, 0] == timers.outcome("cancel", "t0")
    failed = timers.run("cancel", "t0", "t1", "none", "--json")
    assert 1 == failed.exit_code
    assert {"cancelled": 1, "already_released": 0, "unknown": 2}.items() <= json.loads(failed.out).items()
    assert "2 of the 3 that were named wait nowhere" in json.loads(failed.err)["message"]
    assert [1, 0, 0] == timers.outcome("cancel", "--arrival", f"{named['partition']}:{named['arrival']}")
    assert [2, 0, 0] == timers.outcome("cancel", "--due-before", "330m", "--dry-run")
    assert [2, 0, 0] == timers.outcome("cancel", "--due-before", "330m")
    assert [2, 0, 0] == timers.outcome("cancel", "--all")
    assert ([0, 0, 0], [], []) == (timers.outcome("cancel", "--all"), timers.rows("list"), timers.topic.released())


def test_timers_are_rescheduled(timers: Timers) -> None:
    assert [1, 0, 0] == timers.outcome("reschedule", "t0", "--shift", "9h")
    assert [1, 0, 0] == timers.outcome("reschedule", "t1", "--at", str(timers.topic.base_ms + 11 * HOUR_MS))
    assert [1, 0, 0] == timers.outcome("reschedule", "t2", "--delay", "0s")
    wait_for(lambda: timers.topic.waiting() == COUNT - 1, "a record that is due was not released")
    assert [4, 5, 6, 7, 10, 11] == timers.topic.hours()
    assert [6, 0, 0] == timers.outcome("reschedule", "--all", "--shift", "-1h")
    assert [3, 4, 5, 6, 9, 10] == timers.topic.hours()


def test_a_terminal_is_asked_before_all_records_are_cancelled(timers: Timers) -> None:
    """
    A selection of few records, and a dry run, ask nothing.
    """
    refused = on_terminal("timers", "cancel", timers.topic.name, "--all", bootstrap=timers.bootstrap, answer="n")
    assert f"Cancel {COUNT} records that wait in {timers.topic.name}?" in refused.out
    assert (1, COUNT) == (refused.exit_code, timers.topic.waiting())
    for options, expected in (
        (("--all", "--dry-run"), COUNT),
        (("--key", "k0"), COUNT - 1),
        (("--all", "--yes"), 0),
    ):
        done = on_terminal("timers", "cancel", timers.topic.name, *options, bootstrap=timers.bootstrap)
        assert (0, expected) == (done.exit_code, timers.topic.waiting()), options


@pytest.mark.parametrize(
    ("command", "arguments", "problem"),
    [
        ("cancel", (), "choose records by ids"),
        ("cancel", ("--partition", "1"), "choose records by ids"),
        ("cancel", ("t0", "--all"), "ids and --all both choose records"),
        ("cancel", ("--key-prefix", "", "--due-before", "1d"), "--key-prefix '' would choose every record"),
        ("cancel", ("--arrival", "0:1", "--partition", "0"), "--partition 0: --arrival names the partition already"),
        ("cancel", ("--due-before", "soon"), "--due-before 'soon': use a time such as 2027-01-31T08:00:00Z"),
        ("reschedule", ("t0",), "exactly one of --at TIME, --delay DURATION and --shift DURATION"),
        ("reschedule", ("t0", "--delay", "1m", "--shift", "1m"), "exactly one of"),
        ("reschedule", ("t0", "--shift", "-999999999999d"), "--shift -999999999999d: at most 2932896d"),
        ("list", ("--due-before", "999999999999d"), "--due-before 999999999999d: at most 2932896d"),
        ("histogram", ("--buckets", "1d,1h"), "the durations must ascend"),
    ],
)
def test_options_that_do_not_choose_are_usage_errors(command: str, arguments: tuple[str, ...], problem: str) -> None:
    finished = tidemill("timers", command, "reminders", *arguments, bootstrap="127.0.0.1:1")

    assert 2 == finished.exit_code
    assert problem in finished.err


def test_a_topic_of_another_kind_is_named(cluster: Cluster) -> None:
    tidemill("topics", "create", "plain-log", bootstrap=cluster.bootstrap)

    finished = tidemill("timers", "list", "plain-log", bootstrap=cluster.bootstrap)

    assert 1 == finished.exit_code
    assert "INVALID_REQUEST: topic 'plain-log' is not of kind timer" in finished.err
    assert "tidemill.kind=timer" in finished.err


def test_produce_refuses_a_bad_line_before_its_batch_is_sent(timers: Timers) -> None:
    """
    A broker would refuse the other lines of the batch, too.  librdkafka knows only the name of the error.
    """
    lines = [{"value": "v", "headers": [["tidemill-delay", delay]]} for delay in ("1h", "soon", "2h")]
    stdin = "".join(f"{json.dumps(line)}\n" for line in lines).encode()

    to_timers, to_log = (
        tidemill("produce", topic, *options, "--format", "json", bootstrap=timers.bootstrap, stdin=stdin)
        for topic, options in ((timers.topic.name, ("--partition", "0")), ("lines-log", ("--create",)))
    )

    assert (1, 0) == (to_timers.exit_code, to_log.exit_code)
    assert "refused: line 2: INVALID_RECORD: tidemill-delay='soon': write whole milliseconds" in to_timers.err
    assert "produced 2 records" in to_timers.err and ", 1 refused" in to_timers.err
    assert "produced 3 records" in to_log.err


def test_produce_sends_more_schedules_than_a_batch_may_have(timers: Timers) -> None:
    """
    A broker would refuse a batch with all of them.
    """
    count = 3 * BATCH_SCHEDULES_MAX
    headers = [["tidemill-schedule", "every 1h"]]
    lines = [{"value": "v", "headers": [*headers, ["tidemill-timer-id", f"s{it}"]]} for it in range(count)]
    stdin = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    options = ("--partition", "0", "--format", "json")

    produced = tidemill("produce", timers.topic.name, *options, bootstrap=timers.bootstrap, stdin=stdin)

    assert 0 == produced.exit_code and f"produced {count} records" in produced.err, produced.err
