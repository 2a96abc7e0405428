"""Describes in sentences what is unusual in a topic's figures."""

from typing import Final

from tidemill.spark.pipelines.stats import key_hash, readable
from tidemill.spark.pipelines.stats.figures import TopicFigures
from tidemill.spark.pipelines.stats.key_label import label

_PARTITION_FACTOR: Final = 1.5  # a partition with more than this many times the mean stands out
_KEY_SHARE: Final = 0.1  # a key with more than this share of the records stands out


def findings(figures: TopicFigures) -> list[str]:
    """Return a sentence for each thing that an operator should know, at most five."""
    total = figures.total
    if not total.records:
        return ["The range has no records."]
    found = [*_partitions(figures), *_keys(figures)]
    if total.without_key:
        share = readable.percent(total.without_key, total.records)
        found.append(f"{share} of the records have no key, so any partition may get them.")
    if figures.timeline.records_outside:
        found.append(
            f"{readable.plural(figures.timeline.records_outside, 'record')} with times far from all others "
            "are counted, but not drawn over time."
        )
    return found


def _partitions(figures: TopicFigures) -> list[str]:
    if len(figures.partitions) < 2:
        return []
    mean = figures.total.records / len(figures.partitions)
    fullest = max(figures.partitions, key=lambda it: it.sizes.records)
    empty = sum(not one.sizes.records for one in figures.partitions)
    found = []
    if fullest.sizes.records > _PARTITION_FACTOR * mean:
        found.append(
            f"Partition {fullest.partition} has {fullest.sizes.records / mean:.1f} times the records of the mean "
            "partition."
        )
    if empty:
        found.append(f"{readable.plural(empty, 'partition')} of {len(figures.partitions)} {_have(empty)} no records.")
    return found


def _keys(figures: TopicFigures) -> list[str]:
    keys = figures.keys_by_records()
    if not keys:
        return []
    found = []
    if keys[0].records > _KEY_SHARE * figures.total.records:
        share = readable.percent(keys[0].records, figures.total.records)
        found.append(
            f"One key of {readable.count(figures.key_count)}, {label(keys[0].key)}, has {share} of the records: "
            "they stay in one partition, however many the topic has."
        )
    used = sum(1 for one in figures.hash_buckets if one.records)
    if used < key_hash.BUCKET_COUNT // 2:
        found.append(
            f"The keys fill {used} of {key_hash.BUCKET_COUNT} hash buckets: more partitions than that would stay empty."
        )
    return found


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
