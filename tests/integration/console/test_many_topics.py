"""The console of a broker with ten thousand topics."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, expect

from tests.integration.cli.command import ENVIRONMENT
from tests.integration.console.browser import open_tab

TOPICS = 10_000
BATCH = 1_000
PATHS = ("/", "/topics", "/topics?page=150", "/topics?q=99", "/topics/topic-00007", "/topics/topic-00007/0", "/shards")
REPEATS = 9


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the HTTP address of a broker with many topics."""
    data: Path = tmp_path_factory.mktemp("many") / "data"
    options = ("--data", str(data), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json")
    command = [sys.executable, "-m", "tidemill", "dev", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT
    ) as broker:
        assert broker.stdout is not None
        try:
            ready = json.loads(broker.stdout.readline())
            admin = AdminClient({"bootstrap.servers": ready["kafka"], "log_level": 0})
            for first in range(0, TOPICS, BATCH):
                topics = [NewTopic(f"topic-{number:05}", 1, 1) for number in range(first, first + BATCH)]
                for created in admin.create_topics(topics, request_timeout=120).values():
                    created.result()
            yield ready["http"]
        finally:
            broker.terminate()
            broker.wait(timeout=60)


def test_ten_thousand_topics_are_shown_page_by_page(browser: Browser, http: str) -> None:
    """
    The list can be paged and searched, and the overview counts all topics.
    """
    with open_tab(browser) as tab:
        tab.open(f"http://{http}/")
        expect(tab.page.locator("dl.stats dd").nth(1)).to_contain_text("10,000")
        tab.open(f"http://{http}/topics?page=200")
        expect(tab.page.locator("tbody tr")).to_have_count(50)
        expect(tab.page.locator("tbody tr").last).to_contain_text("topic-09999")
        tab.page.get_by_role("searchbox").fill("topic-0123")
        expect(tab.page.get_by_role("navigation", name="Pages of this table")).to_contain_text("1–10 of 10 topics")
        assert [] == tab.complaints


def test_answer_times_with_ten_thousand_topics(http: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The median response time of each page is printed; it should be below 200 ms on an otherwise idle machine.
    """
    medians = {path: round(median(answer_ms(f"http://{http}{path}") for _ in range(REPEATS))) for path in PATHS}

    with capsys.disabled():
        print(f"\nconsole with {TOPICS} topics, median answer time in ms: {medians}")
    assert medians.keys() == {*PATHS}


def answer_ms(address: str) -> float:
    began = time.perf_counter()
    with urlopen(address, timeout=60) as response:
        response.read()
    return (time.perf_counter() - began) * 1_000
