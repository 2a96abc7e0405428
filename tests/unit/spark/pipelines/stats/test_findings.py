"""The sentences about irregularities of a topic."""

from dataclasses import replace

from tests.unit.spark.pipelines.stats.topics import topic
from tidemill.spark.pipelines.stats.figures import SizeFigures
from tidemill.spark.pipelines.stats.findings import findings


def test_an_even_topic_has_nothing_that_stands_out() -> None:
    """
    If the records of a topic are evenly distributed, there are no findings.
    """
    keys = {b"%d" % number: 10 for number in range(1_000)}

    assert [] == findings(topic([[5_000], [5_000]], keys))


def test_skew_is_said() -> None:
    """
    A full partition, empty partitions, a hot key and records without a key are each reported in one sentence.
    """
    said = findings(topic([[900], [100], [0]], {b"UA": 800, b"B6": 150}, without_key=50))

    starts = [
        "Partition 0 has 2.7 times the records",
        "1 partition of 3 has no records.",
        "One key of 2, UA, has 80",
        "The keys fill 2 of 256",
        "5.0",
    ]
    assert len(starts) == len(said)
    assert [] == [sentence for sentence, start in zip(said, starts, strict=True) if not sentence.startswith(start)]


def test_records_that_are_not_drawn_are_said() -> None:
    """
    Records with outlying timestamps are counted, and a finding says that the charts over time leave them out.
    """
    figures = topic([[10]])
    stray = replace(figures, timeline=replace(figures.timeline, records_outside=3))

    assert ["3 records with times far from all others are counted, but not drawn over time."] == findings(stray)


def test_an_empty_range_is_said() -> None:
    """
    If the range is empty, the only finding says so.
    """
    assert ["The range has no records."] == findings(replace(topic([[0]]), total=SizeFigures()))
