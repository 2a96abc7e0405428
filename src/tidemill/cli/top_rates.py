"""What `tidemill top` shows: the rates between two samples, as rows."""

from collections.abc import Iterable
from typing import Any, Final

from tidemill.cli.top_sample import BrokerSample, Sample
from tidemill.cli.topic_admin import Partition

Row = dict[str, Any]
BROKER_RATES: Final = {
    "records_in_per_s": "tidemill_produce_records_total",
    "bytes_in_per_s": "tidemill_produce_bytes_total",
    "bytes_out_per_s": "tidemill_fetch_bytes_total",
    "requests_per_s": "tidemill_requests_total",
    "journal_bytes_per_s": "tidemill_journal_bytes_total",
    "syncs_per_s": "tidemill_journal_blocks_total",  # each block is synced once
}
SYNC_SUM: Final = "tidemill_journal_sync_seconds_sum"
SYNC_COUNT: Final = "tidemill_journal_sync_seconds_count"


def view_of(before: Sample, now: Sample) -> Row:
    """
    Return the object that `tidemill top --json` prints.  A rate is None if one of the samples lacks a value for it.
    """
    earlier = {it.broker_id: it for it in before.brokers}
    return {
        "cluster_id": now.cluster_id,
        "answered_by": now.answered_by,
        "interval_s": round(now.at - before.at, 3),
        "brokers": [_broker_row(earlier.get(it.broker_id), it) for it in now.brokers],
        "topics": _topic_rows(before, now),
        "groups": _group_rows(before, now),
        "notes": now.notes,
    }


def _broker_row(before: BrokerSample | None, now: BrokerSample) -> Row:
    row: Row = {"broker_id": now.broker_id, "address": now.address, "status": now.status}
    row |= {name: _counter_rate(before, now, counter) for name, counter in BROKER_RATES.items()}
    waited, syncs = _counter_rate(before, now, SYNC_SUM), _counter_rate(before, now, SYNC_COUNT)
    row["sync_ms"] = round(1000 * waited / syncs, 3) if waited is not None and syncs else None
    return row


def _topic_rows(before: Sample, now: Sample) -> list[Row]:
    """Return a row per topic, the busiest topic first."""
    earlier = {it.broker_id: it for it in before.brokers}
    committed: dict[str, float] = {}
    for (topic, _), count in [pair for group in now.groups for pair in _commits(before, now, group).items()]:
        committed[topic] = committed.get(topic, 0) + count
    rows = []
    for topic, leaders in now.topics.items():
        partitions = [(topic, number) for number in range(len(leaders))]
        sent = [
            _counter_rate(earlier.get(it.broker_id), it, "tidemill_topic_bytes_in_total", topic) for it in now.brokers
        ]
        read = [
            _counter_rate(earlier.get(it.broker_id), it, "tidemill_topic_bytes_out_total", topic) for it in now.brokers
        ]
        rows.append(
            {
                "topic": topic,
                "partitions": len(leaders),
                "leaderless": leaders.count(False),
                "records_in_per_s": _offset_rate(before, now, partitions),
                "bytes_in_per_s": _total(sent),
                "bytes_out_per_s": _total(read),
                "committed_per_s": _per_second(before, now, committed.get(topic)),
            }
        )
    return sorted(rows, key=lambda row: (-(row["records_in_per_s"] or 0), row["topic"]))


def _group_rows(before: Sample, now: Sample) -> list[Row]:
    """Return a row per consumer group, the group with the greatest lag first."""
    rows = []
    for group, sample in now.groups.items():
        moved = _commits(before, now, group)
        known = [partition for partition in sample.committed if partition in now.ends]
        rows.append(
            {
                "group": group,
                "state": sample.state,
                "topics": len({topic for topic, _ in sample.committed}),
                "lag": sum(max(now.ends[it] - sample.committed[it], 0) for it in known) if known else None,
                "committed_per_s": _per_second(before, now, sum(moved.values()) if moved else None),
            }
        )
    return sorted(rows, key=lambda row: (-(row["lag"] or 0), row["group"]))


def _counter_rate(before: BrokerSample | None, now: BrokerSample, name: str, topic: str = "") -> float | None:
    """Return the rate of a counter, or None if it is not in both samples or the broker was restarted."""
    if before is None or before.counters is None or now.counters is None:
        return None
    value, earlier = now.counters.get((name, topic)), before.counters.get((name, topic))
    if value is None or earlier is None or value < earlier or now.at <= before.at:
        return None
    return round((value - earlier) / (now.at - before.at), 3)


def _offset_rate(before: Sample, now: Sample, partitions: list[Partition]) -> float | None:
    """Return the rate at which the end offsets of the partitions advanced, in offsets per second."""
    moved = [max(now.ends[it] - before.ends[it], 0) for it in partitions if it in now.ends and it in before.ends]
    return _per_second(before, now, sum(moved) if moved else None)


def _commits(before: Sample, now: Sample, group: str) -> dict[Partition, int]:
    """Return by how much the group's committed offsets advanced, per partition; a backward reset counts as 0."""
    if group not in before.groups:
        return {}
    old, new = before.groups[group].committed, now.groups[group].committed
    return {it: max(new[it] - old[it], 0) for it in new if it in old}


def _per_second(before: Sample, now: Sample, count: float | None) -> float | None:
    return round(count / (now.at - before.at), 1) if count is not None and now.at > before.at else None


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 1) if known else None
