"""The page of the statistics and its charts."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

pytest.importorskip("matplotlib", reason="extra 'stats' is not installed")

from tests.unit.spark.pipelines.stats.topics import FIRST_S, topic
from tidemill.spark.pipelines.stats import drawing
from tidemill.spark.pipelines.stats.charts import charts_of
from tidemill.spark.pipelines.stats.figures import TimeStep, TopicFigures
from tidemill.spark.pipelines.stats.page import page
from tidemill.spark.pipelines.stats.palette import DARK, LIGHT
from tidemill.spark.pipelines.stats.themed_svg import themed

HOSTILE = [b"<script>alert(1)</script>", b'" onload="x', b"$\\frac{1}{2}$", "漢字".encode(), b"\x00\xff", b""]


class Reader(HTMLParser):
    """Collects the references, the ids and the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                self.references.append(value or "")


def page_of(figures: TopicFigures) -> str:
    return page(figures, charts_of(figures), FIRST_S + 86_400 + 59.0)


@pytest.fixture(scope="module")
def hostile() -> str:
    keys = {key: 10 + number for number, key in enumerate(HOSTILE)}
    return page_of(topic([[30, 45], [0, 0]], keys, name="a<b>&'topic'"))


def test_the_page_needs_nothing_else(hostile: str) -> None:
    """
    The page loads nothing and contains no script, and its content security policy forbids both.
    """
    reader = Reader(hostile)

    assert [] == [it for it in reader.references if not it.startswith(("data:", "#"))]
    assert not {"script", "link"} & set(reader.tags) - {"link"}
    assert "default-src 'none'" in hostile
    assert "@import" not in hostile and "url(http" not in hostile


def test_keys_and_the_topic_are_text(hostile: str) -> None:
    """
    Keys and the topic's name are shown as text, whatever characters they contain.
    """
    reader = Reader(hostile)

    assert "script" not in reader.tags
    assert "&lt;script&gt;" in hostile and "a&lt;b&gt;&amp;" in hostile
    assert "漢字" in hostile and "$\\frac{1}{2}$" in hostile and "0x00ff" in hostile


def test_ids_are_unique(hostile: str) -> None:
    """
    No two elements have the same id, although every chart is drawn twice, and every reference has a target.
    """
    reader = Reader(hostile)
    referenced = set(re.findall(r"url\(#([^)]+)\)", hostile)) | {it[1:] for it in reader.references if it[:1] == "#"}

    assert len(set(reader.ids)) == len(reader.ids)
    assert set() == referenced - set(reader.ids)


def test_charts_follow_the_colour_scheme(hostile: str) -> None:
    """
    Every colour in the charts is a variable of the style sheet, which defines it for the light and the dark scheme.
    """
    body = hostile.partition("</style>")[2]
    used = set(re.findall(r"var\(--([\w-]+)\)", body)) - {"font"}

    assert [] == re.findall(r"(?:fill|stroke|background): ?(#\w+)", body)
    assert used and used <= LIGHT.keys() == DARK.keys()
    assert len(set(LIGHT.values())) == len(LIGHT)


def test_the_numbers_behind_each_chart_are_a_table(hostile: str) -> None:
    """
    Each chart has a description for screen readers, and a table of its numbers with a heading for each column.
    """
    reader = Reader(hostile)
    charts = charts_of(topic([[1]], {b"a": 1}))

    assert len(charts) == reader.tags.count("figure") == reader.tags.count("table") == reader.tags.count("details")
    assert 2 * len(charts) == len(re.findall(r'<svg class="\w+" role="img" aria-label="[^"]{20,}"', hostile))


def test_a_page_without_records_says_so() -> None:
    """
    A page for an empty range says that there are no records.
    """
    empty = topic([[0]])

    assert "The range has no records." in page(empty, [], 0.0)


def test_ages_are_readable() -> None:
    """
    The page shows how old the newest record was when the page was created.
    """
    assert "the newest record is 1 day old" in page_of(topic([[5]]))


def test_the_numbers_of_a_drawing_are_short_and_its_texts_whole() -> None:
    """
    Coordinates have one digit after the decimal point, which halves the size of the page; text is not changed.
    """
    path = '<path id="a" d="M 1.23456 -0.01 L 10.96 7" style="fill: #0B6BCB"/>'
    svg = f'<svg viewBox="0 0 9 9"><g id="b">{path}<text>1.23456 ×</text></g></svg>'

    text = themed(svg, "c", "regular", "what")

    assert 'd="M 1.2 0 L 11 7"' in text and "1.23456 ×" in text and "var(--series-1)" in text and "id=" not in text


@pytest.mark.parametrize("name", ["records_over_time", "sizes", "partitions", "keys_by_records", "key_hash", "splits"])
def test_every_chart_is_a_picture(name: str) -> None:
    """
    Each chart is also a PNG of twice its size in CSS pixels, even if the font lacks characters of the keys.
    """
    keys = {key: 10 + number for number, key in enumerate(HOSTILE)}
    chart = next(chart for chart in charts_of(topic([[30, 45], [0, 3]], keys)) if chart.name == name)

    picture = drawing.png(chart)

    assert b"\x89PNG\r\n\x1a\n" == picture[:8]
    width = drawing.WIDE[0] if chart.is_wide else drawing.HALF[0]
    assert 2 * width == int.from_bytes(picture[16:20])


def test_times_that_no_calendar_has_are_drawn() -> None:
    """
    A chart is drawn even for years after 9999, which appear if a producer sends microseconds instead of milliseconds.
    """
    figures = topic([[5]])
    late = replace(figures.timeline, steps=(TimeStep(start_s=1_357_034_400_000, partition=0, records=5, bytes=500),))

    assert drawing.svg(charts_of(replace(figures, timeline=late))[0], drawing.WIDE)
