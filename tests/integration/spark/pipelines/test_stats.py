"""The pipeline `stats` with a real broker and Spark: every number is compared with what a consumer counts."""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import islice
from math import ceil

import pytest

from examples import flights
from tests.fault.extent import soak_only
from tidemill.batches.native import scan
from tidemill.spark import pipelines
from tidemill.spark.pipelines.frame.progress import SilentProgress
from tidemill.spark.pipelines.frame.run import make_job, run

confluent_kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("matplotlib", reason="extra 'stats' is not installed")

PARTITIONS = 3
FLIGHTS = 9_000
STRAY_MS = -5_000  # a time before 1970, far from all others
WIDTHS = (1_280, 400)


@pytest.fixture(scope="module")
def records():
    """
    Return flights of the first days of 2013; some have no key or no value, and one has a timestamp far from the others.
    """
    found = [
        {
            "key": None if number % 50 == 0 else flight.key,
            "value": None if number % 97 == 0 else flight.value[: 100 + number % 60],
            "timestamp": flight.timestamp_ms,
            "partition": scan.murmur2(flight.key) % PARTITIONS,
        }
        for number, flight in enumerate(islice(flights.read(flights.FlightTable()), FLIGHTS))
    ]
    found[7]["timestamp"] = STRAY_MS
    return found


@pytest.fixture
def stats(spark, bootstrap, tmp_path):
    def start(topic, **options):
        given = {"to": str(tmp_path / "out"), "state": tmp_path / "state", **options}
        return pipelines.stats(spark, topic=topic, bootstrap_servers=bootstrap, **given)

    return start


@pytest.fixture
def consumed(bootstrap):
    """`consumed(topic, ends)` returns the messages of a topic up to the offsets `ends`."""

    def read(topic, ends):
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in ends])
        found = []
        while left := sum(ends.values()) - len(found):
            messages = consumer.consume(min(left, 1_000), 30)  # waits for that many messages, at most 30 s
            assert messages, f"{len(found)} messages within 30 s"
            assert [] == [message.error() for message in messages if message.error()]
            found += [message for message in messages if message.offset() < ends[message.partition()]]
        consumer.close()
        return found

    return read


def size(message):
    return len(message.key() or b"") + len(message.value() or b"")


def percentile(sizes, percent):
    """Return the smallest size that `percent` % of the records do not exceed."""
    return sorted(sizes)[ceil(len(sizes) * percent / 100) - 1]


def rows(spark, path):
    return [row.asDict() for row in spark.read.parquet(str(path)).collect()]


class StopAfterOneStep(SilentProgress):
    def __init__(self):
        self.steps = 0

    def advance(self, records, bytes=0, lag=None):
        self.steps += 1

    def is_stopped(self):
        return self.steps >= 1


def test_every_number_is_that_of_a_consumer(spark, bootstrap, make_topic, produce, records, stats, consumed, tmp_path):
    """
    A run that was stopped after a step continues with the same range, although the topic has grown.  Its tables, its
    report and its page contain the numbers that a consumer counts in this range.
    """
    topic, progress = make_topic(PARTITIONS), StopAfterOneStep()
    produce(topic, records)
    ends = {number: sum(record["partition"] == number for record in records) for number in range(PARTITIONS)}
    given = {"topic": topic, "to": str(tmp_path / "out"), "top": 5, "step_records": 4_000}
    places = {"state": tmp_path / "state", "bootstrap_servers": bootstrap}

    plan = pipelines.stats.plan(spark, **given, **places)
    job = make_job(
        spark, pipelines.stats.pipeline, given, **places, progress=progress, stop_requested=progress.is_stopped
    )
    stopped = run(pipelines.stats.pipeline, job)
    produce(topic, records[:100])
    report = pipelines.stats(spark, **given, **places)

    assert [(number, 0, end, end) for number, end in ends.items()] == list(plan.tables[0].rows)
    assert (1, 3) == (stopped.rows["steps done"], stopped.rows["steps"])
    messages = consumed(topic, ends)
    check_report(report, messages, ends)
    check_per_minute(rows(spark, tmp_path / "out" / "per_minute"), messages)
    check_keys(rows(spark, tmp_path / "out" / "hot_keys"), rows(spark, tmp_path / "out" / "key_hash"), messages)
    summary = json.loads((tmp_path / "out" / "stats.json").read_text())
    assert {str(number): [0, end] for number, end in ends.items()} == summary["offsets"]
    assert 8 == len([*(tmp_path / "out" / "charts").glob("*.png")])
    page = (tmp_path / "out" / "index.html").read_text()
    assert "1 record with times far from all others" in page
    assert not (tmp_path / "state" / "steps").exists()
    check_in_a_browser(tmp_path / "out" / "index.html", topic)


def check_report(report, messages, ends):
    sizes = [size(message) for message in messages]
    keys = Counter(message.key() for message in messages if message.key() is not None)
    expected = {
        "records": len(messages),
        "bytes": sum(sizes),
        "partitions": PARTITIONS,
        "different_keys": len(keys),
        "without_key": sum(message.key() is None for message in messages),
        "size_mean": round(sum(sizes) / len(sizes), 1),
        "size_p50": percentile(sizes, 50),
        "size_p99": percentile(sizes, 99),
        "size_max": max(sizes),
    }
    assert report.is_success
    assert expected == {name: report.rows[name] for name in expected}
    assert [(number, end) for number, end in ends.items()] == [row[:2] for row in report.tables[0].rows]


def check_per_minute(table, messages):
    groups = defaultdict(list)
    for message in messages:
        groups[message.partition(), message.timestamp()[1] // 60_000 * 60].append(message)
    expected = {
        place: (
            len(group),
            sum(map(size, group)),
            sum(message.key() is None for message in group),
            sum(map(size, group)) / len(group),
            percentile([size(message) for message in group], 50),
            percentile([size(message) for message in group], 99),
            max(map(size, group)),
            min(message.timestamp()[1] for message in group),
            max(message.timestamp()[1] for message in group),
        )
        for place, group in groups.items()
    }
    assert expected == {
        (row["partition"], round(seconds(row["start"]))): (
            row["records"],
            row["bytes"],
            row["without_key"],
            row["size_mean"],
            row["size_p50"],
            row["size_p99"],
            row["size_max"],
            round(1_000 * seconds(row["first_time"])),
            round(1_000 * seconds(row["last_time"])),
        )
        for row in table
    }
    assert {60} == {row["seconds"] for row in table}


def seconds(time):
    return time.astimezone(UTC).timestamp()


def check_keys(hot_keys, key_hash, messages):
    counts, sizes = Counter(), Counter()
    for message in messages:
        if message.key() is not None:
            counts[message.key()] += 1
            sizes[message.key()] += size(message)
    by_rank = {name: {row[name]: bytes(row["key"]) for row in hot_keys if row[name]} for name in RANKS}
    for name, numbers in zip(RANKS, (counts, sizes), strict=True):
        assert {rank: key for rank, (key, _) in enumerate(numbers.most_common(5), 1)} == by_rank[name]
    for row in hot_keys:
        key = bytes(row["key"])
        assert (counts[key], sizes[key], scan.murmur2(key)) == (row["records"], row["bytes"], row["hash"])
        assert row["hash"] % 256 == row["bucket"]
    buckets = Counter()
    for key, count in counts.items():
        buckets[scan.murmur2(key) % 256] += count
    assert {number: buckets[number] for number in range(256)} == {row["bucket"]: row["records"] for row in key_hash}
    assert (len(counts), sum(sizes.values())) == tuple(sum(row[name] for row in key_hash) for name in ("keys", "bytes"))


RANKS = ("rank_by_records", "rank_by_bytes")


def check_in_a_browser(page, topic):
    """
    Open the page at two widths, in light and in dark colours: it makes no requests, causes no browser errors, and fits
    the width.
    """
    browser_module = pytest.importorskip("tests.integration.console.browser", reason="playwright is not installed")
    if not browser_module.CHROMIUM.exists():
        return  # The tests of the console report that the Debian package of Chromium is missing.
    requests = []
    with browser_module.chromium() as browser:
        for scheme in browser_module.SCHEMES:
            with browser_module.open_tab(browser, scheme) as tab:
                tab.page.on("request", lambda request: requests.append(request.url))
                for width in WIDTHS:
                    tab.page.set_viewport_size({"width": width, "height": 900})
                    tab.open(page.as_uri())
                    assert topic == tab.page.locator("h1").inner_text()
                    assert width == tab.page.evaluate("document.documentElement.scrollWidth")
                    assert 8 == tab.page.locator("figure svg:visible").count()
                    assert [] == tab.accessibility_problems()
                    assert [] == tab.complaints
    assert {page.as_uri()} == {url for url in requests if not url.startswith("data:")}


@soak_only
def test_a_range_of_time_is_counted(make_topic, produce, stats):
    """
    A range may begin and end at timestamps: the end is exclusive, as for offsets.
    """
    topic = make_topic(PARTITIONS)
    produce(topic, [{"value": b"x", "partition": n % 2, "timestamp": 60_000 * n} for n in range(20)])
    start, end = (datetime.fromtimestamp(60 * minute, UTC).isoformat() for minute in (5, 12))

    report = stats(topic, start=start, end=end, bucket="2m")

    assert (7, 7, 0) == (report.rows["records"], report.rows["bytes"], report.rows["different_keys"])
    assert [(0, 3), (1, 4), (2, 0)] == [row[:2] for row in report.tables[0].rows]


@soak_only
def test_a_topic_without_records_has_a_page(make_topic, stats, tmp_path):
    """
    A run on an empty topic succeeds, and its page says that the range has no records.
    """
    report = stats(make_topic(PARTITIONS))

    assert (True, 0) == (report.is_success, report.rows["records"])
    assert "The range has no records." in (tmp_path / "out" / "index.html").read_text()


def test_a_continuous_run_is_refused(make_topic, stats):
    """
    A continuous run is refused, because statistics need a range that ends.
    """
    with pytest.raises(ValueError, match="leave out --continuous"):
        stats(make_topic(), is_continuous=True)
