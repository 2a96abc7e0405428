"""Every page of the console in Chromium, for a cluster of three brokers, one of which is killed."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer
from playwright.sync_api import Browser, expect

from tests.integration.cli.command import tidemill
from tests.integration.cli.dev_cluster import Cluster, running_cluster, started_again
from tests.integration.console.browser import SCHEMES, Tab, open_tab
from tests.integration.console.scene import HOSTILE, JOBS, fill, fill_with_bytes, share_consumer, steady_load

PAGES = {
    "/": "Overview",
    "/topics": "Topics",
    "/topics?internal=1&state=ok": "Topics",
    "/topics/orders": "orders",
    "/topics/orders/0": "Partition 0",
    "/topics/orders/0?format=json&limit=10": "Partition 0",
    "/topics/payloads/0": "Partition 0",
    "/topics/payloads/0?format=hex&offset=2&limit=1": "Partition 0",
    "/queues": "Queues",
    "/queue?group=mail%20jobs/1&topic=jobs": "jobs",
    "/groups": "Groups",
    "/group?id=mail%20jobs/1": "mail jobs/1",
    "/group?id=billing": "billing",
    "/group?id=fraud%20detection/1": "fraud detection/1",
    "/brokers": "Brokers",
    "/shards": "Shards",
    "/topics/missing": "Not found",
}
REFRESH = """() => new Promise(done => {
    document.addEventListener("htmx:afterSettle", () => done(true), {once: true});
    htmx.trigger("#live", "refresh");
})"""
PICTURES = os.environ.get("TIDEMILL_CONSOLE_PICTURES")  # a directory for the screenshots in the documentation


def address(cluster: Cluster, path: str, broker: int = 0) -> str:
    return f"http://{cluster.brokers[broker]['http']}{path}"


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with open_tab(browser) as found:
        yield found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_is_shown_without_complaints(browser: Browser, cluster: Cluster, scheme: str) -> None:
    """
    Each page has its heading in light and in dark colours, the browser reports neither errors nor violations of the
    content security policy, and axe finds no serious accessibility problem.
    """
    found: dict[str, list[str]] = {}

    with open_tab(browser, scheme) as tab:
        for path, heading in PAGES.items():
            tab.open(address(cluster, path))
            expect(tab.page.get_by_role("heading", level=1)).to_have_text(heading)
            if path == "/":
                expect(tab.page.locator(".plot canvas")).to_have_count(4)
            found[path] = tab.accessibility_problems()

    is_expected = "Failed to load resource: the server responded with a status of 404"  # /topics/missing does not exist
    assert [] == [text for text in tab.complaints if not text.startswith(is_expected)]
    assert [] == [(path, problem) for path, problems in found.items() for problem in problems]


def test_records_are_shown_as_text_and_never_run(tab: Tab, cluster: Cluster) -> None:
    """
    Keys, values and headers are text, whatever they contain; a null value looks different from an empty one, and only
    the beginning of a large value is shown.
    """
    tab.page.on("dialog", lambda dialog: tab.complaints.append(dialog.message))

    tab.open(address(cluster, "/topics/payloads/0"))

    rows = tab.page.locator("table.records tbody tr")
    expect(rows).to_have_count(4)
    large, hostile, tombstone, binary = rows.all()
    expect(hostile.locator("pre")).to_have_text([HOSTILE, HOSTILE, HOSTILE])
    expect(tombstone.locator(".null")).to_have_count(1)
    expect(binary.locator("pre").nth(1)).to_contain_text("000010  10 11 12 13")
    expect(large).to_contain_text("the beginning of 488 KiB")
    assert [] == tab.complaints


def test_records_are_read_page_by_page(tab: Tab, cluster: Cluster) -> None:
    """
    The last records are shown first; "Older" leads to those before them.
    """
    tab.open(address(cluster, "/topics/payments/0?limit=10"))
    last = int(tab.page.locator("table.records th[scope=row]").first.inner_text().replace(",", ""))

    tab.page.get_by_role("link", name="Older").click()

    expect(tab.page.locator("table.records th[scope=row]").first).to_have_text(f"{last - 10:,}")
    tab.page.get_by_role("link", name="Newer").click()
    expect(tab.page.locator("table.records th[scope=row]").first).to_have_text(f"{last:,}")


def test_every_broker_shows_the_same_offsets(tab: Tab, cluster: Cluster) -> None:
    """
    Offsets come from the leaders, so every broker shows the same ones.
    """
    totals = []
    for broker in range(3):
        tab.open(address(cluster, "/topics/orders", broker))
        totals.append(tab.page.locator("dl.stats dd").nth(1).inner_text())

    assert ["300"] * 3 == totals


def test_a_group_shows_lag_and_members(tab: Tab, cluster: Cluster) -> None:
    """
    The lag of a group is the distance from its committed offsets to the ends of the logs.  A new member appears in an
    open page without a reload, with its assigned partitions.
    """
    tab.open(address(cluster, "/group?id=billing"))
    expect(tab.page.locator("dl.stats")).to_contain_text("240")  # 300 records less 10 read from each of 6 partitions
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "client.id": "worker-7"})
    consumer.subscribe(["orders"])
    try:
        row = tab.page.locator("#offset-orders-5")
        for _ in range(600):
            consumer.poll(0.1)
            if "worker-7" in row.inner_text():
                break
        expect(row).to_contain_text("worker-7")
        expect(tab.page.get_by_role("region", name="Members")).to_contain_text("worker-7")
    finally:
        consumer.close()


def test_a_queue_shows_what_its_consumers_do(tab: Tab, cluster: Cluster) -> None:
    """
    Each broker shows the same numbers of a queue, with a bar, and the overview links to it.  What a new consumer holds
    appears in an open page without a reload, together with the consumer.
    """
    available = []
    for broker in range(3):
        tab.open(address(cluster, "/queues", broker))
        row = tab.page.locator("tbody tr").filter(has_text="mail jobs/1")
        expect(row.get_by_role("img")).to_have_accessible_name(
            f"{JOBS - 2} available, 0 held, 0 delayed, 0 dead, waiting"
        )
        available.append(row.locator("td.n").first.inner_text())
    assert [str(JOBS - 2)] * 3 == available

    tab.open(address(cluster, "/"))
    row = tab.page.get_by_role("region", name="Queues").get_by_role("row").filter(has_text="mail jobs/1")
    expect(row.locator("td.n").first).to_have_text(str(JOBS - 2))
    row.get_by_role("link", name="jobs", exact=True).click()
    expect(tab.page.locator("#partition-1")).to_contain_text(str(JOBS // 2))
    consumer = share_consumer(cluster.bootstrap)
    try:
        assert any(consumer.poll(0.1) for _ in range(600)), "the consumer gets no jobs"
        expect(tab.page.locator("rect.held").first).to_be_visible()
        expect(tab.page.get_by_role("region", name="Members")).to_contain_text("mailer-1")
    finally:
        consumer.close()


def test_the_page_works_without_javascript(browser: Browser, cluster: Cluster) -> None:
    """
    Searching and following links need no JavaScript.
    """
    with open_tab(browser, java_script_enabled=False) as tab:
        tab.open(address(cluster, "/topics"))
        tab.page.get_by_role("searchbox").fill("pay")
        tab.page.get_by_role("button", name="Search").click()
        expect(tab.page.locator("tbody tr")).to_have_count(2)
        tab.page.get_by_role("link", name="payments").click()
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("payments")


def test_the_search_follows_the_keyboard(tab: Tab, cluster: Cluster) -> None:
    """
    The table is filtered while the user types, the focus stays in the search field, and the URL contains the search
    term, so that it can be shared.
    """
    tab.open(address(cluster, "/topics"))

    tab.page.get_by_role("searchbox").press_sequentially("click")

    expect(tab.page.locator("tbody tr")).to_have_count(1)
    expect(tab.page.get_by_role("searchbox")).to_be_focused()
    tab.page.wait_for_url("**/topics?q=click*")


def test_a_refresh_keeps_the_focus(tab: Tab, cluster: Cluster) -> None:
    """
    A user who moves through the links with the keyboard does not lose the focus when the page is refreshed.
    """
    tab.open(address(cluster, "/topics"))
    link = tab.page.get_by_role("link", name="orders")
    link.focus()

    tab.page.evaluate(REFRESH)

    expect(link).to_be_focused()


def test_a_hidden_tab_asks_for_nothing(tab: Tab, cluster: Cluster) -> None:
    """
    A tab in the background sends the broker no requests.  When it becomes visible, it is refreshed immediately.
    """
    tab.open(address(cluster, "/topics"))
    hide = "value => { Object.defineProperty(document, 'hidden', {value, configurable: true}); }"
    tab.page.evaluate(hide, True)
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))

    tab.page.evaluate("htmx.trigger('#live', 'refresh')")
    while_hidden = [url for url in asked if url.endswith("/topics")]
    tab.page.evaluate(hide, False)
    with tab.page.expect_response("**/topics"):
        tab.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    assert [] == while_hidden


def test_a_drain_is_shown_while_one_looks(tab: Tab, cluster: Cluster) -> None:
    """
    The page of any broker has the states that the controller tells, and the status of re-placement; both are renewed
    without a reload.
    """
    tab.open(address(cluster, "/", 1))
    row = tab.page.locator("#broker-3")
    expect(tab.page.locator("#live")).to_contain_text("under way")
    expect(row).to_contain_text("active")

    change(cluster, "drain", {"of": "leaders"})
    try:
        expect(row).to_contain_text("draining leaders", timeout=30_000)
        assert [] == tab.accessibility_problems()
    finally:
        change(cluster, "undrain", {})
    expect(row).not_to_contain_text("draining", timeout=30_000)
    assert [] == tab.complaints


def change(cluster: Cluster, operation: str, body: dict[str, str]) -> None:
    """Change broker 3, by a request to broker 1."""
    request = Request(
        address(cluster, f"/v1/brokers/3/{operation}"),
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=30) as response:
        assert 200 == response.status


def test_a_broker_that_dies_is_named_while_one_looks(browser: Browser, cluster: Cluster, restarts: ExitStack) -> None:
    """
    When a broker dies, an open page of another broker says so without a reload, and names what is under-replicated.  An
    open page of the dead broker keeps showing its last contents.  When the broker is back, the banner disappears.
    """
    victim = cluster.brokers[2]
    with open_tab(browser) as tab, open_tab(browser) as dead:
        tab.open(address(cluster, "/topics/orders"))
        dead.open(address(cluster, "/topics/orders", 2))
        expect(tab.page.get_by_role("region", name="Problems")).to_have_count(0)

        os.kill(victim["pid"], signal.SIGKILL)

        banner = tab.page.get_by_role("region", name="Problems")
        expect(banner).to_contain_text("Broker 3 is down.")
        expect(banner).to_contain_text("under-replicated")
        expect(banner.get_by_role("link", name="orders").first).to_be_visible()
        expect(dead.page.locator("#stale")).to_contain_text("does not answer")
        expect(dead.page.locator("#partition-0")).to_be_visible()
        restarts.enter_context(started_again(victim))
        expect(banner).to_have_count(0)
        assert [] == tab.complaints


@pytest.mark.timeout(600)
@pytest.mark.skipif(not PICTURES, reason="TIDEMILL_CONSOLE_PICTURES names no directory for the screenshots")
def test_pictures_for_the_documentation(browser: Browser, cluster: Cluster) -> None:
    """
    The screenshots in docs/console.md show the cluster of this test suite.
    """
    wanted = {
        "overview-light": ("/", "light"),
        "overview-dark": ("/", "dark"),
        "topic": ("/topics/orders", "light"),
        "records": ("/topics/orders/0?limit=10", "light"),
        "queue": ("/queue?group=mail%20jobs/1&topic=jobs", "light"),
        "group": ("/group?id=billing", "light"),
    }
    load = Thread(target=steady_load, args=(cluster.bootstrap, 270))  # gives the charts something to show
    load.start()
    load.join(timeout=210)
    for name, (path, scheme) in wanted.items():
        with open_tab(browser, scheme) as tab:
            tab.open(address(cluster, path))
            if path == "/":
                expect(tab.page.locator(".plot canvas")).to_have_count(4)
            if path == "/topics/orders":  # wait until the rates are known
                expect(tab.page.locator("dl.stats dd").nth(2)).not_to_have_text("–")
            tab.page.screenshot(path=Path(PICTURES or "", f"console-{name}.png"), full_page=True)
    load.join()


@pytest.mark.timeout(600)
@pytest.mark.skipif(not PICTURES, reason="TIDEMILL_CONSOLE_PICTURES names no directory for the screenshots")
def test_a_picture_of_moves_for_the_documentation(browser: Browser, tmp_path: Path) -> None:
    """
    The screenshot of the brokers in docs/console.md: of five brokers one is gone, and another one gives up its leaders.
    The replicas of the lost broker are on their way to the others, slowly enough to be seen.
    """
    settings = {
        "tidemill.broker.silent.ms": "2000",
        "tidemill.replica.replacement.delay.ms": "4000",
        "tidemill.replica.move.bytes.per.second": str(256 << 10),
    }
    with running_cluster(tmp_path / "data", 5) as cluster:
        fill(cluster.bootstrap)
        fill_with_bytes(cluster.bootstrap, "clickstream", 60 << 20)
        changes = [f"{key}={value}" for key, value in settings.items()]
        assert 0 == tidemill("configs", "set", "--cluster", *changes, bootstrap=cluster.bootstrap).exit_code
        change(cluster, "drain", {"of": "leaders"})
        os.kill(cluster.brokers[4]["pid"], signal.SIGKILL)
        with open_tab(browser) as tab:
            tab.open(address(cluster, "/brokers"))
            expect(tab.page.locator("#broker-5")).to_contain_text("gone")
            expect(tab.page.locator("tr[id^=move-] td:nth-child(6)").first).to_have_text(re.compile("[1-9][0-9] %"))
            tab.page.screenshot(path=Path(PICTURES or "", "console-brokers.png"), full_page=True)
