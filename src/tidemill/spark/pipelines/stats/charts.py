"""Creates the charts of a topic's figures.  Entry point: `charts_of`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidemill.spark.pipelines.stats import key_hash, palette, readable, size_bins
from tidemill.spark.pipelines.stats.chart import Bars, Chart, Series, Steps, Table, stack_legend
from tidemill.spark.pipelines.stats.figures import HotKey, TopicFigures
from tidemill.spark.pipelines.stats.key_label import label

KEYS_DRAWN_MAX: Final = 12  # more bars would not fit on a screen; the table has all top keys
ROWS_MAX: Final = 400  # rows of a table in the page; the Parquet tables have all rows
SEPARATE_MAX: Final = 64  # more bars would have no room for gaps
HOT_FACTOR: Final = 2  # a bucket or partition with more than this many times the mean is hot


def charts_of(figures: TopicFigures) -> list[Chart]:
    """Return the charts in the order of the page.  A chart without data is left out."""
    if not figures.total.records:
        return []
    charts = [_over_time(figures, _RECORDS), _over_time(figures, _BYTES), _sizes(figures), _partitions(figures)]
    if figures.key_count:
        charts += [
            _keys(figures, "keys_by_records", "Keys with the most records", figures.keys_by_records(), _RECORDS),
            _keys(figures, "keys_by_bytes", "Keys with the most bytes", figures.keys_by_bytes(), _BYTES),
            _hashes(figures),
            _splits(figures),
        ]
    return charts


@dataclass(frozen=True, slots=True)
class _Measure:
    """What a chart counts: records or bytes."""

    noun: str
    is_size: bool
    of: Callable[..., int]
    in_words: Callable[[float], str]
    in_table: Callable[[int], str]


_RECORDS: Final = _Measure("records", False, lambda it: it.records, readable.short_count, readable.count)
_BYTES: Final = _Measure("bytes", True, lambda it: it.bytes, readable.size, readable.count)


def _over_time(figures: TopicFigures, measure: _Measure) -> Chart:
    timeline = figures.timeline
    step_s = timeline.step_s
    totals = timeline.totals()
    first, last = min(totals), max(totals)
    starts = range(first, last + step_s, step_s)
    unit_s, unit = readable.rate_unit(figures.total.records / (last + step_s - first))
    drawn = _drawn_partitions(figures)
    amounts: dict[int | None, dict[int, int]] = {}
    for step in timeline.steps:
        line = amounts.setdefault(step.partition if step.partition in drawn else None, {})
        line[step.start_s] = line.get(step.start_s, 0) + measure.of(step)
    series = [
        Series(
            label=f"partition {partition}",
            values=tuple(amounts.get(partition, {}).get(start, 0) * unit_s / step_s for start in starts),
            colour=palette.SERIES[index],
        )
        for index, partition in enumerate(drawn)
    ]
    if None in amounts:
        others = tuple(amounts[None].get(start, 0) * unit_s / step_s for start in starts)
        rest = len(figures.partitions) - len(drawn)
        series.append(Series(label=readable.plural(rest, "other partition"), values=others, colour=palette.OTHERS))
    rates = [sum(values) for values in zip(*(one.values for one in series), strict=True)]
    peak = max(range(len(rates)), key=rates.__getitem__)
    mean = sum(rates) / len(rates)
    name = "records" if measure is _RECORDS else "bytes"
    return Chart(
        name=f"{name}_over_time",
        title=f"{name.capitalize()} per {unit}",
        summary=(
            f"{measure.in_words(mean)} {'' if measure.is_size else 'records '}per {unit} on average, at most "
            f"{measure.in_words(rates[peak])} from {readable.moment(starts[peak])}; one step is "
            f"{readable.span(step_s)}."
        ),
        shape=Steps(
            edges=(*map(float, starts), float(last + step_s)), series=tuple(series), is_time=True,
            is_size=measure.is_size, mean=mean,
        ),
        table=_thinned(
            ("from", "records", "bytes", f"{name} per {unit}"),
            [
                (
                    readable.moment(start),
                    *(readable.count(number) for number in totals.get(start, (0, 0))),
                    measure.in_words(rate),
                )
                for start, rate in zip(starts, rates, strict=True)
            ],
        ),
        is_wide=True,
        legend=stack_legend(series),
    )  # fmt: skip


def _drawn_partitions(figures: TopicFigures) -> list[int]:
    """Return the partitions that get their own colour: those with the most records, ordered by partition number."""
    filled = [one for one in figures.partitions if one.sizes.records]
    fullest = sorted(filled, key=lambda it: (-it.sizes.records, it.partition))[: len(palette.SERIES)]
    return sorted(one.partition for one in fullest)


def _sizes(figures: TopicFigures) -> Chart:
    total, bins = figures.total, figures.size_bins
    return Chart(
        name="sizes",
        title="Size of records",
        summary=(
            f"Half of the records have at most {readable.size(total.size_p50)}, 99 % at most "
            f"{readable.size(total.size_p99)}; the largest has {readable.size(total.size_max)}. "
            "The size is that of key and value."
        ),
        shape=Steps(
            edges=(*(float(one.from_bytes) for one in bins), float(bins[-1].to_bytes)),
            series=(Series(label="records", values=tuple(one.records for one in bins), colour=palette.SERIES[0]),),
            is_size_axis=True,
            is_logarithmic=size_bins.is_logarithmic(total.size_min, total.size_max),
            marks=((total.size_p50, "p50"), (total.size_p99, "p99")),
        ),
        table=_thinned(
            ("size", "records", "share"),
            [
                (
                    f"{readable.count(one.from_bytes)} to {readable.count(one.to_bytes - 1)} B"
                    if one.to_bytes - one.from_bytes > 1
                    else f"{readable.count(one.from_bytes)} B",
                    readable.count(one.records),
                    readable.percent(one.records, total.records),
                )
                for one in bins
                if one.records
            ],
        ),
    )


def _partitions(figures: TopicFigures) -> Chart:
    partitions, total = figures.partitions, figures.total
    mean = total.records / len(partitions)
    fullest = max(partitions, key=lambda it: it.sizes.records)
    by_number = {one.partition: one.sizes.records for one in partitions}
    numbers = range(min(by_number), max(by_number) + 1)  # without gaps, even if the options exclude partitions
    values = [by_number.get(number, 0) for number in numbers]
    return Chart(
        name="partitions",
        title="Records per partition",
        summary=(
            f"Partition {fullest.partition} is the fullest with {readable.short_count(fullest.sizes.records)} records, "
            f"{fullest.sizes.records / mean:.2f} times the mean of {readable.short_count(mean)}."
        ),
        shape=Steps(
            edges=tuple(number - 0.5 for number in (*numbers, numbers.stop)),
            series=_with_hot(values, mean, palette.SERIES[0]),
            mean=mean,
            is_separate=len(values) <= SEPARATE_MAX,
        ),
        legend=_hot_legend(values, mean, palette.SERIES[0], "partition"),
        table=_thinned(
            ("partition", "offsets", "records", "bytes", "share", "mean", "p50", "p99", "largest"),
            [
                (
                    str(one.partition),
                    f"{readable.count(one.start_offset)} to {readable.count(one.end_offset)}",
                    readable.count(one.sizes.records),
                    readable.count(one.sizes.bytes),
                    readable.percent(one.sizes.records, total.records),
                    *(
                        readable.size(size)
                        for size in (one.sizes.size_mean, one.sizes.size_p50, one.sizes.size_p99, one.sizes.size_max)
                    ),
                )
                for one in partitions
            ],
            text_columns=(0, 1),
        ),
    )


def _keys(figures: TopicFigures, name: str, title: str, keys: Sequence[HotKey], measure: _Measure) -> Chart:
    drawn = keys[:KEYS_DRAWN_MAX]
    whole = measure.of(figures.total)
    first = keys[0]
    return Chart(
        name=name,
        title=title,
        summary=(
            f"{label(first.key)} has {readable.percent(measure.of(first), whole)} of all {measure.noun}; the topic has "
            f"{readable.plural(figures.key_count, 'different key')}."
        ),
        shape=Bars(
            labels=tuple(label(key.key) for key in drawn),
            values=tuple(measure.of(key) for key in drawn),
            texts=tuple(
                f"{measure.in_words(measure.of(key))} · {readable.percent(measure.of(key), whole)}" for key in drawn
            ),
            colour=palette.SERIES[0] if measure is _RECORDS else palette.SERIES[2],
        ),
        table=_thinned(
            ("key", "records", "bytes", f"share of {measure.noun}", "hash bucket"),
            [
                (
                    label(key.key),
                    readable.count(key.records),
                    readable.count(key.bytes),
                    readable.percent(measure.of(key), whole),
                    str(key_hash.bucket_of(key.key)),
                )
                for key in keys
            ],
        ),
    )


def _hashes(figures: TopicFigures) -> Chart:
    buckets = figures.hash_buckets
    keyed = sum(one.records for one in buckets)
    mean = keyed / len(buckets)
    fullest = max(buckets, key=lambda it: it.records)
    empty = sum(one.records == 0 for one in buckets)
    return Chart(
        name="key_hash",
        title="Records by hash of the key",
        summary=(
            f"{empty or 'None'} of the {len(buckets)} buckets of Java's murmur2 hash "
            f"{'is' if empty == 1 else 'are'} empty; bucket {fullest.bucket} is the fullest with "
            f"{fullest.records / mean:.1f} times the mean."
        ),
        shape=Steps(
            edges=tuple(number - 0.5 for number in range(len(buckets) + 1)),
            series=_with_hot([one.records for one in buckets], mean, palette.SERIES[5]),
            mean=mean,
        ),
        legend=_hot_legend([one.records for one in buckets], mean, palette.SERIES[5], "bucket"),
        table=_thinned(
            ("bucket", "records", "bytes", "different keys", "share"),
            [
                (
                    str(one.bucket),
                    readable.count(one.records),
                    readable.count(one.bytes),
                    readable.count(one.keys),
                    readable.percent(one.records, keyed),
                )
                for one in buckets
            ],
        ),
    )


def _splits(figures: TopicFigures) -> Chart:
    splits = key_hash.splits([one.records for one in figures.hash_buckets])
    even = [split for split in splits if split.imbalance <= 1.5]
    return Chart(
        name="splits",
        title="If the topic had another number of partitions",
        summary=(
            "The fullest partition's records as a multiple of the mean, if the keys decide (murmur2): "
            + (
                f"up to {even[-1].partition_count} partitions, it has at most 1.5 times the mean."
                if even
                else "with every number of partitions, it has more than 1.5 times the mean."
            )
        ),
        shape=Bars(
            labels=tuple(f"{split.partition_count} partitions" for split in splits),
            values=tuple(split.imbalance for split in splits),
            texts=tuple(f"{split.imbalance:.2f} ×" for split in splits),
            colour=palette.SERIES[5],
            reference=1.0,
        ),
        table=_thinned(
            ("partitions", "records in the fullest", "multiple of the mean"),
            [(str(one.partition_count), readable.count(one.records_max), f"{one.imbalance:.2f}") for one in splits],
        ),
    )


def _with_hot(values: Sequence[int], mean: float, colour: str) -> tuple[Series, ...]:
    """
    Return one series with the values up to HOT_FACTOR times the mean and, if there are larger values, a second one with
    those.
    """
    is_hot = [value > HOT_FACTOR * mean for value in values]
    usual = tuple(0.0 if hot else float(value) for value, hot in zip(values, is_hot, strict=True))
    series = [Series(label="records", values=usual, colour=colour)]
    if any(is_hot):
        hot = tuple(float(value) if hot else 0.0 for value, hot in zip(values, is_hot, strict=True))
        series.append(Series(label="hot", values=hot, colour=palette.HOT))
    return tuple(series)


def _hot_legend(values: Sequence[int], mean: float, colour: str, noun: str) -> tuple[tuple[str, str], ...]:
    if not any(value > HOT_FACTOR * mean for value in values):
        return ()
    return ((colour, noun), (palette.HOT, f"{noun} with more than {HOT_FACTOR} times the mean"))


def _thinned(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], text_columns: tuple[int, ...] = (0,)) -> Table:
    """Return the table with its first ROWS_MAX rows, because a browser is slow with a page of many thousand rows."""
    return Table(columns=columns, rows=tuple(rows[:ROWS_MAX]), text_columns=frozenset(text_columns))
