"""What the charts of a topic's statistics show."""

from dataclasses import replace

from tests.unit.spark.pipelines.stats.topics import FIRST_S, STEP_S, topic
from tidemill.spark.pipelines.stats.chart import Bars, Chart, Steps
from tidemill.spark.pipelines.stats.charts import KEYS_DRAWN_MAX, ROWS_MAX, charts_of
from tidemill.spark.pipelines.stats.figures import SizeFigures, TimeStep


def steps(chart: Chart) -> Steps:
    assert isinstance(chart.shape, Steps)
    return chart.shape


def named(charts: list[Chart], name: str) -> Chart:
    return next(chart for chart in charts if chart.name == name)


def test_rates_are_stacked_by_partition() -> None:
    """
    The chart over time stacks the rates of the partitions, a series for each; a time step without records is shown as
    0.
    """
    charts = charts_of(topic([[60, 0, 120], [180, 0, 0]]))

    chart = named(charts, "records_over_time")
    assert "Records per second" == chart.title
    assert {"partition 0": (1, 0, 2), "partition 1": (3, 0, 0)} == {it.label: it.values for it in steps(chart).series}
    assert tuple(float(FIRST_S + STEP_S * number) for number in range(4)) == steps(chart).edges
    assert 2.0 == steps(chart).mean
    assert (100, 0, 200) == steps(named(charts, "bytes_over_time")).series[0].values


def test_many_partitions_share_a_line() -> None:
    """
    The seven fullest partitions have a series each, and all others share one, so that the colours can be told apart.
    """
    records = [[100 - number, 0] for number in range(10)]
    records[9] = [500, 0]

    series = steps(charts_of(topic(records))[0]).series

    assert ["partition 0", *(f"partition {number}" for number in (1, 2, 3, 4, 5, 9)), "3 other partitions"] == [
        one.label for one in series
    ]
    assert (94 + 93 + 92) / 60 == series[-1].values[0]


def test_a_hot_partition_and_a_hot_bucket_are_marked() -> None:
    """
    Bars above twice the mean have another colour, which the legend explains.  If there are no such bars, there is no
    legend.
    """
    hot = charts_of(topic([[1], [1], [10]], {b"a": 10, b"b": 1}))
    even = charts_of(topic([[4], [4], [4]]))

    assert [(1, 1, 0), (0, 0, 10)] == [one.values for one in steps(named(hot, "partitions")).series]
    assert "more than 2 times the mean" in named(hot, "partitions").legend[1][1]
    assert 2 == len(steps(named(hot, "key_hash")).series)
    assert (1, ()) == (len(steps(named(even, "partitions")).series), named(even, "partitions").legend)


def test_a_partition_outside_of_the_range_has_an_empty_place() -> None:
    """
    The axis shows every partition number, even if the range leaves some partitions out.
    """
    figures = topic([[3], [4], [5]])
    chart = named(charts_of(replace(figures, partitions=figures.partitions[::2])), "partitions")

    assert ((-0.5, 0.5, 1.5, 2.5), (3, 0, 5)) == (steps(chart).edges, steps(chart).series[0].values)


def test_the_hottest_keys_are_drawn_and_more_are_listed() -> None:
    """
    The bars show the hottest keys, in descending order; the table contains all keys that were ranked.
    """
    keys = {b"k%02d" % number: 100 - number for number in range(20)}

    chart = named(charts_of(topic([[sum(keys.values())]], keys)), "keys_by_records")

    assert isinstance(chart.shape, Bars)
    assert (KEYS_DRAWN_MAX, "k00", 100) == (len(chart.shape.labels), chart.shape.labels[0], chart.shape.values[0])
    assert [f"k{number:02}" for number in range(20)] == [row[0] for row in chart.table.rows]


def test_records_without_keys_have_no_charts_of_keys() -> None:
    """
    A topic without keys has only the charts over time, of sizes and of partitions; an empty topic has no charts.
    """
    empty = replace(topic([[0]]), total=SizeFigures())

    assert ["records_over_time", "bytes_over_time", "sizes", "partitions"] == [
        chart.name for chart in charts_of(topic([[5]], without_key=5))
    ]
    assert [] == charts_of(empty)


def test_a_long_table_is_cut() -> None:
    """
    The page contains only the first rows of a long table, because browsers are slow with many thousands of rows.
    """
    figures = topic([[1] * (ROWS_MAX + 50)])

    assert ROWS_MAX == len(charts_of(figures)[0].table.rows)
    assert ROWS_MAX + 50 == len(steps(charts_of(figures)[0]).series[0].values)


def test_times_before_1970_are_drawn() -> None:
    """
    A producer may set any timestamp, even one before 1970.
    """
    figures = topic([[5]])
    early = replace(figures.timeline, steps=(TimeStep(start_s=-120, partition=0, records=5, bytes=500),))

    assert (-120, -60) == steps(charts_of(replace(figures, timeline=early))[0]).edges
