"""What all pages have in common: the banner, parameters, the paging of long lists, and escaping."""

from urllib.parse import quote

import pytest

from tests.unit.console.console_world import HOSTILE, View, broker, get, shard
from tidemill.console.cluster_view import LEADERLESS, UNDER_REPLICATED, BrokerProblem


def banner_of(text: str) -> str:
    return " ".join(text.partition('aria-label="Problems"')[2].partition("</section>")[0].split())


@pytest.mark.parametrize("path", ["/", "/topics", "/groups", "/brokers", "/shards", "/topics/orders"])
def test_a_banner_names_what_is_in_danger_on_every_page(path: str) -> None:
    """
    The banner names the brokers that are down, and the partitions that have no leader or too few replicas.
    """
    view = View(
        shard(1, state=LEADERLESS, leader=None, in_sync=()),
        shard(2, "payments", state=UNDER_REPLICATED, first_partition=4, partition_count=3),
        brokers=[broker(1), broker(2, is_up=False), broker(3, is_up=False)],
    )

    banner = banner_of(get(view, path).text)

    assert "Brokers 2, 3 are down." in banner
    assert "1 partition without a leader" in banner and ">orders</a>&nbsp;0" in banner
    assert "3 partitions under-replicated" in banner and ">payments</a>&nbsp;4–6" in banner


def test_a_banner_names_the_problems_of_the_broker_itself() -> None:
    """
    The banner names a full disk, which stops writes although every broker is up and every replica in sync.
    """
    view = View(shard(1))
    view.problems = [BrokerProblem("disk_full", 1, "writes are refused: free some"), BrokerProblem("many", 2, "b & c")]

    banner = banner_of(get(view, "/").text)

    assert "Broker 1, disk full:</strong> writes are refused: free some" in banner
    assert "Broker 1, many (2):</strong> b &amp; c" in banner


def test_a_whole_cluster_has_no_banner() -> None:
    """
    If there are no problems, the page shows no banner.
    """
    assert "" == banner_of(get(View(shard(1)), "/").text)


def test_a_banner_has_a_bounded_length() -> None:
    """
    If many partitions have no leader, the banner names only a few and links to the others.
    """
    view = View(*(shard(number, f"t{number}", state=LEADERLESS, leader=None) for number in range(1_000)))

    banner = banner_of(get(view, "/").text)

    assert "1,000 partitions" in banner and '<a href="/shards?state=leaderless">992 more</a>' in banner
    assert ">t7</a>" in banner and ">t8</a>" not in banner


def test_an_isolated_broker_says_that_its_view_may_be_outdated() -> None:
    """
    A broker that hears no majority cannot know what the other brokers are doing.
    """
    view = View(shard(1))
    view.has_quorum_contact = False

    assert "Broker 1 does not hear a majority" in banner_of(get(view, "/").text)


@pytest.mark.parametrize("path", ["/topics?q={}", "/shards?q={}", "/groups?q={}", "/group?id={}", "/topics/{}"])
def test_text_of_others_is_escaped(path: str) -> None:
    """
    Names and parameters are shown as text, whatever they contain.
    """
    view = View(shard(1, HOSTILE, damage=HOSTILE))

    text = get(view, path.format(quote(HOSTILE, safe=""))).text

    assert "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(&#39;x&#39;)&gt;&#34;&amp;" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "1–50 of 120 topics"),
        ("?page=3", "101–120 of 120 topics"),
        ("?page=99", "101–120 of 120 topics"),
        ("?page=-1", "1–50 of 120 topics"),
        ("?page=²", "1–50 of 120 topics"),
        ("?q=TOPIC-10", "1–10 of 10 topics"),
        ("?q=none", "No topics"),
    ],
)
def test_long_lists_are_searched_and_paged(query: str, expected: str) -> None:
    """
    A list shows fifty rows, from the requested page or, if that does not exist, from the nearest one.
    """
    view = View(*(shard(number, f"topic-{number:03}") for number in range(120)))

    assert expected in get(view, f"/topics{query}").text


def test_links_to_other_pages_keep_the_search() -> None:
    """
    The link to the next page contains the search.
    """
    view = View(*(shard(number, f"topic-{number:03}") for number in range(120)))

    assert 'rel="next" href="/topics?q=topic&amp;page=3"' in get(view, "/topics?q=topic&page=2").text
